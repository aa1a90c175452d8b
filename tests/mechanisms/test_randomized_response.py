"""Members who lie one by one, and the same drawn from their counts."""

import numpy as np
import pytest
from cube import crowd
from mechanisms.published import BOUNDS, alike, publish, refusal

from clusterscale import mechanisms
from clusterscale.errors import InputError
from clusterscale.mechanisms.accounting import ApproximateLoss

DENSE = crowd.draw(12, 2, 3, share=0.4, seed=1)  # member, roi, epoch
COUNTS = DENSE.sum(axis=0).astype(np.int32)
N = 8000


def respond(p=0.3, **more):
    return mechanisms.create("randomized_response", p=p, **more)


def lie(p, rng):
    """Every member says yes to every cell by chance, else the truth; then the estimate."""
    yes = (rng.random((N, *DENSE.shape)) < p) | DENSE
    return (yes.sum(axis=1) - 12 * p) / (1 - p)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_counts_are_as_if_members_had_lied(p):
    """Chi-square for each of 6 cells; moments and correlations within 4.5 standard errors."""
    simulated = lie(p, np.random.default_rng(1)).reshape(N, -1)
    released = publish(respond(p), np.tile(COUNTS, (N, 1, 1)), group_size=12).reshape(N, -1)
    answers = [np.rint(found * (1 - p) + 12 * p).astype(int) for found in (simulated, released)]
    np.testing.assert_allclose((answers[1] - 12 * p) / (1 - p), released, atol=1e-12)
    away = 12 - COUNTS.ravel()
    variance = away * p / (1 - p)
    for cell in range(6):
        assert alike(answers[0][:, cell], answers[1][:, cell])
    for found in (simulated, released):
        # unbiased
        error = np.abs(found.mean(axis=0) - COUNTS.ravel())
        assert (error <= 4.5 * np.sqrt(variance / N)).all()
        np.testing.assert_allclose(found.var(axis=0), variance, rtol=0.09)
        correlation = np.corrcoef(found.T) - np.eye(6)
        assert np.abs(correlation).max() < 4.5 / np.sqrt(N)


def test_who_is_there_is_never_denied():
    full = np.full((200, 2, 3), 12, np.int32)
    np.testing.assert_allclose(publish(respond(), full, group_size=12), 12, atol=1e-12)


def test_clip_comes_before_integers():
    counts = np.random.default_rng(0).integers(0, 10, (99, 2, 3))
    plain = publish(respond(0.8), counts)
    values = publish(respond(0.8, clip=True, integers="round"), counts)
    np.testing.assert_array_equal(values, np.rint(np.clip(plain, 0, 10)))
    assert plain.min() < 0


def test_small_numbers_do_not_wrap():
    """200 members do not fit 8 bits."""
    counts = np.full((300, 1, 2), 120, np.int8)
    values = publish(respond(0.5), counts, group_size=200)
    assert values.mean() == pytest.approx(120, abs=3)


def test_guarantee_is_a_delta_alone():
    guarantee = respond(0.3).guarantee
    assert (guarantee.unit, guarantee.epsilon, guarantee.neighbours) == ("event", 0.0, "replace")
    assert guarantee.delta == pytest.approx(0.7)
    assert guarantee.reason == (
        "a 'no' is always true: no finite epsilon; total variation of an answer is 1 − p"
    )
    assert respond().noise is None
    assert respond().bind(BOUNDS) == respond()
    assert np.isnan(respond().required_sensitivity(BOUNDS))
    loss = ApproximateLoss(9, 0.0, pytest.approx(0.7), distinct=True)
    assert respond().user_privacy_loss(BOUNDS) == loss


def test_guarantee_is_tight():
    """Someone who is there says yes; someone who is not, with probability p."""
    there, away = np.array([1.0, 0.0]), np.array([0.3, 0.7])  # of yes and no
    assert np.maximum(there - away, 0).sum() == pytest.approx(respond(0.3).guarantee.delta)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([[-1, 2]], "counts from -1 to 2 are impossible in a group of 10 members"),
        ([[0, 11]], "counts from 0 to 11 are impossible in a group of 10 members"),
        ([[0.5, 1.0]], "counts are not whole numbers"),
    ],
)
def test_what_is_no_count_is_refused(counts, message):
    with pytest.raises(InputError) as caught:
        publish(respond(), np.array(counts))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"p": 0.0}, "p: is 0.0, but should be greater than 0"),
        ({"p": 1.0}, "p: is 1.0, but should be less than 1"),
        ({"p": "1e-1"}, "p: is '1e-1', but should be a number: write 0.1, without quotes"),
        ({}, "p: is missing"),
    ],
)
def test_nonsense_is_refused(params, message):
    assert refusal("randomized_response", **params) == message
