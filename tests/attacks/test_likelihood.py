"""The likelihood ratio is that of the laws it names, by SciPy and by sums over every count."""

import numpy as np
import pytest
from loops import for_each, mostly_slow
from oracles.plays import EXACT, blind, crowd, deal
from scipy.special import logsumexp
from scipy.stats import binom, norm

from clusterscale.attacks import create
from clusterscale.contracts import Examples, Knowledge, Release, TargetKnowledge
from clusterscale.errors import InputError
from clusterscale.mechanisms.noise import DiscreteLaplaceNoise, GaussianNoise, LaplaceNoise

RNG = np.random.default_rng(0)  # nothing is drawn from it
LIKELIHOOD = create("likelihood")
LAWS = [EXACT, LaplaceNoise(0.7), GaussianNoise(1.3), None]
N_USERS = 10  # of the reference
SHAPE = (2, 6)
SEEN = np.array([0, 0, 1, 2, 3, 3, 4, 5, 5, 8, 10, 10])  # of the reference, in each cell
HERE = np.arange(12) % 2 == 1
CHANCE = (SEEN + 0.5) / (N_USERS + 1)


def holding(noise, size, *, seen=SEEN, here=HERE, shape=SHAPE, complete=True, values=None):
    if values is None:
        values = np.zeros((2, *shape))
    training = Examples(
        Release(values, size, "any", noise), np.arange(len(values)) % 2 == 0, np.arange(len(values))
    )
    seen = np.asarray(seen).reshape(shape)
    return Knowledge(training, TargetKnowledge(np.flatnonzero(here), complete, seen, N_USERS))


def score(knowledge, values):
    release = knowledge.training.release
    asked = Release(values, release.group_size, release.mechanism, release.noise)
    return LIKELIHOOD.fit(knowledge, rng=RNG).score(asked)


def log_ratio(values, size, chance, here, scale):
    """Sum binomial × Laplace density over every count, with the target and without."""
    count = np.arange(size + 1)
    density = -np.abs(np.asarray(values)[:, None] - count) / scale
    inside = logsumexp(binom.logpmf(count - here, size - 1, chance) + density, axis=1)
    return inside - logsumexp(binom.logpmf(count, size, chance) + density, axis=1)


@for_each("size", [1, 2, 7, 300])
@for_each("seen", [0, 3, 10])
@for_each("here", [0, 1])
def test_exact_counts_follow_binomial_laws(size, seen, here):
    """In a single cell, for every count that there can be."""
    chance = (seen + 0.5) / (N_USERS + 1)
    knowledge = holding(EXACT, size, seen=[seen], here=[here], shape=(1, 1))
    count = np.arange(size + 1)
    found = score(knowledge, count.astype(np.int32)[:, None, None])
    inside = binom.logpmf(count - here, size - 1, chance)
    np.testing.assert_allclose(found, inside - binom.logpmf(count, size, chance), rtol=1e-8)
    assert found[0 if here else size] == -np.inf, "the target is ruled out"


def test_the_ratios_of_cells_add_up():
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 7, (50, *SHAPE), dtype=np.int32)
    flat = counts.reshape(50, -1)
    expected = binom.logpmf(flat - HERE, 5, CHANCE) - binom.logpmf(flat, 6, CHANCE)
    assert np.isinf(expected.sum(axis=1)).any()
    for values in (counts, counts.astype(np.float64)):
        np.testing.assert_allclose(score(holding(EXACT, 6), values), expected.sum(axis=1))


@for_each("scale", [0.05, 0.3, 1.0, 5.0, 50.0])
@for_each("seen", [0, 3, 10])
@for_each("here", [0, 1])
def test_laplace_noise_is_convolved_with_the_counts(scale, seen, here):
    """Anywhere, from far below the smallest count to far above the largest."""
    size, chance = 9, (seen + 0.5) / (N_USERS + 1)
    values = np.concatenate([np.linspace(-3, 12, 151), [-500.0, -20.0, 30.0, 500.0]])
    knowledge = holding(LaplaceNoise(scale), size, seen=[seen], here=[here], shape=(1, 1))
    found = score(knowledge, values[:, None, None])
    expected = log_ratio(values, size, chance, here, scale)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


@for_each("scale", [0.05, 0.3, 1.0, 5.0, 50.0])
@for_each("seen", [0, 3, 10])
@for_each("here", [0, 1])
def test_laplace_noise_in_large_groups(scale, seen, here):
    """Within eight standard deviations of the count that is expected."""
    size, chance = 400, (seen + 0.5) / (N_USERS + 1)
    middle, reach = size * chance, 8 * np.sqrt(size * chance * (1 - chance))
    values = np.linspace(max(middle - reach, -9), min(middle + reach, size + 9), 201)
    knowledge = holding(LaplaceNoise(scale), size, seen=[seen], here=[here], shape=(1, 1))
    found = score(knowledge, values[:, None, None])
    expected = log_ratio(values, size, chance, here, scale)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


@for_each("scale", [0.05, 0.3, 1.0, 50.0])
@for_each("here", [0, 1])
def test_geometric_noise_is_convolved_with_the_counts(scale, here):
    """A sum over every count and the whole-numbered noise that takes it to the value."""
    size, chance = 9, 3.5 / (N_USERS + 1)
    values, count = np.arange(-30, 40), np.arange(size + 1)
    noise = -np.abs(values[:, None] - count) / scale + np.log(np.tanh(0.5 / scale))
    expected = logsumexp(noise + binom.logpmf(count - here, size - 1, chance), axis=1)
    expected -= logsumexp(noise + binom.logpmf(count, size, chance), axis=1)
    law = DiscreteLaplaceNoise(scale)
    knowledge = holding(law, size, seen=[3], here=[here], shape=(1, 1))
    found = score(knowledge, values[:, None, None].astype(float))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)
    drawn = np.arange(-4000, 4001)
    chance = np.exp(-np.abs(drawn) / scale) * np.tanh(0.5 / scale)
    assert chance.sum() == pytest.approx(1.0)
    assert law.variance == pytest.approx((chance * drawn**2.0).sum())


