"""Words for values of results: the same in the terminal, on pages, in notebooks and at the gate."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import ROUND_CEILING, Context
from math import ceil, isfinite

BROKEN, TOO_FEW_SAMPLES, CONSISTENT = "broken", "too few samples", "consistent"
NOTHING_PROMISED = "nothing promised"
"""Value of the variable ``verdict`` for a mechanism without a guarantee."""

GUARANTEE_VERDICTS = (BROKEN, TOO_FEW_SAMPLES, CONSISTENT, NOTHING_PROMISED)
"""Values of the variable ``verdict``, worst first."""

NOT_TESTED = "not tested: last bits of floats, several releases together, attacks not listed"
"""What no verdict of an audit covers."""

NO_GUARANTEE = "no guarantee"
"""What people read where nothing is guaranteed."""

RELEASE_VERDICTS: Mapping[str, str] = {"pass": "passed", "warn": "warned", "fail": "failed"}
"""Words for the verdicts of a policy, best first."""

CHECK_VERDICTS: Mapping[str, str] = {
    "pass": "consistent",
    "warn": "inconclusive",
    "fail": "inconsistent",
}
"""Words for the verdicts on a published table, best first."""

NOT_SEEN = "not seen to be exposed"
"""Verdict on mechanisms of which no attack recognised anybody."""

LOOKS: Mapping[str, str] = {
    CONSISTENT: "good",
    BROKEN: "bad",
    "inconsistent": "bad",
    NOT_SEEN: "good",
    "inconclusive": "middling",
    "partly exposed": "bad",
    "exposed": "bad",
    "passed": "good",
    "warned": "middling",
    "failed": "bad",
    "agrees": "good",
    "explained": "middling",
    "not reproduced": "bad",
    "holds": "good",
    "open": "middling",
    "breaks": "bad",
}
"""Whether a verdict is good, middling or bad."""

_UNITS = {
    "event": "event",
    "user_day": "user's day",
    "user": "user",
    "roi_series": "user at a place",
}


def privacy_unit(unit: str, article: str = "") -> str:
    """Return the words for a privacy unit, after ``one`` or the right form of ``a``, if given.

    An unknown unit is returned as it is.
    """
    if unit not in _UNITS:
        return unit
    words = _UNITS[unit]
    if article == "a" and words.startswith("e"):
        article = "an"
    return f"{article} {words}" if article else words


def at_most(value: float) -> str:
    """Return an upper bound with three digits, rounded up but not to 1; a dash if it is NaN."""
    if not isfinite(value):
        return "–"
    up = ceil(1000 * value - 1e-6) / 1000
    return "> 0.999" if value < 1 == up else f"{up:.3f}"


def round_up(value: float, digits: int = 6) -> float:
    """Return a number rounded up to some significant digits, as what a guarantee spends is."""
    return float(Context(digits, ROUND_CEILING).create_decimal(f"{value:.12g}"))


def worst_guarantee(verdicts: Iterable[str]) -> str:
    """Return the worst verdict on a guarantee; unknown ones are worse, "" is best."""
    ranks = {word: rank for rank, word in enumerate((*GUARANTEE_VERDICTS, ""))}
    return min(verdicts, key=lambda word: ranks.get(word, -1))


def is_tested(verdict: str) -> bool:
    """Return whether a verdict is that of a guarantee which was tested."""
    return verdict not in (NOTHING_PROMISED, "")


_FLAGS = {
    "locator": "`--grid`, `--points`, `--h3`, `--geohash` or `--inspire`",
    "timezone": "`--setting timezone=`, e.g. to Europe/London",
    "milliseconds": "`--setting milliseconds=true`",
    "reader": "`--points-setting`",
    "allow_warnings": "`--allow-warn`",
}
_typed = [False]


@contextmanager
def typed_options() -> Iterator[None]:
    """Name options in messages as they are typed in a terminal, while the context is open."""
    before, _typed[0] = _typed[0], True
    try:
        yield
    finally:
        _typed[0] = before


def argument(name: str, value: str) -> str:
    """Return an option with its value as the caller would type it."""
    return f"--{name} {value!r}" if _typed[0] else f"{name}={value!r}"


def option(name: str, value: str = "") -> str:
    """Return an option as the caller typed it: an argument in Python, or a flag in a terminal."""
    if _typed[0]:
        return _FLAGS.get(name, f"`--{name.replace('_', '-')}`")
    if name == "timezone":
        return "the reader's `timezone`"
    return f"`{name}={value}`" if value else f"`{name}`"
