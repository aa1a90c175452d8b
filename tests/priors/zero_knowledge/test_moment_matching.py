"""What explains a release is nearer to the truth than the release itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from loops import for_each, mostly_slow
from mechanisms.published import BOUNDS
from oracles.entries import build
from priors.zero_knowledge.populations import (
    BOTH,
    CLIPPED,
    EVENT,
    EXACT,
    HIDDEN,
    USER_DAY,
    crowd,
    published,
)

from clusterscale.mechanisms import MECHANISMS, create
from clusterscale.priors.zero_knowledge import estimate_marginals
from clusterscale.priors.zero_knowledge.marginals import (
    ResponseCurve,
    compute_curve,
    match_moments,
    posterior_totals,
)

SHAPE, SIZE, MEAN = (30, 96), 800, 12.0
SEEDS = range(4)
FIXED = create("fixed_ranges", size=5)
MORE_HIDDEN = create("suppress_small", up_to=4)
CLIPPED_DAY = USER_DAY.model_copy(update={"clip": True, "integers": "round"})
CLIPPED_BOTH = create(
    "chain",
    steps=[
        {"name": "laplace", "epsilon": 0.3, "unit": "event", "clip": True, "integers": "round"},
        {"name": "suppress_small", "up_to": 2},
    ],
)


def distance(one, other):
    """Total variation."""
    return 0.5 * np.abs(one - other).sum()


def errors(mechanism, correction, seed):
    """Total variation of space and of time, and the mean's share of the true one."""
    truth = crowd(SHAPE, SIZE, MEAN, seed)
    release = published(mechanism, truth.counts, SIZE, seed + 50)
    found = estimate_marginals(release, SIZE, mechanism, graph=truth.graph, correction=correction)
    apart = [distance(found.space, truth.space), distance(found.time, truth.time)]
    return [*apart, found.activity.mean / (truth.counts.sum() / SIZE)]


@mostly_slow(
    ("mechanism", "least"),
    [
        (HIDDEN, 0.8),
        (MORE_HIDDEN, 0.5),
        (CLIPPED, 0.8),
        (CLIPPED_DAY, 0.85),
        (BOTH, 0.9),
        (CLIPPED_BOTH, 0.75),
        (FIXED, 0.5),
    ],
    n_quick=3,
    ids=lambda each: getattr(each, "label", each),
)
def test_marginals_are_nearer_to_the_truth(mechanism, least):
    """By so much on average, and for every draw."""
    raw, matched = (
        np.array([errors(mechanism, correction, seed) for seed in SEEDS])
        for correction in ("none", "matched")
    )
    assert (matched[:, :2] < raw[:, :2]).all()
    assert (matched[:, :2].mean(axis=0) < least * raw[:, :2].mean(axis=0)).all()
    np.testing.assert_allclose(matched[:, 2], 1, atol=0.1)


@mostly_slow(
    "mechanism",
    [
        EVENT,
        USER_DAY,
        create("sample_events", remove=0.4),
        create("perturb_small", below=4, epsilon=1.0),
        create("suppress_unpopular", fraction=0.5),
        build(MECHANISMS, "fourier").bind(BOUNDS),
        build(MECHANISMS, "truncated_laplace"),
    ],
    n_quick=2,
    ids=lambda each: each.label,
)
def test_where_sums_are_right_on_average_little_is_lost(mechanism):
    raw, matched = (
        np.array([errors(mechanism, correction, seed) for seed in SEEDS])
        for correction in ("none", "matched")
    )
    assert (matched[:, :2].mean(axis=0) < 1.1 * raw[:, :2].mean(axis=0) + 0.002).all()
    off, own = abs(matched[:, 2] - 1), abs(raw[:, 2] - 1)
    assert (off < np.maximum(own + 0.005, 0.1)).all(), "or as far as the sum of all is"


def test_raw_counts_are_their_own_explanation():
    counts = crowd(SHAPE, SIZE, MEAN).counts
    space, time, mean = match_moments(
        counts.astype(float), SIZE, EXACT, rng=np.random.default_rng(0)
    )
    assert distance(space, counts.sum(axis=1) / counts.sum()) < 0.005
    assert distance(time, counts.sum(axis=0) / counts.sum()) < 0.005
    assert mean == pytest.approx(counts.sum() / SIZE, rel=0.005)


