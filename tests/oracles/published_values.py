"""What each way to publish may show of a count, and which counts a value leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import floor

HIDDEN = "*"
MOST = 200
"""Counts of random publications are far below this."""


@dataclass(frozen=True)
class Rule:
    """A mechanism as declared, and the texts that it may publish of a count.

    ``threshold`` is the smallest count that is shown as it is, or 0.
    """

    declared: dict
    outcomes: Callable[[int], list[str]]
    threshold: int = 0
    factor: float | None = None

    def publish(self, count, rng):
        """Return what may be published of a count."""
        some = self.outcomes(count)
        return some[int(rng.integers(len(some)))]

    def allowed(self, text):
        """Return the least and the largest count of which a text may be published."""
        some = [x for x in range(MOST) if text in self.outcomes(x)]
        assert some == list(range(some[0], some[-1] + 1)), (self.declared, text, some)
        assert some[-1] < MOST - 1
        return some[0], some[-1]

    def secondary(self):
        """Return the smallest count that may be hidden only to protect others."""
        if "'zero'" in str(self.declared) or "'label'" in str(self.declared):
            return self.threshold  # a shown 0 is not hidden: other small counts are impossible
        return next(x for x in range(MOST) if set(self.outcomes(x)) - {HIDDEN})


def number(value):
    """Return a number as it is written."""
    return f"{round(value, 4):.4f}".rstrip("0").rstrip(".")


def multiplied(rule, factor):
    """Return a rule whose numbers are multiplied at the end."""

    def outcomes(x):
        return [t if t == HIDDEN else number(factor * float(t)) for t in rule.outcomes(x)]

    return Rule(rule.declared, outcomes, rule.threshold, factor)


def exact():
    """Unchanged counts."""
    return Rule({"name": "exact"}, lambda x: [number(x)])


def threshold(k, shown):
    """Counts below k are not shown."""

    def outcomes(x):
        if x >= k:
            return [number(x)]
        if shown == "zero" or (shown == "label" and x == 0):
            return ["0"]
        return [HIDDEN]

    return Rule({"name": "threshold", "k": k, "shown": shown}, outcomes, k)


def late_threshold(k, factor, shown):
    """Values below k are not shown, after multiplication."""

    def outcomes(x):
        value = x * factor
        if value >= k:
            return [number(value)]
        return ["0"] if shown == "zero" else [HIDDEN]

    steps = [{"name": "expand", "factor": factor}, {"name": "threshold", "k": k, "shown": shown}]
    least = next(x for x in range(MOST) if x * factor >= k)
    return Rule({"name": "chain", "steps": steps}, outcomes, least)


def _neighbours(x, base):
    low = x // base * base
    return [low] if x == low else [low, low + base]


def random_rounding(base, k=0, first="round"):
    """Counts rounded at random, perhaps with a threshold before or after that."""
    rounding = {"name": "round_to_base", "base": base}

    def outcomes(x):
        if first == "threshold" and x < k:
            return [HIDDEN]
        return [
            number(v) if v >= k or first == "threshold" else HIDDEN for v in _neighbours(x, base)
        ]

    if not k:
        return Rule(rounding, outcomes)
    steps = [rounding, {"name": "threshold", "k": k, "shown": "hidden"}]
    return Rule({"name": "chain", "steps": steps[:: -1 if first == "threshold" else 1]}, outcomes)


def nearest_rounding(base):
    """Counts rounded to the nearest multiple, halves up."""
    return Rule(
        {"name": "round_to_base", "base": base, "rule": "nearest"},
        lambda x: [number(floor(x / base + 0.5) * base)],
    )


def bands(size, integers):
    """Middles of ranges of equal size."""

    def outcomes(x):
        middle = (x // size + 0.5) * size
        return [number(floor(middle) if integers == "floor" else middle)]

    return Rule({"name": "fixed_ranges", "size": size, "integers": integers}, outcomes)


def cell_key(deviation, variance):
    """Perturbed counts: zeros stay, and no value is negative."""
    return Rule(
        {"name": "cell_key", "deviation": deviation, "variance": variance},
        lambda x: (
            [number(v) for v in range(max(0, x - deviation), x + deviation + 1)] if x else ["0"]
        ),
    )


def draw_rule(rng, *, bounded):
    """Return a random rule, of those with a bounded law if wanted, and a factor if one is set."""
    if bounded:
        kind = rng.integers(6)
        base = int(rng.integers(2, 6))
        if kind == 0:
            return random_rounding(base)
        if kind == 1:
            return nearest_rounding(base)
        if kind == 2:
            return bands(base, "none" if rng.random() < 0.5 else "floor")
        if kind == 3:
            return cell_key(int(rng.integers(1, 4)), 0.5)
        k = int(rng.integers(2, 7))
        return random_rounding(base, k, "round" if kind == 4 else "threshold")
    k = int(rng.integers(2, 7))
    shown = str(rng.choice(["hidden", "hidden", "label", "zero"]))
    kind = rng.random()
    if kind < 0.15:
        factor = float(rng.choice([5.13, 2.5, 3.0, 0.25]))
        late = shown if shown != "label" else "hidden"
        return late_threshold(int(rng.integers(2, 12)), factor, late)
    return threshold(k, shown)
