"""Relative errors against loops in plain Python, and their properties."""

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each

from clusterscale import mechanisms
from clusterscale.errors import InputError
from clusterscale.utility import (
    busiest_relative_error,
    emptiness,
    events_kept,
    mean_relative_error,
    released_share,
    suppressed_share,
)

SEEDS = st.integers(0, 10**6)
FLOORS = st.sampled_from([0.001, 0.1, 2.0])


def draw(seed, *, n_rois=12, n_epochs=9):
    """Draw sparse counts, a ROI of which stays empty, and noisy values for them."""
    rng = np.random.default_rng(seed)
    raw = rng.poisson(rng.gamma(0.5, 4, (n_rois, 1)), (n_rois, n_epochs))
    raw[rng.integers(n_rois)] = 0
    raw[0, 0] += 1
    return raw, raw + rng.laplace(0, 2, raw.shape)


def slow_error(raw, released, floor):
    errors = []
    for counts, values in zip(raw.tolist(), released.tolist(), strict=True):
        if sum(counts) > 0:
            least = floor * sum(counts)
            errors += [abs(v - c) / max(least, c) for c, v in zip(counts, values, strict=True)]
    return sum(errors) / len(errors)


@given(SEEDS, FLOORS)
def test_error_equals_the_loop(seed, floor):
    raw, released = draw(seed)
    found = mean_relative_error(raw, released, floor=floor)
    assert found == pytest.approx(slow_error(raw, released, floor), rel=1e-12)


@given(SEEDS, FLOORS, st.sampled_from([0.1, 0.25, 0.5, 1.0]))
def test_busiest_error_is_the_error_of_the_busiest(seed, floor, top):
    raw, released = draw(seed)
    ranked = sorted(range(len(raw)), key=lambda roi: (-raw[roi].sum(), roi))
    kept = ranked[: max(1, int(top * len(raw)))]
    found = busiest_relative_error(raw, released, top=top, floor=floor)
    assert found == pytest.approx(slow_error(raw[kept], released[kept], floor), rel=1e-12)


def test_by_hand():
    raw = [[10, 0], [1, 1], [0, 0]]
    released = [[8, 1], [1, 0], [5, 5]]
    # 2/10, 1/(.1·10); 0, 1/1; the third ROI has no counts.
    assert mean_relative_error(raw, released, floor=0.1) == pytest.approx((0.2 + 1 + 0 + 1) / 4)
    assert mean_relative_error(raw, released) == pytest.approx((0.2 + 100 + 0 + 1) / 4)
    assert busiest_relative_error(raw, released) == pytest.approx((0.2 + 100) / 2)
    assert busiest_relative_error(raw, released, top=0.7, floor=0.1) == pytest.approx(2.2 / 4)


@given(SEEDS, FLOORS)
def test_ideal_and_nothing_published(seed, floor):
    raw, _ = draw(seed)
    assert mean_relative_error(raw, raw, floor=floor) == 0
    assert busiest_relative_error(raw, raw, floor=floor) == 0
    assert 0 < mean_relative_error(raw, np.zeros_like(raw), floor=floor) <= 1


@given(SEEDS)
def test_order_of_rois_and_epochs_and_unit_do_not_matter(seed):
    raw, released = draw(seed)
    rng = np.random.default_rng(seed)
    rois, epochs = rng.permutation(len(raw)), rng.permutation(raw.shape[1])
    found = mean_relative_error(raw, released)
    moved = mean_relative_error(raw[rois][:, epochs], released[rois][:, epochs])
    assert moved == pytest.approx(found)
    assert mean_relative_error(8.0 * raw, 8.0 * released) == pytest.approx(found)


@given(SEEDS, st.floats(0, 5))
def test_error_grows_with_the_distance(seed, factor):
    raw, released = draw(seed)
    once = mean_relative_error(raw, released)
    times = mean_relative_error(raw, raw + factor * (released - raw))
    assert times == pytest.approx(factor * once, abs=1e-9)


@for_each("measure", [mean_relative_error, busiest_relative_error])
@for_each("floor", [0.0, -0.1, np.nan, np.inf])
def test_floor_is_a_positive_number(measure, floor):
    with pytest.raises(InputError) as caught:
        measure([[1]], [[1]], floor=floor)
    assert (
        str(caught.value) == f"floor must be a share of a ROI's total count, above 0, not {floor}"
    )


