"""Steps in order: each as by hand, and a guarantee that is that of the noise."""

from typing import Literal

import numpy as np
import pytest
from cube import crowd
from loops import for_each
from mechanisms.published import BOUNDS, WITH_NULL, publish, refusal

from clusterscale import mechanisms
from clusterscale.contracts import NO_NOISE, CellCoordinates, stability_of
from clusterscale.errors import ConfigError, InputError
from clusterscale.mechanisms import user_level
from clusterscale.mechanisms.accounting import group_privacy
from clusterscale.mechanisms.coarsening import OnTraces
from clusterscale.mechanisms.noise import LaplaceNoise
from clusterscale.testing import registered

COUNTS = np.random.default_rng(2).integers(0, 30, (40, 5, 12)).astype(np.int32)
SIZE = 30

SAMPLE = {"name": "sample_events", "remove": 0.3}
LAPLACE = {"name": "laplace", "epsilon": 1.0, "sensitivity": 2.0}
EVENT = {"name": "laplace", "epsilon": 1.0, "sensitivity": 1.0, "unit": "event"}
GAUSSIAN = {"name": "gaussian", "epsilon": 1.0, "delta": 0.1, "l2_sensitivity": 1.0}
FOURIER = {"name": "fourier", "epsilon": 1.0, "coefficients": 3, "l2_sensitivity": 2.0}
PERTURB = {"name": "perturb_small", "below": 9, "epsilon": 0.5}
RESPONSE = {"name": "randomized_response", "p": 0.4}
SMALL = {"name": "suppress_small", "up_to": 4}
UNPOPULAR = {"name": "suppress_unpopular", "fraction": 0.5}
FIXED = {"name": "fixed_ranges", "size": 5}
ADAPTIVE = {"name": "adaptive_ranges", "ranges": 3}
SPACE = {"name": "coarsen_space", "factor": 2}
TIME = {"name": "coarsen_time", "factor": 2}
CAP = {"name": "cap_contributions", "per_day": 2}


def chain(*steps):
    return mechanisms.create("chain", steps=list(steps))


def alone(step):
    return mechanisms.create(**step)


def by_hand(*steps, counts=COUNTS, seed=5):
    """Apply the steps one after the other, all drawing from one stream."""
    rng = np.random.default_rng(seed)
    for step in steps:
        counts = alone(step).release(counts, group_size=SIZE, rng=rng)
    return counts


COMBINATIONS = {
    "SPSC": (SAMPLE, PERTURB),
    "SFPA": (SAMPLE, FOURIER),
    "DP+SSC": (LAPLACE, SMALL),
    "DP+SSC, clipped": (LAPLACE | {"clip": True, "integers": "floor"}, SMALL),
    "many": (SAMPLE, GAUSSIAN, SMALL, UNPOPULAR, ADAPTIVE),
    "lies": (SAMPLE, RESPONSE, FIXED),
    "revisions": (UNPOPULAR, SMALL, FIXED),
    "noise alone": (LAPLACE,),
    "sample alone": (SAMPLE,),
    "revision alone": (ADAPTIVE,),
    "small ones blurred, then ranges": (PERTURB, ADAPTIVE),
}


@pytest.mark.parametrize("steps", COMBINATIONS.values(), ids=COMBINATIONS)
def test_a_chain_is_its_steps_by_hand(steps):
    before = COUNTS.copy()
    found = publish(chain(*steps), COUNTS, group_size=SIZE)
    assert found.dtype == np.float64
    assert not np.shares_memory(found, COUNTS)
    np.testing.assert_array_equal(found, by_hand(*steps))
    np.testing.assert_array_equal(COUNTS, before)


@pytest.mark.parametrize("steps", COMBINATIONS.values(), ids=COMBINATIONS)
def test_counts_in_any_order_of_memory(steps):
    expected = publish(chain(*steps), COUNTS, group_size=SIZE)
    for other in (np.asfortranarray(COUNTS), np.repeat(COUNTS, 2, axis=1)[:, ::2]):
        found = publish(chain(*steps), other, group_size=SIZE)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("steps", COMBINATIONS.values(), ids=COMBINATIONS)
