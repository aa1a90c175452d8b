"""Marginals by hand: sums, equations 7 to 9, and the mean that gives the published total back."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from loops import for_each, mostly_slow
from mechanisms.published import BOUNDS
from oracles.entries import build
from oracles.popets24 import compressed, powered
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

from clusterscale.errors import InputError
from clusterscale.mechanisms import MECHANISMS, create
from clusterscale.priors.zero_knowledge import (
    Constant,
    Exponential,
    LogNormal,
    VisitCounts,
    estimate_marginals,
)
from clusterscale.priors.zero_knowledge.marginals import compress, raise_power, treatment
from clusterscale.priors.zero_knowledge.synthesis import synthetic_traces

SHAPE, SIZE = (12, 24), 400
MOST_HIDDEN = create("suppress_small", up_to=20)
LAWS = [Exponential(), LogNormal(), LogNormal(sigma=0.2)]
MOST_GONE = create("sample_events", remove=0.9)
RELEASES = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 6), st.integers(1, 6)), elements=st.integers(-5, 40)
)
PARTS = st.one_of(st.just(0.0), st.floats(0.01, 1.0))
SHARES = (
    hnp.arrays(np.float64, st.integers(2, 40), elements=PARTS)
    .filter(np.any)
    .map(lambda values: values / values.sum())
)


@given(RELEASES, st.integers(1, 50), st.sampled_from(["paper", "none"]))
def test_raw_marginals_are_the_sums(release, m, correction):
    """Equations 5, 6 and 10; what is below 0 counts as nothing."""
    found = estimate_marginals(release, m, EXACT, correction=correction)
    for shares, sums in ((found.space, release.sum(axis=1)), (found.time, release.sum(axis=0))):
        kept = [max(value, 0.0) for value in sums.tolist()]
        total = sum(kept)
        expected = [value / total if total else 1 / len(kept) for value in kept]
        np.testing.assert_allclose(shares, expected, rtol=1e-12)
    assert found.activity.law == Exponential()
    assert found.activity.mean == pytest.approx(max(release.sum(), 0) / m)


@pytest.mark.parametrize("mechanism", [HIDDEN, EVENT, BOTH], ids=lambda each: each.label)
def test_nothing_is_done_where_nothing_is_asked_for(mechanism):
    release = published(mechanism, crowd().counts)
    found = estimate_marginals(release, SIZE, mechanism, correction="none", law=Constant())
    np.testing.assert_allclose(found.space, release.sum(axis=1) / release.sum(), rtol=1e-12)
    np.testing.assert_allclose(found.time, release.sum(axis=0) / release.sum(), rtol=1e-12)
    assert found.activity == VisitCounts(pytest.approx(release.sum() / SIZE), Constant())


def test_suppressed_marginals_by_hand():
    release = np.array([[4.0, 0, 0], [2, 2, 0], [0, 0, 0], [0, 24, 0]])
    found = estimate_marginals(release, 50, HIDDEN)
    np.testing.assert_allclose(found.space, np.log([2, 2, 1, 7]) / np.log(28))
    np.testing.assert_allclose(found.time, np.log([2, 1 + 26 / 6, 1]) / np.log(2 + 52 / 6))


@given(SHARES)
def test_compression_is_equations_7_and_8(shares):
    found = compress(shares)
    np.testing.assert_allclose(found, compressed(shares.tolist()), rtol=1e-9)
    assert (found[shares == 0] == 0).all()
    assert (np.diff(found[np.argsort(shares)]) >= -1e-15).all(), "the order stays"
    assert found.max() <= shares.max() + 1e-12, "flatter"


def test_nothing_at_all_cannot_be_compressed():
    np.testing.assert_array_equal(compress(np.zeros(3)), np.zeros(3))


@given(SHARES, st.floats(0.05, 3.0))
def test_power_is_found_as_by_steps_from_one(shares, steepness):
    """Algorithm 4 begins at 1: begun at 0, as in published code, it flattens."""
    shares = shares**steepness / (shares**steepness).sum()
    n = len(shares)
    top = np.isclose(shares, shares.max(), rtol=0.1).sum()
    assume(1 / top > 4 / 3 / n * 1.05)  # else no power gets there, or only a high one
    wanted = 1 / (3 * n**2)
    found = raise_power(shares)
    expected, steps = powered(shares.tolist(), wanted)
    if steps <= 9_900:
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert found.var() >= min(wanted, shares.var()) - 1e-15
    assert found.var() >= shares.var() - 1e-15, "never flatter"
    assert found.sum() == pytest.approx(1)
    assert (found[shares == 0] == 0).all()


@given(st.integers(2, 60), st.floats(0.0, 1.0))
def test_what_is_steep_enough_is_left_alone(n, rest):
    """A power of 1 is no change, however steep the shares are."""
    shares = np.append(np.full(n - 1, rest / n / 4), 1.0)
    shares /= shares.sum()
    np.testing.assert_allclose(raise_power(shares), shares, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 7, 300])
def test_equal_shares_stay_equal(n):
    np.testing.assert_allclose(raise_power(np.full(n, 1 / n)), np.full(n, 1 / n), rtol=1e-12)


def test_where_no_power_is_enough_nothing_is_done():
    shares = np.array([9.0, 10, 10, 10, 10]) / 49
    np.testing.assert_array_equal(raise_power(shares), shares)


@pytest.mark.parametrize("n", [50, 200, 720])
def test_variance_of_uniform_shares(n):
    """1 / 3n² is that of n normalised uniform draws, to leading order."""
    draws = np.random.default_rng(n).random((4_000, n))
    shares = draws / draws.sum(axis=1, keepdims=True)
    variance = shares.var(axis=1)
    error = variance.std() / np.sqrt(len(variance))
    assert variance.mean() == pytest.approx(1 / (3 * n**2), abs=4 * error, rel=2 / n)


def test_noisy_marginals_are_powers_of_the_sums():
    release = published(USER_DAY, crowd().counts)
    found = estimate_marginals(release, SIZE, USER_DAY)
    for shares, sums in ((found.space, release.sum(axis=1)), (found.time, release.sum(axis=0))):
        kept = np.maximum(sums, 0)
        expected, _ = powered((kept / kept.sum()).tolist(), 1 / (3 * len(sums) ** 2))
        np.testing.assert_allclose(shares, expected, rtol=1e-9)


KINDS = {
    "adaptive_ranges": "other",
    "bottom_code": "hidden",
    "cap_contributions": "raw",
    "cell_key": "other",
    "dominance": "hidden",
    "expand": "other",
    "chain": "noisy",
    "coarsen_space": "raw",
    "coarsen_time": "raw",
    "enhanced_fourier": "noisy",
    "exact": "raw",
    "fixed_ranges": "noisy",  # nobody is published as half a range
    "fourier": "noisy",
    "gaussian": "noisy",
    "laplace": "noisy",
    "perturb_small": "noisy",
    "randomized_response": "noisy",
    "round_to_base": "hidden",
    "sample_events": "other",
    "share_of_total": "other",
    "sample_traces": "raw",
    "suppress_small": "hidden",
    "suppress_unpopular": "other",
    "threshold": "hidden",
    "top_code": "other",
    "truncated_laplace": "noisy",
    "unscaled_fourier": "noisy",
}


@for_each("name", [name for name in MECHANISMS if name != "tables"])  # which the prior refuses
@for_each("shape", [(6, 8), (2, 30)])
def test_what_every_mechanism_does(name, shape):
    mechanism = build(MECHANISMS, name).bind(BOUNDS)
    rng = np.random.default_rng(0)
    assert treatment(mechanism, shape, 20, rng=rng) == KINDS[name]


@pytest.mark.parametrize(
    ("mechanism", "kind"),
    [
        (create("suppress_small", below=1), "other"),
        (create("sample_events", remove=0.8), "hidden"),
        (BOTH, "noisy"),
        (create("chain", steps=[{"name": "cap_contributions", "per_day": 2}]), "raw"),
        (CLIPPED, "noisy"),
    ],
    ids=lambda each: getattr(each, "label", each),
)
def test_what_some_others_do(mechanism, kind):
    assert treatment(mechanism, (10, 24), 50, rng=np.random.default_rng(0)) == kind


@mostly_slow(
    "mechanism",
    [HIDDEN, MOST_HIDDEN, EVENT, CLIPPED, USER_DAY, BOTH, build(MECHANISMS, "fixed_ranges")],
    ids=lambda each: each.label,
)
@mostly_slow("law", LAWS, n_quick=7, ids=lambda law: law.label)
def test_made_up_users_are_published_with_the_same_total(mechanism, law):
    """Algorithm 3's fixed point, on draws of its own."""
    *_, counts, graph = crowd()
    release = published(mechanism, counts)
    rng = np.random.default_rng(9)
    found = estimate_marginals(release, SIZE, mechanism, graph=graph, law=law, rng=rng)
    assert found.activity.law == law
    totals = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        traces = synthetic_traces(SIZE, found, graph, rng=rng)
        counts = np.bincount(traces.cells, minlength=traces.n_cells).reshape(SHAPE)
        totals.append(published(mechanism, counts.astype(np.int32), seed=seed + 100).sum())
    spread = np.std(totals)  # of the one draw that the mean was settled on
    assert np.mean(totals) == pytest.approx(release.sum(), abs=4 * spread + 0.01 * release.sum())
    assert spread < 0.2 * release.sum()


