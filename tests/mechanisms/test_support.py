"""Nothing is published outside the support that a mechanism is said to have."""

import numpy as np
import pytest
from consistency.tables import EVENT, UP_TO, bound, chain
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.contracts import Support
from clusterscale.mechanisms import MECHANISMS

SIZE = 20
DROP = {"name": "sample_events", "remove": 0.3}
MEDIANS = {"name": "adaptive_ranges", "ranges": 3}
MORE = [
    bound("laplace", epsilon=1.0, unit="event", clip=True),
    bound("laplace", epsilon=1.0, unit="event", integers="floor"),
    bound("laplace", epsilon=0.5, unit="event", discrete=True),
    bound("truncated_laplace", epsilon=1.0, clip=True),
    bound("randomized_response", p=0.4, integers="round"),
    bound("randomized_response", p=0.4, clip=True, integers="floor"),
    bound("fourier", epsilon=1.0, coefficients=3, clip=True, integers="round"),
    chain(DROP, {"name": "perturb_small", "below": 3, "epsilon": 0.5}),
    chain(DROP, {"name": "suppress_unpopular", "fraction": 0.5}),
    chain(EVENT | {"clip": True, "integers": "round"}, MEDIANS),
    chain(EVENT | {"discrete": True}, MEDIANS, UP_TO),
    chain(MEDIANS, MEDIANS),
    chain({"name": "fixed_ranges", "size": 3}, MEDIANS),
    chain(DROP, {"name": "fixed_ranges", "size": 3}),
    chain(DROP, {"name": "expand", "factor": 2.5}, {"name": "bottom_code", "at": 4, "least": 2}),
    chain({"name": "randomized_response", "p": 0.2}, {"name": "fixed_ranges", "size": 4}),
    chain(EVENT, {"name": "suppress_unpopular", "fraction": 0.5}),
]
EVERY = [*(bound(name) for name in MECHANISMS), *MORE]


@pytest.mark.parametrize("mechanism", EVERY, ids=lambda mechanism: mechanism.label)
@given(seed=st.integers(0, 2**32))
def test_all_that_is_published_lies_in_it(mechanism, seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, SIZE, (6, 8), endpoint=True).astype(np.int32)
    values = mechanism.release(counts, group_size=SIZE, rng=rng)
    found = mechanism.support(Support(0, SIZE, 1), SIZE)
    assert found.low - 1e-9 <= values.min()
    assert values.max() <= found.high + 1e-9
    if found.step:
        np.testing.assert_array_equal(values / found.step, np.rint(values / found.step))


@pytest.mark.parametrize(
    ("mechanism", "due"),
    [
        (bound("exact"), Support(0, 20, 1)),
        (bound("laplace"), Support(-np.inf, np.inf, 0)),
        (bound("laplace", epsilon=1.0, discrete=True), Support(-np.inf, np.inf, 1)),
        (bound("laplace", epsilon=1.0, clip=True, integers="round"), Support(0, 20, 1)),
        (bound("truncated_laplace"), Support(-np.inf, np.inf, 1)),
        (bound("perturb_small"), Support(0, np.inf, 1)),
        (bound("randomized_response", p=0.5), Support(-20, 20, 0)),
        (bound("adaptive_ranges"), Support(0, 20, 0.5, bound("adaptive_ranges").ranges)),
        (bound("suppress_unpopular"), Support(0, 20, 1)),
        (bound("fixed_ranges", size=3), Support(1.5, 19.5, 0.5)),
    ],
    ids=lambda value: getattr(value, "label", ""),
)
def test_of_some(mechanism, due):
    assert mechanism.support(Support(0, 20, 1), 20) == due


def test_it_is_said_in_words():
    assert str(Support(0, 20, 1)) == "whole numbers from 0 up to 20"
    assert str(Support(-np.inf, 20, 0.5)) == "multiples of ½ up to 20"
    assert not Support(-np.inf, np.inf, 0).limited
