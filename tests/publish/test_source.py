"""Numbers of real releases: their laws, and that no seed is behind them."""

import sys

import numpy as np
import pytest
import scipy
from loops import mostly_slow
from oracles.publications import plan, publish

from clusterscale.analyses.publish import source
from clusterscale.analyses.publish.source import SecretNumbers, secret_numbers
from clusterscale.cube import blocks
from clusterscale.errors import ConfigError, PackageError
from clusterscale.mechanisms import create
from clusterscale.mechanisms.noise import (
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GaussianNoise,
    LaplaceNoise,
)

ERROR_RATE = 1e-9
"""Probability that a test of a law fails though the law is right: the source has no seed."""


def chi_square(values, probabilities):
    """Return the p-value of counts of whole numbers; rare numbers at both ends share a cell."""
    n = len(values)
    top = 0
    while n * probabilities(top + 1) > 20:
        top += 1
    inner = np.arange(-top, top + 1)
    observed = np.array([(values < -top).sum(), *((values == i).sum() for i in inner)])
    observed = np.append(observed, (values > top).sum())
    expected = np.array([probabilities(int(i)) for i in inner])
    tail = (1 - expected.sum()) / 2
    expected = n * np.concatenate([[tail], expected, [tail]])
    return scipy.stats.chisquare(observed, expected).pvalue


@mostly_slow("scale", [0.7, 3.0, 40.0])
def test_discrete_laplace_noise_has_its_law(scale):
    drawn = SecretNumbers().draw(DiscreteLaplaceNoise(scale), 40_000)
    q = np.exp(-1 / scale)  # P(n) = (1 − q)/(1 + q) · q^|n|, written here anew
    assert drawn.dtype == np.int64
    assert chi_square(drawn, lambda n: (1 - q) / (1 + q) * q ** abs(n)) > ERROR_RATE


def test_the_law_test_can_fail():
    drawn = SecretNumbers().draw(DiscreteLaplaceNoise(3.0), 40_000)
    q = np.exp(-1 / 3.3)
    assert chi_square(drawn, lambda n: (1 - q) / (1 + q) * q ** abs(n)) < ERROR_RATE


def test_neighbouring_draws_are_independent():
    drawn = SecretNumbers().draw(DiscreteLaplaceNoise(3.0), 40_000).astype(float)
    r = np.corrcoef(drawn[:-1], drawn[1:])[0, 1]
    assert abs(r) * np.sqrt(len(drawn)) < scipy.stats.norm.isf(ERROR_RATE / 2)


def test_uniform_numbers_have_their_law():
    drawn = SecretNumbers().random((500, 1000))
    assert drawn.shape == (500, 1000)
    assert ((drawn >= 0) & (drawn < 1)).all()
    for bits in (drawn.ravel() * 256, drawn.ravel() * 2.0**53 % 256):  # the first and the last
        counts = np.bincount(bits.astype(np.int64), minlength=256)
        assert scipy.stats.chisquare(counts).pvalue > ERROR_RATE / 2
    assert isinstance(SecretNumbers().random(), float)
    assert SecretNumbers().random(3).shape == (3,)
    assert SecretNumbers().random(0).shape == (0,)


def test_no_two_releases_have_the_same_noise():
    counts = np.zeros((20, 50), np.int32)
    noisy = create("laplace", epsilon=0.1, sensitivity=1.0, discrete=True)
    one, other = (noisy.release(counts, group_size=9, rng=secret_numbers()) for _ in range(2))
    assert (one != other).any()


@pytest.mark.parametrize("law", [DiscreteLaplaceNoise, DiscreteGaussianNoise])
def test_the_scale_is_never_rounded_down(law):
    seen = []
    original = source._measurement

    def spy(name, scale):
        seen.append(scale)
        return original(name, scale)

    source._measurement = spy
    try:
        SecretNumbers().draw(law(1 / 0.3), 1)
    finally:
        source._measurement = original
    from fractions import Fraction

    assert Fraction(seen[0]) >= 1 / Fraction(0.3)


@pytest.mark.parametrize("noise", [LaplaceNoise(1.0), GaussianNoise(1.0)])
def test_continuous_noise_is_not_drawn(noise):
    with pytest.raises(ConfigError, match="is not drawn for a real release"):
        SecretNumbers().draw(noise, 3)


@pytest.mark.parametrize("scale", [0.0, np.nan, 2.0**49, np.inf])
def test_noise_of_impossible_scale_is_not_drawn(scale):
    with pytest.raises(ConfigError, match="noise of scale"):
        SecretNumbers().draw(DiscreteLaplaceNoise(scale), 3)


@pytest.mark.parametrize(
    "mechanism",
    [
        {"name": "laplace", "epsilon": 1.0, "sensitivity": 1.0},
        {"name": "gaussian", "epsilon": 1.0, "delta": 0.1, "l2_sensitivity": 1.0},
        {"name": "truncated_laplace", "epsilon": 1.0},
        {"name": "perturb_small", "below": 3, "epsilon": 1.0},
        {"name": "randomized_response", "p": 0.5},
        {"name": "sample_events", "remove": 0.5},
        {"name": "fourier", "epsilon": 1.0, "coefficients": 3, "l2_sensitivity": 1.0},
    ],
    ids=lambda fields: fields["name"],
)
def test_mechanisms_that_draw_otherwise_fail_with_these_numbers(mechanism):
    made = create(**mechanism)
    with pytest.raises(ConfigError, match="real release"):
        made.release(np.ones((2, 8), np.int32), group_size=9, rng=secret_numbers())


def test_without_opendp_the_error_names_the_extra(monkeypatch, cube, tmp_path):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(PackageError, match=r"clusterscale\[publish\]"):
        publish(cube, plan(tmp_path), tmp_path / "run")
    assert not (tmp_path / "releases").exists()


def test_no_seed_is_used(monkeypatch, cube, tmp_path):
    def refuse(*path):
        raise AssertionError(f"a stream of a seed was used: {path}")

    monkeypatch.setattr(blocks, "stream", refuse)
    monkeypatch.setattr("clusterscale.seeds.stream", refuse)
    steps = [
        {"name": "cap_contributions", "per_day": 3},
        {"name": "laplace", "epsilon": 1.0, "unit": "user_day", "discrete": True},
        {"name": "round_to_base", "base": 3},
    ]
    made = plan(
        tmp_path,
        mechanism={"name": "chain", "steps": steps},
        budget={"unit": "user_day", "epsilon": 1.0},
    )
    release = publish(cube, made, tmp_path / "run")
    assert (release.counts % 3 == 0).all()
