"""The tables of a publication as they are published, and their cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from clusterscale.contracts import Ints, Mechanism, Values
from clusterscale.cube.calendar import Step
from clusterscale.errors import ClusterscaleError, ConfigError
from clusterscale.mechanisms.chain import last_suppression, steps_of
from clusterscale.mechanisms.scaling import Expand
from clusterscale.release.cells import UNKNOWN, Cells
from clusterscale.release.checks.count_intervals import count_bounds, count_intervals
from clusterscale.release.checks.table import PublishedTable, agree, suppressed_up_to
from clusterscale.release.checks.together import as_published
from clusterscale.release.checks.totals import CHANGE_TOTALS
from clusterscale.release.content import RawRelease, TableFormat
from clusterscale.release.entry import choose_format
from clusterscale.release.publication import Follow, Publication, Stratum, read_strata, unreported
from clusterscale.release.text import TOTAL
from clusterscale.validation_messages import exact_number, plural

_Bounds = tuple[Ints, Ints, tuple[int, int]]
_AXES = (1, 0, None)  # of the totals of places, of epochs, and of both
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
    each = follow("bounding counts", pairs)
    return [_part_of(plan, one, epochs, shortest) for one, epochs in each]


def read_part(plan: Publication, release: RawRelease) -> Part:
    """Return the only table of a publication, which was read already.

    Places without names are numbered, and so are times of which the lengths are not known: beside
    no other table, they decide nothing.
    """
    n_rois, n_epochs = release.values.shape
    release = replace(release, rois=release.rois or tuple(map(str, range(n_rois))))
    (entry,) = plan.tables
    form = entry.format or choose_format(entry.counts)
    try:
        lengths = _epochs(release, form)
    except ClusterscaleError:
        release = replace(release, epochs=np.arange(n_epochs))
        lengths = _epochs(release, form)
    stated = release.metadata
    one = Stratum(
        entry=entry,
        form=form,
        texts={},
        release=release,
        categories=frozenset(),
        mechanism=entry.mechanism or stated.mechanism,
        group_size=entry.group_size or stated.group_size,
        complete=getattr(form, "absent", None) != "hidden",
    )
    return _part_of(plan, one, lengths, int((lengths[1] - lengths[0]).max()))


def _part_of(plan: Publication, one: Stratum, epochs: tuple[Ints, Ints], shortest: int) -> Part:
    """Return a level or category as it is published, and what its values say of its counts."""
    longest = int((epochs[1] - epochs[0]).max())
    several = -(-longest // shortest) if one.entry.measure in ("visits", "trips") else 1
    size = None if one.group_size is None else one.group_size * several
    table = as_published(one.release, one.mechanism, size)
    bounds = _bounds(table, size)
    cells = _cells_of(plan, one, table, epochs, bounds)
    summed = {axis: _totals_of(one, table, cells, axis) for axis in (0, 1, None)}
    every = [cells, *(some[0] for some in summed.values() if some is not None)]
    doubts = [text for axis in _AXES if (some := summed[axis]) is not None for text in some[1]]
    of_table = ([], every) if bounds is None else (every, list[Cells]())
    return Part(one, table, size, *of_table, [*_doubt_values(table, bounds), *doubts])


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
) -> Cells:
    """Return the cells of a table; without bounds, nothing is known of their counts."""
    starts, ends = epochs
    unknown = np.zeros(table.values.shape, np.int64)
    low, high, if_hidden = bounds or (unknown, unknown + UNKNOWN, (0, UNKNOWN))
    never = np.zeros(table.values.shape, np.bool_)
    gaps, secondary = (
        never if others is None else others for others in (table.not_covered, table.secondary)
    )
    return Cells(
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


def _totals_of(
    one: Stratum, table: PublishedTable, cells: Cells, axis: int | None
) -> tuple[Cells, list[str]] | None:
    """Return the cells of totals of a table over an axis, and doubts; None if there are none.

    Over no axis means over both. Such a total is not used if it may be the sum of shown values,
    beside hidden ones. A total of 0 may be hidden as values are, and one that is hidden may have
    any count: also larger ones are hidden as values are, to protect others.
    """
    stated, i = one.release.totals, _AXES.index(axis)
    if (totals := stated.each[i]) is None:
        return None
    sums: Values = np.asarray(np.nansum(table.values, axis, keepdims=True))
    totals, shape = totals.reshape(sums.shape), sums.shape
    never, hidden = np.zeros(shape, np.bool_), np.isnan(table.values) & ~cells.gaps
    listed, secondary = (
        some[i].reshape(shape) if some else never for some in (stated.listed, stated.secondary)
    )
    are_sums = _are_sums(table, totals, sums, axis)
    low, high = _bound_totals(table, totals, are_sums=are_sums)
    doubts = [
        f"{plural(n, 'total')} of {table.name} {text}"
        for n, text in _doubt_totals(table, cells, totals, (low, high), axis, are_sums=are_sums)
        if n
    ]
    last = last_suppression(table.mechanism)
    nothing = ~(totals > 0) if last is not None and last.hidden == "zero" else np.isnan(totals)
    if axis is None and hidden.any():
        nothing |= np.isclose(totals, sums)
    low[nothing], high[nothing] = 0, UNKNOWN
    if stated.band_ends:
        least, end = (ends.reshape(shape) for ends in stated.band_ends[i])
        low[least >= 0], high[end >= 0] = least[least >= 0], end[end >= 0] - 1
    change: dict[str, Any] = {}
    if axis != 1:
        place = getattr(one.form, "total", None) or TOTAL
        change |= {"places": (place,), "total_of": cells.label}
    if axis != 0:
        change |= {"starts": cells.starts[:1], "ends": cells.ends[-1:]}
    change |= {"values": totals, "low": low, "high": high, "if_hidden": (0, UNKNOWN)}
    change |= {"covered": np.isnan(totals) & listed, "secondary": secondary, "gaps": never}
    return replace(cells, **change), doubts


def _doubt_totals(
    table: PublishedTable,
    cells: Cells,
    totals: Values,
    bounds: tuple[Ints, Ints],
    axis: int | None,
    *,
    are_sums: bool,
) -> Iterator[tuple[int, str]]:
    """Yield how many totals over an axis may tell something, and are not taken to; and what.

    Whether sums of shown values count hidden ones too, nobody can tell who reads them, unless these
    are certain to count someone.
    """
    known, label = suppressed_up_to(table.mechanism), table.mechanism.label
    hidden, shown = np.isnan(table.values) & ~cells.gaps, ~np.isnan(totals)
    if known and not _changes(table):
        n = int(((totals > 0) & (totals <= known)).sum())
        yield n, f"{agree(n, 'show')} 1 to {known:,} people, whom {label} hides"
    sums = np.nansum(table.values, axis, keepdims=True)
    n = int((cells.gaps.any(axis, keepdims=True) & (np.abs(totals - sums) > 0)).sum())
    yield n, "may count values that were not collected, so that nothing follows"
    if not are_sums:
        n = int((shown & (bounds[0] == 0) & (bounds[1] == UNKNOWN)).sum())
        are = "is" if n == 1 else "are"
        yield n, f"{are} not used: no count gives such a value under {label}"
    elif axis is not None or not cells.low[hidden].any():
        n = int((hidden.any(axis, keepdims=True) & shown).sum())
        why = "the sum of shown values: if hidden ones are counted too, these may follow"
        yield n, f"{agree(n, 'equal')} {why}"


def _bound_totals(table: PublishedTable, totals: Values, *, are_sums: bool) -> tuple[Ints, Ints]:
    """Return the least and the largest count of totals: those of true counts, where whole.

    Where values are multiplied, rounded or drawn, totals are too, unless they all are the sums of
    rounded or drawn values, which say nothing more.
    """
    changes = _changes(table)
    drawn, shown = count_intervals(table) is None, ~np.isnan(totals)
    exact = (totals == np.rint(totals)) & (not (changes or drawn))
    low, high = (np.where(exact, totals, end).astype(np.int64) for end in (0, UNKNOWN))
    factors = [step.factor for step in changes if isinstance(step, Expand)]
    if not (changes or drawn) or "weights" in factors or are_sums:
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


def _are_sums(table: PublishedTable, totals: Values, sums: Values, axis: int | None) -> bool:
    """Return whether all totals over an axis are the sums of rounded or drawn values."""
    multiplied = all(isinstance(step, Expand) for step in _changes(table))
    if multiplied and count_intervals(table) is not None and axis is not None:
        return False
    shown = ~np.isnan(totals)
    return np.allclose(totals[shown], sums[shown]) if shown.any() else True


def _changes(table: PublishedTable) -> list[Mechanism]:
    """Return the steps by which totals may be changed as values are."""
    return [step for step in steps_of(table.mechanism) if isinstance(step, CHANGE_TOTALS)]
