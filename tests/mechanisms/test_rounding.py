"""Rounded counts are multiples of the base, without bias at random; the law is that of releases."""

from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from clusterscale.contracts import Support
from clusterscale.errors import ConfigError, InputError, UnknownNameError
from clusterscale.mechanisms import create
from clusterscale.mechanisms.law import FiniteDistribution

BASES = st.integers(2, 12)
SEEDS = st.integers(0, 2**32)


def release(mechanism, counts, *, size=100, seed=1):
    counts = np.atleast_2d(np.asarray(counts, np.int32))
    return mechanism.release(counts, group_size=size, rng=np.random.default_rng(seed))


@given(BASES, SEEDS, st.integers(0, 2**31 - 1))
def test_values_are_one_of_the_two_multiples_around_a_count(base, seed, most):
    counts = np.random.default_rng(seed).integers(0, most, (3, 5), endpoint=True)
    size = max(most, base)
    values = release(create("round_to_base", base=base), counts, size=size, seed=seed)
    assert (values % base == 0).all()
    assert (np.abs(values - counts) < base).all()
    assert (values[counts % base == 0] == counts[counts % base == 0]).all()


@pytest.mark.parametrize("base", [3, 5, 10])
def test_each_remainder_goes_up_as_often_as_it_should(base):
    """χ² over the remainders of 20,000 draws each; a sound one fails once in 100,000."""
    n = 20_000
    counts = np.repeat(20 * base + np.arange(base), n).reshape(base, n)
    values = release(create("round_to_base", base=base), counts, size=1000)
    up = (values > counts).sum(axis=1)[1:]
    share = np.arange(1, base) / base
    expected = np.stack([n * share, n * (1 - share)])
    statistic = ((np.stack([up, n - up]) - expected) ** 2 / expected).sum()
    assert stats.chi2.sf(statistic, df=base - 1) > 1e-5


@given(BASES, st.lists(st.integers(0, 500), min_size=1, max_size=20))
def test_the_nearest_is_as_by_hand(base, counts):
    values = release(create("round_to_base", base=base, rule="nearest"), counts, size=1000)
    assert values[0].tolist() == [base * floor(count / base + 0.5) for count in counts]


@given(BASES, st.lists(st.integers(0, 500), min_size=1, max_size=20))
def test_middles_are_as_by_hand(base, counts):
    """As OpenSAFELY rounds: ceil(n / base) * base - floor(base / 2), and 0 for 0."""
    declared = create("round_to_base", base=base, rule="midpoint")
    values = release(declared, counts, size=1000)
    middles = [base * (floor((n - 1) / base) + 1) - base // 2 if n else 0 for n in counts]
    assert values[0].tolist() == middles
    assert np.abs(values - counts).max() <= base / 2
    support = declared.support(Support(0.0, 500.0, 1.0), 500)
    assert (support.low, support.step) == (0, 1)
    assert values.max() <= support.high


@given(BASES, st.integers(0, 50))
def test_the_law_sums_to_one_and_has_the_moments_of_its_probabilities(base, count):
    law = create("round_to_base", base=base).law(100)
    published = np.arange(0, 50 + 2 * base, base, dtype=float)[:, None]
    probabilities = law.likelihood(published, np.array([[count]]))[:, 0, 0]
    mean, variance = law.moments(np.array([count]))
    assert probabilities.sum() == pytest.approx(1)
    assert probabilities @ published[:, 0] == pytest.approx(count)
    assert mean[0] == pytest.approx(count)
    assert probabilities @ (published[:, 0] - count) ** 2 == pytest.approx(variance[0])


def test_what_follows_rounding_is_in_its_law():
    steps = [{"name": "round_to_base", "base": 3}, {"name": "suppress_small", "up_to": 3}]
    mechanism = create("chain", steps=steps)
    law = mechanism.law(100)
    assert isinstance(law, FiniteDistribution)
    found = law.likelihood(np.array([[0.0, 6.0]]), np.array([[4, 5], [4, 5]]))[0]
    assert found == pytest.approx(np.array([[2 / 3, 1 / 3], [1 / 3, 2 / 3]]))
    counts = np.full((1, 30_000), 4)
    assert np.mean(release(mechanism, counts) == 0) == pytest.approx(2 / 3, abs=0.015)


def test_a_base_above_all_counts_is_refused():
    with pytest.raises(ConfigError, match="round_to_base: base 20 is above all counts of 10"):
        release(create("round_to_base", base=20), [1], size=10)
    with pytest.raises(ConfigError, match=r"base: is 0, but should be greater than or equal to 1"):
        create("round_to_base", base=0)
    with pytest.raises(InputError, match="NaN"):
        create("round_to_base", base=2).release(
            np.full((1, 1), np.nan), group_size=10, rng=np.random.default_rng(1)
        )


@pytest.mark.parametrize("name", ["small_count_rounding", "controlled_rounding"])
def test_methods_that_are_not_known_name_the_nearest(name):
    message = f"unknown mechanism '{name}'.*totals.*remain their sums; round_to_base rounds every"
    with pytest.raises(UnknownNameError, match=message):
        create(name, base=5)
