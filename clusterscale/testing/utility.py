"""Checks of utility measures."""

from collections.abc import Iterator
from typing import get_args

import numpy as np

from clusterscale.contracts import Values
from clusterscale.foreign import read_only
from clusterscale.testing.checks import Check, expect, named, run
from clusterscale.utility import Utility
from clusterscale.utility.measure import MeasureKind

__all__ = ["check_utility", "checks_of_utility"]


def check_utility(measure: Utility | type[Utility]) -> None:
    """Check a measure of utility.

    Parameters
    ----------
    measure
        An object, or a class that needs no settings.

    Raises
    ------
    AssertionError
        Naming the first failed check, what is wrong and what would be right.
    """
    run(checks_of_utility(), measure)


def checks_of_utility() -> Iterator[tuple[str, Check]]:
    """List the checks of a measure of utility.

    Yields
    ------
    tuple[str, Callable[..., None]]
        Name and function; the function takes a class or an object, and raises AssertionError.
    """
    yield from named(Utility, globals())


def _raw_and_noisy() -> tuple[Values, Values]:
    rng = np.random.default_rng(1)
    raw = rng.poisson(rng.gamma(0.5, 20.0, (100, 1)), (100, 24)).astype(np.float64)
    return raw, raw + rng.laplace(scale=2.0, size=raw.shape)


def is_ideal_for_the_counts(measure: Utility) -> None:
    """The value for a release that equals the raw counts is ``ideal``."""
    raw, _ = _raw_and_noisy()
    value = measure.measure(raw, raw.copy())
    expect(
        np.isclose(value, measure.ideal), f"it is {value} for equal counts, ideal {measure.ideal}"
    )


def is_a_number(measure: Utility) -> None:
    """The value of a noisy release is a finite float."""
    value = measure.measure(*_raw_and_noisy())
    expect(isinstance(value, float), f"measure returns {type(value).__name__}: use float(…)")
    expect(np.isfinite(value), f"the value is {value}")


def repeats(measure: Utility) -> None:
    """The same arrays give the same value, and are not written to."""
    raw, released = _raw_and_noisy()
    once = measure.measure(read_only(raw), read_only(released))
    expect(once == measure.measure(*_raw_and_noisy()), "two values for the same arrays differ")
    same = all(map(np.array_equal, (raw, released), _raw_and_noisy()))
    expect(same, "measure changes its arguments")


def allows_empty_counts(measure: Utility) -> None:
    """Without any counts, the value is a number or NaN; nothing is raised and nothing warns."""
    nothing = np.zeros((8, 24))
    with np.errstate(all="raise"):
        value = measure.measure(nothing, nothing.copy())
    expect(isinstance(value, float), f"measure returns {type(value).__name__}: use float(…)")


def has_a_known_kind(measure: Utility) -> None:
    """``kind`` is ``relative``, ``total``, ``share`` or empty."""
    expect(measure.kind in get_args(MeasureKind), f"kind is {measure.kind!r}")
