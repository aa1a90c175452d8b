"""Decimals of numbers as they were written."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each

from clusterscale.release.checks.table import MOST_DECIMALS, decimals


@given(st.lists(st.decimals(-1000, 1000, places=6), min_size=1, max_size=20))
def test_as_many_as_were_written(numbers):
    texts = [f"{number:f}" for number in numbers]
    longest = max(len(text.rstrip("0").split(".")[1]) for text in texts)
    assert decimals(np.array([float(text) for text in texts])) == longest


def test_of_full_floats_there_is_no_end():
    assert decimals(np.random.default_rng(1).laplace(5, 2, 100)) is None
    assert decimals(np.array([1.0, -3.0])) == 0
    assert decimals(np.zeros(0)) == 0


@for_each("places", range(MOST_DECIMALS + 1))
def test_rounded_noise(places):
    assert decimals(np.round(np.random.default_rng(2).laplace(5, 2, 400), places)) == places
