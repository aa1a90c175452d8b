"""The people behind a release, of whom only some or no traces are known; the others are simulated.

Groups of the published size can then be drawn, whatever the number of known traces. People are
simulated from the published values alone, or from the counts of the known people if these are all
who are counted: each visits cells independently, as often as the others do. That is cautious where
values are sums and noise: people with habits in common vary more between groups, which hides a
single member better. Where values are hidden or coarse, people simulated from them may be hidden
better than real ones, so that no verdict can pass.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterscale import storage
from clusterscale.analyses.audit import AuditPlan, AuditTemplate
from clusterscale.contracts import Bounds, Ints, Values, hash_of
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Range, TraceSource, block_size, load_settings, ranges
from clusterscale.cube.bounds import merge_bounds
from clusterscale.cube.calendar import Calendar, Step
from clusterscale.cube.regions import NULL_ROI, Regions
from clusterscale.cube.sized import SizedCube
from clusterscale.cube.writer import new_cube
from clusterscale.errors import ClusterscaleError, ConfigError, ExistsError
from clusterscale.mechanisms import MECHANISMS
from clusterscale.priors.zero_knowledge.occupancy import estimate_occupancy
from clusterscale.reauditing import known_part
from clusterscale.reauditing.resolved_release import ResolvedRelease
from clusterscale.release import RawRelease, ReleaseMetadata
from clusterscale.seeds import stream

_BLOCK = 10_000  # people simulated from one stream
_FEW = 20  # known people from whom activity is not estimated


def complete_cube(cube: TraceCube, uri: str, n_people: int, *, seed: int = 0) -> TraceCube:
    """Write the users of a cube and others, simulated from their counts, unless this is there.

    The known people are the first of the ``n_people`` rows. Raises ConfigError if there are not
    more people than users of ``cube``, and ExistsError if another cube is at ``uri``.
    """
    if n_people <= cube.n_users:
        raise ConfigError(f"users: {n_people:,}, but the known cube has {cube.n_users:,}")
    about = {"known": cube.n_users, "of": cube.fingerprint, "seed": seed}
    if not storage.exists(f"{uri}/zarr.json"):
        span, days = (0, cube.n_epochs), cube.frame((0, cube.n_epochs)).days
        exact, rng = MECHANISMS.create("exact"), stream(seed, "occupancy", cube.fingerprint)
        counts = count_everyone(cube, span)
        drawn = estimate_occupancy(counts, cube.n_users, exact, days, rng=rng)
        law = drawn, spread_of(np.diff(cube.offsets))
        regions = {key: cube.attributes["provenance"].get(key) for key in ("regions",)}
        write_people(
            uri, cube, n_people, law, span, about=about | regions, key=cube.fingerprint, seed=seed
        )
    made = TraceCube(uri)
    if not made.attributes["provenance"].items() >= about.items() or made.n_users != n_people:
        raise ExistsError(f"{uri} contains another cube: choose another path")
    return made


def write_people(
    uri: str,
    cube: TraceCube,
    n_people: int,
    law: tuple[Values, float],
    span: tuple[int, int],
    *,
    about: Mapping[str, Any],
    key: str,
    seed: int,
    regions: Regions | None = None,
) -> None:
    """Write the users of a cube, and then simulated people, with the events of some epochs.

    ``law`` is the occupancy and spread of :func:`simulate_people`; ``span`` the first epoch and the
    one after the last; ``about`` provenance besides the source; ``key`` and ``seed`` name the
    random streams. ``regions`` may have places behind those of the cube, where nobody is.
    """
    n_others = n_people - cube.n_users
    source = f"{cube.n_users:,} known and {n_others:,} simulated people"
    with new_cube(
        uri, regions or cube.regions, cube.calendar, provenance={"source": source, **about},
        pseudonyms=True, public=cube.public, force=True,
    ) as writer:  # fmt: skip
        for part in parts_of(cube):
            names, traces = cube.pseudonyms(np.arange(*part)), cube.block(*part, span)
            cells = _place(traces.cells, span, cube)
            writer.append(names.tolist(), np.diff(traces.offsets), cells)
        for first in range(0, n_others, _BLOCK):
            n_some = min(_BLOCK, n_others - first)
            rng = stream(seed, "simulated people", key, first)
            sizes, cells = simulate_people(n_some, *law, rng=rng)
            simulated = [f"simulated {first + i}" for i in range(n_some)]
            writer.append(simulated, sizes, _place(cells, span, cube))
        weights = cube.weights
        if weights is not None and cube.n_users:  # simulated people have those of known ones
            others = stream(seed, "simulated weights", key).choice(weights, n_others)
            writer.weigh(np.concatenate([weights, others]))


def count_everyone(cube: TraceCube, span: tuple[int, int]) -> Values:
    """Return the counts of all users in some epochs, float64, shape (roi, epoch)."""
    counts = np.zeros(cube.n_rois * (span[1] - span[0]))
    for part in parts_of(cube):
        counts += np.bincount(cube.block(*part, span).cells, minlength=len(counts))
    return counts.reshape(cube.n_rois, -1)


def parts_of(cube: TraceCube) -> Iterator[Range]:
    """Yield the ranges in which users are read."""
    if cube.n_users:
        yield from ranges(0, cube.n_users, block_size(cube))


def _place(cells: Ints, span: tuple[int, int], cube: TraceCube) -> Ints:
    """Return cells of some epochs as cells of the cube."""
    roi, epoch = np.divmod(cells.astype(np.int64), span[1] - span[0])
    return roi * cube.n_epochs + span[0] + epoch


def spread_of(n_visits: Ints) -> float:
    """Return the standard deviation of the log of known numbers of visits, 0 if few are known."""
    seen = n_visits[n_visits > 0]
    # 5.0: standard deviation of the logarithm of the number of visits
    return min(float(np.log(seen).std()), 5.0) if len(seen) >= _FEW else 0.0


def simulate_people(
    n: int, occupancy: Values, spread: float, *, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Draw the traces of ``n`` people who visit cells independently.

    ``occupancy`` is the probability of a person being in each cell, float64, shape (roi, epoch),
    below 1; ``spread`` the standard deviation of the logarithm of how active a person is. Returns
    the number of cells of each person, int64, shape (person,), and these flat cells, increasing
    within a person, int64, shape (cell,).
    """
    rates = -np.log1p(-occupancy.ravel())  # a Poisson number of visits to a cell is merged into one
    total = np.cumsum(rates)
    activity = np.exp(rng.normal(-(spread**2) / 2, spread, n))
    n_visits = rng.poisson(activity * total[-1])
    cells = np.searchsorted(total, rng.random(n_visits.sum()) * total[-1], side="right")
    cells = np.minimum(cells, np.flatnonzero(rates)[-1:].sum())  # rounding may exceed the total
    keys = np.unique(np.repeat(np.arange(n), n_visits) * len(rates) + cells)
    people, cells = np.divmod(keys, len(rates))
    return np.bincount(people, minlength=n), cells


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """A cube of known and simulated people, and the audit that is possible with it."""

    cube: TraceCube
    plan: AuditPlan
    part: known_part.KnownPart


