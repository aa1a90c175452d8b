"""Check several published tables at once, alone and against each other, without traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Counts, Level, Mechanism
from clusterscale.errors import ClusterscaleError, ConfigError, InputError
from clusterscale.mechanisms.chain import steps_of
from clusterscale.mechanisms.scaling import Expand
from clusterscale.reading.places import match_codes
from clusterscale.release import RawRelease
from clusterscale.release.cells import UNKNOWN
from clusterscale.release.checks.table import (
    Check,
    CheckResult,
    PublishedTable,
    Undecided,
    doubt_bands,
    open_comparison,
    run_checks,
    worst_level,
)
from clusterscale.release.related import Related
from clusterscale.validation_messages import exact_number

_Rows = NDArray[np.int64] | slice
_ALL = slice(None)  # a view, where rows would be a copy

_MOST = 1 << 20  # largest group that is assumed if its size is not stated, unless one is shown


_MANY = 6  # consistent tables that are shown one by one


@dataclass(frozen=True, slots=True)
class OpenCell:
    """A count that is not published, and that follows from what is.

    ``low`` to ``high`` are all counts that are possible, in visits. ``text`` says so, and what it
    follows from. ``rest`` are those of a cell who are not in a part of it.
    """

    table: str
    place: str
    time: str
    low: int
    high: int
    rest: bool
    text: str


@dataclass(frozen=True, slots=True)
class TableFindings:
    """Results of all checks of one table, in their order.

    ``mechanism`` is the label of the declared one. ``undecided`` has why some checks were not done
    or not decided that should have been; none if all were. ``notes`` say how the table was read.
    ``open_cells`` are counts that follow from several tables, the most disclosing first.
    ``related`` is what the relations of a publication related.
    """

    name: str
    mechanism: str
    results: tuple[CheckResult, ...]
    undecided: tuple[Undecided, ...] = ()
    notes: tuple[str, ...] = ()
    open_cells: tuple[OpenCell, ...] = ()
    related: tuple[Related, ...] = ()

    @property
    def omitted(self) -> str:
        """Why the verdict is not decided, as one text."""
        return "; ".join(dict.fromkeys(one.text for one in self.undecided))

    @property
    def verdict(self) -> Level:
        """``fail`` if inconsistent, ``pass`` if consistent, else ``warn``.

        Where it is ``warn``, that nothing was found says nothing.
        """
        levels: dict[str, Level] = {"inconsistent": "fail", "consistent": "pass"}
        return levels.get(worst_level(self.results, self.undecided), "warn")

    @property
    def decided(self) -> str:
        """Names of the checks that could decide."""
        return ", ".join(one.check.replace("_", " ") for one in self.results if one.decided)


def alike(findings: Sequence[TableFindings]) -> list[TableFindings]:
    """Return the consistent tables, without what was found in a whole publication, if many."""
    quiet = [table for table in findings if table.verdict == "pass"]
    quiet = [table for table in quiet if table.results[0].check != "determined"]
    return quiet if len(quiet) > _MANY else []


def compare_tables(
    releases: Sequence[RawRelease],
    beside: Sequence[RawRelease],
    checks: Sequence[Check],
    *,
    mechanism: Mechanism | None = None,
    group_size: int | None = None,
    subset_of: Mapping[str, Sequence[str]] | None = None,
    counts: Counts | None = None,
    seed: int = 0,
) -> list[TableFindings]:
    """Check tables alone, and against each other and those ``beside`` them.

    Tables beside were published with or before those to check. Tables are compared in the places
    that all have, at the epochs that both have. An error of one check does not stop the others.
    ``mechanism`` and ``group_size`` say how all were published, and how many people each counts;
    None: what each states itself. A table of unknown size is checked alone. ``subset_of`` has the
    names of the tables that count everyone whom a table counts, by its name, besides those that the
    table itself states. ``counts`` are the true ones of the first table, −1 where unknown.

    Returns findings for each of ``releases``. Raises ConfigError if the mechanism of a table is not
    known, or ``subset_of`` names a table that is not given.
    """
    everything, renamed = [*releases, *beside], list[str]()
    for i, item in enumerate(everything):
        if item.rois and item.rois != everything[0].rois:
            names, note = match_codes(item.rois, everything[0].rois or ())
            everything[i] = replace(item, rois=names)
            renamed += [f"{item.name}: {note}"] if note else []
    wholes = _declared_wholes(everything, subset_of or {})
    alone = [
        replace(as_published(item, mechanism, group_size), subset_of=wholes[item.name])
        for item in everything
    ]
    if counts is not None:
        alone[0] = replace(alone[0], counts=counts)
    reasons, shared = _align(everything, alone)
    if len(everything) > 1 and any(_size(item, group_size) is None for item in everything):
        reasons += ["the number of people in a table is not stated, so tables are not compared"]
    if len(everything) > 1 and any(item.secondary is not None for item in everything):
        reasons += ["tables with cells hidden to protect others are compared in a publication file"]
    why, gaps = [Undecided("comparison", text) for text in reasons[:1]], list[Undecided]()
    if any(item.not_covered is not None for item in everything):
        gaps.append(Undecided("comparison", "places that a table does not cover are not compared"))
    findings = []
    for i, (item, table) in enumerate(zip(releases, alone[: len(releases)], strict=True)):
        others = [other for j, other in enumerate(shared) if j != i]
        results, undecided = list[CheckResult](), (why or gaps) if others else []
        for check in checks:
            try:
                if check.compares and why:
                    results.append(CheckResult.unknown(check.name, 0, why[0].text))
                else:
                    given = (shared[i], others) if check.compares else (table, [])
                    results += run_checks(*given, [check], seed=seed)
            except ClusterscaleError as error:
                undecided = [Undecided("check", f"{check.name} cannot run: {error}")]
                results.append(CheckResult.unknown(check.name, 0, undecided[0].text))
        undecided = undecided or open_comparison(checks, results)
        changes = (*item.changes, *doubt_bands(item.bands, table.mechanism))
        undecided = [Undecided("reading", text) for text in changes] or undecided
        results += _check_rows(item, table, checks, seed)
        label = table.mechanism.label
        findings.append(
            TableFindings(
                item.name, label, tuple(results), tuple(undecided), (*item.notes, *renamed)
            )
        )
    return findings


def _check_rows(
    release: RawRelease, table: PublishedTable, checks: Sequence[Check], seed: int
) -> list[CheckResult]:
    """Return what is inconsistent in the rows themselves, before they were added up."""
    if not release.row_values.size:
        return []
    values = release.row_values[None]
    rows = PublishedTable(
        f"{table.name}, row by row", values, table.group_size, table.mechanism, 0,
        _unknown(values.shape),
    )  # fmt: skip
    alone = [check for check in checks if check.name == "possible_values"]
    found = run_checks(rows, [], alone, seed=seed)
    return [
        replace(one, text=f"before rows were added: {one.text}")
        for one in found
        if one.level == "inconsistent"
    ]


def _declared_wholes(
    items: Sequence[RawRelease], subset_of: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Return the names of the tables of which each table is declared a subset."""

    def find(stated: str) -> list[str]:
        return [item.name for item in items if stated in _short_names(item.name)]

    wholes = {item.name: list(item.metadata.subset_of) for item in items}
    for part, stated in subset_of.items():
        for name in (part, *stated):
            if not find(name):
                raise ConfigError(f"subset_of: {name} is none of the tables: {', '.join(wholes)}")
        for name in find(part):
            wholes[name] += stated
    return {
        part: tuple(name for one in stated for name in find(one) if name != part)
        for part, stated in wholes.items()
    }


