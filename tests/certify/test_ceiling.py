"""Ceilings: against all outcomes, closed forms, integrals, and the accountants of dp_accounting."""

from itertools import pairwise
from typing import Literal

import numpy as np
import pytest
import scipy
from certify.oracles import (
    area,
    geometric_pair,
    geometric_roc,
    laplace_delta,
    roc_of_outcomes,
)
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from loops import for_each
from scipy.stats import norm

from clusterscale.analyses import certify
from clusterscale.analyses.certify.basis import loss_of_noise, losses_of_counts
from clusterscale.analyses.certify.ceilings import against
from clusterscale.analyses.certify.loss import (
    Changes,
    LaplaceShift,
    PairLoss,
    SampledLoss,
    best_test,
    bounded_loss,
)
from clusterscale.contracts import Guarantee, Mechanism, Noise
from clusterscale.errors import ConfigError, InputError
from clusterscale.mechanisms import create
from clusterscale.mechanisms.noise import DiscreteLaplaceNoise


def event_noise(epsilon, **settings):
    return create("laplace", epsilon=epsilon, unit="event", **settings)


def ceiling(mechanism, n, *, neighbours="add_remove", group_size=50):
    return certify.ceiling(mechanism, n_changed=n, group_size=group_size, neighbours=neighbours)


def test_a_published_attack_nearly_reaches_the_ceiling():
    best = ceiling(event_noise(0.66), 32)
    assert best.accuracy == pytest.approx(0.9552, abs=5e-5)
    assert best.auc == pytest.approx(0.9918, abs=5e-5)
    assert best.tpr(1e-3) == pytest.approx(0.614, abs=5e-4)
    assert best.tight


@for_each(
    ("name", "settings", "reached"),
    [
        ("exact", {}, True),
        ("coarsen_time", {"factor": 2}, True),
        ("threshold", {"k": 3}, False),
        ("suppress_small", {"below": 3}, False),
        ("suppress_unpopular", {"fraction": 0.5}, False),
    ],
)
def test_that_nothing_bounds_what_is_learned_proves_exposure_of_exact_counts_only(
    name, settings, reached
):
    """Others can be subtracted from exact counts; a person below a threshold changes nothing."""
    best = ceiling(create(name, **settings), 2)
    assert (best.auc, best.tight) == (1, reached)


@for_each("n", [1, 2, 3, 6, 12])
def test_laplace_is_the_integral_over_all_outcomes(n):
    epsilon = 0.66
    fpr, tpr = best_test([Changes(LaplaceShift(1 / epsilon), n)])
    assert (tpr - fpr).max() == pytest.approx(laplace_delta(epsilon, n, 0.0), abs=1e-6)
    for at in (-1.0, 0.4, 1.5):  # of all tests, the largest TPR − e^ε FPR is δ
        largest = (tpr - np.exp(at) * fpr).max()
        assert largest == pytest.approx(laplace_delta(epsilon, n, at), abs=1e-6)


@for_each("epsilon", [0.1, 1.0, 3.0])
@for_each("n", [1, 2, 7, 12])
def test_geometric_is_the_sum_over_all_outcomes(epsilon, n):
    best, curve = ceiling(event_noise(epsilon, discrete=True), n), geometric_roc(epsilon, n)
    assert best.auc == pytest.approx(area(*curve), abs=1e-6)
    assert best.total_variation == pytest.approx((curve[1] - curve[0]).max(), abs=1e-6)
    assert best.tpr(0.01) == pytest.approx(np.interp(0.01, *curve), abs=1e-6)


def test_one_geometric_cell_is_one_bit():
    """All values below and all above the count have the same likelihood ratio."""
    without, inside = geometric_pair(0.7)
    curve = roc_of_outcomes(without, inside, 1)
    assert area(*curve) == pytest.approx(area(*geometric_roc(0.7, 1)), abs=1e-9)


@for_each("n", [1, 5, 12])
@for_each("sensitivity", [3.0, 30.0])
def test_gaussian_is_the_closed_form(n, sensitivity):
    mechanism = create("gaussian", epsilon=1.0, delta=0.01, l2_sensitivity=sensitivity)
    best, shift = ceiling(mechanism, n), n**0.5 / mechanism.sigma
    assert best.auc == pytest.approx(norm.cdf(shift / 2**0.5), abs=1e-6)
    assert best.accuracy == pytest.approx(norm.cdf(shift / 2), abs=1e-6)
    assert best.tpr(1e-3) == pytest.approx(norm.cdf(norm.ppf(1e-3) + shift), abs=1e-6)