def test_what_hangs_on_everything_is_taken_as_it_is():
    """No curve of one count can be learned of it."""
    mechanism = create("suppress_unpopular", fraction=0.3)
    assert mechanism.noise_scope == "release"
    release = published(mechanism, crowd(SHAPE, SIZE, MEAN).counts, SIZE)
    space, time, mean = match_moments(release, SIZE, mechanism, rng=np.random.default_rng(0))
    np.testing.assert_allclose(space, release.sum(axis=1) / release.sum(), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(time, release.sum(axis=0) / release.sum(), rtol=1e-6, atol=1e-9)
    assert mean == pytest.approx(release.sum() / SIZE)


@for_each("mechanism", [EXACT, HIDDEN, CLIPPED_DAY, USER_DAY, BOTH])
@for_each("value", [0.0, -5.0])
def test_nothing_is_explained_by_nobody(mechanism, value):
    release = np.full((4, 6), value)
    space, time, mean = match_moments(release, 50, mechanism, rng=np.random.default_rng(0))
    np.testing.assert_allclose(space, np.full(4, 1 / 4))
    np.testing.assert_allclose(time, np.full(6, 1 / 6))
    assert mean == pytest.approx(0, abs=1e-9)


def test_noise_alone_tells_no_place_from_another():
    """Noise of nobody has sums of no more spread than noise has: all are told as about equal."""
    release = published(USER_DAY, np.zeros(SHAPE, np.int32), SIZE) + 3
    space, time, _ = match_moments(release, SIZE, USER_DAY, rng=np.random.default_rng(0))
    raw = [np.maximum(release.sum(axis=axis), 0) for axis in (1, 0)]
    for found, sums in zip((space, time), raw, strict=True):
        equal = np.full(len(found), 1 / len(found))
        assert distance(found, equal) < 0.35 * distance(sums / sums.sum(), equal)


@mostly_slow("m", [10, 100, 2_000])
@mostly_slow(
    "mechanism",
    [
        EXACT,
        HIDDEN,
        MORE_HIDDEN,
        CLIPPED,
        CLIPPED_DAY,
        BOTH,
        FIXED,
        create("sample_events", remove=0.4),
        create("randomized_response", p=0.2, clip=True),
        create("perturb_small", below=4, epsilon=0.5),
    ],
    n_quick=5,
    ids=lambda each: each.label,
)
def test_curve_is_the_average_of_what_is_published(mechanism, m):
    """Of Poisson counts drawn by the hundred thousand, few and many."""
    most = min(300.0, m / 2)
    curve = compute_curve(mechanism, m, most, rng=np.random.default_rng(0))
    means = np.array([0, 0.03, 0.3, 1, 2.5, 5, 12, 40, 130, 240, 256, 290])
    means = means[means <= most]
    rng = np.random.default_rng(1)
    counts = np.minimum(rng.poisson(means, (100_000, len(means))), m).astype(np.int32)
    values = published(mechanism, counts[..., None], m)[..., 0]
    error = values.std(axis=0) / np.sqrt(len(values))
    # Noise that must be drawn is drawn a few thousand times for each count.
    drawn = 4 * np.sqrt(values.var(axis=0) / 2**14 + error**2)
    found = curve.at(means)
    assert (np.abs(found - values.mean(axis=0)) < drawn + 0.006 * means + 0.002).all()
    assert (np.diff(curve.published) >= 0).all()
    assert curve.means[0] == 0
    at_nobody = values[:, 0]
    assert curve.noise == pytest.approx(at_nobody.var(), rel=0.06, abs=1e-9)


@given(
    hnp.arrays(np.float64, st.integers(1, 8), elements=st.floats(0, 60)),
    st.integers(1, 6),
    st.integers(0, 2**32 - 1),
)
def test_inversion_undoes_the_curve(totals, n_cells, seed):
    weights = np.random.default_rng(seed).dirichlet(np.ones(n_cells))
    means = np.linspace(0, 80, 200)
    curve = ResponseCurve(means, 3 + means + 0.02 * means**2, means)
    sums = np.array([curve.at(total * weights).sum() for total in totals])
    np.testing.assert_allclose(curve.invert(sums, weights), totals, rtol=0.01, atol=0.01)


def test_inversion_of_what_is_beyond_the_curve():
    """Less than nobody gives is nobody; more than anybody gives is the most."""
    curve = ResponseCurve(np.array([0.0, 10.0]), np.array([1.0, 11.0]), np.zeros(2))
    found = curve.invert(np.array([-4.0, 2.0, 1e9]), np.array([0.5, 0.5]))
    np.testing.assert_allclose(found, [0.0, 0.0, 20.0], atol=1e-9)


def test_rows_that_are_hidden_are_told_by_the_others():
    """Nothing is seen of some rows; by what others are like they have visits, and about as many."""
    rng = np.random.default_rng(6)
    truth = np.exp(rng.normal(3.6, 0.5, 300))
    weights = np.full(200, 1 / 200)
    counts = rng.poisson(truth[:, None] * weights)
    sums = np.where(counts > 1, counts, 0).sum(axis=1).astype(float)
    curve = compute_curve(HIDDEN, 1_000, 10.0, rng=rng)
    unseen = sums == 0
    assert unseen.sum() > 40
    found, prior = posterior_totals(sums, weights, curve)
    assert not curve.invert(sums, weights)[unseen].any()
    assert found[unseen].sum() == pytest.approx(truth[unseen].sum(), rel=0.5)
    assert found.sum() == pytest.approx(truth.sum(), rel=0.1)
    assert np.exp(prior.middle) == pytest.approx(np.exp(3.6), rel=0.25)


def test_rows_where_nobody_is_stay_empty():
    rng = np.random.default_rng(7)
    truth = np.where(np.arange(300) < 150, 0, np.exp(rng.normal(4, 0.3, 300)))
    weights = np.full(50, 1 / 50)
    sums = rng.poisson(truth[:, None] * weights).sum(axis=1).astype(float)
    found, prior = posterior_totals(sums, weights, compute_curve(EXACT, 1_000, 20.0, rng=rng))
    assert prior.empty == pytest.approx(0.5, abs=0.02)
    assert found[:150].max() < 1e-3
    np.testing.assert_allclose(found[150:], sums[150:], rtol=0.3)


def test_weighing_up_is_better_than_either_the_sums_or_their_mean():
    """Squared errors under noise: as good as the best linear rule, which knows both variances."""
    rng = np.random.default_rng(8)
    weights = np.full(24, 1 / 24)
    truth = np.exp(rng.normal(5, 0.1, 2_000))
    curve = ResponseCurve(np.array([0.0, 1e3]), np.array([0.0, 1e3]), np.array([50.0, 50.0]))
    sums = truth + rng.normal(0, np.sqrt(24 * 50), 2_000)
    found, _ = posterior_totals(sums, weights, curve)
    error = ((found - truth) ** 2).mean()
    best = 1 / (1 / truth.var() + 1 / (24 * 50))
    assert error < 1.1 * best < ((sums.mean() - truth) ** 2).mean()


@given(st.integers(0, 2**32 - 1), st.sampled_from([EXACT, HIDDEN, CLIPPED_DAY, USER_DAY]))
def test_rows_in_another_order_are_told_in_that_order(seed, mechanism):
    rng = np.random.default_rng(seed)
    release = published(mechanism, rng.poisson(2, (9, 12)).astype(np.int32), 50)
    curve = compute_curve(mechanism, 50, 20.0, rng=np.random.default_rng(0))
    sums, order, weights = release.sum(axis=1), rng.permutation(9), np.full(12, 1 / 12)
    there, back = (posterior_totals(each, weights, curve)[0] for each in (sums, sums[order]))
    np.testing.assert_allclose(back, there[order], rtol=1e-6, atol=1e-9)
    assert (there >= 0).all()
