"""Counts as they are."""

import numpy as np
from mechanisms.published import BOUNDS, publish, refusal

from clusterscale import mechanisms
from clusterscale.contracts import NO_NOISE
from clusterscale.mechanisms import user_level


def test_counts_come_out_as_they_are():
    counts = np.random.default_rng(0).integers(0, 9, (2, 3, 4), np.int32)
    values = publish(mechanisms.create("exact"), counts)
    np.testing.assert_array_equal(values, counts)
    values[:] = -1
    assert counts.min() >= 0


def test_nothing_is_promised():
    exact = mechanisms.create("exact")
    guarantee = exact.guarantee
    assert (guarantee.unit, guarantee.epsilon, guarantee.delta) == ("none", np.inf, 0.0)
    assert guarantee.reason == "counts are published as they are"
    assert exact.noise == NO_NOISE
    assert exact.trace_steps == ()
    assert exact.bind(BOUNDS) is exact
    assert np.isnan(exact.required_sensitivity(BOUNDS))
    level = user_level(exact, BOUNDS)
    assert (level.epsilon, level.composed_epsilon, level.curve) == (np.inf, np.inf, ())


def test_it_has_no_settings():
    assert refusal("exact", epsilon=1.0) == "epsilon: is not a known key: choose from title, name"