@for_each("p", [0.1, 0.5, 0.9])
@for_each("n", [1, 3, 12])
def test_randomised_response_is_the_sum_over_all_outcomes(p, n):
    """Every answer is yes if the person is there; otherwise all are with probability pⁿ."""
    best = ceiling(create("randomized_response", p=p), n)
    assert best.auc == pytest.approx(1 - p**n / 2, abs=1e-6)
    assert best.total_variation == pytest.approx(1 - p**n, abs=1e-6)
    if n == 3:
        assert best.auc == pytest.approx(area(*roc_of_outcomes((1 - p, p), (0, 1), 3)), abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=4),
    st.integers(1, 4),
)
def test_any_few_values_are_the_sum_over_all_outcomes(weights, n):
    own, other = np.array(weights, float).T
    if not own.sum() or not other.sum():
        return
    inside, without = own / own.sum(), other / other.sum()
    fpr, tpr = best_test([Changes(PairLoss(((tuple(without), tuple(inside)),)), n)])
    oracle = roc_of_outcomes(without, inside, n)
    for found, true in (
        (area(fpr, tpr), area(*oracle)),
        ((tpr - fpr).max(), (oracle[1] - oracle[0]).max()),
    ):  # losses between the steps of the grid are rounded towards exposure
        assert true - 1e-9 <= found <= true + 5e-5


def test_delta_is_that_of_dp_accounting():
    """Laplace and normal noise, whole or of a sample, composed and in both directions."""
    for kept in (1.0, 0.3):
        peers = {
            0.7: pld.from_laplace_mechanism(1 / 0.7, sampling_prob=kept),
            0.4: pld.from_gaussian_mechanism(1 / 0.4, sampling_prob=kept),
        }
        steps = [{"name": "sample_events", "remove": 1 - kept}] if kept < 1 else []
        gauss = create("gaussian", epsilon=1.0, delta=0.01, l2_sensitivity=1.0)
        gauss = {**gauss.model_dump(), "l2_sensitivity": 1 / 0.4 / gauss.sigma}
        noises = {0.7: event_noise(0.7).model_dump(), 0.4: gauss}
        for key, peer in peers.items():
            mechanism = create("chain", steps=[*steps, noises[key]])
            best, composed = ceiling(mechanism, 10), peer.self_compose(10)
            both = composed.get_delta_for_epsilon(0.0)
            assert best.total_variation == pytest.approx(both, abs=2e-6)
            gap = best.true_positive_rates - np.exp(1.0) * best.false_positive_rates
            away = composed._pmf_remove.get_delta_for_epsilon(1.0)
            assert gap.max() == pytest.approx(away, abs=2e-6)


def test_weeks_compose_as_by_dp_accounting():
    """Three weeks with other noise, one of them of a sample."""
    sampled = [{"name": "sample_events", "remove": 0.5}, event_noise(0.9).model_dump()]
    weeks = [(event_noise(0.5), 4), (event_noise(0.2), 20), (create("chain", steps=sampled), 6)]
    together = certify.compose([ceiling(mechanism, n) for mechanism, n in weeks])
    step = 2e-4
    peers = [
        pld.from_laplace_mechanism(2, value_discretization_interval=step).self_compose(4),
        pld.from_laplace_mechanism(5, value_discretization_interval=step).self_compose(20),
        pld.from_laplace_mechanism(
            1 / 0.9, sampling_prob=0.5, value_discretization_interval=step
        ).self_compose(6),
    ]
    peer = peers[0].compose(peers[1]).compose(peers[2])
    assert together.total_variation == pytest.approx(peer.get_delta_for_epsilon(0.0), abs=2e-6)
    assert together.tight
    same = certify.compose([ceiling(event_noise(0.5), 3), ceiling(event_noise(0.5), 5)])
    assert same.auc == pytest.approx(ceiling(event_noise(0.5), 8).auc, abs=1e-9)
    raw = certify.compose([ceiling(event_noise(0.5), 3), ceiling(create("exact"), 1)])
    assert raw.auc == 1


def test_a_test_that_draws_reaches_the_ceiling_and_none_exceeds_it():
    """The likelihood ratio of Laplace noise on 5 cells, 200,000 draws a side (error 4 sd)."""
    epsilon, n, draws = 0.8, 5, 200_000
    rng = np.random.default_rng(7)
    noise = rng.laplace(0, 1 / epsilon, (2, draws, n))
    noise[0] += 1
    score = (np.abs(noise) - np.abs(noise - 1)).sum(axis=2)
    ranks = scipy.stats.rankdata(score.ravel())[:draws].sum()
    auc = (ranks - draws * (draws + 1) / 2) / draws**2
    assert auc == pytest.approx(ceiling(event_noise(epsilon), n).auc, abs=4 * 0.5 / draws**0.5)


