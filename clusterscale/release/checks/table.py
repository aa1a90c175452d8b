"""Published tables with what is known of their counts, the base of checks, and their results."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import NO_NOISE, ConfigModel, Counts, Mechanism, TraceStep, Values
from clusterscale.errors import InputError
from clusterscale.foreign import Fault, returns
from clusterscale.mechanisms.chain import last_suppression, steps_of
from clusterscale.mechanisms.law import FiniteDistribution, OutputDistribution
from clusterscale.mechanisms.sampling import SampleEvents
from clusterscale.mechanisms.scaling import Expand
from clusterscale.mechanisms.suppression import Suppression
from clusterscale.seeds import stream

Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

SMALL = 5
"""Counts below this number are small, unless a mechanism sets another threshold."""

_BLOCK = 1 << 16  # cells compared at a time: they fit into a processor's cache
MOST_DECIMALS = 9  # with more, a written number cannot be distinguished from a full float


@dataclass(frozen=True, slots=True, eq=False)
class PublishedTable:
    """Published values of one group per ROI and epoch.

    Attributes
    ----------
    name
        Name used in results.
    values
        float64, shape (roi, epoch): published values; NaN = redacted.
    group_size
        Members of the group, at least 1.
    mechanism
        The declared mechanism, bound, so that its sensitivity is known.
    first_epoch
        Index in the cube of the epoch of the first column.
    counts
        int32, shape (roi, epoch): true counts, visits; −1 where unknown.
    roi_totals, epoch_totals
        float64, shapes (roi,) and (epoch,): totals over epochs and over ROIs, published with the
        table; NaN = redacted. None if there are none.
    limits
        Smallest and largest possible count of each cell, for a group of the users whose traces are
        known; int64, both of shape (roi, epoch), visits. None if no traces are known.
    subset_of
        Names of tables that count everyone whom this one counts, and others.
    not_covered
        Which values were not collected, bool, shape (roi, epoch): NaN, but not redacted, and no
        part of totals. None if all were.
    secondary
        Which values were hidden so that no other follows from them, though they would have been
        shown, bool, shape (roi, epoch). None if none was.

    Raises
    ------
    InputError
        If a shape or type is wrong, there is no cell, a value is infinite, the group has no
        member, a count exceeds the group size, or ``mechanism`` is not a mechanism. Values that
        the mechanism never publishes raise no error: the checks report them.
    """

    name: str
    values: Values
    group_size: int
    mechanism: Mechanism
    first_epoch: int
    counts: Counts
    roi_totals: Values | None = None
    epoch_totals: Values | None = None
    limits: tuple[Whole, Whole] | None = None
    subset_of: tuple[str, ...] = ()
    not_covered: Flags | None = None
    secondary: Flags | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError(
                f"the name of a table is {self.name!r}, but must be a non-empty string"
            )
        shape = np.shape(self.values)
        if len(shape) != 2:
            raise InputError(f"{self.name}: values have shape {shape}, but should be (roi, epoch)")
        if 0 in shape:
            raise InputError(f"{self.name}: values have shape {shape}, which has no cell")
        self._check("values", self.values, shape, np.float64)
        self._check("counts", self.counts, shape, np.int32)
        for axis, what in enumerate(("roi_totals", "epoch_totals")):
            totals = getattr(self, what)
            if totals is not None:
                self._check(what, totals, shape[axis : axis + 1], np.float64)
        for what, limit in zip(("lower limits", "upper limits"), self.limits or (), strict=False):
            self._check(what, limit, shape, np.int64)
        for what, least in (("group_size", 1), ("first_epoch", 0)):
            number = getattr(self, what)
            if not isinstance(number, int | np.integer) or isinstance(number, bool):
                raise InputError(f"{self.name}: {what} is {number!r}, but should be a whole number")
            if number < least:
                raise InputError(f"{self.name}: {what} is {number}, but should be at least {least}")
        if not isinstance(self.mechanism, Mechanism):
            raise InputError(
                f"{self.name}: mechanism is {self.mechanism!r}, but should be a mechanism, as "
                "clusterscale.mechanisms.create returns"
            )
        counts = self.counts
        if counts.size and not (counts.min() >= -1 and counts.max() <= self.group_size):
            raise InputError(
                f"{self.name}: counts are from {counts.min()} to {counts.max()}, but should be "
                f"from 0 to the group size, {self.group_size}, or −1 where unknown"
            )

    def _check(self, what: str, array: NDArray[Any], shape: tuple[int, ...], dtype: type) -> None:
        if not isinstance(array, np.ndarray):
            raise InputError(
                f"{self.name}: {what} are of type {type(array).__name__}, not an array of "
                f"{np.dtype(dtype)}"
            )
        if array.shape != shape or array.dtype != dtype:
            raise InputError(
                f"{self.name}: {what} are {array.dtype} {array.shape}, not "
                f"{np.dtype(dtype)} {shape}"
            )
        if np.isinf(array).any():
            raise InputError(f"{self.name}: {int(np.isinf(array).sum())} {what} are infinite")

    @property
    def published(self) -> NDArray[np.bool_]:
        """Which cells are not redacted, bool, shape (roi, epoch)."""
        return np.asarray(~np.isnan(self.values))


def suppressed_up_to(mechanism: Mechanism) -> int | None:
    """Return the largest count that the mechanism publishes as 0, None if it suppresses none."""
    steps = [step for step in steps_of(mechanism) if isinstance(step, Suppression)]
    return max((step.least_shown - 1 for step in steps), default=None)


def doubt_bands(bands: Iterable[int], mechanism: Mechanism) -> Iterator[str]:
    """Yield which values are shown as below another number than the mechanism hides."""
    largest = suppressed_up_to(mechanism)
    hides = "none" if largest is None else f"those below {largest + 1:,}"
    for end in bands:
        if largest is None or end != largest + 1:
            yield f"values are shown as below {end:,}, and {mechanism.label} hides {hides}"


def smallest_shown(small: int | None, *tables: PublishedTable) -> int:
    """Return the least count that may be disclosed: ``small``, else the least exact one, or 5."""
    return small or max(
        (n for table in tables for n in _exact_from(table.mechanism)), default=SMALL
    )


def _exact_from(mechanism: Mechanism) -> Iterator[int]:
    """Yield from which count each suppression leaves values as they are; more after fractions."""
    scale = 1.0
    for step in steps_of(mechanism):
        if isinstance(step, Expand) and step.factor != "weights":
            scale *= step.factor
        if isinstance(step, Suppression):
            yield ceil(step.least_exact / min(scale, 1.0))


def fill_suppressed(table: PublishedTable) -> Values:
    """Return the values, float64, shape (roi, epoch), with a number in suppressed blank cells.

    It is the number that the declared mechanism has for them. If that is 0, a table without any 0
    is assumed to leave suppressed cells blank instead.
    """
    filler = _filler(table)
    filled = table.values if filler is None else np.where(table.published, table.values, filler)
    for others in (table.not_covered, table.secondary):
        filled = filled if others is None else np.where(others, np.nan, filled)
    return filled


def _filler(table: PublishedTable) -> float | None:
    """Return the number for suppressed blank cells, None if blank cells stay blank."""
    steps, last = steps_of(table.mechanism), last_suppression(table.mechanism)
    if last is None or (last.hidden == "zero" and (table.values == 0).any()):
        return None
    stands_for = np.array([[last.hidden_as]])
    after = _ends_of(
        steps[_after(steps, last) :], (stands_for, stands_for.copy()), table.group_size
    )
    if after is None or (after[0] != after[1]).any():
        return None  # what is published depends on more than this count
    return float(after[0][0, 0])


def _after(steps: Sequence[Mechanism], last: Suppression | None) -> int:
    """Return the position after the last suppression, 0 without one."""
    return next((i + 1 for i, step in enumerate(steps) if step is last), 0)


def _ends_of(
    steps: Iterable[Mechanism], ends: tuple[Values, Values], group_size: int
) -> tuple[Values, Values] | None:
    """Return the least and the largest value that steps publish of values between ends, (1, value).

    The ends are overwritten. None if noise is added that has no bounds, or a value depends on more
    than one count.
    """
    low, high = ends
    for step in steps:
        law = step.law(group_size)
        if isinstance(law, FiniteDistribution):
            (least, p), (most, p_most) = law.published(low), law.published(high)
            low = np.where(p > 0, least, np.inf).min(axis=-1)
            high = np.where(p_most > 0, most, -np.inf).max(axis=-1)
        elif isinstance(law, OutputDistribution) and law.noise == NO_NOISE:
            law.revise(low)
            law.revise(high)
        elif isinstance(step, SampleEvents):
            low = np.zeros_like(low)
        elif not isinstance(step, TraceStep):
            return None
    return low, high


@dataclass(frozen=True, slots=True, eq=False)
class CountIntervals:
    """Which counts each published value of a table may have.

    ``lowest`` and ``highest`` are the ends of the values published for each count, shape (group
    size + 1,), equal if nothing is drawn, and ∞ and −∞ of a count that is only left blank;
    ``filler`` is the value of suppressed blank cells, None if blank cells say nothing; ``blank``
    their smallest and largest count, None if they have those of ``filler``; ``rounding`` the most
    by which the table's decimals may have changed a value; ``least_shown`` the smallest count that
    is not hidden, other than a 0 beside labels.
    """

    lowest: Values
    highest: Values
    filler: float | None
    blank: tuple[int, int] | None = None
    rounding: float = 0.0
    least_shown: int = 0

    def bounds(self, values: Values, secondary: Flags | None = None) -> tuple[Whole, Whole]:
        """Return the smallest and the largest count of values of the table, shape of ``values``.

        All counts are possible for a value that no count has. Those that are ``secondary`` would
        have been shown. 0 beside labels is not among them: other small counts are not possible, and
        bounds from 0 would make more seem possible.
        """
        blank = np.isnan(values)
        if self.filler is not None:
            values = np.where(blank, self.filler, values)
        # Ascending ends, as a larger count may have smaller values where these are drawn.
        most = np.maximum.accumulate(self.highest)
        least = np.minimum.accumulate(self.lowest[::-1])[::-1]
        low = np.searchsorted(most, values - self.rounding, side="left")
        high = np.searchsorted(least, values + self.rounding, side="right") - 1
        impossible = (low > high) | np.isnan(values)
        low[impossible], high[impossible] = 0, len(most) - 1
        if self.blank is not None:
            low[blank], high[blank] = self.blank
        if secondary is not None:
            low[secondary], high[secondary] = self.least_shown, len(most) - 1
        return low, high


def count_intervals(table: PublishedTable, *, drawn: bool = False) -> CountIntervals | None:
    """Return which counts values may have; None with noise or if cells are not separate.

    With ``drawn``, also where a value is drawn of a few ones: by random rounding, by cell keys and
    by sampling. Its count is then between bounds that one value alone gives, whatever was drawn.
    """
    law = table.mechanism.law(table.group_size)
    if not drawn and not (isinstance(law, OutputDistribution) and law.noise == NO_NOISE):
        return None
    steps, last = steps_of(table.mechanism), last_suppression(table.mechanism)
    cut = _after(steps, last)
    before = _ends_of_counts(steps[: max(cut - 1, 0)], table.group_size)
    after = _ends_of_counts(steps, table.group_size)
    if before is None or after is None:
        return None
    lowest, highest = after
    rounding = 0.0
    if (lowest % 1).any() or (highest % 1).any():
        n = decimals(table.values[table.published])
        rounding = 0.500001 * 10.0 ** -(
            MOST_DECIMALS if n is None else n
        )  # floats lose some digits
    if last is None:
        return CountIntervals(lowest, highest, _filler(table), rounding=rounding)
    least = min(int(np.searchsorted(before[1], last.least_shown)), table.group_size)
    filler, blank = _filler(table), None
    if _leaves_blank(table, last):
        hidden = [last.hides(end) for end in before]
        # Later steps may publish a shown value like one that stands for hidden ones, so these are
        # told apart by what the suppression compares, not by what is published in the end.
        drawn_around = (before[0] <= 0) & (before[1] >= last.least_shown)
        among = np.flatnonzero(hidden[0] | hidden[1] | drawn_around)
        shown = [end.copy() for end in before]
        shown[0][hidden[0]] = last.least_shown
        shown[1][hidden[1]] = 0
        ends = _ends_of(steps[cut:], (shown[0][None], shown[1][None]), table.group_size)
        if ends is not None and len(among):
            lowest, highest = ends[0][0], ends[1][0]
            always = hidden[0] & hidden[1]
            none, apart = (np.inf, -np.inf), (filler, filler)
            is_taken = filler is None or ((lowest <= filler) & (filler <= highest))[~always].any()
            # A 0 beside blank cells, though the steps say that it is hidden, is a small count too.
            lowest[always], highest[always] = none if is_taken else apart
            blank = int(among[0]), int(among[-1])
    return CountIntervals(lowest, highest, filler, blank, rounding, least)


def _leaves_blank(table: PublishedTable, last: Suppression) -> bool:
    """Return whether blank cells of a table are exactly those that its steps hide."""
    hiding = (step for step in steps_of(table.mechanism) if isinstance(step, Suppression))
    hides = last.hidden != "zero" and all(step.hidden == last.hidden for step in hiding)
    return hides and not table.published.all()


def _ends_of_counts(steps: Sequence[Mechanism], group_size: int) -> tuple[Values, Values] | None:
    """Return the least and the largest value of each count, both (group size + 1,), or None."""
    counts = np.arange(group_size + 1.0)
    blocks = [
        _ends_of(steps, (block.copy(), block.copy()), group_size)
        for start in range(0, len(counts), _BLOCK)
        for block in [counts[None, start : start + _BLOCK]]
    ]
    known = [block for block in blocks if block is not None]
    if len(known) < len(blocks):
        return None
    lowest, highest = (np.concatenate(ends, axis=1)[0] for ends in zip(*known, strict=True))
    return lowest, highest


def count_bounds(table: PublishedTable, *, drawn: bool = False) -> tuple[Whole, Whole] | None:
    """Return the smallest and the largest possible count of each cell, int64, (roi, epoch), visits.

    None unless the mechanism adds no noise, processes each count separately and preserves their
    order: each value then corresponds to an interval of counts. With ``drawn``, it may also draw
    one of a few values of a count. All counts are possible where a cell is redacted or has a value
    that is never published; only 0 where none was collected.
    """
    if (intervals := count_intervals(table, drawn=drawn)) is None:
        return None
    bounds = intervals.bounds(table.values, table.secondary)
    for bound in bounds if table.not_covered is not None else ():
        bound[table.not_covered] = 0
    return bounds


@dataclass(frozen=True, eq=False)
class SharedCells:
    """Several tables, and the values of each in the cells that all have, shape (roi, epoch)."""

    tables: tuple[PublishedTable, ...]
    values: tuple[Values, ...]

    @classmethod
    def of(cls, *tables: PublishedTable) -> Self | None:
        """Return the cells at the epochs of all tables, None if there are none."""
        first = max(table.first_epoch for table in tables)
        stop = min(table.first_epoch + table.values.shape[1] for table in tables)
        if first >= stop or len({len(table.values) for table in tables}) > 1:
            return None
        spans = (slice(first - one.first_epoch, stop - one.first_epoch) for one in tables)
        shared = zip(tables, spans, strict=True)
        return cls(tables, tuple(table.values[:, span] for table, span in shared))

    @cached_property
    def intervals(self) -> list[CountIntervals]:
        """Which counts values may have, of each table; empty if one has noise."""
        found = [count_intervals(table) for table in self.tables]
        known = [one for one in found if one is not None]
        return known if len(known) == len(found) else []

    def blocks(self) -> Iterator[tuple[Values, ...]]:
        """Yield the values of all tables, in blocks of ROIs."""
        step = max(_BLOCK // self.values[0].shape[1], 1)
        for start in range(0, len(self.values[0]), step):
            yield tuple(values[start : start + step] for values in self.values)

    def counts(self) -> Iterator[tuple[Whole, Whole]]:
        """Yield the smallest and the largest count of each cell, both (table, roi, epoch)."""
        for block in self.blocks():
            each = zip(self.intervals, block, strict=True)
            low, high = zip(*(interval.bounds(values) for interval, values in each), strict=True)
            yield np.array(low), np.array(high)


def decimals(values: Values) -> int | None:
    """Return the least decimals that represent all values, finite float64; None if above 9."""
    for n in range(MOST_DECIMALS + 1):
        if bool((np.round(values, n) == values).all()):
            return n
    return None


Level = Literal["consistent", "inconsistent", "unknown"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check on one table.

    Attributes
    ----------
    check
        Name of the check.
    level
        ``unknown`` where the check cannot decide, which is neither a pass nor a failure.
    measured
        A number of cells, or for ``noise_law`` a statistic. NaN where unknown.
    expected
        Expected value of ``measured``, NaN where there is none.
    n_cells
        Number of cells checked.
    text
        One sentence with the numbers, or the reason why the check cannot decide.
    """

    check: str
    level: Level
    measured: float
    expected: float
    n_cells: int
    text: str

    @property
    def decided(self) -> bool:
        """Whether the check could decide, and there was anything to check."""
        return self.level == "inconsistent" or (self.level == "consistent" and self.n_cells > 0)

    @classmethod
    def unknown(cls, check: str, n_cells: int, text: str) -> Self:
        """Return the result of a check that cannot decide."""
        return cls(check, "unknown", np.nan, np.nan, n_cells, text)

    @classmethod
    def of_faults(cls, check: str, n_faults: int, n_cells: int, text: str) -> Self:
        """Return the result of a check that finds faults: inconsistent if there are any."""
        level: Level = "inconsistent" if n_faults else "consistent"
        return cls(check, level, float(n_faults), 0.0, n_cells, text)