def complete_population(
    uri: str,
    release: ResolvedRelease,
    content: RawRelease,
    cube: TraceCube,
    template: AuditTemplate,
) -> Population | None:
    """Write a cube of all people of a release, unless it is there, and fit the plan to it.

    Without ``uri`` it has only sizes, to predict what an audit takes.
    None if ``cube`` has the traces of all: else its group is larger than the cube, or drawn from
    more people. Raises ConfigError or InputError if people cannot be simulated from such a release,
    or no audit remains.
    """
    n_people = known_part.count_people(release, cube, template.priors)
    if n_people <= cube.n_users:
        return None
    plan, left_out = known_part.fit_plan(release, cube, template, n_people)
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
    basis, doubt = "the published values", ""
    if known_part.knows_all_counted(release, cube):
        basis = "the counts of these"
    elif not release.mechanism.hides_more_in_larger_groups:
        doubt = ", which are hidden or coarse: real people may be easier to recognise"
    part = known_part.KnownPart(cube.n_users, n_people, left_out, basis, doubt)
    if not uri:
        sizes = {"users": n_people, "places": cube.n_rois, "epochs": cube.n_epochs}
        events = max(1.0, float(np.nansum(content.values)) / release.group_size)
        return Population(SizedCube(**sizes, events_per_user=events), plan, part)
    if not _is_written(uri, release, n_people):
        _write(uri, release, content, cube, n_people, template.seed)
    return Population(TraceCube(uri), plan, part)


