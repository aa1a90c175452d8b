"""The mean and variance that are told of a count are those of very many releases."""

import numpy as np
import pytest
from loops import mostly_slow
from mechanisms.published import BOUNDS, publish
from oracles.entries import build

from clusterscale.errors import ConfigError
from clusterscale.mechanisms import MECHANISMS, create, respond

SIZE = 20
COUNTS = np.array([0, 1, 2, 3, 7, 19, 20])
N = 1 << 18

CELL = [build(MECHANISMS, name).bind(BOUNDS) for name in MECHANISMS]
CELL = [one for one in CELL if one.noise_scope == "cell" and one.n_tables == 1]


def noisy(law, clip, integers):
    params = {
        "laplace": {"epsilon": 0.5, "sensitivity": 1.0},
        "discrete": {"epsilon": 0.5, "sensitivity": 1.0, "discrete": True},
        "gaussian": {"epsilon": 2.0, "delta": 0.1, "l2_sensitivity": 1.0},
    }[law]
    name = "laplace" if law == "discrete" else law
    return create(name, clip=clip, integers=integers, **params)


FINISHED = [
    noisy(law, clip, integers)
    for law in ("laplace", "discrete", "gaussian")
    for clip in (False, True)
    for integers in ("none", "round", "floor")
]
SMALL = {"name": "suppress_small", "up_to": 2}
FIXED = {"name": "fixed_ranges", "size": 4}
EVENT = {"name": "laplace", "epsilon": 0.7, "unit": "event"}
CHAINS = [
    create("chain", steps=steps)
    for steps in (
        [EVENT, SMALL],
        [{"name": "cap_contributions", "per_day": 2}, EVENT | {"clip": True}, SMALL, FIXED],
        [{"name": "sample_events", "remove": 0.3}, EVENT],
        [{"name": "randomized_response", "p": 0.3}, SMALL],
        [{"name": "perturb_small", "below": 4, "epsilon": 1.0}, FIXED],
        [{"name": "truncated_laplace", "epsilon": 0.5, "clip": True}, SMALL],
        [SMALL, FIXED],
        [{"name": "coarsen_time", "factor": 2}],
    )
]
SERIES = [
    build(MECHANISMS, "adaptive_ranges"),
    create("chain", steps=[EVENT, {"name": "adaptive_ranges", "ranges": 3}]),
]
LABEL = {"ids": lambda mechanism: mechanism.label}


def told(mechanism, counts=COUNTS, seed=1):
    rng = np.random.default_rng(seed)
    return respond(mechanism, counts, group_size=SIZE, rng=rng)


def drawn(mechanism, n=N):
    """Mean and variance of what is published of each count, with their standard errors."""
    counts = np.repeat(COUNTS.astype(np.int32)[:, None], n, axis=1)
    values = publish(mechanism, counts, group_size=SIZE)
    squares = (values - values.mean(axis=1, keepdims=True)) ** 2
    errors = [part.std(axis=1) / np.sqrt(n) for part in (values, squares)]
    return values.mean(axis=1), squares.mean(axis=1), *errors


@mostly_slow("mechanism", [*CELL, *FINISHED, *CHAINS], n_quick=5, **LABEL)
def test_moments_are_those_of_many_releases(mechanism):
    """Where the response is drawn too, 2¹⁴ times, it errs by as much as so many do."""
    rng = np.random.default_rng(1)
    before = rng.bit_generator.state
    found = respond(mechanism, COUNTS, group_size=SIZE, rng=rng)
    n_drawn = np.inf if rng.bit_generator.state == before else 2**14
    mean, variance, mean_error, variance_error = drawn(mechanism)
    assert found.mean.dtype == found.variance.dtype == np.float64
    n_errors = 4.5 * np.sqrt(1 + N / n_drawn)
    assert (np.abs(found.mean - mean) <= n_errors * mean_error + 1e-9).all()
    allowed = n_errors * variance_error + 1e-9
    assert (np.abs(found.variance - variance) <= allowed).all()


