"""The ceiling on AUC: against the area it is, and against mechanisms, one of which reaches it."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each
from scipy.integrate import quad

from clusterscale.errors import InputError
from clusterscale.metrics import auc, auc_ceiling

EPSILONS = [0.0, 0.01, 0.5, 1.0, np.log(3), 4.0, 12.0]
DELTAS = [0.0, 1e-6, 0.05, 0.5, 0.99]


def exact_auc(inside, outside):
    """AUC of the best distinguisher of two distributions over the same outcomes, listed once."""
    inside, outside = np.asarray(inside), np.asarray(outside)
    # Likelihood ratios of any two outcomes compared crosswise, so that none divides by zero.
    cross = inside[:, None] * outside[None, :]
    wins = (cross > cross.T) + 0.5 * (cross == cross.T)
    return float((cross * wins).sum())


@for_each("epsilon", EPSILONS)
@for_each("delta", DELTAS)
def test_ceiling_is_one_minus_the_area_under_the_trade_off(epsilon, delta):
    def missed(alpha):
        steep, flat = 1 - delta - np.exp(epsilon) * alpha, np.exp(-epsilon) * (1 - delta - alpha)
        return max(0.0, steep, flat)

    corners = [(1 - delta) / (1 + np.exp(epsilon)), 1 - delta]
    area, _ = quad(missed, 0, 1, points=corners, epsabs=1e-12)
    assert auc_ceiling(epsilon, delta) == pytest.approx(1 - area, abs=1e-10)


@for_each("epsilon", EPSILONS)
@for_each("delta", DELTAS)
def test_randomized_response_with_a_slip_reaches_the_ceiling(epsilon, delta):
    right, wrong = (1 - delta) * np.array([1, np.exp(-epsilon)]) / (1 + np.exp(-epsilon))
    reached = exact_auc([delta, right, wrong, 0], [0, wrong, right, delta])
    assert auc_ceiling(epsilon, delta) == pytest.approx(reached, abs=1e-12)


def test_randomized_response_of_three_to_one():
    labels = [True] * 4 + [False] * 4
    answers = [1, 1, 1, 0, 0, 0, 0, 1]
    assert auc_ceiling(np.log(3)) == pytest.approx(auc(labels, answers), abs=1e-15)


WEIGHTS = st.lists(st.floats(0.01, 1), min_size=6, max_size=6).map(lambda w: np.array(w) / sum(w))


@given(WEIGHTS, WEIGHTS, st.floats(0, 2))
def test_no_mechanism_is_above_its_ceiling(inside, outside, epsilon):
    excess = [
        np.maximum(0, a - np.exp(epsilon) * b).sum()
        for a, b in ((inside, outside), (outside, inside))
    ]
    delta = max(excess)
    assert exact_auc(inside, outside) <= auc_ceiling(epsilon, delta) + 1e-9
    everything = np.abs(np.log(inside / outside)).max()
    assert exact_auc(inside, outside) <= auc_ceiling(everything) + 1e-9


def test_floats_and_arrays():
    assert type(auc_ceiling(1)) is float
    assert auc_ceiling(0) == 0.5
    epsilons, deltas = np.array(EPSILONS), np.array(DELTAS)[:, None]
    table = auc_ceiling(epsilons, deltas)
    assert table.dtype == np.float64
    assert table.tolist() == [[auc_ceiling(e, d) for e in EPSILONS] for d in DELTAS]
    assert (np.diff(table, axis=0) > 0).all()
    assert (np.diff(table, axis=1) > 0).all()
    assert auc_ceiling(1.0, np.array([0.0, 0.5])).shape == (2,)


@pytest.mark.parametrize("epsilon", [800.0, 1e308, np.inf])
def test_a_huge_epsilon_allows_everything_without_overflow(epsilon):
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert auc_ceiling(epsilon) == 1
        assert auc_ceiling(np.array([epsilon]), 0.1).tolist() == [1]


@for_each(
    ("epsilon", "delta", "message"),
    [
        (-0.1, 0.0, "epsilon must be at least 0, not -0.1"),
        (np.nan, 0.0, "epsilon must be at least 0, not nan"),
        (np.array([1.0, -np.inf]), 0.0, "epsilon must be at least 0, not -inf"),
        (1.0, 1.0, "delta must be at least 0 and below 1, not 1.0"),
        (1.0, -1e-9, "delta must be at least 0 and below 1, not -1e-09"),
        (1.0, np.array([0.1, np.nan]), "delta must be at least 0 and below 1, not nan"),
    ],
)
def test_nonsense_is_refused(epsilon, delta, message):
    with pytest.raises(InputError) as caught:
        auc_ceiling(epsilon, delta)
    assert str(caught.value) == message
