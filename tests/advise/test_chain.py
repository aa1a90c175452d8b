"""From a goal to a published release, or to the true reason why nothing is advised."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from conftest import write_cube
from oracles.publications import AUDIT
from running import run, screen
from typer.testing import CliRunner

import clusterscale as cs
from clusterscale.analyses.advise.choosing import Search
from clusterscale.analyses.advise.exposure import Attacked, attacked_findings
from clusterscale.analyses.advise.goal import AttackedLimit
from clusterscale.analyses.audit import AuditPlan
from clusterscale.cli import app
from clusterscale.mechanisms import MECHANISMS
from clusterscale.metrics import mean_interval
from clusterscale.release import read_table
from clusterscale.runtime import SerialExecutor
from clusterscale.testing.population import draw_dense

pytestmark = pytest.mark.slow  # each row is a search of its own

NOISE = {"name": "laplace", "unit": "event", "clip": True, "discrete": True}
SHARP = [{"name": "threshold", "k": 2}, {"name": "round_to_base", "base": 5}]
CAPPED = {"name": "chain", "steps": [
    {"name": "cap_contributions", "per_day": 2},
    {**NOISE, "unit": "user_day", "epsilon": 1.0},
]}  # fmt: skip
HIDDEN = {"name": "suppress_unpopular", "fraction": 0.5}
HOTSPOTS = {"measure": {"name": "hotspot_f1"}}
DISTANCE = {"measure": {"name": "jensen_shannon"}}


def noise(*epsilons):
    return [NOISE | {"epsilon": epsilon} for epsilon in epsilons]


MANY = [*SHARP, *noise(0.02, 0.1, 0.5, 2.0), CAPPED]
ADVISED = {
    "nothing": ({}, MANY, {}),
    "guarantee": ({"guarantee": {"unit": "event", "epsilon": 0.5}}, MANY, {}),
    "days": ({"guarantee": {"unit": "user_day", "epsilon": 2.0}}, MANY, {}),
    "certified": ({"certified": {"auc": 0.9}}, MANY, {}),
    "screened": ({"screened": {"loss": 0.8, "share": 0.5}}, MANY, {}),
    "attacked": ({"attacked": {"mean_auc": 0.75}}, MANY, {}),
    "worst": ({"attacked": {"worst_auc": 0.97}}, MANY, {}),
    "proven": ({"attacked": {"mean_auc": 0.75}}, noise(0.1), {"search_targets": 3}),
    "bounds": ({"attacked": {"mean_auc": 0.75}}, MANY, {"goal": [DISTANCE | {"bound": 0.7}]}),
    "coarser": ({"attacked": {"mean_auc": 0.75}}, noise(0.2), {"coarsen": True}),
    "larger": ({"attacked": {"mean_auc": 1.0}}, noise(0.1), {"coarsen": True}),
}
NOT_ADVISED = {
    "guarantee": ({"guarantee": {"unit": "user", "epsilon": 0.001}}, MANY, {}),
    "certified": ({"certified": {"auc": 0.51}}, MANY, {}),
    "bounds": ({"attacked": {"mean_auc": 0.8}}, MANY, {"goal": [HOTSPOTS | {"bound": 0.95}]}),
    "attacked": ({"attacked": {"mean_auc": 0.6}}, SHARP, {}),
    "screened": ({"screened": {"loss": 0.05, "share": 0.05}}, [*SHARP, *noise(2.0)], {}),
    "few": ({"attacked": {"mean_auc": 0.515}}, [*SHARP, *noise(0.02, 2.0)], {}),
    "fewer": ({"attacked": {"mean_auc": 0.61}}, [*SHARP, *noise(0.1)], {}),
    "slow": ({"attacked": {"mean_auc": 0.75}}, noise(0.12, 2.0), {"search_targets": 3}),
    "slower": ({"attacked": {"mean_auc": 0.77}}, noise(0.13), {"search_targets": 3}),
    "hidden": ({"screened": {"loss": 0.5, "share": 0.3}}, [HIDDEN, *SHARP], {}),
}
CAUSES = (
    dict.fromkeys(["guarantee", "certified", "bounds", "attacked", "screened"], "none exists")
    | dict.fromkeys(["few", "fewer"], "too few users")
    | dict.fromkeys(["slow", "slower"], "too slow to confirm")
    | {"hidden": "cannot be shown"}
)
FIELDS = AUDIT | {
    "null_roi": False,
    "group_sizes": [6],
    "periods": [{"name": "all", "first": 0, "epochs": 48}],
    "priors": [{"name": "known_subset", "alpha": 0.5, "training": 40, "challenges": 40}],
    "mechanisms": [{"name": "exact"}],
    "screen": {"groups": 40, "attacks": [{"name": "projection"}]},
    "verdict": {"trials": 40},
}


def call(folder, verb, *words, **sections):
    path = folder / f"{verb}.yaml"
    path.write_text(yaml.safe_dump(sections | {"cluster": {"name": "serial"}}))
    return CliRunner().invoke(app, [verb, str(path), *words], env={"COLUMNS": "80"})


def advise(folder, uri, limits, mechanisms, settings):
    """Return the advice, and what was printed."""
    plan = {
        "goal": [HOTSPOTS, DISTANCE], "limits": limits, "finalists": 3, "rounds": 2,
        "families": [{"mechanism": one} for one in mechanisms],
        "search_targets": 20, "confirm_targets": 25, "confirm_groups": 10,
    } | settings  # fmt: skip
    out = str(folder / "advice")
    done = call(folder, "advise", cube=uri, output=out, audit=FIELDS, advise=plan)
    assert done.exit_code in (0, 4), done.output
    return cs.open_advice(out).load(), done.output


def without_sensitivity(mechanism):
    """Return its heading before it was bound to the cells that are published."""
    return re.sub(r", sensitivity \d+", "", mechanism.heading)


def attack_small_groups(self, batch):
    """In place of attacks, which larger groups hide from: those on groups of 6 always succeed."""
    auc = 1.0 if min(self.advice.audit.group_sizes) == 6 else 0.5
    for candidate in batch:
        candidate.attacked, candidate.reached = Attacked(*[auc] * 6, 20), "attacked"
        found = attacked_findings(candidate.attacked, AttackedLimit(mean_auc=0.9))
        candidate.drop(found, unless=("holds",))
    yield from ()


@pytest.mark.parametrize("name", ADVISED)
def test_what_is_advised_is_published_as_it_is(name, cube, tmp_path, monkeypatch):
    if name == "larger":
        monkeypatch.setattr(Search, "_attack", attack_small_groups)
    found, printed = advise(tmp_path, cube.uri, *ADVISED[name])
    print(name, printed)
    assert found.verdict == "advised", found.notes
    assert (found.group_size > 6) == (name == "larger")
    sign = CliRunner().invoke(app, ["report", str(tmp_path / "advice"), "--sign-off"])
    assert f"\n  {found.yaml}\nthen run `clusterscale audit CONFIG" in str(sign.exception)
    one = found.sel(mechanism=found.advised)
    section = {
        "period": {"name": "all", "first": 0, "epochs": 48},
        "series": "places",
        "releases": str(tmp_path / "releases"),
        "without_guarantee": one.guarantee_unit.item() == "none",
    }
    if not section["without_guarantee"]:
        section["budget"] = {
            "unit": one.guarantee_unit.item(),
            "epsilon": 2 * one.guarantee_epsilon.item(),
        }
    words = "--from", str(tmp_path / "advice")
    fields = {"cube": cube.uri, "output": str(tmp_path), "publish": section}
    refused = call(tmp_path, "publish", *words, **fields)
    assert refused.exit_code == 4, "the advice is about smaller groups"
    assert "the release counts 60 people, but the audit is of groups of" in refused.output
    done = call(tmp_path, "publish", *words, "--allow-warn", **fields)
    assert done.exit_code == 0, done.output or done.exception
    (release,) = Path(tmp_path / "releases/places").glob("*.zarr")
    (settings,) = yaml.safe_load(found.yaml)
    published = read_table(str(release)).metadata.mechanism
    assert without_sensitivity(published) == MECHANISMS.create(**settings).heading
    few = write_cube(str(tmp_path / "few"), draw_dense(np.random.default_rng(1), 4, 8, 48))
    done = call(tmp_path, "publish", *words, **fields | {"cube": few.uri})
    assert done.exit_code == 4
    assert "of another cube than the audited one" in done.output


@pytest.fixture(scope="module")
def plain(cube, tmp_path_factory):
    """Plain analyses of all candidates and all users."""
    every = {json.dumps(one): one for _, some, _ in NOT_ADVISED.values() for one in some}
    fields = FIELDS | {
        "targets": {"random": 60},
        "mechanisms": [{"name": "exact"}, *every.values()],
        "utility": {"groups": 50, "measures": [HOTSPOTS["measure"]]},
    }
    plan, folder = AuditPlan.model_validate(fields, strict=False), tmp_path_factory.mktemp("plain")
    audit = run(plan, cube, folder / "audit", SerialExecutor()).load()
    ceilings = cs.certify(plan, cube, folder / "certify", SerialExecutor()).load()
    scored = tuple(one for one in plan.mechanisms if one.id != MECHANISMS.create(**HIDDEN).id)
    some = plan.model_copy(update={"mechanisms": scored})
    return audit, ceilings, screen(some, cube, folder / "screen", SerialExecutor()).load()


def judge(plain, mechanism, limits, settings, n_users=60):
    """Return whether a candidate keeps each limit, None where ``n_users`` cannot tell."""
    audit, ceilings, screened = plain
    found = []
    if wanted := limits.get("guarantee"):
        stated = mechanism.guarantee
        found.append((stated.unit, stated.epsilon <= wanted["epsilon"]) == (wanted["unit"], True))
    at = {"mechanism": mechanism.id}
    if wanted := limits.get("certified"):
        found.append(bool(ceilings.auc.sel(at).max() <= wanted["auc"]))
    if wanted := limits.get("screened"):
        if mechanism.id not in screened.mechanism.values:
            return None
        exposed = screened.privacy_loss.sel(at).values.ravel() > wanted["loss"]
        found.append(side(mean_interval(exposed * 1.0), wanted["share"]))
    if wanted := limits.get("attacked"):
        auc = audit.auc.sel(at).values.ravel()[:n_users]
        found.append(side(mean_interval(auc), wanted["mean_auc"]))
    for aim in settings.get("goal", ()):
        found.append(bool(audit.utility.sel(at).mean() >= aim["bound"]))
    return False if False in found else None if None in found else True


def side(interval, limit):
    """Return whether an interval is within a limit, None if it contains it."""
    return True if interval[1] <= limit else False if interval[0] > limit else None


@pytest.mark.parametrize("name", NOT_ADVISED)
def test_the_reason_is_that_of_attacks_on_all_candidates(name, cube, plain, tmp_path):
    limits, mechanisms, settings = NOT_ADVISED[name]
    found, printed = advise(tmp_path, cube.uri, limits, mechanisms, settings)
    print(name, printed)
    candidates = [MECHANISMS.create(**one) for one in ({"name": "exact"}, *mechanisms)]
    few = [judge(plain, one, limits, settings, n_users=30) for one in candidates]
    every = [judge(plain, one, limits, settings) for one in candidates]
    print("brute force", found.cause, few, every)
    assert not found.advised
    assert found.cause == CAUSES[name]
    if found.cause == "none exists":  # each one breaks a limit
        assert every == [False] * len(candidates)
    elif found.cause == "too few users":  # half of the users cannot tell of the best
        assert None in few
        assert True not in few
    elif found.cause == "too slow to confirm":  # more targets than the search had can tell
        assert None not in few
    else:
        assert None in every
        assert True not in every
