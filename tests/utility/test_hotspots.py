"""Hotspots against sets, sorted lists and loops over pairs; ties, zeros and shares of ROIs."""

from itertools import combinations
from math import isnan, nan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each
from scipy.stats import kendalltau

from clusterscale.utility import hotspot_f1, hotspot_tau, hotspot_tau_listwise
from clusterscale.utility.measure import busiest

MEASURES = [hotspot_f1, hotspot_tau, hotspot_tau_listwise]
SEEDS = st.integers(0, 10**6)
SHARES = st.sampled_from([0.05, 0.1, 0.3, 0.5, 1.0])


def draw(seed, *, n_rois=17, n_epochs=6):
    """Draw counts and values with many ties; epochs with few counts or none."""
    rng = np.random.default_rng(seed)
    raw = rng.poisson(np.linspace(3, 0.1, n_epochs), (n_rois, n_epochs))
    raw[:, -1] = 0
    released = np.rint(raw + rng.laplace(0, 1.5, raw.shape))
    released[:, 1] = 0
    return raw, released


def draw_untied(seed):
    rng = np.random.default_rng(seed)
    return rng.random((20, 5)), rng.random((20, 5))


def ranked(values, top):
    """Return the hotspots of one epoch by Python's stable sort: the busiest that are above 0."""
    order = sorted(range(len(values)), key=lambda roi: -values[roi])
    return [roi for roi in order[: max(1, int(top * len(values)))] if values[roi] > 0]


def slow_tau(first, second):
    """Return τ-b; None where the first has no order. A missing second value ties with all."""
    net = n_first = n_second = 0
    for (x, y), (other_x, other_y) in combinations(zip(first, second, strict=True), 2):
        before = (x > other_x) - (x < other_x)
        after = 0 if None in (y, other_y) else (y > other_y) - (y < other_y)
        net += before * after
        n_first += abs(before)
        n_second += abs(after)
    if not n_first:
        return None
    return net / sqrt(n_first * n_second) if n_second else 0.0


def mean(values):
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else nan


@given(SEEDS, SHARES)
def test_measures_equal_the_loop(seed, top):
    raw, released = draw(seed)
    scores, taus, listwise = [], [], []
    for counts, values in zip(raw.T.tolist(), released.T.tolist(), strict=True):
        if not sum(counts):
            continue
        first, second = ranked(counts, top), ranked(values, top)
        scores.append(2 * len({*first} & {*second}) / (len(first) + len(second)))
        taus.append(slow_tau([counts[roi] for roi in first], [values[roi] for roi in first]))
        named = second[: len(first)] + [None] * (len(first) - len(second))
        listwise.append(slow_tau(first, named))
    for measure, each in ((hotspot_f1, scores), (hotspot_tau, taus)):
        assert measure(raw, released, top=top) == pytest.approx(mean(each), abs=1e-12, nan_ok=True)
    found = hotspot_tau_listwise(raw, released, top=top)
    assert found == pytest.approx(mean(listwise), abs=1e-12, nan_ok=True)


@given(SEEDS)
def test_taus_are_those_of_scipy(seed):
    raw, released = draw_untied(seed)
    first, second = busiest(raw.T, 0.4), busiest(released.T, 0.4)
    at_first = [
        (counts[rois], values[rois])
        for counts, values, rois in zip(raw.T, released.T, first, strict=True)
    ]
    taus = [kendalltau(*pair).statistic for pair in at_first]
    assert hotspot_tau(raw, released, top=0.4) == pytest.approx(np.mean(taus))
    taus = [kendalltau(*pair).statistic for pair in zip(first, second, strict=True)]
    assert hotspot_tau_listwise(raw, released, top=0.4) == pytest.approx(np.mean(taus))


def test_by_hand():
    raw = np.array([[9, 1], [8, 2], [7, 3], [0, 4]])
    released = np.array([[7, 1], [8, 2], [0, 3], [9, 4]])
    assert hotspot_f1(raw, released, top=0.5) == (0.5 + 1) / 2  # {0, 1}, {3, 1}; {3, 2} twice
    assert hotspot_tau(raw, released, top=0.5) == (-1 + 1) / 2  # 9, 8 became 7, 8
    assert hotspot_tau_listwise(raw, released, top=0.5) == (-1 + 1) / 2  # 0, 1 against 3, 1