@pytest.mark.parametrize("mechanism", [*FINISHED, *CHAINS[:2]], **LABEL)
def test_noise_of_a_known_law_is_not_drawn(mechanism):
    """Other generators change nothing, and are left as they were."""
    rng = np.random.default_rng(1)
    one, other = told(mechanism, seed=1), told(mechanism, seed=2)
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.variance, other.variance)
    before = rng.bit_generator.state
    respond(mechanism, COUNTS, group_size=SIZE, rng=rng)
    assert rng.bit_generator.state == before


def test_clipped_laplace_noise_has_the_mean_of_the_paper():
    """Of nobody, half the scale (POPETS24, appendix A); a group as large as noise never is."""
    for scale in (0.5, 2.0, 10.0):
        mechanism = create("laplace", epsilon=1.0, sensitivity=scale, clip=True)
        found = respond(mechanism, np.zeros(1), group_size=10**4, rng=np.random.default_rng(0))
        assert found.mean[0] == pytest.approx(scale / 2, rel=1e-4)
        assert found.variance[0] == pytest.approx(0.75 * scale**2, rel=5e-3)


@pytest.mark.parametrize("law", ["laplace", "discrete", "gaussian"])
def test_noise_that_is_not_clipped_leaves_the_mean(law):
    np.testing.assert_allclose(told(noisy(law, False, "none")).mean, COUNTS, atol=1e-6)


@pytest.mark.parametrize("name", ["exact", "coarsen_space", "suppress_small", "fixed_ranges"])
def test_what_draws_nothing_is_told_exactly(name):
    mechanism = build(MECHANISMS, name)
    found = told(mechanism)
    expected = publish(mechanism, COUNTS.astype(np.int32)[:, None], group_size=SIZE)[:, 0]
    np.testing.assert_array_equal(found.mean, expected)
    np.testing.assert_array_equal(found.variance, np.zeros(len(COUNTS)))


@pytest.mark.parametrize("mechanism", SERIES, **LABEL)
def test_of_series_it_is_what_is_made_of_a_constant_one(mechanism):
    found, (mean, variance, *_) = told(mechanism), drawn(mechanism, 1 << 12)
    np.testing.assert_allclose(found.mean, mean, atol=0.2)
    np.testing.assert_allclose(found.variance, variance, rtol=0.5, atol=0.2)


@pytest.mark.parametrize("name", ["fourier", "enhanced_fourier"])
def test_noise_on_coefficients_leaves_the_mean(name):
    """But for what noise is on the coefficient that is the mean of the whole series."""
    mechanism = build(MECHANISMS, name).bind(BOUNDS)
    level = getattr(mechanism, "scale" if name == "fourier" else "sigma") / 2**7
    np.testing.assert_allclose(told(mechanism).mean, COUNTS, atol=6 * level)


def test_draws_are_those_of_the_generator():
    mechanism = create("sample_events", remove=0.3)
    one, again, other = (told(mechanism, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.mean, again.mean)
    assert (one.mean[1:] != other.mean[1:]).any()


@pytest.mark.parametrize(
    "mechanism",
    [
        create("suppress_unpopular", fraction=0.5),
        create("chain", steps=[EVENT, {"name": "suppress_unpopular", "fraction": 0.5}]),
    ],
    **LABEL,
)
def test_what_hangs_on_all_other_counts_is_refused(mechanism):
    with pytest.raises(ConfigError) as caught:
        told(mechanism)
    assert str(caught.value).startswith(f"{mechanism.label}: a published value depends on")


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("laplace", {"epsilon": 1.0}),
        ("gaussian", {"epsilon": 1.0, "delta": 0.1}),
        ("fourier", {"epsilon": 1.0, "coefficients": 3}),
        ("chain", {"steps": [{"name": "laplace", "epsilon": 1.0}, SMALL]}),
    ],
)
def test_noise_of_no_known_scale_is_refused(name, params):
    with pytest.raises(ConfigError, match=r"not known.*bind the mechanism"):
        told(create(name, **params))


def test_every_mechanism_is_here():
    """One that is new must be put in one of the tests above."""
    names = {mechanism.name for mechanism in CELL}
    series = {"adaptive_ranges", "fourier", "enhanced_fourier", "unscaled_fourier"}
    release = {"share_of_total", "suppress_unpopular"}
    assert names | series | release | {"tables"} == set(MECHANISMS)
