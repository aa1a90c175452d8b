"""A mechanism, an attack and a measure of 20 lines each, as somebody else would write them."""

import inspect
import pickle
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest
from running import run, screen

from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.screening import ScreenPlan
from clusterscale.contracts import Attack, Bounds, Guarantee, Mechanism, Noise, Positive
from clusterscale.errors import ConfigError
from clusterscale.mechanisms import create, respond, user_level
from clusterscale.mechanisms.base import BaseMechanism
from clusterscale.mechanisms.law import OutputDistribution
from clusterscale.release.checks import CHECKS, PublishedTable, run_checks
from clusterscale.runtime import SerialExecutor
from clusterscale.utility import Utility

BOUNDS = Bounds(event=1, user_day=3, user=6, series=3, rois=4, null_roi=False)


class UniformNoise(Mechanism):
    """Add noise that is uniform from −width to width."""

    name: Literal["uniform_noise"] = "uniform_noise"
    width: Positive = 2.0

    @property
    def guarantee(self):
        return Guarantee("none", np.inf, 0.0, "add_remove", "large values reveal the count")

    def release(self, counts, *, group_size, rng):
        return counts + rng.uniform(-self.width, self.width, counts.shape)


class CellNoise(UniformNoise):
    """The same, which also says that a count changes its own cell only."""

    name: Literal["cell_noise"] = "cell_noise"
    noise_scope = "cell"


class Claims(UniformNoise):
    """The same, with a claim that is false."""

    name: Literal["claims"] = "claims"

    @property
    def guarantee(self):
        return Guarantee("user", 0.1, 0.0, "add_remove", "it is said so", sensitivity=1.0)


class TotalAttack(Attack):
    """Say *inside* where the sum of all values is above the mean of training groups."""

    name: Literal["total"] = "total"

    def fit(self, knowledge, *, rng):
        sums = knowledge.training.release.flat.sum(axis=1)
        return TotalScore(threshold=float(sums.mean()))


@dataclass(frozen=True)
class TotalScore:
    threshold: float

    def score(self, release):
        return release.flat.sum(axis=1).astype(float)


class LargestError(Utility):
    """The largest error of any cell."""

    name: Literal["largest_error"] = "largest_error"
    ideal = 0.0

    def measure(self, raw, released):
        return float(np.abs(np.asarray(released) - np.asarray(raw)).max())


def plan(fields, *mechanisms):
    attacks, measures = [TotalAttack(), {"name": "projection"}], [LargestError()]
    changes = {"mechanisms": [{"name": "exact"}, *mechanisms], "attacks": attacks}
    changes["utility"] = {"groups": 4, "measures": measures}
    changes["screen"] = {"groups": 40, "attacks": [{"name": "projection"}, {"name": "likelihood"}]}
    return AuditPlan(**(fields | changes | {"verdict": {"trials": 1000}}))


@pytest.mark.parametrize("part", [UniformNoise, (TotalAttack, TotalScore), LargestError])
def test_each_is_at_most_20_lines(part):
    parts = part if isinstance(part, tuple) else (part,)
    assert sum(len(inspect.getsource(one).splitlines()) for one in parts) <= 20


@pytest.mark.slow
def test_they_run_in_an_audit(plan_fields, cube, tmp_path):
    mine = plan(plan_fields, UniformNoise(width=3.0), Claims())
    assert mine == pickle.loads(pickle.dumps(mine))
    assert mine.digest != plan(plan_fields, UniformNoise(), Claims()).digest
    assert mine.describe()["mechanisms"][1]["width"] == 3.0
    results = run(mine, cube, tmp_path / "run", SerialExecutor()).load()
    assert results.mechanism_label.values.tolist() == [
        "exact", "uniform_noise(width=3.0)", "claims"
    ]  # fmt: skip
    assert results.attack.values.tolist() == ["total", "projection"]
    assert np.isfinite(results.auc).all()
    error = results.utility.isel(period=0, measure=0)
    assert (error.sel(mechanism=results.mechanism[0]) == 0).all()
    assert (error.isel(mechanism=1) > 2.5).all()
    assert (error.isel(mechanism=1) <= 3).all()
    assert results.guarantee_unit.values.tolist() == [["none", "none", "user"]]