def count_totals(monkeypatch):
    """List the visits of all users made up from here on."""
    made = []
    name = "clusterscale.priors.zero_knowledge.synthesis.synthetic_traces"

    def listed(*args, **more):
        traces = synthetic_traces(*args, **more)
        made.append(len(traces.cells))
        return traces

    monkeypatch.setattr(name, listed)
    return made


@pytest.mark.parametrize("value", [0.0, -3.0])
@pytest.mark.parametrize("mechanism", [EXACT, HIDDEN, EVENT, BOTH], ids=lambda each: each.label)
def test_where_nothing_is_published_nobody_moves(monkeypatch, mechanism, value):
    """Without hundreds of rounds down to the least number there is."""
    made = count_totals(monkeypatch)
    found = estimate_marginals(np.full((3, 5), value), 20, mechanism)
    np.testing.assert_allclose(found.space, np.full(3, 1 / 3))
    np.testing.assert_allclose(found.time, np.full(5, 1 / 5))
    assert found.activity.mean < 1
    assert len(made) < 30


@pytest.mark.parametrize("shape", [(1, 1), (1, 24), (30, 1), (2, 3)])
@pytest.mark.parametrize(("mechanism", "value"), [(USER_DAY, 1e6), (MOST_GONE, 8.0)])
def test_more_than_anyone_can_visit_is_told_as_all_there_is(monkeypatch, shape, mechanism, value):
    """Noise fell high: visits are not doubled until memory is full."""
    made = count_totals(monkeypatch)
    found = estimate_marginals(np.full(shape, value), 20, mechanism)
    n_cells = min(shape[0], 10) * shape[1]
    assert 0.9 * n_cells <= found.activity.mean <= n_cells
    assert len(made) < 30


