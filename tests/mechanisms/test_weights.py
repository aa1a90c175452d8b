"""Expansion by the weights of users publishes their sums, and claims no more than is so."""

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mechanisms.published import BOUNDS
from oracles.dense import traces_of

from clusterscale.contracts import Guarantee, Mechanism, Support, publish
from clusterscale.errors import ConfigError, InputError
from clusterscale.groups import count_visits, sum_weights
from clusterscale.mechanisms import create, user_level
from clusterscale.testing import check_mechanism

SEEDS = st.integers(0, 2**32)
SIZE = 12
EXPAND = {"name": "expand", "factor": "weights"}
HIDE = {"name": "threshold", "k": 5}
LAPLACE = {"name": "laplace", "epsilon": 1.0, "sensitivity": 1.0}


def chain(*steps):
    return create("chain", steps=list(steps))


def release(mechanism, counts, sums, seed=1):
    rng = np.random.default_rng(seed)
    return publish(counts, mechanism, group_size=SIZE, rng=rng, sums=sums).values


def counted(seed, weights=None):
    """Return counts of four groups, and the sums of their weights, from traces."""
    rng = np.random.default_rng(seed)
    dense = rng.random((30, 4, 6)) < 0.4
    weights = rng.lognormal(1.6, 0.5, 30) if weights is None else weights
    members = np.array([rng.choice(30, SIZE, replace=False) for _ in range(4)])
    traces = replace(traces_of(dense), weights=weights)
    expected = np.array([(dense[row] * weights[row, None, None]).sum(axis=0) for row in members])
    assert sum_weights(traces, members) == pytest.approx(expected, rel=1e-12)
    return count_visits(traces, members), sum_weights(traces, members)


@given(SEEDS)
def test_sums_are_published_as_they_are_where_nothing_else_changed_a_count(seed):
    counts, sums = counted(seed)
    np.testing.assert_array_equal(release(create(**EXPAND), counts, sums), sums)
    np.testing.assert_array_equal(release(chain(EXPAND), counts, sums), sums)
    found = release(chain(HIDE, EXPAND), counts, sums)
    np.testing.assert_array_equal(found, np.where(counts < 5, 0.0, sums))


@given(SEEDS)
def test_a_changed_count_is_multiplied_by_the_mean_weight_of_those_counted(seed):
    counts, sums = counted(seed)
    noisy = release(create(**LAPLACE), counts, None)
    means = np.array([s / c if c else 0.0 for s, c in zip(sums.flat, counts.flat, strict=True)])
    found = release(chain(LAPLACE, EXPAND), counts, sums)
    assert found == pytest.approx(noisy * means.reshape(counts.shape))


def test_after_expansion_a_threshold_on_people_hides_nobody_before_it_does():
    """One device that stands for 5.13 people passes a threshold of 5."""
    counts = np.arange(8, dtype=np.int32)[None, None]
    sums = counts * 5.13
    after, before = (release(chain(*steps), counts, sums)[0, 0] for steps in (
        (EXPAND, HIDE), (HIDE, EXPAND)
    ))  # fmt: skip
    assert after.tolist() == sums[0, 0].tolist()
    assert before.tolist() == [0.0] * 5 + sums[0, 0, 5:].tolist()


@pytest.mark.parametrize("equal", [False, True])
def test_a_threshold_after_expansion_may_exceed_the_number_of_devices(equal):
    counts, sums = counted(1)
    people = chain(EXPAND, HIDE | {"k": 40})
    if equal:
        sums, people = counts * 5.5, people.at_weight(5.5)
    people.check(group_size=SIZE, n_rois=4, n_epochs=6)
    values = release(people, counts, sums)
    np.testing.assert_array_equal(values, np.where(sums < 40, 0.0, sums))
    with pytest.raises(ConfigError, match="threshold: below 40 covers all counts of 12"):
        chain(HIDE | {"k": 40}, EXPAND).check(group_size=SIZE, n_rois=4, n_epochs=6)


@given(SEEDS)
def test_later_steps_are_on_people(seed):
    counts, sums = counted(seed)
    rounded = release(chain(EXPAND, {"name": "round_to_base", "base": 20}), counts, sums)
    assert (rounded % 20 == 0).all()
    assert (np.abs(rounded - sums) < 20).all()
    shares = release(chain(EXPAND, {"name": "share_of_total"}), counts, sums)
    assert shares == pytest.approx(sums / sums.sum(axis=1, keepdims=True))


@pytest.mark.parametrize(
    "steps",
    [
        (EXPAND,),
        (HIDE, EXPAND),
        (EXPAND, HIDE),
        (LAPLACE, EXPAND),
        ({"name": "coarsen_time", "factor": 2}, EXPAND, {"name": "share_of_total"}),
    ],
    ids=str,
)
def test_weights_of_one_publish_the_same_bits_as_no_expansion(steps):
    counts, sums = counted(2, np.ones(30))
    rest = [step for step in steps if step != EXPAND] or [{"name": "threshold", "k": 2}]
    rest = create("exact") if len(steps) == 1 else chain(*rest)
    found = release(chain(*steps), counts, sums)
    np.testing.assert_array_equal(found, release(rest, counts, None))