def _result_fault(returned: object, *_: object, **__: object) -> str:
    if wrong := returns(CheckResult)(returned):
        return wrong
    level = returned.level  # type: ignore[attr-defined]
    known = get_args(Level)
    return "" if level in known else f"has level {level!r}: choose from {', '.join(known)}"


class Check(ConfigModel):
    """Check of a published table, alone or with tables published earlier or together with it."""

    _registry: ClassVar[str] = "clusterscale.release.checks:CHECKS"
    _boundary: ClassVar[Mapping[str, Fault | None]] = {"check": _result_fault}
    if TYPE_CHECKING:
        name: str  # a literal, with itself as its default: the key in the registry

    compares: ClassVar[bool]
    """Whether the check uses other tables too."""

    statistical: ClassVar[bool] = False
    """Whether it tests the law of many known counts, which too few of them leave undecided."""

    @abstractmethod
    def check(
        self, table: PublishedTable, others: Sequence[PublishedTable], *, rng: np.random.Generator
    ) -> CheckResult:
        """Return the result of the check on ``table``."""


def check_table(
    table: PublishedTable,
    others: Sequence[PublishedTable],
    checks: Sequence[Check],
    *,
    seed: int,
    path: tuple[str | int, ...] = (),
) -> list[CheckResult]:
    """Return the result of each check on a table, compared with others of the same cube.

    Each check has its own random stream, below ``path`` and the names of table and check, so
    results do not depend on which other checks run. Raises ConfigError if the mechanism does not
    fit the table.
    """
    return [
        check.check(table, others, rng=stream(seed, "consistency", *path, table.name, check.name))
        for check in checks
    ]


