"""What a guarantee implies for several units, and for a person."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loops import for_each

from clusterscale.mechanisms.accounting import describe_guarantee, describe_person, group_privacy
from clusterscale.mechanisms.sampling import CapContributions


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 3), st.floats(0, 0.1), st.integers(0, 20))
def test_group_privacy_is_the_sum_of_one_change_after_another(epsilon, delta, n):
    """P ≤ e^ε Q + δ, n times over."""
    total = 0.0
    for _ in range(n):
        total = np.exp(epsilon) * total + delta
    found = group_privacy(epsilon, delta, n)
    assert found == (pytest.approx(n * epsilon), pytest.approx(min(total, 1.0)))


def test_group_privacy_of_huge_losses_is_no_bound():
    assert group_privacy(600.0, 1e-9, 3) == (1800.0, 1.0)
    assert group_privacy(600.0, 0.0, 3) == (1800.0, 0.0)


class CapOfOthers(CapContributions):
    """A step of another package, which may count more events than it says."""


@for_each(
    ("unit", "delta", "steps", "words"),
    [
        ("event", 0.0, (CapOfOthers(per_day=2),), "for a person with n events, up to n times that"),
        ("user_day", 0.0, (), "for a person who is there on all 14 days, up to ε 14"),
        ("user_day", 1e-9, (), "up to ε 14, δ 0.000699"),
        ("event", 0.0, (CapContributions(per_day=2),), "with 28 events, the most that are counted, "
         "up to ε 28"),
        ("event", 0.0, (), "for a person with n events, up to n times that"),
        ("roi_series", 0.0, (), "for a person at n places, up to n times that"),
        ("user", 0.0, (), ""),
        ("none", 0.0, (), ""),
    ],
)  # fmt: skip
def test_a_guarantee_says_what_it_means_for_a_person(unit, delta, steps, words):
    found = describe_person(unit, 1.0, delta, 14, steps)
    assert words in found
    assert bool(found) == bool(words)
    if unit == "user_day" and not delta:
        assert describe_guarantee(unit, 1.0, delta, 14) == f"ε 1 per user's day; {found}"
