"""The tables of a publication as they are published, and their cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np

from clusterscale.contracts import Ints, Values
from clusterscale.cube.calendar import Step
from clusterscale.errors import ConfigError
from clusterscale.mechanisms.chain import last_suppression, steps_of
from clusterscale.mechanisms.scaling import Expand
from clusterscale.release.cells import UNKNOWN, Cells
from clusterscale.release.checks.count_intervals import count_bounds, count_intervals
from clusterscale.release.checks.table import Flags, PublishedTable, agree, suppressed_up_to
from clusterscale.release.checks.together import as_published
from clusterscale.release.checks.totals import CHANGE_TOTALS
from clusterscale.release.content import RawRelease, TableFormat
from clusterscale.release.entry import choose_format
from clusterscale.release.publication import Follow, Publication, Stratum, read_strata, unreported
from clusterscale.release.text import TOTAL
from clusterscale.validation_messages import exact_number, plural

_Bounds = tuple[Ints, Ints, tuple[int, int]]
_MOST_TOTAL = 10**7  # up to which bounds of totals that are changed are computed


class Part(NamedTuple):
    """A level and category of a table, as it is published, and its cells and those of its totals.

    These are ``noisy`` if its values do not determine counts, and then not among ``cells``.
    ``size`` is that of the group, if known. ``doubts`` say what its totals may tell, and are not
    taken to.
    """

    stratum: Stratum
    table: PublishedTable
    size: int | None
    cells: list[Cells]
    noisy: list[Cells]
    doubts: list[str]


def read_parts(plan: Publication, follow: Follow = unreported) -> list[Part]:
    """Return the levels and categories of the tables of a publication, in its order."""
    strata = list(read_strata(plan, follow))
    lengths = [_epochs(one.release, one.form) for one in strata]
    shortest = min(int((ends - starts).min()) for starts, ends in lengths)
    pairs = list(zip(strata, lengths, strict=True))
    return [_part_of(plan, *pair, shortest) for pair in follow("bounding counts", pairs)]


def read_part(plan: Publication, release: RawRelease) -> Part:
    """Return the only table of a publication, which was read already.

    Where it names no places, or states one time or none, these are numbered.
    """
    n_rois, n_epochs = release.values.shape
    rois, epochs = release.rois or tuple(map(str, range(n_rois))), release.epochs
    if epochs is None or n_epochs < 2:
        epochs = np.arange(n_epochs)
    (entry,), release = plan.tables, replace(release, rois=rois, epochs=epochs)
    form = entry.format or choose_format(entry.counts)
    one = Stratum.of(plan, entry, form, release, {}, {})
    lengths = _epochs(release, form)
    return _part_of(plan, one, lengths, int((lengths[1] - lengths[0]).max()))


def _part_of(plan: Publication, one: Stratum, epochs: tuple[Ints, Ints], shortest: int) -> Part:
    """Return a level or category as it is published, and what its values say of its counts."""
    longest = int((epochs[1] - epochs[0]).max())
    several = -(-longest // shortest) if one.entry.measure in ("visits", "trips") else 1
    size = None if one.group_size is None else one.group_size * several
    table = as_published(one.release, one.mechanism, size)
    bounds = _bounds(table, size)
    cells = _cells_of(plan, one, table, epochs, bounds)
    of_table = ([], cells) if bounds is None else (cells, list[Cells]())
    doubts = [*_doubt_values(table, bounds), *_doubt_totals(table, bounds)]
    return Part(one, table, size, *of_table, doubts)


def _doubt_values(table: PublishedTable, bounds: _Bounds | None) -> Iterator[str]:
    """Yield that values are not used because their method never publishes them, such as small ones.

    Whoever reads them may take them for counts, and may be right.
    """
    unused = table.published if bounds is None else table.published & (bounds[0] == 0)
    intervals = count_intervals(table, drawn=True) if bounds is not None and unused.any() else None
    if intervals is not None and len(values := table.values[unused]):
        never = values[intervals.never(values)]
        if n := len(never):
            yield (
                f"{plural(n, 'value')} of {table.name}, such as {exact_number(float(never[0]))}, "
                f"{'is' if n == 1 else 'are'} not used: {table.mechanism.label} never publishes "
                f"{'it' if n == 1 else 'them'}"
            )


def _doubt_totals(table: PublishedTable, bounds: _Bounds | None) -> Iterator[str]:
    """Yield what totals may tell that are the sums of shown values beside hidden ones.

    Whether they count the hidden ones too, nobody can tell who reads them, unless these are certain
    to count someone.
    """
    hidden, known = _hidden(table), suppressed_up_to(table.mechanism)
    changes = any(isinstance(step, CHANGE_TOTALS) for step in steps_of(table.mechanism))
    gaps = table.not_covered
    every = (1, table.roi_totals), (0, table.epoch_totals), (None, table.grand_total)
    for axis, totals in every:
        if totals is None:
            continue
        sums = np.nansum(table.values, axis)
        if known and not changes and (n := int(((totals > 0) & (totals <= known)).sum())):
            yield (
                f"{plural(n, 'total')} of {table.name} {agree(n, 'show')} 1 to {known:,} people, "
                f"whom {table.mechanism.label} hides"
            )
        if gaps is not None and (n := int((gaps.any(axis) & (np.abs(totals - sums) > 0)).sum())):
            yield (
                f"{plural(n, 'total')} of {table.name} may count values that were not collected, "
                "so that nothing follows"
            )
        if not _are_sums(table, totals, axis):
            low, high = _bound_totals(table, totals, axis)
            unused = ~np.isnan(totals) & (low == 0) & (high == UNKNOWN)
            if bounds is not None and (n := int(unused.sum())):
                yield (
                    f"{plural(n, 'total')} of {table.name} {'is' if n == 1 else 'are'} not used: "
                    f"no count gives such a value under {table.mechanism.label}"
                )
            continue
        if axis is None and bounds is not None and bounds[0][hidden].any():
            continue
        if n := int((hidden.any(axis) & ~np.isnan(totals)).sum()):
            yield (
                f"{plural(n, 'total')} of {table.name} {agree(n, 'equal')} the sum of shown "
                "values: if hidden ones are counted too, these may follow"
            )


def _hidden(table: PublishedTable) -> Flags:
    collected = True if table.not_covered is None else ~table.not_covered
    return ~table.published & collected


def _epochs(release: RawRelease, form: TableFormat) -> tuple[Ints, Ints]:
    """Return when epochs begin and end: UTC seconds, or numbers of epochs; int64, (epoch,)."""
    if release.epochs is None or release.rois is None:
        raise ConfigError(f"{release.name}: a publication needs the names of places and the times")
    if release.epochs.dtype.kind != "M":
        starts = release.epochs.astype(np.int64)
        return starts, starts + 1
    starts = release.epochs.astype("datetime64[s]").astype(np.int64)
    stated = getattr(form, "step", None)
    if len(starts) < 2 and stated is None:
        raise ConfigError(f"{release.name}: the table has one time: set `step` in its format")
    zone = release.timezone
    step = Step.parse(stated) if stated is not None else Step.between(starts, zone)
    return starts, np.append(starts[1:], step.begins(int(starts[-1]), 2, zone)[1:])


def _bounds(table: PublishedTable, size: int | None) -> _Bounds | None:
    """Return the least and the largest count of each cell, and of a shown one if it is hidden.

    None with noise.
    """
    intervals = count_intervals(table, drawn=True)
    bounds = count_bounds(table, drawn=True)
    if intervals is None or bounds is None:
        return None
    if size is None:
        bounds[1][bounds[1] == table.group_size] = UNKNOWN
    if table.not_covered is not None:
        bounds[1][table.not_covered] = UNKNOWN
    return *bounds, (intervals.least_shown, UNKNOWN if size is None else size)


def _cells_of(
    plan: Publication,
    one: Stratum,
    table: PublishedTable,
    epochs: tuple[Ints, Ints],
    bounds: _Bounds | None,
) -> list[Cells]:
    """Return the cells of a table, and those of its totals; without bounds, nothing is known."""
    starts, ends = epochs
    unknown = np.zeros(table.values.shape, np.int64)
    low, high, if_hidden = bounds or (unknown, unknown + UNKNOWN, (0, UNKNOWN))
    never = np.zeros(table.values.shape, np.bool_)
    gaps, secondary = (
        never if others is None else others for others in (table.not_covered, table.secondary)
    )
    cells = Cells(
        name=table.name,
        label=one.entry.label,
        people=plan.people_of(one.entry.label),
        measure=one.entry.measure,
        categories=one.categories,
        places=one.release.rois or (),
        starts=starts,
        ends=ends,
        values=table.values,
        low=low,
        high=high,
        covered=~(gaps | secondary),
        secondary=secondary,
        gaps=gaps,
        timezone=one.release.timezone if one.is_timed else "",
        complete=one.complete,
        if_hidden=if_hidden,
    )
    whole_time = {"starts": starts[:1], "ends": ends[-1:]}
    total = {"places": (getattr(one.form, "total", None) or TOTAL,), "total_of": cells.label}
    stated, found = one.release.totals, [cells]
    for i, axis, change in ((1, 0, total), (0, 1, whole_time), (2, None, total | whole_time)):
        totals = stated.each[i]
        if totals is None:
            continue
        shape = (1, -1) if axis != 1 else (-1, 1)
        listed, further = (
            (some[i] if some else np.zeros(totals.shape, np.bool_)).reshape(shape)
            for some in (stated.listed, stated.secondary)
        )
        summed = replace(cells, **change)
        totals = totals.reshape(shape)
        summed = _with_totals(summed, table, totals, axis, listed, further)
        if stated.band_ends:
            least, end = (one.reshape(shape) for one in stated.band_ends[i])
            summed.low[least >= 0] = least[least >= 0]
            summed.high[end >= 0] = end[end >= 0] - 1
        found.append(summed)
    return found


def _with_totals(
    cells: Cells,
    table: PublishedTable,
    totals: Values,
    axis: int | None,
    listed: Flags,
    secondary: Flags,
) -> Cells:
    """Return the cells of totals of a table over an axis; None: over both.

    A total of 0 may be hidden as values are, and one that is hidden may have any count: also larger
    ones are hidden as values are, to protect others. That over both is not used if it may be the
    sum of shown values, beside hidden ones.
    """
    low, high = _bound_totals(table, totals, axis)
    last = last_suppression(table.mechanism)
    nothing = ~(totals > 0) if last is not None and last.hidden == "zero" else np.isnan(totals)
    if axis is None and _hidden(table).any():
        nothing = nothing | np.isclose(totals, np.nansum(table.values))
    low[nothing], high[nothing] = 0, UNKNOWN
    covered = np.isnan(totals) & listed
    never = np.zeros(totals.shape, np.bool_)
    cells = replace(cells, if_hidden=(0, UNKNOWN), covered=covered, gaps=never)
    return replace(cells, values=totals, low=low, high=high, secondary=secondary)


def _bound_totals(table: PublishedTable, totals: Values, axis: int | None) -> tuple[Ints, Ints]:
    """Return the least and the largest count of totals: those of true counts, where whole.

    Where values are multiplied, rounded or drawn, totals are too, unless they all are the sums of
    rounded or drawn values, which say nothing more.
    """
    changes = [step for step in steps_of(table.mechanism) if isinstance(step, CHANGE_TOTALS)]
    drawn, shown = count_intervals(table) is None, ~np.isnan(totals)
    exact = (totals == np.rint(totals)) & (not (changes or drawn))
    low, high = (np.where(exact, totals, end).astype(np.int64) for end in (0, UNKNOWN))
    factors = [step.factor for step in changes if isinstance(step, Expand)]
    if not (changes or drawn) or "weights" in factors or _are_sums(table, totals, axis):
        return low, high
    scale = prod(float(factor) for factor in factors)
    size = table.group_size + int(2 * np.max(totals[shown], initial=0) / min(scale, 1.0))
    intervals = None
    if size <= _MOST_TOTAL:
        intervals = count_intervals(replace(table, group_size=size), drawn=True)
    if intervals is not None:
        low, high = intervals.bounds(totals)
        high[high == size] = UNKNOWN
    return low, high


def _are_sums(table: PublishedTable, totals: Values, axis: int | None) -> bool:
    """Return whether all totals over an axis are the sums of rounded or drawn values."""
    changes = [step for step in steps_of(table.mechanism) if isinstance(step, CHANGE_TOTALS)]
    multiplied = all(isinstance(step, Expand) for step in changes)
    if multiplied and count_intervals(table) is not None and axis is not None:
        return False
    sums, totals = np.nansum(table.values, axis).ravel(), totals.ravel()
    return np.allclose(totals[shown], sums[shown]) if (shown := ~np.isnan(totals)).any() else True
