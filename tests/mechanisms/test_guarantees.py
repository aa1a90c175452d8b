"""What a guarantee implies for several units, and for a person."""

from typing import Literal

import numpy as np
import pytest
from doubles.stated_noise import StatedNoise
from hypothesis import given, settings
from hypothesis import strategies as st
from loops import for_each

from clusterscale.contracts import Bounds, Guarantee
from clusterscale.contracts.mechanism import group_privacy
from clusterscale.mechanisms import create
from clusterscale.mechanisms.accounting import (
    concentrated_epsilon,
    describe_guarantee,
    describe_person,
    rho_of_unit,
)
from clusterscale.mechanisms.chain import Chain
from clusterscale.mechanisms.sampling import CapContributions


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 3), st.floats(0, 0.1), st.integers(0, 20))
def test_group_privacy_is_the_sum_of_one_change_after_another(epsilon, delta, n):
    """P ≤ e^ε Q + δ, n times over."""
    total = 0.0
    for _ in range(n):
        total = np.exp(epsilon) * total + delta
    found = group_privacy(epsilon, delta, n)
    assert found == (pytest.approx(n * epsilon), pytest.approx(min(total, 1.0)))


def test_group_privacy_of_huge_losses_is_no_bound():
    assert group_privacy(600.0, 1e-9, 3) == (1800.0, 1.0)
    assert group_privacy(600.0, 0.0, 3) == (1800.0, 0.0)


class CapOfOthers(CapContributions):
    """A step of another package, which may count more events than it says."""


class Stated(StatedNoise):
    """A step with a guarantee that adds or removes one unit."""

    name: Literal["stated"] = "stated"

    @property
    def guarantee(self):
        epsilon = np.inf if self.unit == "none" else self.epsilon
        return Guarantee(self.unit, epsilon, self.delta, "add_remove", "it is stated")

    def release(self, counts, *, group_size, rng):
        raise NotImplementedError


def person(unit, delta=0.0, scope="cell", steps=(), **fields):
    noise = Stated(unit=unit, delta=delta, scope=scope, **fields)
    chain = Chain(steps=(*steps, noise)) if steps else noise
    return describe_person(noise.guarantee, 14, chain), noise, chain


CAP = (CapContributions(per_day=2),)


@for_each(
    ("unit", "delta", "scope", "steps", "words"),
    [
        (
            "event",
            0.0,
            "cell",
            (CapOfOthers(per_day=2),),
            "a person with n events, up to n times that",
        ),
        ("user_day", 0.0, "cell", (), "for a person who is there on all 14 days, up to ε 14"),
        ("user_day", 1e-9, "cell", (), "up to ε 14, δ 1.4e-08"),
        ("user_day", 1e-9, "series", (), "up to ε 14, δ 0.000699"),
        ("user_day", 1e-9, "release", (), "up to ε 14, δ 0.000699"),
        ("event", 0.0, "cell", CAP, "with 28 events, the most that are counted, up to ε 28"),
        ("event", 1e-9, "cell", CAP, "the most that are counted, up to ε 28, δ 2.8e-08"),
        ("event", 0.0, "cell", (), "for a person with n events, up to n times that"),
        ("event", 1e-9, "cell", (), "for a person with n events, up to n times that"),
        ("event", 1e-9, "release", (), "up to n times that ε, and δ·(1 + e^ε + … + e^((n−1)ε))"),
        ("roi_series", 0.0, "series", (), "for a person at n places, up to n times that"),
        ("roi_series", 1e-9, "series", (), "for a person at n places, up to n times that"),
        ("user", 0.0, "cell", (), ""),
        ("none", 0.0, "cell", (), ""),
    ],
)
def test_a_guarantee_says_what_it_means_for_a_person(unit, delta, scope, steps, words):
    """Days of which each has noise of its own add up; others can share it, and are a group."""
    found, noise, chain = person(unit, delta, scope, steps)
    assert words in found
    assert bool(found) == bool(words)
    assert found.endswith("n times that") == words.endswith("n times that")
    if unit == "user_day" and not delta:
        assert describe_guarantee(noise.guarantee, 14, chain) == f"ε 1 per user's day; {found}"


def test_two_weeks_of_independent_days_are_not_a_group_of_fourteen():
    """14 days of (.5, 1e-5) are (7, 1.4e-4)."""
    found, *_ = person("user_day", 1e-5, epsilon=0.5)
    assert found == "for a person who is there on all 14 days, up to ε 7, δ 0.00014"


@for_each("scope", ["cell", "release"])
def test_post_processing_after_noise_changes_nothing_for_a_person(scope):
    noise = Stated(unit="user_day", delta=1e-9, scope=scope)
    share = create("share_of_total")
    assert share.noise_scope == "release"
    chain = Chain(steps=(noise, share))
    assert describe_person(noise.guarantee, 14, chain) == describe_person(
        noise.guarantee, 14, noise
    )


def test_days_with_independent_normal_noise_lose_no_more_than_their_sum():
    """The exact loss of 14 days of discrete normal noise, by their ρ and by all together."""
    noise = create("gaussian", epsilon=0.5, delta=1e-5, unit="user_day", discrete=True)
    chain = Chain(steps=(*CAP, noise)).bind(Bounds(1, 2, 2, 1, 1, False))
    together = chain.user_privacy_loss(Bounds(1, 2, 28, 1, 1, False)).accountant(1)(1.4e-4)
    assert concentrated_epsilon(14 * rho_of_unit(chain), 1.4e-4) == pytest.approx(together)
    assert together < 7
    assert rho_of_unit(create("laplace", epsilon=1.0, unit="event", discrete=True)) is None
    assert rho_of_unit(create("exact")) is None
