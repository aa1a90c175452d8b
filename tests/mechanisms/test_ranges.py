"""Ranges instead of numbers, against plain loops with exact fractions."""

from fractions import Fraction
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from mechanisms.published import MATRICES, publish, refusal

from clusterscale import mechanisms
from clusterscale.errors import ConfigError


def fixed(size):
    return mechanisms.create("fixed_ranges", size=size)


def adaptive(ranges, **fields):
    return mechanisms.create("adaptive_ranges", ranges=ranges, **fields)


def to_middles(series, n_ranges):
    """Look for the range of each value among those that begin at the least one."""
    low = min(series)
    width = max(1, (max(series) - low) // n_ranges)
    starts = range(low, max(series) + 1, width)
    return [next(each for each in starts if value < each + width) + width // 2 for value in series]


def to_medians(series, n_ranges):
    low, high = min(series), max(series)
    if low == high:
        return [float(value) for value in series]
    filled = {}
    for value in series:
        place = Fraction(value - low) * n_ranges / Fraction(high - low)
        filled.setdefault(min(int(place), n_ranges - 1), []).append(value)
    medians = {value: median(filled[place]) for place in filled for value in filled[place]}
    return [float(medians[value]) for value in series]


@given(counts=MATRICES, size=st.integers(1, 10))
def test_middle_of_a_fixed_range(counts, size):
    released = publish(fixed(size), counts)
    for cell, count in np.ndenumerate(counts):
        assert released[cell] == int(count) // size * size + size / 2
    np.testing.assert_array_equal(publish(fixed(size), released), released)


def test_middle_of_a_fixed_range_of_noisy_values():
    values = np.array([[-0.5, 0.0, 2.9999, 3.0, -3.0, -3.1]])
    fixed(3).revise(values)
    np.testing.assert_array_equal(values, [[-1.5, 1.5, 1.5, 4.5, -1.5, -4.5]])


@given(counts=MATRICES, size=st.integers(1, 10))
def test_middle_of_a_fixed_range_in_whole_numbers(counts, size):
    whole = mechanisms.create("fixed_ranges", size=size, integers="floor")
    released = publish(whole, counts)
    np.testing.assert_array_equal(released, counts // size * size + size // 2)


@given(counts=MATRICES, ranges=st.integers(1, 10))
def test_middles_of_adaptive_ranges(counts, ranges):
    released = publish(adaptive(ranges, publish="middle"), counts)
    for series in np.ndindex(counts.shape[:-1]):
        expected = to_middles(counts[series].tolist(), ranges) if counts.size else []
        assert released[series].tolist() == expected


def test_the_greatest_value_has_a_range_of_its_own():
    """0 … 9 in halves of 5, then 10 … 14, which has the 10 alone."""
    released = publish(adaptive(2, publish="middle"), np.array([[10, 0, 4, 5, 9]], np.int32))
    assert released.tolist() == [[12, 2, 2, 7, 7]]


@given(counts=MATRICES, ranges=st.integers(1, 10))
def test_medians_of_adaptive_ranges(counts, ranges):
    released = publish(adaptive(ranges), counts)
    for series in np.ndindex(counts.shape[:-1]):
        expected = to_medians(counts[series].tolist(), ranges)
        assert released[series].tolist() == expected


@given(
    series=hnp.arrays(np.int32, st.integers(1, 40), elements=st.integers(0, 200)),
    ranges=st.integers(1, 200),
)
def test_medians_of_long_series(series, ranges):
    released = publish(adaptive(ranges), series[None], group_size=200)
    assert released[0].tolist() == to_medians(series.tolist(), ranges)


@pytest.mark.parametrize("width", [49, 98, 103, 107])
def test_whole_numbers_lie_in_their_own_range(width):
    """29/49 · 49 is 28.999999999999996."""
    series = np.arange(width + 1)
    for ranges in (width, width // 2, width // 7):
        released = publish(adaptive(ranges), series[None], group_size=200)
        assert released[0].tolist() == to_medians(series.tolist(), ranges)


@given(counts=MATRICES)
def test_more_ranges_than_values_change_nothing(counts):
    """Whole numbers from 0 to 6 all have a range of their own in more than 6."""
    np.testing.assert_array_equal(publish(adaptive(7), counts), counts)


@given(counts=MATRICES)
def test_one_range_is_the_median(counts):
    expected = np.median(counts, axis=-1, keepdims=True) if counts.size else counts
    released = publish(adaptive(1), counts)
    np.testing.assert_array_equal(released, np.broadcast_to(expected, counts.shape))


@given(
    series=hnp.arrays(np.float64, st.integers(1, 20), elements=st.floats(-1e3, 1e3)),
    ranges=st.integers(1, 10),
)
def test_noisy_values_keep_their_order_and_bounds(series, ranges):
    values = series[None].copy()
    adaptive(ranges).revise(values)
    order = np.argsort(series)
    assert (np.diff(values[0, order]) >= 0).all()
    assert len(np.unique(values)) <= ranges or np.ptp(series) == 0
    assert series.min() <= values.min()
    assert values.max() <= series.max()


def test_example_of_the_paper_in_words():
    """Half the range each: 0, 1, 2, 4 below 5, then 5 … 10, the last one closed."""
    released = publish(adaptive(2), np.array([[10, 0, 1, 5, 2, 4, 9]], np.int32))
    assert released.tolist() == [[9, 1.5, 1.5, 9, 1.5, 1.5, 9]]


@pytest.mark.parametrize("layout", ["transposed", "strided", "fortran"])
def test_counts_in_any_order_of_memory(layout):
    """A Fortran array was published bare: its reshape was a copy."""
    counts = np.random.default_rng(0).integers(0, 9, (4, 3, 6)).astype(np.int32)
    other = {
        "transposed": np.ascontiguousarray(counts.transpose(2, 1, 0)).transpose(2, 1, 0),
        "strided": np.repeat(counts, 2, axis=-1)[..., ::2],
        "fortran": np.asfortranarray(counts),
    }[layout]
    assert not other.flags.c_contiguous
    for mechanism in (adaptive(2), fixed(3)):
        np.testing.assert_array_equal(publish(mechanism, other), publish(mechanism, counts))


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (fixed(11), "fixed_ranges: size 11 is larger than any count of 10 members"),
        (adaptive(11), "adaptive_ranges: 11 ranges are more than the 10 members"),
    ],
)
def test_ranges_beyond_every_count(mechanism, message):
    with pytest.raises(ConfigError) as caught:
        publish(mechanism, np.zeros((2, 3), np.int32))
    assert str(caught.value) == message
    assert publish(mechanism, np.zeros((2, 3), np.int32), group_size=11) is not None


@pytest.mark.parametrize("name", ["fixed_ranges", "adaptive_ranges"])
def test_nothing_is_promised(name):
    key = "size" if name == "fixed_ranges" else "ranges"
    guarantee = mechanisms.create(name, **{key: 2}).guarantee
    assert (guarantee.unit, guarantee.epsilon) == ("none", np.inf)
    assert refusal(name, **{key: 0}) == f"{key}: is 0, but should be greater than or equal to 1"
    assert refusal(name, **{key: 2.5}) == f"{key}: is 2.5, but should be a whole number"
    assert refusal(name) == f"{key}: is missing"
