"""The verdict on a promise: every side of every threshold."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each

from clusterscale.errors import InputError
from clusterscale.metrics import Verdict, claim_verdict, epsilon_lower_bound, largest_bound

EPSILONS = st.floats(0, 20)


@for_each(
    ("lower_bound", "declared", "largest", "verdict"),
    [
        (1.1, 1.0, 5.0, "broken"),
        (1.0, 1.0, 5.0, "consistent"),  # as much as was promised, not more
        (0.0, 1.0, 5.0, "consistent"),
        (0.0, 1.0, 1.0, "too few samples"),
        (0.0, 1.0, 0.9, "too few samples"),
        (0.0, 0.0, 0.0, "too few samples"),
        (0.0, 0.0, 0.1, "consistent"),
        (1e-9, 0.0, 5.0, "broken"),
        (np.inf, 5.0, np.inf, "broken"),
        (3.0, np.inf, 3.0, "consistent"),  # no sample is large enough to break no promise
    ],
)
def test_verdict(lower_bound, declared, largest, verdict):
    assert claim_verdict(lower_bound, declared, largest=largest) == verdict


@given(EPSILONS, EPSILONS, EPSILONS)
def test_verdicts_are_the_three_and_only_evidence_condemns(lower_bound, declared, largest):
    verdict = claim_verdict(lower_bound, declared, largest=largest)
    assert verdict in get_args(Verdict)
    assert (verdict == "broken") == (lower_bound > declared)


@pytest.mark.parametrize(
    ("n", "promise", "verdict"),
    [
        (2000, 1.0, "broken"),  # everything is published
        (2000, 9.0, "too few samples"),
        (80, 1.0, "broken"),
        (20, 1.0, "too few samples"),
    ],
)
def test_a_mechanism_that_hides_nothing(n, promise, verdict):
    labels = np.arange(n) % 2 == 0
    bound = epsilon_lower_bound(labels, labels)
    assert claim_verdict(bound, promise, largest=largest_bound(n // 2, n - n // 2)) == verdict


@for_each("place", ["lower_bound", "declared", "largest"])
@for_each("value", [np.nan, -0.1, -np.inf])
def test_no_epsilon_is_refused(place, value):
    given = {"lower_bound": 0.5, "declared": 1.0, "largest": 2.0} | {place: value}
    with pytest.raises(InputError) as caught:
        claim_verdict(**given)
    assert str(caught.value) == f"{place} must be an epsilon of at least 0, not {value}"
