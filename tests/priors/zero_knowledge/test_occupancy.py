"""The share of people in a cell is estimated from what is published, whatever was done to it."""

import numpy as np
import pytest

from clusterscale.errors import InputError
from clusterscale.mechanisms import create
from clusterscale.priors.zero_knowledge.occupancy import estimate_occupancy

M, N_DAYS = 4_000, 14
DAYS = np.repeat(np.arange(N_DAYS), 24)


@pytest.fixture(scope="module")
def truth():
    """Probabilities of 30 places with three rhythms, and places that are special at one time."""
    rng = np.random.default_rng(1)
    rhythms = 1 + np.sin(np.arange(24) / 24 * 2 * np.pi + rng.uniform(0, 6, (3, 1)))
    daily = rng.dirichlet(np.ones(3), 30) @ rhythms * rng.lognormal(-7.5, 1, (30, 1))
    cells = np.tile(daily, N_DAYS)
    cells[rng.integers(30, size=40), rng.integers(24 * N_DAYS, size=40)] += 0.02
    return cells


def published(truth, mechanism):
    counts = np.random.default_rng(2).poisson(M * truth)[None].astype(np.int32)
    values = mechanism.release(counts, group_size=M, rng=np.random.default_rng(3))[0]
    return np.nan_to_num(np.asarray(values, np.float64))


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "exact"},
        {"name": "threshold", "k": 5},
        {"name": "round_to_base", "base": 5},
        {"name": "cell_key", "deviation": 5, "variance": 3.0},
        {"name": "laplace", "epsilon": 0.3, "sensitivity": 1.0, "integers": "round"},
        {"name": "fourier", "epsilon": 1.0, "coefficients": 40, "l2_sensitivity": 1.0},
    ],
    ids=lambda fields: fields["name"],
)
def test_errors_are_below_those_of_the_published_values(truth, fields):
    mechanism = create(**fields)
    values = published(truth, mechanism)
    found = estimate_occupancy(values, M, mechanism, DAYS, rng=np.random.default_rng(4))
    assert found.shape == truth.shape
    assert ((found >= 0) & (found < 1)).all()
    assert ((found - truth) ** 2).sum() < 0.75 * ((values / M - truth) ** 2).sum()
    rel = 0.25 if mechanism.noise_scope == "release" else 0.1
    assert found.sum() == pytest.approx(truth.sum(), rel=rel)


def test_special_cells_are_kept_where_noise_permits(truth):
    special = truth > 0.015
    mechanism = create("exact")
    found = estimate_occupancy(
        published(truth, mechanism), M, mechanism, DAYS, rng=np.random.default_rng(4)
    )
    assert found[special].mean() == pytest.approx(truth[special].mean(), rel=0.2)


def test_values_on_another_scale(truth):
    expanded = create("expand", factor=5.13)
    found = estimate_occupancy(
        published(truth, expanded), M, expanded, DAYS, rng=np.random.default_rng(4)
    )
    assert found.sum() == pytest.approx(truth.sum(), rel=0.05)
    shares = create("share_of_total")
    with pytest.raises(InputError, match=r"share_of_total.*do not show how many visits"):
        estimate_occupancy(published(truth, shares), M, shares, DAYS, rng=np.random.default_rng(4))


def test_nothing_published_is_nobody_anywhere():
    nothing = np.zeros((3, 48))
    found = estimate_occupancy(
        nothing, 10, create("exact"), np.repeat([0, 1], 24), rng=np.random.default_rng(1)
    )
    assert (found < 1e-6).all()