@pytest.mark.parametrize("mechanism", [EXACT, HIDDEN, EVENT, BOTH], ids=lambda each: each.label)
@pytest.mark.parametrize("correction", ["paper", "matched", "none"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 24), (9, 1)])
def test_one_roi_or_one_epoch(mechanism, correction, shape):
    release = published(mechanism, np.full(shape, 7, np.int32), m=20)
    found = estimate_marginals(release, 20, mechanism, correction=correction)
    assert found.space.shape == shape[:1]
    assert found.time.shape == shape[1:]
    for law in (found.space, found.time):
        assert law.sum() == pytest.approx(1)
        assert (law >= 0).all()
    assert np.isfinite(found.activity.mean)
    synthetic_traces(5, found, rng=np.random.default_rng(0))


@pytest.mark.parametrize("correction", ["paper", "matched"])
def test_equal_draws_give_equal_marginals(correction):
    release = published(BOTH, crowd().counts)
    one, again, default = (
        estimate_marginals(release, SIZE, BOTH, correction=correction, rng=rng)
        for rng in (np.random.default_rng(0), np.random.default_rng(0), None)
    )
    for other in (again, default):
        np.testing.assert_array_equal(one.space, other.space)
        np.testing.assert_array_equal(one.time, other.time)
        assert one.activity == other.activity


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_refused(bad):
    release = np.ones((3, 4))
    release[1, 2:] = bad
    with pytest.raises(InputError, match=r"^2 published values are not finite$"):
        estimate_marginals(release, 10, EVENT)


@for_each("shape", [(), (4,), (2, 3, 4), (0, 5), (5, 0)])
def test_what_is_no_matrix_is_refused(shape):
    with pytest.raises(InputError, match=r"^a release has shape \(roi, epoch\), this one "):
        estimate_marginals(np.ones(shape), 10, EVENT)


@pytest.mark.parametrize("m", [0, -2])
def test_what_is_no_group_is_refused(m):
    with pytest.raises(InputError, match=f"^the group size is {m}: it must be at least 1$"):
        estimate_marginals(np.ones((3, 4)), m, EVENT)