def test_float_counts_are_not_revised_in_place(steps):
    counts = COUNTS.astype(np.float64)
    found = publish(chain(*steps), counts, group_size=SIZE)
    assert not np.shares_memory(found, counts)
    np.testing.assert_array_equal(counts, COUNTS)
    np.testing.assert_array_equal(found, by_hand(*steps))


def test_trace_steps_are_for_traces():
    """They do nothing to counts, which were made after them."""
    steps = chain(SPACE, CAP, TIME, LAPLACE, SMALL)
    assert [step.name for step in steps.trace_steps] == [
        "coarsen_space",
        "cap_contributions",
        "coarsen_time",
    ]
    np.testing.assert_array_equal(publish(steps, COUNTS, group_size=SIZE), by_hand(LAPLACE, SMALL))
    only = publish(chain(CAP, TIME), COUNTS, group_size=SIZE)
    np.testing.assert_array_equal(only, COUNTS)
    assert not np.shares_memory(only, COUNTS)
    assert chain(LAPLACE, SMALL).trace_steps == ()


def test_label_is_that_of_the_steps():
    assert chain(SAMPLE, PERTURB).label == (
        "chain(sample_events(remove=0.3) + perturb_small(below=9, epsilon=0.5))"
    )


@for_each(
    ("steps", "message"),
    [
        (
            (LAPLACE, CAP),
            "steps.1: cap_contributions changes traces and must come before laplace, which adds "
            "noise",
        ),
        (
            (SAMPLE, SPACE),
            "steps.1: coarsen_space changes traces and must come before sample_events, which "
            "drops events",
        ),
        (
            (SMALL, LAPLACE),
            "steps.1: laplace adds noise and must come before suppress_small, which changes "
            "published values",
        ),
        (
            (SAMPLE, FIXED, PERTURB),
            "steps.2: perturb_small adds noise and must come before fixed_ranges, which changes "
            "published values",
        ),
        (
            (FOURIER, SAMPLE),
            "steps.1: sample_events drops events and must come before fourier, which adds noise",
        ),
        (
            (SMALL, TIME),
            "steps.1: coarsen_time changes traces and must come before suppress_small, which "
            "changes published values",
        ),
        ((LAPLACE, GAUSSIAN), "steps: more than one adds noise (laplace, gaussian): keep one"),
        (
            (PERTURB, RESPONSE),
            "steps: more than one adds noise (perturb_small, randomized_response): keep one",
        ),
        (
            (SAMPLE, SAMPLE),
            "steps: more than one drops events (sample_events, sample_events): keep one",
        ),
        ((LAPLACE, {"name": "exact"}), "steps: exact does nothing in a chain"),
        (({"name": "exact"},), "steps: exact does nothing in a chain"),
        ((), "steps: give at least one"),
        (
            ({"name": "laplace", "epsilon": 0.0},),
            "steps.0.laplace.epsilon: is 0.0, but should be greater than 0",
        ),
        (({"epsilon": 1.0},), "steps.0: needs a name"),
    ],
)
def test_order_is_refused(steps, message):
    assert refusal("chain", steps=list(steps)) == message


def test_a_chain_is_no_step():
    message = refusal("chain", steps=[{"name": "chain", "steps": [LAPLACE]}])
    assert message.startswith("steps.0: 'chain' is not known: choose from adaptive_ranges, ")


@for_each("step", [LAPLACE, EVENT, GAUSSIAN, FOURIER, RESPONSE, PERTURB])
def test_guarantee_is_that_of_the_noise(step):
    noise = alone(step)
    assert chain(SPACE, step, SMALL, FIXED).guarantee == noise.guarantee
    if noise.guarantee.unit != "event" or noise.guarantee.neighbours != "add_remove":
        assert chain(SAMPLE, step).guarantee == noise.guarantee
    assert user_level(chain(SAMPLE, step, SMALL), BOUNDS) == user_level(noise, BOUNDS)


