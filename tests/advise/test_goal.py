"""Scores, bounds, limits and families of mechanisms."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.analyses.advise import AdvicePlan
from clusterscale.analyses.advise.families import Family, Spaced, list_candidates, usual_families
from clusterscale.analyses.advise.goal import Aim, Finding, score_utility
from clusterscale.analyses.advise.measuring import Measured, utility_findings
from clusterscale.analyses.advise.results import to_yaml
from clusterscale.analyses.publish.plan import find_faults
from clusterscale.config import parse_entry
from clusterscale.errors import ConfigError
from clusterscale.mechanisms import MECHANISMS
from clusterscale.utility import create

F1, ERROR = create("hotspot_f1"), create("mean_relative_error")


def measured(*values, errors=None, share=1.0):
    errors = np.zeros(len(values)) if errors is None else np.array(errors)
    return Measured(np.array(values, float), errors, share, 4)


def test_score_is_the_weighted_mean_of_one_minus_the_distance_to_the_ideal():
    aims = Aim(measure=F1, weight=3.0), Aim(measure=ERROR, worst=2.0)
    assert score_utility(aims, np.array([0.8, 0.5])) == pytest.approx((3 * 0.8 + 0.75) / 4)
    assert score_utility(aims, np.array([1.0, 0.0])) == 1
    assert score_utility(aims, np.array([0.0, 50.0])) == 0
    assert score_utility(aims, np.array([1.0, np.nan])) == pytest.approx(0.75)


@given(st.floats(-3, 3), st.floats(-3, 3))
def test_closer_to_the_ideal_is_never_worse(one, other):
    aims = (Aim(measure=F1),)
    near, far = sorted((one, other), key=lambda value: abs(value - 1))
    assert score_utility(aims, np.array([near])) >= score_utility(aims, np.array([far]))


def test_a_measure_with_a_bound_has_no_weight_unless_one_is_given():
    assert Aim(measure=F1, bound=0.5).factor == 0
    assert Aim(measure=F1, bound=0.5, weight=2.0).factor == 2
    assert AdvicePlan(goal=[Aim(measure=F1, bound=0.5)]).by_bounds
    with pytest.raises(ConfigError, match="weight or a bound"):
        AdvicePlan(goal=[Aim(measure=F1, weight=0.0)])


@pytest.mark.parametrize(
    ("value", "error", "verdict"),
    [(0.9, 0.01, "holds"), (0.81, 0.01, "unclear"), (0.7, 0.01, "fails"), (np.nan, 0, "unclear")],
)
def test_bounds_hold_where_the_whole_interval_does(value, error, verdict):
    found = list(utility_findings(measured(value, errors=[error]), (Aim(measure=F1, bound=0.8),)))
    assert [one.verdict for one in found] == [verdict]
    mirrored = measured(1 - value, errors=[error])
    found = list(utility_findings(mirrored, (Aim(measure=ERROR, bound=0.2),)))
    assert [one.verdict for one in found] == [verdict]


@pytest.mark.parametrize("share", [0.0, np.nan])
def test_an_empty_release_is_refused_whatever_its_measures(share):
    (found,) = utility_findings(measured(1.0, share=share), (Aim(measure=F1),))
    assert found.verdict == "fails"


@pytest.mark.parametrize(
    ("values", "guess", "worse", "useless"),
    [
        ((0.106, 654.7), (0.906, 0.97), "both", True),
        ((0.4, 654.7), (0.906, 0.97), "error", False),
        ((0.106, 0.5), (0.906, 0.97), "", False),
        ((0.106, 0.5), (0.893, 0.97), "F1", False),
        ((0.9, 0.96), (0.906, 0.97), "", False),
        ((0.1, 1.0), (np.nan, 0.97), "error", False),
    ],
)
def test_what_is_worse_than_a_guess_is_told_with_both_distances(values, guess, worse, useless):
    aims = Aim(measure=F1), Aim(measure=ERROR), Aim(measure=create("events_kept"))
    found = replace(measured(*values, 0.9), guess_loss=np.array([*guess, 0.0]))
    f1 = f"hotspot F1 0.894 from its ideal (a guess {guess[0]})"
    error = f"mean relative error {values[1]:.3g} from its ideal (a guess 0.97)"
    text = {"both": f"{f1}, {error}", "error": error, "F1": f1, "": ""}[worse]
    assert found.compare_with_guess(aims) == (text, useless)
    assert replace(found, guess_loss=None).compare_with_guess(aims) == ("", False)
    kept = replace(measured(0.9), guess_loss=np.zeros(1))
    assert not kept.compare_with_guess(aims[2:])[0], "a guess hides nothing"


def test_an_interval_across_the_limit_is_no_pass():
    for low, high, verdict in ((0.1, 0.2, "holds"), (0.2, 0.4, "unclear"), (0.4, 0.5, "fails")):
        assert Finding.of(low, (low + high) / 2, high, 0.3, "").verdict == verdict
    assert Finding.of(np.nan, np.nan, np.nan, 0.3, "").verdict == "unclear"


def test_it_is_stated_how_much_more_would_tell():
    found = Finding.of(0.2, 0.29, 0.4, 0.3, "", "targets", 10)
    assert found.times == pytest.approx(11**2)
    assert np.isinf(Finding.of(0.2, 0.3, 0.4, 0.3, "").times)


def test_errors_shrink_with_groups_and_settings():
    means, deviations = np.ones((2, 1)), np.full((2, 1), 0.6)
    found = Measured.of(means, deviations, np.array([1.0, 0.5]), 9)
    assert found.errors == pytest.approx(0.6 / np.sqrt(18))
    assert found.released_share == 0.5


def test_a_family_is_every_combination_of_its_values():
    steps = [{"name": "cap_contributions", "per_day": 1}, {"name": "laplace", "epsilon": 1.0}]
    family = Family(
        mechanism={"name": "chain", "steps": steps},
        over={"steps.0.per_day": (1, 2), "steps.1.epsilon": Spaced(least=0.1, most=10.0, n=3)},
    )
    made = [(m.steps[0].per_day, m.steps[1].epsilon) for m in family.members()]
    assert made == [(1, 0.1), (1, 1.0), (1, 10.0), (2, 0.1), (2, 1.0), (2, 10.0)]
    assert steps[0]["per_day"] == 1


@pytest.mark.parametrize(
    ("mechanism", "over", "match"),
    [
        ({"name": "laplace"}, {"epsilon": (-1.0,)}, "epsilon"),
        ({"name": "laplace", "epsilon": 1.0}, {"steps.0.k": (1,)}, "over.steps.0.k"),
        ({"name": "laplac"}, {}, "laplace"),
        ({"epsilon": 1.0}, {}, "name"),
    ],
)
def test_a_wrong_family_is_refused_with_its_reason(mechanism, over, match):
    with pytest.raises(ConfigError, match=match):
        Family(mechanism=mechanism, over=over)


def test_the_usual_candidates_can_be_pasted_back_and_published():
    candidates = list_candidates([MECHANISMS.create("exact")], usual_families())
    assert len({one.id for one in candidates}) == len(candidates) > 60
    assert not [one.label for one in candidates if [*find_faults(one, null_roi=False)]]
    for candidate in candidates:
        assert parse_entry(MECHANISMS, to_yaml(candidate)) == candidate