@given(SEEDS)
def test_events_kept_equals_the_loop(seed):
    raw, released = draw(seed)
    cells = list(zip(raw.ravel().tolist(), released.ravel().tolist(), strict=True))
    kept = sum(value for count, value in cells if count > 0)
    assert events_kept(raw, released) == pytest.approx(kept / sum(count for count, _ in cells))


def test_events_kept_by_hand():
    raw = [[10, 0], [2, 0]]
    assert events_kept(raw, [[3, 7], [0, 7]]) == 3 / 12
    assert events_kept(raw, [[20, 0], [4, 0]]) == 2
    assert events_kept(raw, [[0, 9], [0, 9]]) == 0
    assert events_kept(raw, [[-3, 0], [0, 0]]) == -3 / 12


@given(SEEDS, st.floats(0, 1))
def test_a_share_of_all_counts_keeps_that_share(seed, share):
    raw, _ = draw(seed)
    assert events_kept(raw, share * raw) == pytest.approx(share)
    thinned = np.random.default_rng(seed).binomial(raw, share)
    assert events_kept(raw, thinned) == thinned.sum() / raw.sum()


def test_released_share_is_the_smaller_of_events_kept_and_counts_shown():
    """A threshold on sparse counts keeps most events, and hides nearly all counts."""
    raw = np.ones((10, 10))
    raw[0, 0] = 200
    hidden = np.where(raw < 5, np.nan, raw)
    assert released_share(raw, hidden) == released_share(raw, np.nan_to_num(hidden)) == 0.01
    assert emptiness(released_share(raw, hidden)) == "nearly empty"
    assert released_share(raw, raw) == 1
    assert released_share(raw, 0.04 * raw) == pytest.approx(0.04)
    assert released_share(raw, 0 * raw) == 0
    assert released_share(raw, -raw) == 0, "negative values keep no events"
    assert np.isnan(released_share(0 * raw, raw))


@given(SEEDS)
def test_suppressed_share_equals_the_loop(seed):
    raw, released = draw(seed)
    rng = np.random.default_rng(seed)
    released[rng.random(raw.shape) < 0.3] = 0
    released[rng.random(raw.shape) < 0.3] = np.nan
    n_counts = n_lost = 0
    for counts, values in zip(raw.tolist(), released.tolist(), strict=True):
        for count, value in zip(counts, values, strict=True):
            n_counts += count > 0
            n_lost += count > 0 and (value != value or value == 0)
    assert suppressed_share(raw, released) == pytest.approx(n_lost / n_counts)


def test_suppressed_share_by_hand():
    raw = [[5, 0, 2], [1, 4, 0]]
    assert suppressed_share(raw, [[5, 0, 0], [0, 4, 0]]) == 0.5
    assert suppressed_share(raw, [[5, np.nan, np.nan], [0, 4, np.nan]]) == 0.5
    assert suppressed_share(raw, [[5, 7, -1], [9, 4, 3]]) == 0, "changed, but not hidden"
    assert suppressed_share(raw, [[0, 7, 0], [0, 0, 3]]) == 1
    assert np.isnan(suppressed_share([[0, 0]], [[0, np.nan]]))


@for_each("up_to", range(6))
def test_suppressed_share_of_a_threshold_is_the_law_of_the_counts(up_to):
    """Of Poisson counts above 0, P(N ≤ k) − P(0) over 1 − P(0); 4 errors: below 1 in 10,000."""
    rng, law = np.random.default_rng(5), scipy.stats.poisson(2.0)
    raw = rng.poisson(2.0, (100, 500))
    form = {"name": "suppress_small", "up_to": up_to} if up_to else {"name": "exact"}
    released = mechanisms.create(**form).release(raw, group_size=1000, rng=rng)
    found, zero = suppressed_share(raw, released), law.cdf(0)
    share = (law.cdf(up_to) - zero) / (1 - zero)
    assert found == ((raw > 0) & (raw <= up_to)).sum() / (raw > 0).sum()
    assert found == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / (raw > 0).sum()))
