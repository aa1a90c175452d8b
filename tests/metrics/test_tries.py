"""Several bounds at once, and the most that one can be."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from loops import for_each
from metrics.known import randomized_response
from scipy.stats import binom

from clusterscale.errors import InputError
from clusterscale.metrics import epsilon_lower_bound, largest_bound

REPETITIONS = 400
# A test that is right fails with probability 1e-6 (were its miss rate the whole 1 − confidence).
ERROR_RATE = 1e-6
ROWS = st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=4, max_size=40).filter(
    lambda rows: 2 <= sum(label for label, _ in rows) <= len(rows) - 2
)
DELTAS = st.sampled_from([0.0, 0.01, 0.3])
CONFIDENCES = st.sampled_from([0.05, 0.5, 0.95, 0.999])


@given(ROWS, DELTAS, CONFIDENCES, st.integers(1, 50), st.integers(1, 50))
def test_more_tries_never_give_more(rows, delta, confidence, few, more):
    labels, scores = map(np.array, zip(*rows, strict=True))
    sizes = labels.sum(), (~labels).sum()
    few, more = sorted([few, more])
    options = {"delta": delta, "confidence": confidence}
    for found in (
        lambda tries: epsilon_lower_bound(labels, scores, tries=tries, **options),
        lambda tries: largest_bound(*sizes, tries=tries, **options),
    ):
        assert found(more) <= found(few) + 1e-12


def test_tries_share_the_confidence():
    """Two tries at 90 % are one at 95 %, once the choice is the same."""
    labels = np.arange(4000) % 2 == 0
    scores = randomized_response(1)(labels, np.random.default_rng(5))
    one = epsilon_lower_bound(labels, scores, confidence=0.95)
    assert epsilon_lower_bound(labels, scores, confidence=0.9, tries=2) == pytest.approx(one)
    assert one > 0.7


@pytest.mark.parametrize("tries", [1, 8])
def test_the_largest_of_several_tries_is_seldom_wrong(tries):
    """Eight attacks, each on rows of its own: the largest bound errs as rarely as a single one."""
    rng = np.random.default_rng(31)
    labels = np.arange(200) % 2 == 0
    wrong = 0
    for _ in range(REPETITIONS):
        scores = [randomized_response(1)(labels, rng) for _ in range(tries)]
        bounds = [epsilon_lower_bound(labels, s, confidence=0.5, tries=tries) for s in scores]
        wrong += max(bounds) > 1
    assert wrong <= binom.isf(ERROR_RATE, REPETITIONS, 0.5)
    assert wrong > 0  # at a confidence of ½ it is not for lack of trying


@given(
    st.integers(2, 400),
    st.integers(2, 400),
    DELTAS,
    CONFIDENCES,
    st.sampled_from([1, 3]),
    st.sampled_from([1, -1]),
)
@example(41, 41, 0.0, 0.95, 1, 1)  # of odd numbers the smaller half judges
def test_the_largest_bound_is_that_of_perfect_scores(
    n_inside, n_outside, delta, confidence, tries, sign
):
    labels = np.repeat([True, False], [n_inside, n_outside])
    options = {"delta": delta, "confidence": confidence, "tries": tries}
    largest = largest_bound(n_inside, n_outside, **options)
    assert epsilon_lower_bound(labels, sign * labels, **options) <= largest + 1e-12
    if n_inside == n_outside:
        assert epsilon_lower_bound(labels, sign * labels, **options) == pytest.approx(largest)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_largest_bound_is_about_what_its_docstring_says(confidence):
    about = np.log(1000 / np.log(2 * 3 / (1 - confidence)))
    found = largest_bound(2000, 2000, confidence=confidence, tries=3)
    assert found == pytest.approx(about, abs=0.02)


@for_each("tries", [0, -1, 1.5, np.nan, np.inf])
def test_tries_are_counted(tries):
    for refused in (
        lambda: epsilon_lower_bound([True, False] * 4, np.arange(8), tries=tries),
        lambda: largest_bound(4, 4, tries=tries),
    ):
        with pytest.raises(InputError) as caught:
            refused()
        assert str(caught.value) == f"tries must be a positive integer, not {tries!r}"