def _short_names(name: str) -> tuple[str, str, str]:
    """Return the names by which a table may be stated: also without folder and ending."""
    base = name.rstrip("/").rpartition("/")[2]
    return name, base, base.partition(".")[0]


def _size(item: RawRelease, group_size: int | None) -> int | None:
    return item.metadata.group_size if group_size is None else group_size


def as_published(
    item: RawRelease, mechanism: Mechanism | None, group_size: int | None
) -> PublishedTable:
    """Return a table with its declared mechanism; raises ConfigError if none is known."""
    declared = item.metadata.mechanism if mechanism is None else mechanism
    if declared is None:
        raise ConfigError(
            f"{item.name}: how this table was published is not known: state its mechanism, "
            "{name: exact} for unchanged counts"
        )
    size = _size(item, group_size)
    if size is None:  # no count can be above it, so nothing is called impossible for its size
        largest = np.nanmax(np.append(item.values, 2.0))
        scale = np.prod([min(s.factor, 1.0) for s in steps_of(declared) if isinstance(s, Expand)
                         and s.factor != "weights"])  # fmt: skip
        size = int(max((largest + 1000) / scale, min(2 * largest + 1000, _MOST)))
        if size >= UNKNOWN:
            raise InputError(
                f"{item.name}: {exact_number(float(largest))} is shown, and counts of {UNKNOWN:,} "
                "or more are not checked"
            )
    return PublishedTable(
        name=item.name,
        values=item.values,
        group_size=size,
        mechanism=declared,
        first_epoch=0,
        counts=_unknown(item.values.shape),
        roi_totals=item.totals.roi,
        epoch_totals=item.totals.epoch,
        grand_total=item.totals.grand,
        listed=item.totals.listed,
        not_covered=item.not_covered,
        secondary=item.secondary,
        band_ends=item.band_ends,
        blank_beside=item.blank_beside,
    )


