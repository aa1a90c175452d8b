"""Published tables with what is known of their counts, the base of checks, and their results."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import ConfigModel, Counts, Ints, Mechanism, Values
from clusterscale.errors import InputError
from clusterscale.foreign import Fault, returns
from clusterscale.mechanisms.chain import steps_of
from clusterscale.mechanisms.scaling import Expand
from clusterscale.mechanisms.suppression import Suppression
from clusterscale.reading.values import Band
from clusterscale.seeds import stream

Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

SMALL = 5
"""Counts below this number are small, unless a mechanism sets another threshold."""

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
    roi_totals, epoch_totals, grand_total
        float64, shapes (roi,), (epoch,) and (1,): totals over epochs, over ROIs and over both,
        published with the table; NaN = redacted. None if there are none.
    listed
        Which totals over epochs, over ROIs and over both are listed, and not hidden to protect
        others, bool, shapes as above; empty: all.
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
    band_ends
        For values that are shown as bands, the least count and the one that all are below, int64,
        both of shape (roi, epoch), −1 where not stated. None if there are none.
    blank_beside
        Whether the same method left values of other categories of the table blank.

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
    grand_total: Values | None = None
    listed: tuple[Flags, ...] = ()
    limits: tuple[Whole, Whole] | None = None
    subset_of: tuple[str, ...] = ()
    not_covered: Flags | None = None
    secondary: Flags | None = None
    band_ends: tuple[Ints, Ints] | None = None
    blank_beside: bool = False

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
        for axis, what in enumerate(("roi_totals", "epoch_totals", "grand_total")):
            totals = getattr(self, what)
            if totals is not None:
                self._check(what, totals, (*shape, 1)[axis : axis + 1], np.float64)
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


def doubt_bands(bands: Collection[Band], mechanism: Mechanism) -> Iterator[str]:
    """Yield which values are shown to be in bands with counts that the mechanism does not hide."""
    largest = suppressed_up_to(mechanism)
    labels = any(
        isinstance(one, Suppression) and one.hidden == "label" for one in steps_of(mechanism)
    )
    hides = "none" if largest is None else f"{int(labels)} to {largest:,}"
    for least, end in bands:
        # Those that end below what is hidden leave some to others: then another band has these.
        ends = largest is not None and max(one for _, one in bands) == largest + 1
        if not ends or (least is not None and least < int(labels)):
            shown = f"below {end:,}" if least is None else f"{least:,} to {end - 1:,}"
            yield f"values are shown as {shown}, and {mechanism.label} hides {hides}"


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


def run_checks(
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