RANDOM = [
    ("laplace", {"epsilon": 0.4, "unit": "event"}),
    ("laplace", {"epsilon": 0.4, "unit": "event", "discrete": True}),
    ("gaussian", {"epsilon": 1.0, "delta": 0.1, "l2_sensitivity": 2.0}),
    ("randomized_response", {"p": 0.8}),
    ("sample_events", {"remove": 0.9}),
    ("round_to_base", {"base": 10}),
    ("fourier", {"epsilon": 0.2, "coefficients": 3, "l2_sensitivity": 3.0}),
]


@for_each(("name", "values"), RANDOM)
def test_more_cells_never_lower_the_ceiling(name, values):
    mechanism = create(name, **values)
    for neighbours in ("add_remove", "replace"):
        found = [ceiling(mechanism, n, neighbours=neighbours) for n in range(9)]
        for attribute in ("auc", "accuracy"):
            numbers = [getattr(one, attribute) for one in found]
            assert numbers[0] == 0.5
            assert all(b >= a - 1e-9 for a, b in pairwise(numbers))
            assert numbers[-1] > numbers[1]
        assert all(0.5 <= one.accuracy <= one.auc + 1e-9 <= 1 + 2e-9 for one in found)


@for_each(("name", "values"), RANDOM)
def test_replacing_a_visit_reveals_no_less_than_adding_one(name, values):
    mechanism = create(name, **values)
    assert ceiling(mechanism, 5, neighbours="replace").auc >= ceiling(mechanism, 5).auc - 1e-9


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 3.0), st.floats(0.01, 3.0), st.integers(1, 60))
def test_less_noise_never_lowers_the_ceiling(one, other, n):
    low, high = sorted((one, other))
    for extra in ({}, {"discrete": True}):
        aucs = [ceiling(event_noise(e, **extra), n).auc for e in (low, high)]
        assert aucs[0] <= aucs[1] + 1e-7


@pytest.mark.parametrize(
    "after",
    [
        {"name": "threshold", "k": 5},
        {"name": "round_to_base", "base": 5},
        {"name": "share_of_total"},
        {"name": "top_code", "at": 9},
        {"name": "bottom_code", "at": 9, "least": 2},
    ],
)
def test_what_follows_noise_is_not_counted(after):
    noisy = event_noise(0.4)
    both = create("chain", steps=[noisy.model_dump(), after])
    best = ceiling(both, 6)
    assert best.auc == pytest.approx(ceiling(noisy, 6).auc, abs=1e-9)
    assert not best.tight
    assert "can only lower" in best.reason


def test_sampling_before_a_mechanism_without_a_bound_still_bounds():
    steps = [{"name": "sample_events", "remove": 0.9}, {"name": "threshold", "k": 5}]
    best = ceiling(create("chain", steps=steps), 3)
    assert best.auc == pytest.approx(1 - 0.9**3 / 2, abs=1e-9)
    assert not best.tight


@for_each(
    ("name", "values"),
    [
        ("exact", {}),
        ("threshold", {"k": 5}),
        ("fixed_ranges", {"size": 5}),
        ("perturb_small", {"below": 5, "epsilon": 0.1}),
        ("cell_key", {"deviation": 5, "variance": 3.0}),
        ("expand", {"factor": 3.0}),
        ("round_to_base", {"base": 5, "rule": "nearest"}),
        ("unscaled_fourier", {"epsilon": 1.0, "coefficients": 3, "l2_sensitivity": 3.0}),
    ],
)
def test_what_bounds_nothing_has_the_ceiling_1_and_says_so(name, values):
    best = ceiling(create(name, **values), 1)
    assert (best.auc, best.accuracy, best.tpr(0.0), best.total_variation) == (1, 1, 1, 1)
    assert best.reason.startswith("nothing bounds it")
    assert ceiling(create(name, **values), 0).auc == 0.5


def test_weights_after_noise_have_no_ceiling():
    steps = [event_noise(0.1).model_dump(), {"name": "expand", "factor": "weights"}]
    assert ceiling(create("chain", steps=steps), 1).auc == 1


