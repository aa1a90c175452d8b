"""The interval of a mean of bounded values: how often it holds, how it moves, where it ends."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from loops import for_each, mostly_slow
from scipy import stats

from clusterscale.errors import InputError
from clusterscale.metrics import intervals, mean_interval

VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=30).map(np.array)


def mixed(rng, n, share, one, other):
    return np.where(rng.random(n) < share, one, other) + rng.uniform(-0.02, 0.02, n)


LAWS = {
    "beta": (lambda rng, n: 0.5 + 0.5 * rng.beta(5, 2, n), 0.5 + 2.5 / 7),
    "a few low": (lambda rng, n: mixed(rng, n, 5 / 6, 0.98, 0.6), 5 / 6 * 0.98 + 0.1),
    "half high": (lambda rng, n: mixed(rng, n, 0.5, 0.95, 0.5), 0.725),
    "nearly all are 1": (lambda rng, n: np.where(rng.random(n) < 0.95, 1.0, 0.5), 0.975),
    "two points": (lambda rng, n: np.where(rng.random(n) < 0.8, 0.5, 1.0), 0.6),
    "uniform": (lambda rng, n: rng.random(n), 0.5),
}


@mostly_slow("n", [6, 18, 150])
@mostly_slow("law", list(LAWS))
def test_the_interval_holds_the_mean(law, n):
    """200 samples; a true coverage of .975 passes but for 1 time in 5,000 (binomial)."""
    draw, truth = LAWS[law]
    rng = np.random.default_rng(n)
    ends = np.array([mean_interval(draw(rng, n)) for _ in range(200)])
    assert np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])) >= 0.93


@given(st.integers(1, 40), st.data(), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_of_zeros_and_ones_it_is_that_of_clopper_and_pearson(n, data, confidence):
    k = data.draw(st.integers(0, n))
    values, tail = np.repeat([1.0, 0.0], [k, n - k]), (1 - confidence) / 2
    low = stats.beta.ppf(tail, k, n - k + 1) if k else 0.0
    high = stats.beta.isf(tail, k + 1, n - k) if k < n else 1.0
    assert mean_interval(values, confidence=confidence) == pytest.approx((low, high), abs=1e-8)


@pytest.mark.parametrize("n", [2, 7, 40])
def test_the_ends_are_quantiles_of_random_averages(n):
    """Simulated from the definition: 400,000 draws err by less than .0015 here."""
    rng = np.random.default_rng(n)
    values = rng.beta(2, 1, n)
    weights = rng.dirichlet(np.ones(n + 1), 400_000)
    low = np.quantile(weights @ np.append(values, 0.0), 0.025)
    high = np.quantile(weights @ np.append(values, 1.0), 0.975)
    assert mean_interval(values) == pytest.approx((low, high), abs=0.003)


@pytest.mark.parametrize("law", list(LAWS))
def test_the_approximation_for_many_values_agrees_with_the_integral(law, monkeypatch):
    values = LAWS[law][0](np.random.default_rng(3), 50)
    exact = mean_interval(values)
    monkeypatch.setattr(intervals, "_FEW", 1)
    assert mean_interval(values) != exact
    assert mean_interval(values) == pytest.approx(exact, abs=0.01 * (exact[1] - exact[0]))


def test_one_rare_value_among_many_counts():
    """The bootstrap and Student's interval of a sample of ones is a point."""
    assert mean_interval(np.ones(18)) == pytest.approx((0.025 ** (1 / 18), 1.0))
    low, high = mean_interval([0.99] * 15 + [0.6] * 3)
    assert 0.74 < low < 0.925 < high < 0.98


def test_of_many_values_it_is_about_that_of_student():
    values = np.random.default_rng(0).normal(0.7, 0.05, 20_000)
    reach = stats.t.ppf(0.975, 19_999) * values.std(ddof=1) / 20_000**0.5
    expected = values.mean() - reach, values.mean() + reach
    assert mean_interval(values) == pytest.approx(expected, abs=0.25 * reach)


@given(VALUES)
def test_the_interval_is_repeatable_and_holds_the_mean(values):
    low, high = mean_interval(values)
    assert 0 <= low <= values.mean() + 1e-9
    assert values.mean() - 1e-9 <= high <= 1
    assert mean_interval(list(values)) == (low, high)


@given(VALUES)
def test_the_interval_turns_over_with_the_values(values):
    low, high = mean_interval(values)
    assert mean_interval(1 - values) == pytest.approx((1 - high, 1 - low), abs=1e-9)
    turned = mean_interval(-4 * values + 3, bounds=(-1, 3))
    assert turned == pytest.approx((3 - 4 * high, 3 - 4 * low), abs=1e-8)


@given(VALUES, st.integers(0, 29), st.floats(0, 1))
def test_a_higher_value_never_lowers_an_end(values, place, raised):
    higher = values.copy()
    higher[place % len(values)] = max(raised, values[place % len(values)])
    before, after = mean_interval(values), mean_interval(higher)
    assert after[0] >= before[0] - 1e-9
    assert after[1] >= before[1] - 1e-9


@given(VALUES, st.floats(0.5, 0.99), st.floats(0.5, 0.99))
@example(np.zeros(2), 0.5, 0.95)
def test_more_confidence_takes_a_wider_interval(values, one, other):
    inner, outer = (mean_interval(values, confidence=c) for c in sorted([one, other]))
    assert outer[0] <= inner[0] + 1e-9
    assert inner[1] <= outer[1] + 1e-9


def test_memory_is_bounded_for_many_targets():
    values = np.clip(np.random.default_rng(2).normal(0.6, 0.1, 200_000), 0, 1)
    tracemalloc.start()
    low, high = mean_interval(values)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6
    assert high - low == pytest.approx(2 * 1.96 * 0.1 / 200_000**0.5, rel=0.1)


def test_no_value_has_no_interval():
    assert np.isnan(mean_interval([])).all()


@for_each(
    ("values", "options", "message"),
    [
        ([0.5, np.nan], {}, "1 values are not finite numbers"),
        ([np.inf, 0.5, -np.inf], {}, "2 values are not finite numbers"),
        ([[0.5, 0.6]], {}, "values (1, 2) must be one row, one number per target"),
        (0.5, {}, "values () must be one row, one number per target"),
        ([0.5, 1.5], {}, "a value is 1.5, outside the bounds 0.0 to 1.0"),
        ([0.5, -2], {"bounds": (-1, 1)}, "a value is -2.0, outside the bounds -1 to 1"),
        ([0.5, 0.6], {"confidence": 1.0}, "confidence must be strictly between 0 and 1, not 1.0"),
        ([0.5], {"confidence": 0.3}, "confidence is 0.3, but should be at least 0.5"),
        ([0.5], {"confidence": 0.0}, "confidence must be strictly between 0 and 1, not 0.0"),
        ([], {"confidence": np.nan}, "confidence must be strictly between 0 and 1, not nan"),
    ],
)
def test_nonsense_is_refused(values, options, message):
    with pytest.raises(InputError) as caught:
        mean_interval(values, **options)
    assert str(caught.value) == message
