"""What noise on coefficients promises, what it takes from a cube, and what it refuses."""

import numpy as np
import pytest
from loops import for_each
from mechanisms.published import BOUNDS, WITH_NULL, enhanced, fourier, publish, refusal

from clusterscale import mechanisms
from clusterscale.errors import ConfigError
from clusterscale.mechanisms.accounting import ApproximateLoss

COUNTS = np.random.default_rng(3).integers(0, 20, (3000, 2, 12)).astype(np.int32)


@pytest.mark.parametrize("make", [lambda **more: fourier(4, **more), enhanced])
def test_clip_comes_before_integers(make):
    plain = publish(make(), COUNTS, group_size=20)
    values = publish(make(clip=True, integers="floor"), COUNTS, group_size=20)
    np.testing.assert_array_equal(values, np.floor(np.clip(plain, 0, 20)))
    assert values.min() == 0
    assert values.max() == 20


def test_guarantee_of_fourier():
    guarantee = fourier(4, epsilon=0.7).guarantee
    assert (guarantee.unit, guarantee.epsilon, guarantee.delta, guarantee.neighbours) == (
        "roi_series",
        0.7,
        0.0,
        "add_remove",
    )
    assert guarantee.sensitivity == 1.5
    assert guarantee.reason == (
        "Laplace noise of scale √κ·Δ₂/ε on κ Fourier coefficients; L2 norm of one series"
    )
    assert fourier(4).noise is None


def test_guarantee_of_enhanced_fourier():
    plain = (
        "half of ε chooses the number of cosine coefficients, half is for normal noise on "
        "them; L2 norm of one series"
    )
    guarantee = enhanced(epsilon=1.0).guarantee
    assert (guarantee.unit, guarantee.epsilon, guarantee.delta, guarantee.neighbours) == (
        "roi_series",
        1.0,
        0.1,
        "add_remove",
    )
    assert (guarantee.sensitivity, guarantee.reason) == (1.5, plain)
    loud = enhanced(epsilon=20.0).guarantee
    normal = mechanisms.create("gaussian", epsilon=10.0, delta=0.1).guarantee.epsilon
    assert loud.epsilon == pytest.approx(10.0 + normal)
    assert loud.reason == f"{plain}; the rule for σ fails at ε = 10, this is the exact sum"


@pytest.mark.parametrize("bounds", [BOUNDS, WITH_NULL])
def test_sensitivity_is_taken_from_the_cube(bounds):
    for name, more in (("fourier", {"coefficients": 2}), ("enhanced_fourier", {"delta": 0.1})):
        free = mechanisms.create(name, epsilon=1.0, **more)
        assert np.isnan(free.guarantee.sensitivity)
        bound = free.bind(bounds)
        assert bound.l2_sensitivity == free.required_sensitivity(bounds) == np.sqrt(bounds.series)
        delta = more.get("delta", 0.0)
        part = ApproximateLoss(bounds.rois, 1.0, delta)
        assert bound.user_privacy_loss(bounds) == part
        with pytest.raises(ConfigError) as caught:
            publish(free, COUNTS)
        assert str(caught.value) == (
            f"{free.label}: l2_sensitivity is not known: give it, or bind the mechanism to the "
            "bounds of a cube, as an audit does"
        )


def test_a_sensitivity_that_is_too_small():
    """Laplace noise then costs more; of normal noise nothing is known."""
    small = {"l2_sensitivity": 0.5}
    assert fourier(2, **small).user_privacy_loss(BOUNDS).epsilon == pytest.approx(2.0 * 4)
    assert enhanced(**small).user_privacy_loss(BOUNDS) is None
    assert enhanced(l2_sensitivity=2.0).user_privacy_loss(BOUNDS).epsilon == 2.0


@pytest.mark.parametrize(("n_epochs", "most"), [(12, 7), (11, 6), (2, 2), (1, 1)])
def test_more_coefficients_than_there_are(n_epochs, most):
    counts = COUNTS[:2, :, :n_epochs]
    assert publish(fourier(most), counts).shape == counts.shape
    with pytest.raises(ConfigError) as caught:
        publish(fourier(most + 1), counts)
    assert str(caught.value) == (
        f"fourier: coefficients is {most + 1}, but a series of {n_epochs} epochs has {most}"
    )


@for_each(
    ("name", "params", "message"),
    [
        (
            "fourier",
            {"epsilon": 0.0, "coefficients": 2},
            "epsilon: is 0.0, but should be greater than 0",
        ),
        (
            "fourier",
            {"epsilon": 1.0, "coefficients": 0},
            "coefficients: is 0, but should be greater than or equal to 1",
        ),
        (
            "fourier",
            {"epsilon": 1.0, "coefficients": 2.0},
            "coefficients: is 2.0, but should be a whole number",
        ),
        (
            "enhanced_fourier",
            {"epsilon": -2.0, "delta": 0.1},
            "epsilon: is -2.0, but should be greater than 0",
        ),
        (
            "enhanced_fourier",
            {"epsilon": 1.0, "delta": 0},
            "delta: is 0, but should be greater than 0",
        ),
        ("enhanced_fourier", {"epsilon": 1.0}, "delta: is missing"),
    ],
)
def test_nonsense_is_refused(name, params, message):
    assert refusal(name, **params) == message
