"""Where more than noise follows the counts, ratios are those of sums over every count."""

from dataclasses import replace

import numpy as np
import pytest
from loops import for_each, mostly_slow
from oracles.plays import crowd
from scipy import stats
from scipy.special import logsumexp

from clusterscale.attacks import create
from clusterscale.attacks.likelihood import BinomialCounts, LaplaceCounts, PublishedBinomialCounts
from clusterscale.contracts import Examples, Knowledge, TargetKnowledge, publish
from clusterscale.mechanisms import create as mechanism
from clusterscale.mechanisms.law import OutputDistribution
from clusterscale.mechanisms.noise import DiscreteLaplaceNoise, LaplaceNoise
from clusterscale.metrics import auc

RNG = np.random.default_rng(0)  # nothing is drawn from it
LIKELIHOOD = create("likelihood")
N_USERS = 10
SEEN = np.array([0, 0, 1, 2, 3, 3, 4, 5, 5, 8, 10, 10])  # of the reference, in each cell
HERE = np.arange(12) % 2 == 1
CHANCE = (SEEN + 0.5) / (N_USERS + 1)

EVENT = {"name": "laplace", "epsilon": 0.7, "sensitivity": 1.0}
NOISE = stats.laplace(scale=1 / 0.7)
SUPPRESS = {"name": "suppress_small", "up_to": 1}


def chain(*steps):
    return mechanism("chain", steps=list(steps))


def hidden(values, counts, size):
    """What is up to 1 is published as 0."""
    return (values == np.where(counts > 1, counts, 0)).astype(float)


def clipped_and_floored(values, counts, size):
    """Of what falls below 0 or above the size, the nearest; of others, the whole number below."""
    low = np.where(values == 0, -np.inf, values)
    high = np.where(values == size, np.inf, values + 1)
    return NOISE.cdf(high - counts) - NOISE.cdf(low - counts)


def noisy_then_hidden(values, counts, size):
    return np.where(values == 0, NOISE.cdf(1 - counts), NOISE.pdf(values - counts))


def floored_then_ranged(values, counts, size):
    """Ranges of 3 of whole numbers: middles 1.5, 4.5, …, of what is not below 0."""
    low = np.where(values < 3, -np.inf, values - 1.5)
    high = np.where(values > size - 1.5, np.inf, values + 1.5)
    return NOISE.cdf(high - counts) - NOISE.cdf(low - counts)


CASES = {
    "suppress": (mechanism(**SUPPRESS), hidden),
    "clip and floor": (
        mechanism(**EVENT, clip=True, integers="floor"), clipped_and_floored),
    "noise and suppress": (chain(EVENT, SUPPRESS), noisy_then_hidden),
    "floor and ranges": (
        chain(EVENT | {"clip": True, "integers": "floor"}, {"name": "fixed_ranges", "size": 3}),
        floored_then_ranged,
    ),
}  # fmt: skip
EACH = pytest.mark.parametrize("case", CASES)


def holding(release, *, here=HERE, seen=SEEN, complete=True):
    labels = np.arange(len(release.values)) % 2 == 0
    training = Examples(release, labels, np.arange(len(labels)))
    places = TargetKnowledge(np.flatnonzero(here), complete, seen.reshape(2, 6), N_USERS)
    return Knowledge(training, places)


def released(by, counts, size, seed=1):
    return publish(counts, by, group_size=size, rng=np.random.default_rng(seed))


def groups(size, n=40, seed=2):
    """Counts of ``n`` groups, every second one with the target."""
    rng = np.random.default_rng(seed)
    inside = HERE + rng.binomial(size - 1, CHANCE, (n, 12))
    counts = np.where(np.arange(n)[:, None] % 2, rng.binomial(size, CHANCE, (n, 12)), inside)
    return counts.reshape(n, 2, 6).astype(np.int32)


def log_ratio(values, size, chance, here, likely):
    """Sum over every count, with the target and without; values of one cell, shape (group,)."""
    count = np.arange(size + 1)
    with np.errstate(divide="ignore"):
        given = np.log(likely(values[:, None], count, size))
    inside = logsumexp(given + stats.binom.logpmf(count - here, size - 1, chance), axis=1)
    return inside - logsumexp(given + stats.binom.logpmf(count, size, chance), axis=1)


@EACH
@pytest.mark.parametrize("size", [3, 5, 7, 40])
def test_scores_are_sums_over_every_count(case, size):
    by, likely = CASES[case]
    release = released(by, groups(size), size)
    flat, shift = release.flat, HERE.astype(int)
    expected = sum(
        log_ratio(flat[:, cell], size, CHANCE[cell], shift[cell], likely) for cell in range(12)
    )
    found = LIKELIHOOD.fit(holding(release), rng=RNG).score(release)
    assert np.isfinite(found).any()
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


def test_a_shown_count_that_rules_the_target_out_does():
    """Of 7, all are where the target was not; that none is shown says nothing so strong."""
    by = mechanism(**SUPPRESS)
    counts = np.zeros((2, 2, 6), np.int32)
    counts[0, 0, 0] = 7
    release = released(by, counts, 7)
    full, none = LIKELIHOOD.fit(holding(release), rng=RNG).score(release)
    assert full == -np.inf
    assert np.isfinite(none)


def rules(law, size):
    return PublishedBinomialCounts(CHANCE, size, law)