def test_sparse_counts_by_hand():
    # Of four hotspots that are asked for, raw has three, the release two or four.
    raw = np.array([[5], [3], [1], [0], [0], [0], [0], [0]])
    fewer = np.array([[5], [0], [2], [0], [0], [0], [0], [0]])
    assert hotspot_f1(raw, fewer, top=0.5) == pytest.approx(2 * 2 / (3 + 2))
    assert hotspot_tau(raw, fewer, top=0.5) == pytest.approx((1 + 1 - 1) / 3)
    assert hotspot_tau_listwise(raw, fewer, top=0.5) == pytest.approx(1 / sqrt(3))
    more = np.array([[5], [3], [2], [1], [0.5], [0], [0], [0]])
    assert hotspot_f1(raw, more, top=0.5) == pytest.approx(2 * 3 / (3 + 4))
    assert hotspot_tau(raw, more, top=0.5) == hotspot_tau_listwise(raw, more, top=0.5) == 1


@pytest.mark.parametrize("measure", MEASURES)
@given(SEEDS, SHARES)
def test_a_release_without_a_value_above_zero_scores_zero(measure, seed, top):
    raw, _ = draw(seed)
    raw[0, 0], raw[1, 0] = 9, 11
    released = [np.zeros(raw.shape), *[-1.0 * raw] * (measure is not hotspot_tau)]
    for values in released:
        found = measure(raw, values, top=top)
        assert found == 0 or (isnan(found) and int(top * len(raw)) < 2)


@pytest.mark.parametrize("measure", MEASURES)
@given(SEEDS, SHARES)
def test_epochs_without_a_raw_count_are_left_out(measure, seed, top):
    raw, released = draw(seed)
    found = measure(raw, released, top=top)
    quiet = np.zeros((len(raw), 1))
    published = np.hstack([released, quiet, quiet + 7])
    longer = measure(np.hstack([raw, quiet, quiet]), published, top=top)
    assert longer == pytest.approx(found, nan_ok=True)


@pytest.mark.parametrize("measure", MEASURES)
@given(SEEDS, SHARES)
def test_range(measure, seed, top):
    found = measure(*draw(seed), top=top)
    assert -1 <= found <= 1 or (measure is not hotspot_f1 and isnan(found))


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
    assert measure(8 * raw, np.exp(released) - 1, top=0.3) == pytest.approx(found)


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


def test_epochs_in_which_raw_has_no_order_are_left_out():
    raw = np.array([[3, 5], [3, 2]])
    # In the first epoch raw ties, in the second nothing does.
    assert hotspot_tau(raw, raw, top=1.0) == 1
    assert hotspot_tau(raw, np.zeros_like(raw), top=1.0) == 0
    assert isnan(hotspot_tau(raw[:, :1], raw[:, :1], top=1.0))
    # One hotspot has no order.
    assert isnan(hotspot_tau(raw, raw, top=0.5))
    assert isnan(hotspot_tau_listwise(raw, raw, top=0.5))


def test_guess_finds_one_hotspot_in_ten():
    raw, released = (np.random.default_rng(i).random((200, 100)) for i in range(2))
    assert hotspot_f1(raw, released) == pytest.approx(0.1, abs=0.02)
    assert hotspot_tau(raw, released) == pytest.approx(0, abs=0.05)
    assert hotspot_tau_listwise(raw, released) == pytest.approx(0, abs=0.05)


@for_each(
    ("top", "n_rois", "n_top"),
    [(0.1, 100, 10), (0.1, 583, 58), (0.29, 100, 29), (2 / 3, 3, 2), (0.1, 5, 1), (1.0, 7, 7)],
)
def test_number_of_hotspots(top, n_rois, n_top):
    values = np.random.default_rng(0).random(n_rois)
    assert busiest(values, top).tolist() == np.argsort(-values).tolist()[:n_top]


def test_ties_go_to_the_first():
    assert busiest(np.array([1.0, 2.0, 1.0, 2.0]), 0.75).tolist() == [1, 3, 0]
    assert busiest(np.zeros((2, 4)), 0.5).tolist() == [[0, 1], [0, 1]]