@pytest.mark.parametrize("base", [3, 5, 10])
def test_random_rounding_is_its_worst_count(base):
    """Each pair of neighbouring counts differs by a probability of 1/base."""
    loss = losses_of_counts(create("round_to_base", base=base).law(40), 40)
    fpr, tpr = best_test([Changes(loss, 1)])
    assert (tpr - fpr).max() == pytest.approx(1 / base, abs=1e-9)
    pairs = [pair for pair in loss.pairs if len(pair[0]) <= 3]
    for n in (1, 3):
        found = area(*best_test([Changes(loss, n)]))
        assert all(found >= area(*roc_of_outcomes(*pair, n)) - 1e-9 for pair in pairs)


def test_rounding_that_surely_gives_a_person_away_ends_at_1():
    """Without an oracle of size 10ⁿ: each cell gives the person away with probability .1."""
    rounding, numbers = create("round_to_base", base=10), [1, 10, 100, 320, 340, 1_500, 100_000]
    found = [ceiling(rounding, n) for n in numbers]
    least = 1 - 0.9 ** np.array(numbers) * 0.5
    assert (np.array([one.accuracy for one in found]) >= least - 1e-12).all()
    assert [one.auc for one in found] == sorted(one.auc for one in found)
    assert [one.auc for one in found[-2:]] == [1.0, 1.0]
    others = tuple((certify.Visits(n), 0.25) for n in (2, 320, 340, 3_000))
    game = [against(rounding, certify.Visits(n), others, group_size=50) for n in (1, 2_000)]
    assert game[0].auc < game[1].auc == 1.0


def test_a_third_party_that_only_states_a_guarantee_is_bounded_by_it():
    class Stated(Mechanism):
        name: Literal["stated"] = "stated"
        unit: str = "user"
        sensitivity: float = 4.0

        @property
        def guarantee(self):
            return Guarantee(self.unit, 1.0, 0.0, "add_remove", "it is", self.sensitivity)

        def release(self, counts, *, group_size, rng):
            return counts + rng.normal(size=counts.shape)

    whole = ceiling(Stated(), 4)
    assert whole.auc == pytest.approx(area(*geometric_roc(1.0, 1)), abs=1e-9)
    assert (whole.tight, whole.reason) == (False, "its guarantee: it is")
    assert ceiling(Stated(), 5).auc == 1, "more than the guarantee covers"
    twice = ceiling(Stated(), 4, neighbours="replace").auc
    assert twice == pytest.approx(area(*geometric_roc(2.0, 1)), abs=1e-9)
    event = ceiling(Stated(unit="event", sensitivity=1.0), 4).auc
    assert event == pytest.approx(area(*geometric_roc(4.0, 1)), abs=1e-9)
    assert ceiling(Stated(unit="event", sensitivity=0.5), 1).auc == 1


class Total(Mechanism):
    """Publishes the total with Laplace noise in one cell: ε for an event; the noise is shared."""

    name: Literal["total"] = "total"
    epsilon: float

    @property
    def guarantee(self):
        return Guarantee("event", self.epsilon, 0.0, "add_remove", "noise on the total", 1.0)

    def release(self, counts, *, group_size, rng):
        values = np.zeros(counts.shape)
        totals = counts.sum(axis=(-2, -1))
        values[..., 0, 0] = totals + rng.laplace(0.0, 1 / self.epsilon, totals.shape)
        return values


@pytest.mark.parametrize(
    ("epsilon", "n", "stated"), [(0.3, 10, 0.888), (0.3, 30, 0.994), (0.1, 20, 0.816)]
)
def test_group_privacy_bounds_a_shared_total(epsilon, n, stated):
    """The total moves by n: the best accuracy is 1 − exp(−nε/2)/2, and nothing below is stated."""
    truth = 1 - np.exp(-n * epsilon / 2) / 2
    assert truth == pytest.approx(stated, abs=5e-4)
    best = ceiling(Total(epsilon=epsilon), n)
    assert truth <= best.accuracy <= scipy.special.expit(n * epsilon) + 1e-9
    others = ((certify.Visits(n), 0.5), (certify.Visits(2 * n), 0.5))
    game = against(Total(epsilon=epsilon), certify.Visits(n), others, group_size=50)
    moved = np.array([2 * n, 3 * n]) * epsilon  # if the other moves the total the other way
    assert game.accuracy >= (1 - np.exp(-moved / 2) / 2).mean()


def test_replacing_a_user_is_two_changes():
    """Laplace noise of scale 1 on a sum that one user moves by 1: replaced, it moves by 2."""

    class User(Total):
        name: Literal["total"] = "total"

        @property
        def guarantee(self):
            return Guarantee("user", self.epsilon, 0.0, "add_remove", "a bounded sum")

    user = ceiling(User(epsilon=1.0), 5, neighbours="replace").accuracy
    assert 1 - np.exp(-1) / 2 <= user <= scipy.special.expit(2.0) + 1e-9
    releases = certify.Visits(5, releases=2)
    assert ceiling(User(epsilon=1.0), releases).accuracy >= 1 - np.exp(-1) / 2