@dataclass(frozen=True, slots=True)
class Undecided:
    """Why a verdict is not decided, whatever the text.

    ``kind`` is ``comparison`` for one that was not made or decided, ``relation`` for what is not
    related, ``range`` for counts that may be known, ``noise`` for values that bound no count,
    ``reading`` for what was merged or dropped in reading, ``check`` for one that failed.
    """

    kind: Literal["comparison", "relation", "range", "noise", "reading", "check"]
    text: str


def open_comparison(checks: Sequence[Check], results: Sequence[CheckResult]) -> list[Undecided]:
    """Return the first open comparison with a table or known counts; none if all are decided."""
    undecided = [
        Undecided("comparison", result.text or f"{check.name} gives no reason")
        for check, result in zip(checks, results, strict=True)
        if result.level == "unknown" and (check.compares or (check.statistical and result.n_cells))
    ]
    return undecided[:1]


def worst_level(results: Sequence[CheckResult], undecided: Collection[object] = ()) -> Level:
    """Return the level of a table from the results of all checks.

    It is ``consistent`` if a check could decide, none found a fault, and nothing is undecided.
    """
    if any(result.level == "inconsistent" for result in results):
        return "inconsistent"
    decided = any(result.decided for result in results)
    return "consistent" if decided and not len(undecided) else "unknown"


def agree(n: int, verb: str) -> str:
    """Return a verb in the number of its subject, of which there are ``n``: ``1 follows``."""
    return verb + "s" if n == 1 else verb
