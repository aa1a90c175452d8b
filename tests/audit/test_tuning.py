"""An adversary tunes on what the audit trains on, and never sees a challenge."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.audit.task import play_whole
from clusterscale.analyses.tuning import choose, list_cases, tunable
from clusterscale.attacks import create
from clusterscale.errors import ConfigError


@dataclass
class Listener:
    """An attack that keeps what it is trained on."""

    heard: list = field(default_factory=list)
    name = id = label = "listener"
    needs_whereabouts = validates = trains = False
    threshold = 0.0

    def fit(self, knowledge, *, rng):
        self.heard.append(knowledge)
        return self

    def score(self, release):
        return np.zeros(len(release.values))


@pytest.fixture
def plan(plan_fields):
    return AuditPlan.model_validate(plan_fields | {"control": False})


@pytest.fixture
def cases(plan, cube):
    return list(list_cases(plan, cube, plan.targets.choose(cube, plan.seed), 2))


def test_a_case_for_each_of_the_first_targets_and_every_setting(plan, cube, cases):
    first = plan.targets.choose(cube, plan.seed).users[:2].tolist()
    keys = {(case.task.target, case.task.group_size, case.mechanism.name) for case in cases}
    assert keys == {
        (user, m, name) for user in first for m in (3, 6) for name in ("exact", "laplace")
    }
    assert len(cases) == len(keys) == len({case.path for case in cases})


def compare_with_audit(case, n_studies):
    """Check that tuning forms what the audit trains on first, of so many studies."""
    listener = Listener()
    play_whole(replace(case.task, mechanisms=(case.mechanism,), attacks=(listener,)))
    assert len(listener.heard) == n_studies
    knowledge = listener.heard[0]
    training, fresh = case.form()
    np.testing.assert_array_equal(training.release.values, knowledge.training.release.values)
    np.testing.assert_array_equal(training.labels, knowledge.training.labels)
    np.testing.assert_array_equal(training.blocks, knowledge.training.blocks)
    assert len(fresh.labels) == case.task.prior.validation
    assert fresh.labels.mean() == 0.5


def test_the_groups_are_those_the_audit_trains_on(cases):
    for case in cases:
        compare_with_audit(case, 1)


@pytest.mark.parametrize(("refit", "n_studies"), [("shared", 1), ("per_release", 10)])
def test_of_made_up_groups_too(plan, cube, refit, n_studies):
    """They hang on the release that is studied; to form them, the same one must be."""
    sizes = {"reference": 60, "training": 8, "challenges": 10, "validation": 6}
    priors = ({"name": "zero_knowledge", "refit": refit} | sizes,)
    made_up = AuditPlan.model_validate(plan.model_dump() | {"priors": priors})
    for case in list_cases(made_up, cube, made_up.targets.choose(cube, made_up.seed), 2):
        compare_with_audit(case, n_studies)


def test_a_prior_without_groups_of_its_own_has_none_to_judge_by(plan, cube):
    priors = ({"name": "perfect", "groups": 40},)
    seen = AuditPlan.model_validate(plan.model_dump() | {"priors": priors})
    (case, *_) = list_cases(seen, cube, seen.targets.choose(cube, seen.seed), 1)
    training, fresh = case.form()
    assert len(training.labels) == 40
    assert fresh is None


def test_choice_by_hand():
    variants = create("logistic").variants()[:3]
    scores = np.array(
        [  # two cases of target 4, one of target 9; two folds
            [[0.5, 0.7], [0.7, 0.7], [0.6, 0.6]],
            [[0.6, 0.6], [0.8, 0.8], [0.6, 0.6]],
            [[0.6, 0.6], [0.7, 0.7], [0.6, 0.6]],
        ]
    )
    found = choose(variants, scores, np.array([4, 4, 9]))
    assert (found.given, found.chosen) == variants[:2]
    assert (found.given_auc, found.auc) == pytest.approx((0.6, 2.2 / 3))
    # gains are .15 for target 4 and .1 for target 9
    assert found.spread == pytest.approx(0.05 / 2)


def test_of_equals_the_attack_as_given_stays_and_one_target_has_no_spread():
    variants = create("nearest").variants()
    found = choose(variants, np.full((3, len(variants), 2), 0.8), np.array([1, 1, 1]))
    assert found.chosen == found.given == variants[0]
    assert np.isnan(found.spread)


def test_what_can_be_tuned(plan):
    assert tunable(plan) == (create("logistic"),)
    fields = plan.model_dump() | {"attacks": [{"name": "projection"}]}
    with pytest.raises(
        ConfigError, match=r"none of them can be tuned; .* logistic, nearest, forest, perceptron"
    ):
        tunable(AuditPlan.model_validate(fields))