@pytest.mark.parametrize("step", [LAPLACE, GAUSSIAN, LAPLACE | {"unit": "user_day"}])
def test_a_cap_leaves_guarantees_of_days_and_users(step):
    assert chain(SPACE, CAP, step, SMALL).guarantee == alone(step).guarantee


@pytest.mark.parametrize("caps", [1, 2])
@pytest.mark.parametrize("step", [EVENT, RESPONSE])
def test_an_event_changes_two_after_a_cap(step, caps):
    noise, after = alone(step).guarantee, chain(*[CAP] * caps, TIME, step).guarantee
    assert (after.epsilon, after.delta) == group_privacy(noise.epsilon, noise.delta, 2**caps)
    assert after.reason == f"{noise.reason}; capped, one event changes up to {2**caps}"


def test_noise_is_scaled_to_the_events_that_one_changes():
    free = chain(CAP, {"name": "laplace", "epsilon": 1.5, "unit": "event"})
    for bounds, most in ((BOUNDS, 2.0), (WITH_NULL, 4.0)):
        bound = free.bind(stability_of(free.trace_steps).limit(bounds))
        assert bound.steps[1].scale == most / 1.5
        assert (bound.guarantee.epsilon, bound.guarantee.sensitivity) == (1.5, most)


def test_a_cap_undoes_a_guarantee_for_the_series_of_one_place():
    after = chain(CAP, FOURIER)
    assert (after.guarantee.unit, after.guarantee.epsilon) == ("none", np.inf)
    assert "lets events of other places in" in after.guarantee.reason
    assert user_level(after, BOUNDS) == user_level(alone(FOURIER), BOUNDS)


def test_a_step_of_unknown_stability_undoes_guarantees():
    class Unknown(OnTraces):
        name: Literal["unknown"] = "unknown"

        def apply(self, traces, frame, *, rng):
            return traces, frame

    for step in (LAPLACE, EVENT, GAUSSIAN, FOURIER, RESPONSE):
        with registered(Unknown):
            mechanism = chain({"name": "unknown"}, step)
        assert mechanism.guarantee.unit == "none"
        assert "does not state its stability" in mechanism.guarantee.reason
        assert mechanism.user_privacy_loss(BOUNDS) is None


def test_without_noise_nothing_is_promised():
    guarantee = chain(SAMPLE, SMALL).guarantee
    assert (guarantee.unit, guarantee.epsilon) == ("none", np.inf)
    assert guarantee.reason == "no step adds noise"
    assert user_level(chain(SAMPLE, SMALL), BOUNDS).epsilon == np.inf
    assert np.isnan(chain(CAP).required_sensitivity(BOUNDS))


def test_law_of_noise_holds_only_where_nothing_stands_beside_it():
    assert chain(CAP, LAPLACE).noise == LaplaceNoise(2.0)
    assert chain(GAUSSIAN).noise == alone(GAUSSIAN).noise
    assert chain(CAP, TIME).noise == NO_NOISE
    for steps in ((SAMPLE,), (SMALL,), (SAMPLE, LAPLACE), (LAPLACE, SMALL), (FOURIER,)):
        assert chain(*steps).noise is None


@for_each("epsilon", [0.01, 0.5, 1.0, 3.0, 20.0, 800.0])
@for_each("remove", [0.01, 0.3, 0.9])
def test_sampling_strengthens_event_level_noise(epsilon, remove):
    """One event is kept or not: the densities of both outcomes, mixed, on a grid of values."""
    mechanism = chain(SAMPLE | {"remove": remove}, EVENT | {"epsilon": epsilon})
    guarantee = mechanism.guarantee
    keep = 1 - remove
    at = np.linspace(-1, 2, 3001)  # beyond, the ratio stays what it is at the ends
    without = -epsilon * np.abs(at)  # logarithms of densities, but for a constant
    inside = np.logaddexp(np.log(keep) - epsilon * np.abs(at - 1), np.log(remove) + without)
    assert guarantee.epsilon == pytest.approx(np.abs(inside - without).max(), rel=1e-9)
    assert 0 < guarantee.epsilon < epsilon
    assert (guarantee.unit, guarantee.delta) == ("event", 0.0)
    assert guarantee.reason == (
        f"{alone(EVENT).guarantee.reason}; each event is counted with probability {keep:g}"
    )