def _align(
    items: Sequence[RawRelease], tables: Sequence[PublishedTable]
) -> tuple[list[str], list[PublishedTable]]:
    """Return why the tables cannot be compared, or the tables on shared places and epochs."""
    try:
        firsts = _first_epochs([item.epochs for item in items])
        rows = _shared_places(items)
    except ConfigError as error:
        return [str(error)], list(tables)
    return [], [
        replace(
            table,
            values=(values := np.ascontiguousarray(table.values[keep])),
            counts=_unknown(values.shape),
            not_covered=None,
            first_epoch=first,
            roi_totals=None,
            grand_total=None,
            listed=(),
            band_ends=None,
        )
        for table, first, keep in zip(tables, firsts, rows, strict=True)
    ]


def _unknown(shape: tuple[int, ...]) -> NDArray[np.int32]:
    """Return unknown counts, which take no memory."""
    return np.broadcast_to(np.int32(-1), shape)


def _first_epochs(axes: Sequence[NDArray[Any] | None]) -> list[int]:
    """Return the number of the first epoch of each table, on the epochs of all."""
    if len(axes) == 1:
        return [0]
    known = [axis for axis in axes if axis is not None and len(axis)]
    if len(known) < len(axes) or len({axis.dtype.kind for axis in known}) > 1:
        raise ConfigError("not all tables state their times, so they are not compared")
    seconds = [
        axis.astype("datetime64[s]").astype(np.int64) if axis.dtype.kind == "M" else axis
        for axis in known
    ]
    gaps = [gap for axis in seconds for gap in np.diff(axis).tolist()]
    shortest = min(gaps, default=0)
    if max(gaps, default=0) >= 2 * shortest > 0:  # below that, days or months of the calendar
        raise ConfigError("the epochs of the tables differ in length, so they are not compared")
    every = np.unique(np.concatenate(seconds))
    firsts = [int(np.searchsorted(every, axis[0])) for axis in seconds]
    parts = [every[n : n + len(axis)] for n, axis in zip(firsts, seconds, strict=True)]
    if (np.diff(every) < shortest).any() or not all(map(np.array_equal, parts, seconds)):
        raise ConfigError("the epochs of the tables begin at other times, so they are not compared")
    return firsts


def _shared_places(releases: Sequence[RawRelease]) -> list[_Rows]:
    """Return the rows of the places that all tables have, in the same order."""
    if len(releases) == 1 or any(release.rois is None for release in releases):
        if len({len(release.values) for release in releases}) > 1:
            raise ConfigError("not all tables name their places, so they are not compared")
        return [_ALL for _ in releases]
    rows = [_covered_rows(release) for release in releases]
    shared = sorted(set(rows[0]).intersection(*rows[1:]))
    if not shared:
        raise ConfigError("the tables have no place in common, so they are not compared")
    return [
        _ALL if list(one.rois or ()) == shared else np.array([row_of[name] for name in shared])
        for one, row_of in zip(releases, rows, strict=True)
    ]


def _covered_rows(release: RawRelease) -> dict[str, int]:
    """Return the row of each place of which all values are covered."""
    gaps, rows = release.not_covered, enumerate(release.rois or ())
    return {name: i for i, name in rows if gaps is None or not gaps[i].any()}
