"""The people behind a release, of whom only some or no traces are known; the others are simulated.

Groups of the published size can then be drawn, whatever the number of known traces. People are
simulated from the published values alone, or from the counts of the known people if these are all
who are counted: each visits cells independently, as often as the others do. That is cautious where
values are sums and noise: people with habits in common vary more between groups, which hides a
single member better. Where values are hidden or coarse, people simulated from them may be hidden
better than real ones, so that no verdict can pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale import storage
from clusterscale.analyses.audit import AuditPlan, AuditTemplate
from clusterscale.contracts import Bounds, Ints, hash_of
from clusterscale.cube import TraceCube
from clusterscale.cube.bounds import merge_bounds
from clusterscale.cube.calendar import Calendar
from clusterscale.cube.regions import NULL_ROI, Regions
from clusterscale.cube.trace_settings import TraceSource, load_settings
from clusterscale.cube.writer import new_cube
from clusterscale.errors import ClusterscaleError, ConfigError
from clusterscale.mechanisms import MECHANISMS
from clusterscale.priors.zero_knowledge.occupancy import estimate_occupancy
from clusterscale.reauditing.known_part import (
    KnownPart,
    count_people,
    fit_plan,
    knows_all_counted,
)
from clusterscale.reauditing.people import count_everyone, parts_of, spread_of, write_people
from clusterscale.reauditing.resolved_release import Content, ResolvedRelease
from clusterscale.release import RawRelease, ReleaseMetadata
from clusterscale.seeds import stream

Floats = NDArray[np.float64]

_HOUR = 3600  # seconds


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """A cube of known and simulated people, and the audit that is possible with it."""

    cube: TraceCube
    plan: AuditPlan
    part: KnownPart


def complete_population(
    uri: str,
    release: ResolvedRelease,
    content: Content,
    cube: TraceCube,
    template: AuditTemplate,
) -> Population | None:
    """Write a cube of all people of a release at ``uri``, unless it is there; and fit the plan.

    None if the traces of all are known.

    Parameters
    ----------
    uri
        Where the cube is written.
    release, content
        The release, whose group is larger than the cube, or drawn from more people.
    cube
        Traces of some of these people, or of none.
    template
        Settings of the audit.

    Raises
    ------
    ConfigError, InputError
        If people cannot be simulated from such a release, or no audit remains.
    """
    n_people = count_people(release, cube, template.priors)
    if n_people <= cube.n_users:
        return None
    plan, left_out = fit_plan(release, cube, template, n_people)
    if release.needs_largest_contribution:
        left_out = (
            *left_out,
            f"{release.mechanism.label} depends on the largest contribution of any person, which "
            "is not known: simulated noise is for that of the known and simulated people, and no "
            "law of the noise is tested; state its sensitivity",
        )
    unknown = not np.isfinite(cube.regions.lat + cube.regions.lon).all()
    if unknown and any(getattr(prior, "crowd", "counts") == "users" for prior in plan.priors):
        raise ConfigError(
            f"{release.name}: a null ROI is published, and positions of ROIs are not known: give a "
            "cube that has them, if only with nobody in it"
        )
    if not _is_written(uri, release, n_people):
        _write(uri, release, content, cube, n_people, template.seed)
    return Population(TraceCube(uri), plan, _describe(release, cube, n_people, left_out))


def _describe(
    release: ResolvedRelease, cube: TraceCube, n_people: int, left_out: tuple[str, ...]
) -> KnownPart:
    """Return what is known of the people."""
    basis, doubt = "the published values", ""
    if knows_all_counted(release, cube):
        basis = "the counts of these"
    elif not release.mechanism.hides_more_in_larger_groups:
        doubt = ", which are hidden or coarse: real people may be easier to recognise"
    return KnownPart(cube.n_users, n_people, left_out, basis, doubt)


def write_without_people(folder: str, raw: RawRelease, stated: ReleaseMetadata) -> str:
    """Write a cube with the ROIs and epochs of a table and nobody in it, and return its address.

    Positions are not known. The time zone is UTC, and epochs without times are hours.

    Parameters
    ----------
    folder
        Where it is written, under a name that follows from its content.
    raw, stated
        The table, and what else is stated of it.
    """
    n_rows, n_epochs = raw.values.shape
    names = raw.rois or tuple(str(i) for i in range(n_rows))
    names = tuple(name for name in names if name != NULL_ROI)
    calendar = _calendar(raw, stated.or_else(raw.metadata), n_epochs)
    unknown = np.full(len(names), np.nan)
    uri = f"{folder}/places/{hash_of([names, calendar.attributes()])}.zarr"
    if not storage.exists(f"{uri}/zarr.json"):
        with new_cube(uri, Regions(names, unknown, unknown), calendar, provenance={}, force=True):
            pass
    return uri


def _calendar(raw: RawRelease, fields: dict[str, Any], n_epochs: int) -> Calendar:
    """Return the epochs from the first one that is numbered up to the last of the table."""
    times, step, start = raw.epochs, _HOUR, 0
    first = fields.get("first") or 0
    if times is not None and times.dtype.kind == "M":
        seconds = times.astype("datetime64[s]").astype(np.int64)
        step = int(np.diff(seconds[:2]).sum()) or _HOUR
        start = int(seconds[0])
    elif times is not None and not first:
        first = int(times[0])
    if fields.get("start") is not None:
        start = Calendar.parse(fields["start"], "1s", 1, "UTC").start
    return Calendar(start - first * step, step, first + (fields.get("epochs") or n_epochs), "UTC")


def _is_written(uri: str, release: ResolvedRelease, n_people: int) -> bool:
    if not storage.exists(f"{uri}/zarr.json"):
        return False
    try:
        there = TraceCube(uri)
        found = there.attributes["provenance"].get("release"), there.n_users
    except ClusterscaleError:
        return False
    return bool(found == (release.content, n_people))


def _write(
    uri: str,
    release: ResolvedRelease,
    content: Content,
    cube: TraceCube,
    n_people: int,
    seed: int,
) -> None:
    """Write the known people, and then the simulated ones."""
    bounds, n_visits = _summarise(cube, release, seed)
    if knows_all_counted(release, cube):
        values, n_counted = count_everyone(cube, release.span), cube.n_users
        mechanism = MECHANISMS.create("exact")
    else:
        values, n_counted = _published(release, content, cube), release.group_size
        mechanism = release.mechanism.bind(bounds).at_weight(cube.mean_weight)
    rng = stream(seed, "occupancy", release.content)
    days = cube.frame(release.span).days
    occupancy = estimate_occupancy(values, n_counted, mechanism, days, rng=rng)
    spread, about = spread_of(n_visits), {"release": release.content}
    write_people(
        uri, cube, n_people, (occupancy, spread), release.span, about=about, key=release.content,
        seed=seed,
    )  # fmt: skip


def _published(release: ResolvedRelease, content: Content, cube: TraceCube) -> Floats:
    """Return the published values, 0 where they are hidden, float64, shape (roi, epoch)."""
    n_rows = len(content.values) - release.null_roi
    if (n_rows, content.values.shape[1]) != (cube.n_rois, release.epochs):
        raise ConfigError(
            f"{release.name}: {n_rows} ROIs and {content.values.shape[1]} epochs are published of "
            f"{cube.n_rois} and {release.epochs}; people are not simulated from merged cells"
        )
    return np.nan_to_num(content.values[:n_rows], nan=0.0)


def _summarise(cube: TraceCube, release: ResolvedRelease, seed: int) -> tuple[Bounds, Ints]:
    """Return the largest contributions and the numbers of visits of known people."""
    source = TraceSource.of(cube, (release.span,), null_roi=release.null_roi, seed=seed)
    raw, steps = (), release.mechanism.trace_steps
    bounds = Bounds(1 + release.null_roi, 1, 1, 1, 1, release.null_roi)
    n_visits = [np.zeros(0, np.int64)]
    for part in parts_of(cube):
        read = load_settings(source, {raw, steps}, part)
        bounds = merge_bounds(bounds, read[steps].bounds)
        n_visits.append(np.diff(read[raw].traces.offsets))
    return bounds, np.concatenate(n_visits)