def test_sampling_strengthens_nothing_else():
    for step in (LAPLACE, LAPLACE | {"unit": "user_day"}, GAUSSIAN, FOURIER, PERTURB, RESPONSE):
        assert chain(SAMPLE, step).guarantee == alone(step).guarantee


def test_binding_reaches_every_step():
    free = chain(CAP, {"name": "laplace", "epsilon": 1.0, "unit": "user_day"}, SMALL)
    with pytest.raises(ConfigError) as caught:
        publish(free, COUNTS, group_size=SIZE)
    assert str(caught.value).startswith(
        "laplace(epsilon=1.0, unit='user_day'): sensitivity is not known: "
    )
    limited = stability_of(free.trace_steps).limit(WITH_NULL)
    bound = free.bind(limited)
    assert bound.steps[1].sensitivity == free.required_sensitivity(limited) == 4.0  # twice the cap
    assert bound.steps[0] == free.steps[0]
    assert bound.guarantee.sensitivity == 4.0
    publish(bound, COUNTS, group_size=SIZE)
    assert chain(LAPLACE).bind(WITH_NULL) == chain(LAPLACE)


def test_a_sample_in_a_chain_refuses_the_null_roi():
    mechanism = chain(SAMPLE, {"name": "laplace", "epsilon": 1.0})
    assert mechanism.bind(BOUNDS).steps[1].sensitivity == 9.0
    with pytest.raises(ConfigError, match="sample_events: a user who loses the only event"):
        mechanism.bind(WITH_NULL)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            (LAPLACE, SMALL | {"up_to": 30}),
            "suppress_small: up to 30 covers all counts of 30",
        ),
        (
            (SAMPLE, FOURIER | {"coefficients": 8}),
            "fourier: coefficients is 8, but a series of 12 epochs has 7",
        ),
        ((FIXED | {"size": 31},), "fixed_ranges: size 31 is larger than any count of 30 members"),
    ],
)
def test_every_step_is_checked(steps, message):
    with pytest.raises(ConfigError) as caught:
        publish(chain(*steps), COUNTS, group_size=SIZE)
    assert str(caught.value) == message


@pytest.mark.parametrize("steps", [(SAMPLE, PERTURB), (SAMPLE, LAPLACE), (RESPONSE, SMALL)])
def test_what_is_no_count_is_refused(steps):
    with pytest.raises(InputError) as caught:
        publish(chain(*steps), -COUNTS - 1, group_size=SIZE)
    assert str(caught.value) == "counts from -30 to -1 are impossible in a group of 30 members"


def test_from_traces_to_values():
    """SPG and the cap are done to traces, whose counts then get noise."""
    dense = crowd.draw(20, 4, 12, share=0.4)
    lat, lon = (part.ravel().astype(float) for part in np.indices((2, 2)))
    where = CellCoordinates(np.arange(12) // 4, lat, lon)
    mechanism, rng = chain(SPACE, CAP, LAPLACE), np.random.default_rng(3)
    traces = crowd.traces(dense)
    for step in mechanism.trace_steps:
        traces, where = step.apply(traces, where, rng=rng)
    merged = dense.any(axis=1, keepdims=True)
    kept = crowd.densify(traces)
    assert not (kept & ~merged).any()
    per_day = kept.reshape(20, 1, 3, 4).sum(axis=(1, 3))
    had = merged.reshape(20, 1, 3, 4).sum(axis=(1, 3))
    np.testing.assert_array_equal(per_day, np.minimum(had, 2))