@pytest.mark.parametrize(
    "mechanism",
    [create(**EXPAND), chain(HIDE, EXPAND), chain(EXPAND, HIDE), chain(LAPLACE, EXPAND)],
)
def test_the_contract_of_mechanisms_holds(mechanism):
    check_mechanism(mechanism)


@pytest.mark.parametrize("steps", [(EXPAND,), (HIDE, EXPAND), (EXPAND, HIDE), (LAPLACE, EXPAND)])
def test_nothing_is_claimed_that_weights_do_not_keep(steps):
    mechanism = chain(*steps).bind(BOUNDS)
    assert mechanism.uses_weights
    assert mechanism.law(SIZE) is None
    assert mechanism.noise is None
    stated = mechanism.guarantee
    assert (stated.unit, stated.epsilon) == ("none", np.inf)
    assert np.isnan(mechanism.required_sensitivity(BOUNDS))
    assert user_level(mechanism, BOUNDS).epsilon == np.inf
    support = mechanism.support(Support(0.0, SIZE, 1.0), SIZE)
    assert (support.high, support.step) == (np.inf, 0.0)
    assert support.low == (-np.inf if LAPLACE in steps else 0.0)


def test_noise_before_weights_says_why_it_guarantees_nothing():
    reason = chain(LAPLACE, EXPAND).guarantee.reason
    assert reason.endswith("multiplied by the mean weight of the users counted, which noise does "
                           "not hide")  # fmt: skip
    assert chain(LAPLACE, EXPAND | {"factor": 2.0}).guarantee.epsilon == 1.0


def test_values_in_visits_are_those_of_people():
    counts, sums = counted(3)
    for steps in ((EXPAND,), (EXPAND, {"name": "share_of_total"})):
        values = release(chain(*steps), counts, sums)
        assert chain(*steps).in_visits(values, sums) == pytest.approx(sums)
    doubled = chain(EXPAND, {"name": "expand", "factor": 2.0})
    assert doubled.in_visits(release(doubled, counts, sums), sums) == pytest.approx(sums)


REFUSED = {
    "sampled": (
        [{"name": "sample_events", "remove": 0.2}, EXPAND],
        "sample_events does not say whose events it drops, so expand cannot add up the weights",
    ),
    "twice": ([EXPAND, EXPAND], r"weights are used twice \(expand, expand\): keep one"),
    "dominated": (
        [EXPAND, {"name": "dominance", "share": 0.5}],
        "dominance counts every contribution as one, so it must come before expand, which",
    ),
    "noise after": ([EXPAND, LAPLACE], "laplace adds noise and must come before expand, which"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_steps_that_weights_do_not_fit_are_refused(case):
    steps, message = REFUSED[case]
    with pytest.raises(ConfigError, match=message):
        chain(*steps)


@pytest.mark.parametrize("mechanism", [create(**EXPAND), chain(HIDE, EXPAND)])
def test_counts_without_weights_are_refused(mechanism):
    counts = np.ones((1, 2, 2), np.int32)
    with pytest.raises(ConfigError, match="uses the weights of users, which are not known here"):
        release(mechanism, counts, None)
    with pytest.raises(ConfigError, match="weights of users"):
        mechanism.release(counts, group_size=SIZE, rng=np.random.default_rng(1))


def test_sums_of_another_shape_are_refused():
    with pytest.raises(InputError, match=r"sums of weights are \(1, 2\), but counts \(2, 2\)"):
        create(**EXPAND).release(
            np.ones((2, 2), np.int32), group_size=5, rng=None, sums=np.ones((1, 2))
        )


@pytest.mark.parametrize(
    ("factor", "fault"),
    [
        ("weight", "is 'weight', but should be a number or 'weights'"),
        (0, "is 0, but should be greater than 0 or 'weights'"),
        (None, "is None, but should be a number or 'weights'"),
    ],
)
def test_a_wrong_factor_names_both_possibilities(factor, fault):
    with pytest.raises(ConfigError) as caught:
        create("expand", factor=factor)
    assert str(caught.value) == f"mechanism.expand.factor: {fault}"


class Halved(Mechanism):
    """A mechanism of a third party: half of the sum of weights."""

    name: Literal["halved"] = "halved"
    uses_weights: ClassVar[bool] = True

    @property
    def guarantee(self):
        return Guarantee("none", np.inf, 0.0, "add_remove", "sums are halved")

    def release(self, counts, *, group_size, rng, sums):
        return sums / 2


def test_a_mechanism_of_a_third_party_may_use_weights():
    counts, sums = counted(4)
    np.testing.assert_array_equal(release(Halved(), counts, sums), sums / 2)
    check_mechanism(Halved())
