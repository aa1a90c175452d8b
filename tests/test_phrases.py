"""Words and numbers that people read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.phrases import at_most, round_up


@given(value=st.floats(0, 1))
def test_upper_bounds_are_not_rounded_down(value):
    shown = at_most(value)
    if shown.startswith("> "):
        assert float(shown.removeprefix("> ")) < value < 1
    else:
        assert -1e-9 <= float(shown) - value < 1e-3 + 1e-9
        assert float(shown) < 1 or value == 1


@given(value=st.floats(1e-300, 1e300), digits=st.integers(3, 6))
def test_what_is_spent_is_not_rounded_down(value, digits):
    shown = float(f"{round_up(value, digits):.6g}")
    assert 1 - 1e-11 <= shown / value <= 1 + 10.0 ** (1 - digits) + 1e-11
    assert [round_up(each) for each in (0.1 + 0.2, 0.0, float("inf"))] == [0.3, 0, float("inf")]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.7961, "0.797"), (0.796, "0.796"), (0.9991, "> 0.999"), (1.0, "1.000"), (float("nan"), "–")],
)
def test_upper_bounds(value, shown):
    assert at_most(value) == shown
