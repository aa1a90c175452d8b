"""Events that are dropped one by one, and the same done to their counts."""

import numpy as np
import pytest
from cube import crowd
from mechanisms.published import BOUNDS, WITH_NULL, alike, fits, publish, refusal
from scipy import stats

from clusterscale import mechanisms
from clusterscale.errors import ConfigError, InputError
from clusterscale.mechanisms import user_level

DENSE = crowd.draw(12, 2, 3, share=0.5)  # member, roi, epoch
COUNTS = DENSE.sum(axis=0).astype(np.int32)
N = 8000


def sample(remove=0.3):
    return mechanisms.create("sample_events", remove=remove)


def drop(remove, rng):
    """Toss for every event of every member, then count."""
    kept = rng.random((N, *DENSE.shape)) >= remove
    return (kept & DENSE).sum(axis=1)


@pytest.mark.parametrize("remove", [0.05, 0.3, 0.8])
def test_counts_are_as_if_events_were_dropped(remove):
    """Chi-square for each of 6 cells; moments and correlations within 4.5 standard errors."""
    simulated = drop(remove, np.random.default_rng(1)).reshape(N, -1)
    released = publish(sample(remove), np.tile(COUNTS, (N, 1, 1)), group_size=12).reshape(N, -1)
    assert (released == np.rint(released)).all()
    for cell, count in enumerate(COUNTS.ravel()):
        assert alike(simulated[:, cell], released[:, cell])
        law = stats.binom(count, 1 - remove).pmf(np.arange(13))
        assert fits(np.bincount(released[:, cell].astype(int), minlength=13), law * N)
    mean, variance = COUNTS.ravel() * (1 - remove), COUNTS.ravel() * remove * (1 - remove)
    for found in (simulated, released):
        assert (np.abs(found.mean(axis=0) - mean) <= 4.5 * np.sqrt(variance / N)).all()
        np.testing.assert_allclose(found.var(axis=0), variance, rtol=0.09)
        correlation = np.corrcoef(found.T) - np.eye(6)
        assert np.abs(correlation).max() < 4.5 / np.sqrt(N)


def test_no_count_grows():
    counts = np.random.default_rng(0).integers(0, 9, (50, 4, 6)).astype(np.int32)
    released = publish(sample(), counts)
    assert (released <= counts).all()
    assert (released >= 0).all()


def test_nothing_is_promised():
    guarantee = sample().guarantee
    assert (guarantee.unit, guarantee.epsilon) == ("none", np.inf)
    assert guarantee.reason == "events that are kept are counted unchanged"
    assert sample().noise is None
    assert user_level(sample(), BOUNDS).composed_epsilon == np.inf


def test_a_null_roi_is_refused():
    mechanism = sample()
    assert mechanism.bind(BOUNDS) is mechanism
    with pytest.raises(ConfigError) as caught:
        mechanism.bind(WITH_NULL)
    assert str(caught.value) == (
        "sample_events: a user who loses the only event of an hour would enter the null "
        "ROI, which counts do not show: set null_roi: false"
    )


def test_and_rightly_so():
    """With a null ROI the law of dropping events is not that of dropping its counts."""
    rng, trace = np.random.default_rng(2), np.ones((1, 1, 1), bool)
    kept = rng.random((N, 1)) < 0.7
    simulated = np.stack([kept[:, 0], ~kept[:, 0]], axis=1)
    counts = np.array([[1], [0]], np.int32)  # the place, and nowhere
    released = publish(sample(), np.tile(counts, (N, 1, 1)), group_size=len(trace))[..., 0]
    assert (simulated.sum(axis=1) == 1).all()
    assert (released.sum(axis=1) == 0).mean() > 0.2


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([[-1, 2]], "counts from -1 to 2 are impossible in a group of 10 members"),
        ([[0, 11]], "counts from 0 to 11 are impossible in a group of 10 members"),
        ([[0.0, np.nan]], "1 of 2 counts are NaN or infinite"),
        ([[0.5, 1.0]], "counts are not whole numbers"),
    ],
)
def test_what_is_no_count_is_refused(counts, message):
    with pytest.raises(InputError) as caught:
        publish(sample(), np.array(counts))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"remove": 0.0}, "remove: is 0.0, but should be greater than 0"),
        ({"remove": 1.0}, "remove: is 1.0, but should be less than 1"),
        ({}, "remove: is missing"),
        (
            {"remove": 0.1, "clip": True},
            "clip: is not a known key: choose from title, name, remove",
        ),
    ],
)
def test_nonsense_is_refused(params, message):
    assert refusal("sample_events", **params) == message
