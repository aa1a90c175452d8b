"""Hotspots against sets, sorted lists and scipy's Kendall τ; ties and shares of ROIs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from clusterscale.utility import hotspot_f1, hotspot_tau, hotspot_tau_listwise
from clusterscale.utility.pair import busiest

MEASURES = [hotspot_f1, hotspot_tau, hotspot_tau_listwise]
SEEDS = st.integers(0, 10**6)
SHARES = st.sampled_from([0.05, 0.1, 0.3, 0.5, 1.0])


def draw(seed, *, n_rois=17, n_epochs=6):
    """Draw counts and values with many ties."""
    rng = np.random.default_rng(seed)
    raw = rng.poisson(3, (n_rois, n_epochs))
    raw[:, -1] = 0  # an epoch in which everything ties
    raw[0, 0] += 1
    return raw, np.rint(raw + rng.laplace(0, 1.5, raw.shape))


def draw_untied(seed):
    rng = np.random.default_rng(seed)
    return rng.random((20, 5)), rng.random((20, 5))


def ranked(values, top):
    """Return the hotspots of one epoch by Python's stable sort."""
    order = sorted(range(len(values)), key=lambda roi: -values[roi])
    return order[: max(1, int(top * len(values)))]


def slow_tau(first, second):
    tau = kendalltau(first, second).statistic if len(first) > 1 else np.nan
    return 0.0 if np.isnan(tau) else tau


@given(SEEDS, SHARES)
def test_measures_equal_the_loop(seed, top):
    raw, released = draw(seed)
    overlaps, taus, listwise = [], [], []
    for counts, values in zip(raw.T, released.T, strict=True):
        first, second = ranked(counts, top), ranked(values, top)
        overlaps.append(len({*first} & {*second}) / len(first))
        taus.append(slow_tau(counts[first], values[first]))
        listwise.append(slow_tau(first, second))
    assert hotspot_f1(raw, released, top=top) == pytest.approx(np.mean(overlaps))
    assert hotspot_tau(raw, released, top=top) == pytest.approx(np.mean(taus), abs=1e-12)
    found = hotspot_tau_listwise(raw, released, top=top)
    assert found == pytest.approx(np.mean(listwise), abs=1e-12)


def test_by_hand():
    raw = np.array([[9, 1], [8, 2], [7, 3], [0, 4]])
    released = np.array([[7, 1], [8, 2], [0, 3], [9, 4]])
    assert hotspot_f1(raw, released, top=0.5) == (0.5 + 1) / 2  # {0, 1}, {3, 1}; {3, 2} twice
    assert hotspot_tau(raw, released, top=0.5) == (-1 + 1) / 2  # 9, 8 became 7, 8
    assert hotspot_tau_listwise(raw, released, top=0.5) == (-1 + 1) / 2  # 0, 1 against 3, 1


@pytest.mark.parametrize("measure", MEASURES)
@given(SEEDS, SHARES)
def test_range(measure, seed, top):
    assert -1 <= measure(*draw(seed), top=top) <= 1


@pytest.mark.parametrize("measure", MEASURES)
@given(SEEDS)
def test_ideal(measure, seed):
    raw, _ = draw_untied(seed)
    assert measure(raw, raw, top=0.3) == 1


@pytest.mark.parametrize("measure", MEASURES)
@given(SEEDS)
def test_only_the_order_counts(measure, seed):
    raw, released = draw_untied(seed)
    found = measure(raw, released, top=0.3)
    assert measure(8 * raw, np.exp(released) - 5, top=0.3) == pytest.approx(found)


@pytest.mark.parametrize("measure", [hotspot_f1, hotspot_tau])
@given(SEEDS)
def test_numbering_of_rois_does_not_matter(measure, seed):
    raw, released = draw_untied(seed)
    moved = np.random.default_rng(seed).permutation(len(raw))
    found = measure(raw[moved], released[moved], top=0.3)
    assert found == pytest.approx(measure(raw, released, top=0.3))


@given(SEEDS)
def test_reversed_order_gives_minus_one(seed):
    raw, _ = draw_untied(seed)
    assert hotspot_tau(raw, -raw, top=1.0) == pytest.approx(-1)


def test_undefined_tau_counts_zero():
    raw = np.array([[3, 5], [3, 2]])
    # In the first epoch raw ties, in the second nothing does.
    assert hotspot_tau(raw, raw, top=1.0) == 0.5
    assert hotspot_tau(raw, np.zeros_like(raw), top=1.0) == 0
    # One hotspot has no order.
    assert hotspot_tau(raw, raw, top=0.5) == 0
    assert hotspot_tau_listwise(raw, raw, top=0.5) == 0


def test_guess_finds_one_hotspot_in_ten():
    raw, released = (np.random.default_rng(i).random((200, 100)) for i in range(2))
    assert hotspot_f1(raw, released) == pytest.approx(0.1, abs=0.02)
    assert hotspot_tau(raw, released) == pytest.approx(0, abs=0.05)
    assert hotspot_tau_listwise(raw, released) == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize(
    ("top", "n_rois", "n_top"),
    [(0.1, 100, 10), (0.1, 583, 58), (0.29, 100, 29), (2 / 3, 3, 2), (0.1, 5, 1), (1.0, 7, 7)],
)
def test_number_of_hotspots(top, n_rois, n_top):
    values = np.random.default_rng(0).random(n_rois)
    assert busiest(values, top).tolist() == np.argsort(-values).tolist()[:n_top]


def test_ties_go_to_the_first():
    assert busiest(np.array([1.0, 2.0, 1.0, 2.0]), 0.75).tolist() == [1, 3, 0]
    assert busiest(np.zeros((2, 4)), 0.5).tolist() == [[0, 1], [0, 1]]