@pytest.mark.parametrize("scale", [0.002, 0.3, 50.0])
def test_evidence_saturates_under_laplace_noise(scale):
    far = np.array([-1e9, -1e3, 1e3, 1e9])[:, None, None] * np.ones(SHAPE)
    for size in (5, 400):
        low, lower, high, higher = score(holding(LaplaceNoise(scale), size), far)
        assert low == lower
        assert high == higher
        assert np.isfinite([low, high]).all()


def test_hardly_any_laplace_noise_is_none():
    rng = np.random.default_rng(2)
    counts = rng.integers(1, 6, (50, *SHAPE)).astype(np.float64)
    exact = score(holding(EXACT, 6), counts)
    for scale in (1e-9, 0.02):
        np.testing.assert_allclose(score(holding(LaplaceNoise(scale), 6), counts), exact)


@for_each("sigma", [0.1, 1.0, 30.0])
@for_each("size", [1, 50])
def test_gaussian_noise_makes_normal_laws(sigma, size):
    values = np.random.default_rng(3).normal(size / 3, 3 * sigma, (40, *SHAPE))
    out, one = size * CHANCE, CHANCE * (1 - CHANCE)
    inside = norm(out - CHANCE + HERE, np.sqrt((size - 1) * one + sigma**2))
    outside = norm(out, np.sqrt(size * one + sigma**2))
    flat = values.reshape(40, -1)
    expected = (inside.logpdf(flat) - outside.logpdf(flat)).sum(axis=1)
    found = score(holding(GaussianNoise(sigma), size), values)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def test_an_unknown_law_is_taken_for_normal_as_found_in_training():
    rng = np.random.default_rng(4)
    values, asked = rng.normal(2.0, rng.gamma(1.0, size=(1, *SHAPE)), (2, 30, *SHAPE))
    values[:, 0, 0] = 1.0  # never varies: one member's variance is the least
    training, flat = values.reshape(30, -1), asked.reshape(30, -1)
    spread = np.sqrt(np.maximum(training.var(axis=0), CHANCE * (1 - CHANCE)))
    outside = training[1::2].mean(axis=0)
    inside = norm.logpdf(flat, outside + HERE - CHANCE, spread)
    expected = (inside - norm.logpdf(flat, outside, spread)).sum(axis=1)
    np.testing.assert_allclose(score(holding(None, 8, values=values), asked), expected)


@pytest.mark.parametrize("noise", LAWS)
def test_what_is_not_known_of_the_target_does_not_count(noise):
    rng = np.random.default_rng(5)
    counts = rng.integers(1, 6, (30, *SHAPE)).astype(np.float64)
    knowledge = holding(noise, 6, complete=False, values=counts)
    other = np.where(HERE.reshape(SHAPE), counts, rng.integers(0, 7, counts.shape))
    np.testing.assert_allclose(score(knowledge, other), score(knowledge, counts), rtol=1e-12)
    whole = holding(noise, 6, values=counts)
    assert not np.allclose(score(whole, other), score(whole, counts))


@pytest.mark.parametrize("noise", LAWS[:3])
def test_the_law_is_that_of_what_is_scored_whatever_was_learnt_from(noise):
    counts = np.random.default_rng(6).integers(1, 6, (30, *SHAPE), dtype=np.int32)
    asked = Release(counts, 6, "any", noise)
    fitted = (LIKELIHOOD.fit(holding(law, 6), rng=RNG) for law in (noise, *LAWS))
    expected, *others = (distinguisher.score(asked) for distinguisher in fitted)
    for scores in others:
        np.testing.assert_array_equal(scores, expected)


@pytest.mark.parametrize("noise", LAWS[:3])
def test_groups_of_another_size_are_refused(noise):
    distinguisher = LIKELIHOOD.fit(holding(noise, 6), rng=RNG)
    with pytest.raises(
        InputError, match="groups of 7, but the training releases are of groups of 6"
    ):
        distinguisher.score(Release(np.ones((2, *SHAPE)), 7, "any", noise))


@pytest.mark.parametrize("count", [-1, 7])
def test_counts_that_cannot_be_are_refused(count):
    with pytest.raises(InputError, match=f"{count}.* are not between 0 and 6"):
        score(holding(EXACT, 6), np.full((1, *SHAPE), count, np.int32))


def test_nothing_is_known_of_the_target():
    with pytest.raises(InputError, match="needs the target's location"):
        LIKELIHOOD.fit(blind(holding(EXACT, 6)), rng=RNG)


def area(labels, scores):
    """Return the share of pairs in the right order, ties one half."""
    inside, outside = scores[labels][:, None], scores[~labels]
    return (inside > outside).mean() + (inside == outside).mean() / 2


@mostly_slow("noise", [EXACT, LaplaceNoise(1.0), GaussianNoise(1.0)])
def test_likelihood_beats_projection_where_its_model_holds(noise):
    """On 100 crowds of independent members; the gain is some five standard errors."""
    gains = []
    for seed in range(100):
        dense = crowd(np.random.default_rng(seed), 400, 4, 12)
        play = deal(seed, noise=noise, size=20, dense=dense, challenges=100)
        best, plain = (
            area(play.labels, create(name).fit(play.knowledge, rng=RNG).score(play.challenge))
            for name in ("likelihood", "projection")
        )
        gains.append(best - plain)
    assert np.mean(gains) >= 0
