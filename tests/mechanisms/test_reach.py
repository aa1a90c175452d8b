"""What a mechanism says of how far one count reaches, and of what it draws, is so."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.entries import build

from clusterscale.contracts import Bounds
from clusterscale.mechanisms import MECHANISMS, create

SHAPE, SIZE = (6, 8), 20
BOUNDS = Bounds(event=1, user_day=3, user=6, series=3, rois=4, null_roi=False)
EVERY = [build(MECHANISMS, name).bind(BOUNDS) for name in MECHANISMS]
EVERY += [
    create("chain", steps=[{"name": "sample_events", "remove": 0.2}]),
    create(
        "chain",
        steps=[
            {"name": "laplace", "epsilon": 1.0, "unit": "event", "discrete": True},
            {"name": "adaptive_ranges", "ranges": 3},
        ],
    ),
]
LABELS = [mechanism.label for mechanism in EVERY]


def publish(mechanism, counts, seed):
    rng = np.random.default_rng(seed)
    values = mechanism.release(counts[None], group_size=SIZE, rng=rng)[0]
    return values, rng.bit_generator.state


@pytest.mark.parametrize("mechanism", EVERY, ids=LABELS)
@given(data=st.data())
def test_one_more_visit_changes_no_more_than_it_says(mechanism, data):
    seed = data.draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, SIZE - 1, SHAPE).astype(np.int32)
    roi, epoch = data.draw(st.tuples(st.integers(0, SHAPE[0] - 1), st.integers(0, SHAPE[1] - 1)))
    more = counts.copy()
    more[roi, epoch] += 1
    (before, drawn), (after, drawn_again) = (
        publish(mechanism, each, seed) for each in (counts, more)
    )
    if not mechanism.noise_is_count_independent:
        return
    np.testing.assert_equal(drawn, drawn_again)
    changed = before != after
    within = np.zeros(SHAPE, bool)
    reach = {"cell": (roi, epoch), "series": roi, "release": ...}[mechanism.noise_scope]
    within[reach] = True
    assert not changed[~within].any()


def test_what_is_said_is_no_more_than_is_so():
    """Each kind is needed: a series can change, everything can, the draws can."""
    reaches = {
        mechanism.name: mechanism.noise_scope for mechanism in EVERY if mechanism.name != "chain"
    }
    assert {name for name, reach in reaches.items() if reach == "series"} == {
        "adaptive_ranges",
        "fourier",
        "enhanced_fourier",
        "unscaled_fourier",
    }
    assert {name for name, reach in reaches.items() if reach == "release"} == {
        "share_of_total",
        "suppress_unpopular",
    }
    by_count = {mechanism.name for mechanism in EVERY if not mechanism.noise_is_count_independent}
    drop_events = {"perturb_small", "randomized_response", "sample_events"}
    assert by_count == {"chain", "cell_key", "round_to_base"} | drop_events


def test_a_chain_reaches_as_far_as_its_steps():
    assert EVERY[-1].noise_scope == "series"
    assert EVERY[-1].noise_is_count_independent
    assert not EVERY[-2].noise_is_count_independent