def add_places(folder: str, cube: TraceCube, names: Sequence[str]) -> str:
    """Write the users of a cube with more places, where none of them is, and return its address."""
    uri = f"{folder}/places/{hash_of([cube.fingerprint, names])}.zarr"
    if not storage.exists(f"{uri}/zarr.json"):
        old, nowhere = cube.regions, np.full(len(names), np.nan)
        lat, lon = np.append(old.lat, nowhere), np.append(old.lon, nowhere)
        about, nobody = cube.attributes["provenance"], (np.zeros(0), 0.0)
        write_people(
            uri, cube, cube.n_users, nobody, (0, cube.n_epochs), about=about, key="", seed=0,
            regions=Regions((*old.names, *names), lat, lon),
        )  # fmt: skip
    return uri


def write_without_people(folder: str, raw: RawRelease, stated: ReleaseMetadata) -> str:
    """Write a cube with the ROIs and epochs of a table and nobody in it, and return its address.

    Its name in the folder follows from its content. Positions are not known, and epochs without
    times are hours. ``stated`` is what else is known of the table.
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
    """Return the epochs from the first one that is numbered up to the last of the table.

    What is stated in ``fields`` precedes what the table has: ``start`` its first time, a ``first``
    above 0 its first number.
    """
    step, start, first = Step(3600), 0, fields.get("first") or 0  # seconds
    if raw.epochs is not None and raw.epochs.dtype.kind == "M":
        seconds = raw.epochs.astype("datetime64[s]").astype(np.int64)
        start = int(seconds[0])
        if len(seconds) > 1 and (np.diff(seconds) > 0).all():  # others are refused later
            step = Step.between(seconds, raw.timezone)
    elif raw.epochs is not None:
        first = first or int(raw.epochs[0])
    if fields.get("start") is not None:
        start = Calendar.parse(fields["start"], "1s", 1, "UTC").start
    zone = "UTC" if step.unit == "second" else raw.timezone
    begin = int(step.begins(start, 1, zone, first=-first)[0])
    n_epochs = first + (fields.get("epochs") or n_epochs)
    return Calendar(begin, step.seconds, n_epochs, zone, step.unit)


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
    content: RawRelease,
    cube: TraceCube,
    n_people: int,
    seed: int,
) -> None:
    """Write the known people, and then the simulated ones."""
    bounds, n_visits = _summarise(cube, release, seed)
    if known_part.knows_all_counted(release, cube):
        values, n_counted = count_everyone(cube, release.span), cube.n_users
        mechanism = MECHANISMS.create("exact")
    else:
        values, n_counted = _published(release, content, cube), release.group_size
        mechanism = release.mechanism.bind(bounds).at_weight(cube.mean_weight)
    rng = stream(seed, "occupancy", release.content)
    days = cube.frame(release.span).days
    occupancy = estimate_occupancy(values, n_counted, mechanism, days, rng=rng)
    spread, about = spread_of(n_visits), {"release": release.content, "of": cube.fingerprint}
    write_people(
        uri, cube, n_people, (occupancy, spread), release.span, about=about, key=release.content,
        seed=seed,
    )  # fmt: skip


def _published(release: ResolvedRelease, content: RawRelease, cube: TraceCube) -> Values:
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
