"""Unrounded noise gives counts away by its last bits; it is known who publishes it."""

import math
from typing import Literal

import numpy as np
import pytest
from mechanisms.published import RARE
from oracles.entries import build
from scipy import stats

from clusterscale.contracts import Bounds, Guarantee
from clusterscale.mechanisms import MECHANISMS, create
from clusterscale.mechanisms.base import BaseMechanism
from clusterscale.metrics import epsilon_lower_bound

BOUNDS = Bounds(event=1, user_day=3, user=6, series=3, rois=4, null_roi=False)
SIZE = 20
LAPLACE = {"name": "laplace", "epsilon": 1.0, "unit": "event"}
GAUSSIAN = {"name": "gaussian", "epsilon": 1.0, "delta": 0.1}
FOURIER = {"name": "fourier", "epsilon": 1.0, "coefficients": 2}
WHOLE, DISCRETE = {"integers": "round"}, {"discrete": True}


def chain(*steps):
    return create("chain", steps=list(steps))


EVERY = [build(MECHANISMS, name) for name in MECHANISMS]
EVERY += [create(**each, integers=how) for each in (LAPLACE, GAUSSIAN, FOURIER) for how in
          ("round", "floor", "none")]  # fmt: skip
EVERY += [
    create(**LAPLACE, **DISCRETE),
    create(**LAPLACE, clip=True),
    chain(LAPLACE, {"name": "suppress_small", "below": 2}),
    chain(LAPLACE | WHOLE, {"name": "suppress_small", "below": 2}),
    chain(LAPLACE | DISCRETE, {"name": "adaptive_ranges", "ranges": 3}),
    chain(LAPLACE, {"name": "adaptive_ranges", "ranges": 3}),
    chain(LAPLACE, {"name": "adaptive_ranges", "ranges": 3, "publish": "middle"}),
    chain(LAPLACE, {"name": "fixed_ranges", "size": 3}),
    chain({"name": "sample_events", "remove": 0.2}, LAPLACE),
    chain({"name": "sample_events", "remove": 0.2}),
    chain({"name": "coarsen_time", "factor": 2}, GAUSSIAN),
    chain({"name": "coarsen_time", "factor": 2}, GAUSSIAN | WHOLE),
]


@pytest.mark.parametrize("mechanism", EVERY, ids=lambda each: each.label)
def test_what_a_mechanism_says_is_so(mechanism):
    """Of continuous noise nearly every release has digits of its own; else they come again."""
    bound = mechanism.bind(BOUNDS)
    rng = np.random.default_rng(1)
    counts = np.broadcast_to(rng.integers(0, SIZE, (6, 8)).astype(np.int32), (200, 6, 8))
    values = bound.release(counts, group_size=SIZE, rng=rng)
    parts = np.round(values - np.floor(values), 9) % 1
    own_digits = len(np.unique(parts)) > 200
    assert mechanism.publishes_float_noise == bound.publishes_float_noise == own_digits


def test_a_new_mechanism_is_taken_to_publish_what_it_draws():
    class Unknown(BaseMechanism):
        def release(self, counts, *, group_size, rng):
            return counts + rng.standard_cauchy(counts.shape)

    class Cauchy(Unknown):
        name: Literal["cauchy"] = "cauchy"
        stage = "noise"

    class Promising(Unknown):
        @property
        def guarantee(self):
            return Guarantee("event", 1.0, 0.0, "add_remove", "it says so")

    class Rounded(Cauchy):
        whole_output = True

    assert Cauchy().publishes_float_noise
    assert not Rounded().publishes_float_noise
    assert not Unknown().publishes_float_noise
    assert Promising().publishes_float_noise


# The experiment: what an adversary does who knows how the noise was drawn.

EPSILON, N = 0.01, 4000


def can_be_noise_alone(values, scale):
    """Whether each value is one that the generator gives as noise: then the count may be 0.

    There is one noise for each of 2⁵³ uniform numbers, which are far fewer than there are floats of
    that size; a noise plus a count is rounded to a float that most often is none of them (Mironov,
    CCS 2012).
    """
    return np.array([_is_noise(value, scale) for value in values.tolist()])


def _is_noise(value, scale):
    """Whether any uniform number near the right one, put into NumPy's formula, gives the value."""
    half = math.exp(-abs(value) / scale) / 2
    near = round((half if value < 0 else 1 - half) * 2**53)
    candidates = (k * 2.0**-53 for k in range(max(1, near - 6), min(2**53, near + 7)))
    return any(_replay(u, scale) == value for u in candidates)


def _replay(u, scale):
    return scale * math.log(u + u) if u < 0.5 else -scale * math.log(2.0 - u - u)


def publish(seed, count, **options):
    noisy = create("laplace", epsilon=EPSILON, unit="event", **options)
    counts = np.full((1, N), count, np.int32)
    return noisy.release(counts, group_size=SIZE, rng=np.random.default_rng(seed))[0]


def tells_apart(**options):
    """How often 0 and 1 can be noise alone, and the ε that this shows at 99.9 % confidence."""
    zero, one = (
        can_be_noise_alone(publish(seed, count, **options), 1 / EPSILON)
        for seed, count in ((1, 0), (2, 1))
    )
    labels = np.repeat([True, False], N)
    seen = epsilon_lower_bound(labels, np.concatenate([zero, one]) * 1.0, confidence=1 - RARE)
    return zero, one, seen


def test_the_last_bits_of_laplace_noise_tell_zero_counts():
    """At a promise of ε = .01, most counts of 1 are seen not to be 0, with certainty."""
    zero, one, seen = tells_apart()
    assert zero.mean() > 0.99
    assert stats.binomtest(int((~one).sum()), N, 0.7, alternative="greater").pvalue < RARE
    assert seen > 100 * EPSILON


@pytest.mark.parametrize("cure", [WHOLE, {"integers": "floor"}, DISCRETE], ids=str)
def test_whole_numbers_do_not(cure):
    """Neither by the last bits, of which there are none, nor by the values themselves."""
    zero, one, seen = tells_apart(**cure)
    table = [[zero.sum(), one.sum()], [N - zero.sum(), N - one.sum()]]
    if min(map(sum, table)):
        assert stats.fisher_exact(table).pvalue > RARE
    assert seen <= EPSILON
    values = [publish(seed, count, **cure) for seed, count in ((1, 0), (2, 1))]
    assert all((each == np.rint(each)).all() for each in values)
    assert stats.ks_2samp(*values).pvalue > RARE
