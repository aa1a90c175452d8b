"""Holm's correction beside its definition, and how often it errs; what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.errors import InputError
from clusterscale.metrics import auc_p_values, reject_holm

P_VALUES = st.lists(st.floats(0, 1) | st.floats(0, 0.02), max_size=12)


def by_definition(p_values, risk):
    """Reject the least p-value while it is at most risk over the number of those left."""
    left, rejected = list(enumerate(p_values)), [False] * len(p_values)
    while left:
        place, least = min(left, key=lambda pair: pair[1])
        if least > risk / len(left):
            break
        rejected[place] = True
        left.remove((place, least))
    return rejected


@given(P_VALUES, st.sampled_from([0.01, 0.05, 0.2]))
def test_holm_is_the_procedure(p_values, risk):
    assert reject_holm(p_values, risk=risk).tolist() == by_definition(p_values, risk)


@given(P_VALUES, st.integers(0, 11))
def test_a_smaller_p_value_never_rejects_less(p_values, place):
    smaller = np.array(p_values)
    if len(smaller):
        smaller[place % len(smaller)] /= 2
    assert (reject_holm(smaller) | ~reject_holm(p_values)).all()


def test_the_shape_is_kept():
    found = reject_holm(np.array([[1e-9, 0.5], [1.0, 1e-5]]))
    assert found.tolist() == [[True, False], [False, True]]


def test_a_true_hypothesis_is_rejected_in_at_most_one_of_twenty_families():
    """2,000 families of 40 true and 10 false hypotheses; three standard errors."""
    rng = np.random.default_rng(0)
    wrong = [
        reject_holm(np.append(rng.random(40), rng.random(10) * 1e-4))[:40].any()
        for _ in range(2000)
    ]
    assert 0.03 <= np.mean(wrong) <= 0.05 + 3 * (0.05 * 0.95 / 2000) ** 0.5


def test_what_is_unknown_or_below_the_limit_is_no_evidence():
    auc = np.array([np.nan, 0.75, 0.6, 0.8, 0.99])
    low = np.array([np.nan, 0.74, 0.5, np.nan, 0.9])
    high = np.array([np.nan, 0.76, 0.7, np.nan, 0.999])
    found = auc_p_values(auc, low, high)
    assert found[:4].tolist() == [1.0] * 4
    assert found[4] < 2e-3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: auc_p_values([0.5], [0.5], 0.5), "auc (1,), low (1,) and high () differ"),
        (
            lambda: auc_p_values(0.8, 0.7, 0.9, limit=1),
            "limit must be strictly between 0 and 1, not 1",
        ),
        (lambda: reject_holm([0.5, np.nan]), "p-values must be between 0 and 1"),
        (lambda: reject_holm([0.5], risk=0), "risk must be strictly between 0 and 1, not 0"),
    ],
)
def test_nonsense_is_refused(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value) == message