def test_units_that_a_person_changes_are_never_more_than_counts():
    visits = certify.Visits(6, 2, 4, days=3, day=4, releases=2)
    units = {unit: visits.units(unit) for unit in ("event", "user_day", "user", "roi_series")}
    assert units == {"event": 6, "user_day": 3, "user": 2, "roi_series": 2}
    assert certify.Visits(2, days=9).units("user_day") == 2
    assert certify.Visits(4).units("user_day") == 4
    assert (visits.bounds.user_day, certify.Visits(4).bounds.user_day) == (4, 4)


def test_noise_of_third_parties_is_used_if_it_is_whole_numbers():
    class Slow(DiscreteLaplaceNoise):
        """The same law, by its probabilities."""

    class Other(Noise):
        variance = sample = cdf = density = quantile = None

    assert loss_of_noise(Other(1.0)) is None
    same = PairLoss(loss_of_noise(DiscreteLaplaceNoise(2.0)).pairs)
    by_values = _by_values(Slow(2.0))
    for n in (1, 6):
        areas = [area(*best_test([Changes(loss, n)])) for loss in (same, by_values)]
        assert areas[1] == pytest.approx(areas[0], abs=1e-6)


def _by_values(noise):
    values = np.arange(-90, 92.0)
    pair = tuple(noise.density(values).tolist()), tuple(noise.density(values - 1).tolist())
    return PairLoss((pair,))


def test_both_ways_are_the_larger_of_each():
    sampled = SampledLoss(LaplaceShift(1.0), 0.5)
    both, epsilon = sampled.either_way(), np.linspace(-2, 2, 9)
    assert both.either
    ways = [sampled.delta(epsilon, removed=way) for way in (False, True)]
    assert np.array_equal(both.delta(epsilon), np.maximum(*ways))
    assert not np.allclose(*ways)
    assert LaplaceShift(1.0).either_way() == LaplaceShift(1.0)
    assert bounded_loss(1.0, 0.1).either_way() == bounded_loss(1.0, 0.1)


def test_directions_are_dual():
    """H(Q‖P) at e^ε is 1 − e^ε + e^ε H(P‖Q) at e^−ε."""
    epsilon = np.linspace(-1.4, 1.4, 15)
    for loss in (LaplaceShift(0.7), SampledLoss(LaplaceShift(0.7), 0.3), bounded_loss(0.5, 0.2),
                 PairLoss((((0.2, 0.8, 0.0), (0.5, 0.4, 0.1)),))):  # fmt: skip
        dual = 1 - np.exp(epsilon) + np.exp(epsilon) * loss.delta(-epsilon)
        assert np.allclose(loss.delta(epsilon, removed=True), dual, atol=1e-12)


def test_posterior():
    best = ceiling(event_noise(0.66), 32)
    assert best.posterior(0.01, fpr=1e-3) == pytest.approx(
        0.01 * best.tpr(1e-3) / (0.01 * best.tpr(1e-3) + 0.99e-3)
    )
    assert ceiling(event_noise(1.0), 0).posterior(0.3, fpr=0.1) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_changed": -1}, "n_changed must be at least 0, not -1"),
        ({"group_size": 0}, "group_size must be at least 1, not 0"),
        ({"neighbours": "near"}, "neighbours must be add_remove or replace, not 'near'"),
        ({"mechanism": "exact"}, "mechanism is of type str, but should be of type Mechanism"),
    ],
)
def test_errors_say_what_would_be_right(change, words):
    values = {"mechanism": create("exact"), "n_changed": 1, "group_size": 5, **change}
    with pytest.raises((InputError, TypeError), match=words):
        certify.ceiling(values.pop("mechanism"), **values)


def test_an_unbound_mechanism_is_refused():
    with pytest.raises(ConfigError, match="sensitivity is not known: give it, or bind"):
        ceiling(create("laplace", epsilon=1.0), 3)


def test_errors_of_queries():
    best = ceiling(event_noise(1.0), 1)
    for call, words in (
        (lambda: best.tpr(1.5), "fpr must be between 0 and 1, not 1.5"),
        (lambda: best.posterior(0.0, fpr=0.1), "prior must be between 0 and 1, not 0.0"),
        (lambda: best.posterior(0.1, fpr=0.0), "fpr must be above 0"),
        (lambda: certify.compose([]), "ceilings: give at least one"),
    ):
        with pytest.raises(InputError, match=words):
            call()
