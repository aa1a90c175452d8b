"""Words and numbers that people read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.phrases import at_most


@given(value=st.floats(0, 1))
def test_upper_bounds_are_not_rounded_down(value):
    shown = at_most(value)
    if shown.startswith("> "):
        assert float(shown.removeprefix("> ")) < value < 1
    else:
        assert -1e-9 <= float(shown) - value < 1e-3 + 1e-9
        assert float(shown) < 1 or value == 1


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.7961, "0.797"), (0.796, "0.796"), (0.9991, "> 0.999"), (1.0, "1.000"), (float("nan"), "–")],
)
def test_upper_bounds(value, shown):
    assert at_most(value) == shown
