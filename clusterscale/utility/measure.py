"""Base of utility measures, checks of the arrays they compare, and a random baseline."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clusterscale.contracts import NamedModel, Values
from clusterscale.errors import InputError
from clusterscale.foreign import Fault, returns

MeasureKind = Literal["", "relative", "total", "share"]


class Utility(NamedModel):
    """A measure of the utility of a release, compared with the raw counts.

    A subclass defines ``measure`` and ``ideal``, the value when the release equals the raw counts.
    ``kind`` is ``relative`` if the loss can exceed 1, ``total`` for the share of events that is
    kept, ``share`` if the loss is a share of what is lost, which reports do not compare with a
    random guess's: a guess hides nothing. A measure with ``events_only`` compares visits only: in
    an audit with a null ROI it is given all other ROIs.
    """

    _registry: ClassVar[str] = "clusterscale.utility:UTILITIES"
    _boundary: ClassVar[Mapping[str, Fault | None]] = {"measure": returns(float)}

    ideal: ClassVar[float] = np.nan
    kind: ClassVar[MeasureKind] = ""
    events_only: ClassVar[bool] = False
    phrase: ClassVar[str]

    @abstractmethod
    def measure(self, raw: ArrayLike, released: ArrayLike) -> float:
        """Compare raw counts and published values, both of shape (roi, epoch).

        NaN where raw has nothing to measure, such as no counts at all.
        """


class FunctionUtility(Utility):
    """A measure that is computed by a function of the same name, whose options are its fields."""

    function: ClassVar[Callable[..., float]]

    def measure(self, raw: ArrayLike, released: ArrayLike) -> float:
        """Return the value of the function."""
        return type(self).function(raw, released, **self.model_dump(exclude={"name", "title"}))


def check_pair(raw: ArrayLike, released: ArrayLike) -> tuple[Values, Values]:
    """Return raw counts and published values as float64, if they can be compared.

    Raises InputError unless both are real, of one shape (roi, epoch), and finite, and raw
    counts are not negative.
    """
    before, after = _as_real(raw, "raw"), _as_real(released, "released")
    if before.ndim != 2 or before.shape != after.shape:
        raise InputError(
            f"raw {before.shape} and released {after.shape} must have one shape (roi, epoch)"
        )
    if n_bad := int((~np.isfinite(before) | (before < 0)).sum()):
        raise InputError(f"{n_bad} of {before.size} raw counts are negative or not finite")
    if n_bad := int((~np.isfinite(after)).sum()):
        raise InputError(f"{n_bad} of {after.size} released values are not finite")
    return before, after


def mean_known(values: Values) -> float:
    """Return the mean of the values that are not NaN; NaN if there are none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def busiest(values: Values, top: float) -> NDArray[np.int64]:
    """Return the busiest ROIs of ``values``, float64, (…, roi): int64, (…, hotspot), busiest first.

    Equally busy ones are ordered by index. ``top``, a share in (0, 1], is rounded down to whole
    ROIs, at least one; raises InputError if it is out of range.
    """
    if not 0 < top <= 1:
        raise InputError(f"top must be a share of the ROIs, above 0 and at most 1, not {top}")
    # .29 * 100 is 28.999…96 in floating point: round up a product just below a whole number.
    n_top = max(1, int(top * values.shape[-1] * (1 + 1e-12)))
    return np.argsort(-values, axis=-1, kind="stable")[..., :n_top]


def random_guess(counts: ArrayLike, *, group_size: int, rng: np.random.Generator) -> Values:
    """Draw every value uniformly from 0, 1, …, ``group_size``, float64, visits (POMACS20 Table 4).

    Only the shape of ``counts``, (…, roi, epoch), is used. Raises InputError if it has fewer
    than two axes, or the group has no members.
    """
    shape = np.shape(counts)
    if len(shape) < 2:
        raise InputError(f"counts {shape} must have the shape (…, roi, epoch)")
    if group_size < 1:
        raise InputError(f"a group has at least one member, not {group_size}")
    return rng.integers(group_size, size=shape, endpoint=True).astype(np.float64)


def _as_real(values: ArrayLike, name: str) -> Values:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} is {array.dtype}, not real numbers")
    return array.astype(np.float64)
