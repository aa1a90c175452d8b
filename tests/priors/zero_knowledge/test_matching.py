"""What explains a release is nearer to the truth than the release itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
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
from clusterscale.priors.zero_knowledge.matching import Curve, learn_curve, match, shrink

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
SUMS = hnp.arrays(np.float64, st.integers(1, 20), elements=st.floats(-100, 100))


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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
    ids=lambda each: each.label,
)
def test_where_sums_are_right_on_average_little_is_lost(mechanism):
    raw, matched = (
        np.array([errors(mechanism, correction, seed) for seed in SEEDS])
        for correction in ("none", "matched")
    )
    assert (matched[:, :2].mean(axis=0) < 1.1 * raw[:, :2].mean(axis=0) + 0.002).all()
    np.testing.assert_allclose(matched[:, 2], 1, atol=0.1)


def test_raw_counts_are_their_own_explanation():
    counts = crowd(SHAPE, SIZE, MEAN).counts
    space, time, mean = match(counts.astype(float), SIZE, EXACT, rng=np.random.default_rng(0))
    assert distance(space, counts.sum(axis=1) / counts.sum()) < 0.005
    assert distance(time, counts.sum(axis=0) / counts.sum()) < 0.005
    assert mean == pytest.approx(counts.sum() / SIZE, rel=0.005)


def test_what_hangs_on_everything_is_taken_as_it_is():
    """No curve of one count can be learned of it."""
    mechanism = create("suppress_unpopular", fraction=0.3)
    assert mechanism.reach == "release"
    release = published(mechanism, crowd(SHAPE, SIZE, MEAN).counts, SIZE)
    space, time, mean = match(release, SIZE, mechanism, rng=np.random.default_rng(0))
    np.testing.assert_allclose(space, release.sum(axis=1) / release.sum(), rtol=1e-6)
    np.testing.assert_allclose(time, release.sum(axis=0) / release.sum(), rtol=1e-6)
    assert mean == pytest.approx(release.sum() / SIZE)


@pytest.mark.parametrize("mechanism", [EXACT, HIDDEN, CLIPPED_DAY, USER_DAY, BOTH])
@pytest.mark.parametrize("value", [0.0, -5.0])
def test_nothing_is_explained_by_nobody(mechanism, value):
    release = np.full((4, 6), value)
    space, time, mean = match(release, 50, mechanism, rng=np.random.default_rng(0))
    np.testing.assert_allclose(space, np.full(4, 1 / 4))
    np.testing.assert_allclose(time, np.full(6, 1 / 6))
    assert mean == pytest.approx(0, abs=1e-9)


def test_noise_alone_tells_no_place_from_another():
    """Noise of nobody has sums of no more spread than noise has: all are told as about equal."""
    release = published(USER_DAY, np.zeros(SHAPE, np.int32), SIZE) + 3
    space, time, _ = match(release, SIZE, USER_DAY, rng=np.random.default_rng(0))
    raw = [np.maximum(release.sum(axis=axis), 0) for axis in (1, 0)]
    for found, sums in zip((space, time), raw, strict=True):
        equal = np.full(len(found), 1 / len(found))
        assert distance(found, equal) < 0.35 * distance(sums / sums.sum(), equal)


@pytest.mark.parametrize("m", [10, 100, 2_000])
@pytest.mark.parametrize(
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
    ids=lambda each: each.label,
)
def test_curve_is_the_average_of_what_is_published(mechanism, m):
    """Of Poisson counts drawn by the hundred thousand, few and many."""
    most = min(300.0, m / 2)
    curve = learn_curve(mechanism, m, most, rng=np.random.default_rng(0))
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
    curve = Curve(means, 3 + means + 0.02 * means**2, 0.0)
    sums = np.array([curve.at(total * weights).sum() for total in totals])
    np.testing.assert_allclose(curve.invert(sums, weights), totals, rtol=0.01, atol=0.01)


def test_inversion_of_what_is_beyond_the_curve():
    """Less than nobody gives is nobody; more than anybody gives is the most."""
    curve = Curve(np.array([0.0, 10.0]), np.array([1.0, 11.0]), 0.0)
    found = curve.invert(np.array([-4.0, 2.0, 1e9]), np.array([0.5, 0.5]))
    np.testing.assert_allclose(found, [0.0, 0.0, 20.0], atol=1e-9)


@given(SUMS, st.floats(0, 1e4))
def test_sums_are_shrunk_by_the_formula(sums, noise):
    found = shrink(sums, noise)
    middle = sum(sums) / len(sums)
    spread = sum((value - middle) ** 2 for value in sums) / len(sums)
    kept = max(0.0, 1 - noise / spread) if spread > 1e-300 else 1.0
    np.testing.assert_allclose(found, middle + kept * (sums - middle), rtol=1e-6, atol=1e-6)


@given(SUMS)
def test_without_noise_nothing_shrinks_and_under_it_all_does(sums):
    np.testing.assert_allclose(shrink(sums, 0.0), sums, atol=1e-10)
    np.testing.assert_allclose(shrink(sums, 2e4), sums.mean(), atol=1e-10)


def test_shrinking_brings_sums_nearer_to_what_they_are_sums_of():
    rng = np.random.default_rng(6)
    truth = rng.normal(100, 5, 4_000)
    noisy = truth + rng.normal(0, 10, 4_000)
    before, after = (((sums - truth) ** 2).mean() for sums in (noisy, shrink(noisy, 100.0)))
    assert after == pytest.approx(before * 25 / 125, rel=0.1)  # the best linear rule's