@for_each("size", [1, 2, 7, 300])
@for_each("here", [True, False])
def test_bare_counts_are_weighed_as_bare_counts_are(size, here):
    """Within eight standard deviations: farther off neither law gives the count."""
    ours, plain = rules(OutputDistribution(), size), BinomialCounts(CHANCE, size)
    counts, cells = np.arange(size + 1)[:, None].repeat(12, axis=1), np.arange(12)
    near = np.abs(counts - size * CHANCE) <= 8 * np.sqrt(size * CHANCE * (1 - CHANCE)) + 7
    found, expected = (rule.cell_evidence(counts, cells, here=here) for rule in (ours, plain))
    np.testing.assert_allclose(found[near], expected[near], rtol=1e-8, atol=1e-9)
    assert near.all() if size < 10 else not near.all()


@for_each("law", [LaplaceNoise, DiscreteLaplaceNoise])
@for_each("scale", [0.3, 1.0, 20.0])
@for_each("size", [1, 9, 400])
def test_noise_alone_is_weighed_as_noise_is(law, scale, size):
    ours = rules(OutputDistribution(law(scale)), size)
    faded = LaplaceCounts(CHANCE, size, scale)
    reach = 3 * scale + 5
    values = np.linspace(-reach, reach, 41)[:, None] + size * CHANCE
    values = np.rint(values) if law is DiscreteLaplaceNoise else values
    for here in (True, False):
        found, expected = (
            rule.cell_evidence(values, np.arange(12), here=here) for rule in (ours, faded)
        )
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.slow
@EACH
def test_the_total_is_the_sum_of_what_each_cell_says(case):
    """Of cells in any number, more than are weighed at once too."""
    by, _ = CASES[case]
    rng = np.random.default_rng(3)
    n_cells = 5000
    chance, here = rng.uniform(0.01, 0.9, n_cells), rng.random(n_cells) < 0.3
    counts = rng.binomial(7, chance, (3, n_cells)).astype(np.int32)
    release = released(by, counts[:, None], 7)
    rule = PublishedBinomialCounts(chance, 7, release.law)
    some = np.flatnonzero(rng.random(n_cells) < 0.9)
    flat = release.flat
    each = np.zeros((3, len(some)))
    for side in (True, False):
        at = here[some] == side
        each[:, at] = rule.cell_evidence(flat[:, some[at]], some[at], here=side)
    total = rule.total(flat[:, some], some, here[some])
    np.testing.assert_allclose(total, each.sum(axis=1), rtol=1e-9)
    alone = [
        rule.cell_evidence(flat[:, [i]], np.array([i]), here=bool(here[i])) for i in some[::500]
    ]
    np.testing.assert_allclose(np.hstack(alone), each[:, ::500], rtol=1e-12)


@EACH
def test_the_law_is_that_of_what_is_scored_whatever_was_learnt_from(case):
    by, _ = CASES[case]
    counts = groups(7)
    asked = released(by, counts, 7, seed=5)
    learnt = [released(other, counts, 7) for other, _ in CASES.values()]
    learnt += [released(mechanism("exact"), counts, 7), released(mechanism(**EVENT), counts, 7)]
    expected = LIKELIHOOD.fit(holding(released(by, counts, 7)), rng=RNG).score(asked)
    for release in learnt:
        found = LIKELIHOOD.fit(holding(release), rng=RNG).score(asked)
        np.testing.assert_array_equal(found, expected)
    assert len(np.unique(expected)) > 10


def test_what_is_not_known_of_the_target_does_not_count():
    by = chain(EVENT, SUPPRESS)
    release = released(by, groups(7), 7)
    elsewhere = replace(release, values=np.where(HERE.reshape(2, 6), release.values, 3.3))
    part = LIKELIHOOD.fit(holding(release, complete=False), rng=RNG)
    whole = LIKELIHOOD.fit(holding(release), rng=RNG)
    np.testing.assert_array_equal(part.score(elsewhere), part.score(release))
    assert not np.allclose(whole.score(elsewhere), whole.score(release))


def test_what_neither_law_gives_says_nothing():
    """A count of 300 where hardly anybody is expected: the reference is wrong there."""
    chance, cells = np.array([0.001, 0.5]), np.arange(2)
    rule = PublishedBinomialCounts(chance, 400, mechanism(**SUPPRESS).law(400))
    found = rule.cell_evidence(np.array([[300.0, 200.0], [2.0, 200.0]]), cells, here=True)
    assert found[0, 0] == 0
    assert found[0, 1] == found[1, 1] != 0
    assert found[1, 0] == pytest.approx(np.log(2 / 0.4), rel=1e-9)


@mostly_slow("up_to", [1, 3, 6])
def test_to_know_what_is_hidden_is_better_than_to_take_it_for_normal(up_to):
    """On 40 crowds of independent members; of the same groups, published by the same law."""
    by = mechanism("suppress_small", up_to=up_to)
    gains = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        dense = crowd(rng, 300, 4, 12)
        dense[:, dense.mean(axis=0) > 0.3] = False  # what is always shown tells neither apart
        samples = []
        for n in (60, 100):
            members = np.array([rng.choice(np.arange(1, 300), 20, replace=False) for _ in range(n)])
            members[0::2, 0] = 0
            samples.append(dense[members].sum(axis=1).astype(np.int32))
        labels = np.arange(100) % 2 == 0
        training, asked = (released(by, counts, 20) for counts in samples)
        places = TargetKnowledge(np.flatnonzero(dense[0]), True, dense[1:].sum(axis=0), 299)
        aucs = []
        for law in (asked.law, None):
            parts = [replace(each, law=law, noise=None) for each in (training, asked)]
            examples = Examples(parts[0], np.arange(60) % 2 == 0, np.arange(60))
            found = LIKELIHOOD.fit(Knowledge(examples, places), rng=RNG)
            aucs.append(auc(labels, found.score(parts[1])))
        gains.append(aucs[0] - aucs[1])
    error = np.std(gains, ddof=1) / np.sqrt(len(gains))
    assert np.mean(gains) > 2 * error
