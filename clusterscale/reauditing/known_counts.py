"""Check a published table against the true counts that are known of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from clusterscale.analyses.audit.release_scoring import VALUES
from clusterscale.contracts import Bounds, Counts, Ints
from clusterscale.cube.blocks import Range, TraceSource, load_settings
from clusterscale.cube.bounds import merge_bounds
from clusterscale.groups import count_visits
from clusterscale.reauditing.resolved_release import LISTED, MARKS, TOTALS, ResolvedRelease
from clusterscale.release import PublishedTotals, RawRelease
from clusterscale.release import checks as release_checks
from clusterscale.release.checks.together import as_published
from clusterscale.storage import manifest, open_group
from clusterscale.study.execution import Part, Reduction

INSIDE = "inside"
"""Name of the Zarr array with the rows of known members, int64, (user,)."""


Limits = tuple[NDArray[np.int64], NDArray[np.int64]]
Checked = tuple[tuple[release_checks.CheckResult, ...], Bounds | None]
"""Results of all checks that need no other table, and the largest changes by one unit of data.

None for these if the mechanism depends on the contributions of people who are not known.
"""


@dataclass(frozen=True, slots=True, eq=False)
class KnownCounts:
    """Counts of ``n_users`` users for a release, shape (roi, epoch).

    ``inside`` are visits of known members, int32; ``everyone`` those of all these users, int64;
    ``bounds`` the largest change of the counts by one unit of their data.
    """

    inside: Counts
    everyone: NDArray[np.int64]
    bounds: Bounds
    n_users: int

    def counts(self, *, complete: bool, everyone: bool = True) -> Counts:
        """Return the true counts, −1 where they are not known, int32, shape (roi, epoch).

        If all members are known (``complete``), so are all counts. Otherwise a count is only known,
        to be 0, where no user has a visit, if these users are ``everyone``.
        """
        if complete:
            return self.inside
        return np.where((self.everyone == 0) & everyone, np.int32(0), np.int32(-1))

    def limits_of_members(self, group_size: int, n_inside: int) -> Limits:
        """Return the smallest and the largest possible count, given ``n_inside`` known members."""
        inside = self.inside.astype(np.int64)
        return inside, inside + (group_size - n_inside)

    def limits(self, group_size: int) -> Limits:
        """Return the smallest and the largest possible count of a group of these users."""
        others = self.everyone - (self.n_users - group_size)
        return np.maximum(self.inside, others), np.minimum(self.everyone, group_size)


@dataclass(frozen=True, slots=True)
class TableTask:
    """A published table to check: the release, its traces, and the Zarr group of the table.

    ``everyone``: all people among whom the release counts are known. They are the first ``n_known``
    users, all if it is None; the others are simulated, and nothing of their traces is used here.
    """

    release: ResolvedRelease
    source: TraceSource
    uri: str
    everyone: bool = True
    n_known: int | None = None


def check_alone(
    task: TableTask, users: Sequence[Range]
) -> Reduction[TableTask, Part[TableTask], KnownCounts, Checked]:
    """Return the checks of one table as a reduction that counts over parts of the users."""
    parts = tuple(Part(task, some) for some in users)
    return Reduction(task, parts, count_known, add_known, _check)


def _check(task: TableTask, known: KnownCounts) -> Checked:
    release, n_inside = task.release, len(_inside(task.uri))
    if task.everyone and release.group_size == known.n_users:  # then all are members
        known, n_inside = replace(known, inside=known.everyone.astype(np.int32)), known.n_users
    complete = n_inside == release.group_size and not release.mechanism.trace_steps
    counts = known.counts(complete=complete, everyone=task.everyone)
    limits = None
    if not release.mechanism.trace_steps and task.everyone:
        limits = known.limits(release.group_size)
    elif not release.mechanism.trace_steps:
        limits = known.limits_of_members(release.group_size, n_inside)
    some = not task.everyone and release.needs_largest_contribution
    bounds = None if some else known.bounds
    table = make_table(release, read_content(task.uri), bounds, counts, limits)
    checks = release_checks.create_checks(compares=False)
    return tuple(release_checks.run_checks(table, [], checks, seed=task.source.seed)), bounds


def find_faults(release: ResolvedRelease, content: RawRelease, seed: int) -> str:
    """Return what the checks that need no traces find in a release; empty if that is nothing."""
    raw = RawRelease(content.values, None, None, content.totals, name=release.name)
    (found,) = release_checks.compare_tables(
        [raw],
        [],
        release_checks.create_checks(compares=False),
        mechanism=release.mechanism,
        group_size=release.group_size,
        seed=seed,
    )
    wrong = [f"{one.check}: {one.text}" for one in found.results if one.level == "inconsistent"]
    return "; ".join(wrong)


def count_known(part: Part[TableTask]) -> KnownCounts:
    """Count known members and all users of one part."""
    task, (first, stop) = part.task, part.users
    steps = task.release.mechanism.trace_steps
    with threadpool_limits(limits=1):
        setting = load_settings(task.source, [steps], part.users)[steps]
        stop = stop if task.n_known is None else max(first, min(stop, task.n_known))
        everyone = count_visits(setting.traces, np.arange(first, stop)[None])[0]
        inside = count_visits(setting.traces, _inside(task.uri)[None])[0]
        return KnownCounts(inside, everyone.astype(np.int64), setting.bounds, stop - first)


def add_known(one: KnownCounts, other: KnownCounts) -> KnownCounts:
    """Add the counts of two parts."""
    bounds = merge_bounds(one.bounds, other.bounds)
    inside, everyone = one.inside + other.inside, one.everyone + other.everyone
    return KnownCounts(inside, everyone, bounds, one.n_users + other.n_users)


@lru_cache(maxsize=2)
def _inside(uri: str) -> Ints:
    manifest.check(uri)
    return cast(Ints, np.asarray(open_group(uri)[INSIDE][:], np.int64))


def read_content(uri: str) -> RawRelease:
    """Return the published values and totals of a Zarr group."""
    manifest.check(uri)
    group = open_group(uri)
    arrays: dict[str, Any] = {name: np.asarray(group[name][:]) for name in group.array_keys()}
    listed = [arrays[name] for name in LISTED if name in arrays]
    roi, epoch, grand = map(arrays.get, TOTALS)
    totals = PublishedTotals(roi, epoch, grand, tuple(listed))
    marks: dict[str, Any] = {name: arrays.get(name) for name in MARKS}
    return RawRelease(arrays[VALUES], None, None, totals, **marks)


def make_table(
    release: ResolvedRelease,
    content: RawRelease,
    bounds: Bounds | None,
    counts: Counts | None = None,
    limits: Limits | None = None,
) -> release_checks.PublishedTable:
    """Return a release as input of consistency checks; None: nothing is known of its counts."""
    mechanism = release.mechanism if bounds is None else release.mechanism.bind(bounds)
    table = as_published(replace(content, name=release.name), mechanism, release.group_size)
    return replace(
        table,
        first_epoch=release.first,
        counts=table.counts if counts is None else counts,
        limits=limits,
        subset_of=release.subset_of,
    )
