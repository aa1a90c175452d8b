"""The guess without data: its law, its shape, its stream."""

import numpy as np
import pytest
from scipy.stats import chisquare

from clusterscale.errors import InputError
from clusterscale.seeds import stream
from clusterscale.utility import random_guess


@pytest.mark.parametrize("shape", [(4, 9), (3, 4, 9), (2, 3, 4, 9)])
def test_shape_dtype_and_stream(shape):
    counts = np.zeros(shape, np.int32)
    guess = random_guess(counts, group_size=20, rng=stream(1, "guess"))
    assert guess.shape == shape
    assert guess.dtype == np.float64
    again = random_guess(counts + 5, group_size=20, rng=stream(1, "guess"))
    np.testing.assert_array_equal(guess, again)


def test_every_count_is_as_likely():
    guess = random_guess(np.zeros((100, 110)), group_size=10, rng=np.random.default_rng(0))
    values, tally = np.unique(guess, return_counts=True)
    np.testing.assert_array_equal(values, np.arange(11))
    assert chisquare(tally).pvalue > 1e-3


@pytest.mark.parametrize("shape", [(), (5,)])
def test_counts_have_rois_and_epochs(shape):
    with pytest.raises(InputError) as caught:
        random_guess(np.zeros(shape), group_size=10, rng=np.random.default_rng(0))
    assert str(caught.value) == f"counts {shape} must have the shape (…, roi, epoch)"


@pytest.mark.parametrize("group_size", [0, -3])
def test_group_has_members(group_size):
    with pytest.raises(InputError) as caught:
        random_guess(np.zeros((2, 2)), group_size=group_size, rng=np.random.default_rng(0))
    assert str(caught.value) == f"a group has at least one member, not {group_size}"
