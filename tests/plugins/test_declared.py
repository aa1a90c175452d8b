"""What a class of another package says of itself is found wherever such classes are listed."""

from typing import ClassVar, Literal

import numpy as np
import pytest
from acme_privacy.attack import MatchingCells
from acme_privacy.mechanism import UniformNoise
from typer.testing import CliRunner

from clusterscale.analyses.advise.plan import Advice, AdvicePlan
from clusterscale.analyses.audit import AuditPlan, predict
from clusterscale.analyses.publish.plan import find_faults
from clusterscale.analyses.traits import TraitsPlan
from clusterscale.analyses.traits.analysis import list_views
from clusterscale.analyses.traits.exposure import Exposed
from clusterscale.cli import app
from clusterscale.contracts import AttackSeconds, UsualSettings
from clusterscale.testing import registered


class SlowMatching(MatchingCells):
    """An attack that says how long it takes, whom it suits, and that it has loadings."""

    name: Literal["slow_matching"] = "slow_matching"
    seconds = AttackSeconds(group=1000.0)
    usual_against = ("known_subset",)
    shows_loadings = True


class UsualNoise(UniformNoise):
    """A mechanism that says how it is used, and why it must not publish real counts."""

    name: Literal["usual_noise"] = "usual_noise"
    usual: ClassVar = (UsualSettings({}, {"width": (1.0, 4.0)}),)
    publish_seconds = 10.0
    publish_refusal = "extreme values reveal the count: use another"


@pytest.fixture(autouse=True)
def _plugins():
    with registered(MatchingCells, SlowMatching, UsualNoise):
        yield


@pytest.fixture
def fields(plan_fields):
    return plan_fields | {"attacks": [{"name": "projection"}, {"name": "slow_matching"}]}


class Found:
    """The exposure that an audit found by one attack."""

    source, period, prior, group_size = "audit", "all", "known_subset", 6

    def __init__(self, plan, attack, auc):
        self.mechanism, self.attack = plan.mechanisms[0].id, attack
        users = np.arange(4)
        self._exposed = Exposed(users, np.full(4, auc), np.zeros(4))

    def read(self):
        return self._exposed


def test_explain_counts_the_seconds_that_classes_declare(fields, cube):
    plain = AuditPlan(**fields | {"attacks": [{"name": "matching_cells"}]})
    slow = AuditPlan(**fields | {"attacks": [{"name": "slow_matching"}]})
    noisy = AuditPlan(**fields | {"mechanisms": [{"name": "usual_noise"}]})
    least = predict(plain, cube).resources.core_seconds
    assert predict(slow, cube).resources.core_seconds > 1000 * least
    assert predict(noisy, cube).resources.core_seconds > 1000 * least


def test_loadings_are_of_the_attack_that_shows_them(fields):
    plan = AuditPlan(**fields)
    found = [Found(plan, "projection", 0.9), Found(plan, "slow_matching", 0.6)]
    ((_, targets),) = list_views(plan, found, TraitsPlan())
    assert targets.auc.tolist() == [0.6] * 4


def test_advice_tries_usual_settings_and_attacks_candidates(fields):
    advice = Advice(AdvicePlan(), AuditPlan(**fields | {"null_roi": False}))
    tried = [one for one in advice.candidates if one.name == "usual_noise"]
    assert [one.width for one in tried] == [1.0, 4.0]
    assert SlowMatching() in advice.attacking(tuple(tried), np.arange(2)).attacks


def test_init_writes_an_attack_that_is_usual_against_the_prior(cube, tmp_path):
    file = tmp_path / "audit.yaml"
    done = CliRunner().invoke(app, ["init", str(file), "--cube", cube.uri])
    assert done.exit_code == 0, done.output
    assert "    - {name: slow_matching}\n" in file.read_text()


def test_publish_refuses_a_mechanism_with_the_reason_it_states():
    (fault,) = find_faults(UsualNoise(), null_roi=False)
    assert fault.endswith("is not published: extreme values reveal the count: use another")