def test_a_claim_that_is_not_enough_for_the_cube_does_not_hold(plan_fields, cube, tmp_path):
    """A stated sensitivity is compared with the largest change; and the noise is tried."""
    results = run(plan(plan_fields, Claims()), cube, tmp_path / "run", SerialExecutor()).load()
    claimed = results.isel(mechanism=1, period=0)
    assert float(claimed.sensitivity) == 1.0
    assert float(claimed.sensitivity_needed) > 1.0
    assert claimed.float_noise.item() == "yes"
    assert (claimed.verdict == "broken").all()
    assert float(claimed.auc_ceiling) == 1.0, "no limit for a user is known"


def test_a_screen_takes_who_says_how_far_a_count_reaches(plan_fields, cube, tmp_path):
    fields = plan_fields | {"null_roi": False}
    screened = screen(plan(fields, CellNoise()), cube, tmp_path / "run", SerialExecutor()).load()
    assert np.isfinite(screened.auc.isel(mechanism=1)).any()
    with pytest.raises(ConfigError) as caught:
        screen(plan(fields, UniformNoise()), cube, tmp_path / "other", SerialExecutor())
    assert str(caught.value).startswith(
        "mechanisms.1: uniform_noise can use all counts at once (its noise_scope is release)"
    )


def test_a_screen_refuses_an_attack_without_a_score_for_each_cell():
    with pytest.raises(ConfigError, match="total must be trained for each target: a screen"):
        ScreenPlan(attacks=[TotalAttack()])


def test_what_is_not_known_is_never_taken_as_exact():
    mine, counts = UniformNoise(), np.full((3, 4), 5, np.int32)
    assert mine.noise is None
    assert mine.law(20) is None
    assert mine.trace_steps == ()
    assert mine.bind(BOUNDS) is mine
    assert np.isnan(mine.required_sensitivity(BOUNDS))
    assert Claims().required_sensitivity(BOUNDS) == BOUNDS.user
    assert user_level(mine, BOUNDS).epsilon == np.inf
    with pytest.raises(ConfigError, match="depends on all counts"):
        respond(mine, np.arange(3), group_size=20, rng=np.random.default_rng(0))
    counts[0, 0] = -1  # not known
    table = PublishedTable(
        "week", np.full((3, 4), 5.0), 20, mine, 0, counts, roi_totals=np.array([20.0, 20.0, 20.5])
    )
    found = run_checks(table, [table], [CHECKS.create(name) for name in CHECKS], seed=1)
    assert {one.check: one.level for one in found} == {
        "complement": "consistent",  # in no sum
        "differencing": "consistent",  # the same values
        "noise_law": "unknown",
        "possible_counts": "unknown",
        "possible_values": "unknown",
        "totals": "unknown",
    }


class Doubled(BaseMechanism):
    """Publish each value twice as large, with a distribution that holds for raw counts."""

    name: Literal["doubled"] = "doubled"
    noise_scope = "cell"

    def law(self, group_size):
        return OutputDistribution().then(lambda values: np.multiply(values, 2, out=values))

    def release(self, counts, *, group_size, rng):
        return np.asarray(counts, float) * 2


def test_it_can_be_a_step_of_a_chain():
    counts, rng = np.full((3, 4), 5, np.int32), np.random.default_rng(0)
    noisy = {"name": "laplace", "epsilon": 1.0, "unit": "event", "discrete": True}
    alone, after = (create("chain", steps=[*some, Doubled()]) for some in ([], [noisy]))
    assert (alone.release(counts, group_size=20, rng=rng) == 10).all()
    assert alone.law(20).revised
    assert after.law(20) is None, "what it states of counts does not hold for noisy values"
    assert after.noise is None
    assert after.guarantee.epsilon == 1.0
    assert (after.release(counts, group_size=20, rng=rng) % 2 == 0).all()


def test_it_cannot_be_a_step_of_a_chain_by_name():
    with pytest.raises(ConfigError, match=r"UniformNoise is no mechanism: .* \S+\.BaseMechanism$"):
        create("chain", steps=[UniformNoise()])


def test_something_else_is_refused(plan_fields):
    with pytest.raises(ConfigError, match=r"mechanisms\.1: LargestError is no mechanism: "):
        plan(plan_fields, LargestError())
    with pytest.raises(TypeError, match="abstract"):
        Mechanism()
    with pytest.raises(TypeError, match="abstract"):
        Noise(1.0)
