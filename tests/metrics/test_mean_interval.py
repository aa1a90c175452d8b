"""The interval of a mean over targets: how often it holds, how it moves, and where it ends."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from clusterscale.errors import InputError
from clusterscale.metrics import intervals, mean_interval

VALUES = st.lists(st.floats(0, 1), min_size=2, max_size=30).map(np.array)


def saturated(a, b, share):
    """AUC-like values, beta on [.5, 1] with a share of them at 1, and their true mean."""

    def draw(n, rng):
        return np.where(rng.random(n) < share, 1.0, 0.5 + 0.5 * rng.beta(a, b, n))

    return draw, share + (1 - share) * (0.5 + 0.5 * a / (a + b))


def coverage(law, n, repetitions, seed):
    draw, truth = law
    rng = np.random.default_rng(seed)
    ends = np.array([mean_interval(draw(n, rng)) for _ in range(repetitions)])
    return np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1]))


@pytest.mark.parametrize(
    ("a", "b", "share"),
    [
        pytest.param(2, 2, 0.0, id="symmetric"),
        pytest.param(1, 5, 0.0, id="most near a half"),
        pytest.param(5, 1, 0.0, id="most near 1"),
        pytest.param(0.5, 2, 0.0, id="piled up at a half"),
        pytest.param(8, 1, 0.5, id="half of them 1"),
    ],
)
@pytest.mark.parametrize("n", [20, 50])
def test_the_interval_holds_the_mean_as_often_as_it_says(a, b, share, n):
    """1,000 repetitions have a standard error of .7 percentage points."""
    assert 0.93 <= coverage(saturated(a, b, share), n, 1000, seed=n) <= 0.97


@pytest.mark.parametrize(("a", "b", "share"), [(1, 5, 0.2), (2, 2, 0.8)])
def test_values_of_two_kinds_make_it_wider_than_it_need_be(a, b, share):
    """Documented: up to 98.1 %; 3 standard errors of 1,000 repetitions are 1.3 points."""
    assert 0.95 <= coverage(saturated(a, b, share), 30, 1000, seed=30) <= 0.981 + 0.013


def test_normal_values_give_about_the_interval_of_student():
    values = np.random.default_rng(0).normal(0.7, 0.1, 150)
    reach = t.ppf(0.975, 149) * values.std(ddof=1) / 150**0.5
    expected = values.mean() - reach, values.mean() + reach
    assert mean_interval(values) == pytest.approx(expected, abs=0.1 * reach)


def test_ends_are_about_those_of_a_slow_bootstrap():
    """Each resample studentised by NumPy alone, with other draws."""
    values = 0.5 + 0.5 * np.random.default_rng(4).beta(1, 4, 60)
    rng = np.random.default_rng(5)
    ratios = []
    for _ in range(20_000):
        resample = rng.choice(values, values.size)
        ratios.append((resample.mean() - values.mean()) / resample.std(ddof=1))
    high, low = np.quantile(ratios, [0.025, 0.975])
    spread = values.std(ddof=1)
    expected = values.mean() - low * spread, values.mean() - high * spread
    assert mean_interval(values) == pytest.approx(expected, abs=0.002)


def test_a_skewed_sample_reaches_farther_on_its_long_side_than_percentiles_do():
    values = 0.5 + 0.5 * np.random.default_rng(4).beta(0.5, 4, 30)
    resampled = values[np.random.default_rng(1).integers(30, size=(4000, 30))].mean(axis=1)
    low, high = mean_interval(values)
    assert high - values.mean() > np.quantile(resampled, 0.975) - values.mean()
    assert np.quantile(resampled, 0.975) - values.mean() > values.mean() - low


@given(VALUES)
def test_the_interval_is_repeatable_and_within_the_values(values):
    low, high = mean_interval(values)
    assert values.min() <= low <= high <= values.max()
    assert low <= values.mean() + 1e-12
    assert values.mean() - 1e-12 <= high
    assert mean_interval(list(values)) == (low, high)


@given(st.integers(0, 1000), st.integers(2, 40))
def test_the_interval_moves_with_shift_scale_and_sign(seed, n):
    values = np.random.default_rng(seed).random(n)
    low, high = mean_interval(values)
    assert mean_interval(3 * values - 7) == pytest.approx((3 * low - 7, 3 * high - 7), abs=1e-9)
    assert mean_interval(-values) == pytest.approx((-high, -low), abs=1e-9)
    assert mean_interval(values * 1e-200) == pytest.approx((low * 1e-200, high * 1e-200), rel=1e-6)


def test_a_resample_of_one_value_that_is_the_mean_takes_no_side():
    """Five times .6, the mean but for rounding, is neither far above nor far below it."""
    values = np.array([0.4, 0.6, 0.6, 0.5, 0.9])
    low, high = mean_interval(values)
    assert mean_interval(-values) == pytest.approx((-high, -low), abs=1e-9)


@given(VALUES, st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_more_confidence_takes_a_wider_interval(values, one, other):
    inner, outer = (mean_interval(values, confidence=c) for c in sorted([one, other]))
    assert outer[0] <= inner[0]
    assert inner[1] <= outer[1]


def test_another_seed_draws_other_resamples():
    values = np.random.default_rng(0).random(30)
    one, other = mean_interval(values), mean_interval(values, seed=1)
    assert one != other
    assert one == pytest.approx(other, abs=0.01)


def test_batches_do_not_change_the_ends(monkeypatch):
    values = np.random.default_rng(0).random(100)
    expected = mean_interval(values)
    monkeypatch.setattr(intervals, "_BATCH", 777)
    assert mean_interval(values) == expected


def test_the_expansion_goes_on_where_resampling_ends(monkeypatch):
    values = 0.5 + 0.5 * np.random.default_rng(2).beta(0.5, 4, 2000)
    resampled = mean_interval(values)
    monkeypatch.setattr(intervals, "_MANY", 1999)
    width = resampled[1] - resampled[0]
    assert mean_interval(values) == pytest.approx(resampled, abs=0.05 * width)
    assert mean_interval(values) != resampled


@pytest.mark.parametrize("n", [2000, 1_000_000])
def test_memory_is_bounded_for_many_targets(n):
    values = np.random.default_rng(2).normal(0.6, 0.1, n)
    tracemalloc.start()
    low, high = mean_interval(values)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 60e6
    assert high - low == pytest.approx(2 * 1.96 * 0.1 / n**0.5, rel=0.1)


def test_resamples_without_spread_end_at_the_values():
    """Most resamples of one value among equals are all equal: nothing bounds the low end."""
    assert mean_interval([0.7, 1.0, 1.0]) == (0.7, 1.0)


@pytest.mark.parametrize("values", [[], [0.7]])
def test_an_interval_takes_two_values(values):
    assert np.isnan(mean_interval(values)).all()


@pytest.mark.parametrize("n", [2, 3, 5000])
@pytest.mark.parametrize("value", [0.7, 0.1 + 0.2, 0.0, 1.0])
def test_equal_values_are_their_own_interval(n, value):
    assert mean_interval(np.full(n, value)) == (value, value)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([0.5, np.nan], {}, "1 values are not finite numbers"),
        ([np.inf, 0.5, -np.inf], {}, "2 values are not finite numbers"),
        ([[0.5, 0.6]], {}, "values (1, 2) must be one row, one number a target"),
        (0.5, {}, "values () must be one row, one number a target"),
        ([0.5, 0.6], {"confidence": 1.0}, "confidence is strictly between 0 and 1, not 1.0"),
        ([0.5], {"confidence": 0.0}, "confidence is strictly between 0 and 1, not 0.0"),
        ([], {"confidence": np.nan}, "confidence is strictly between 0 and 1, not nan"),
    ],
)
def test_nonsense_is_refused(values, options, message):
    with pytest.raises(InputError) as caught:
        mean_interval(values, **options)
    assert str(caught.value) == message
