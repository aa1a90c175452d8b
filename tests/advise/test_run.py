"""Advice from end to end: what is advised, what is not, and the same bits however it was run."""

import re
import shutil

import numpy as np
import pytest
import xarray as xr
import yaml
from conftest import write_cube
from running import advise as run
from typer.testing import CliRunner

import clusterscale as cs
from clusterscale import open_advice
from clusterscale.analyses.advise import Advice, AdvicePlan, choosing
from clusterscale.analyses.advise.exposure import Attacked, attacked_findings
from clusterscale.analyses.advise.goal import AttackedLimit
from clusterscale.analyses.audit import AuditPlan
from clusterscale.cli import app
from clusterscale.errors import ConfigError, StudyError
from clusterscale.mechanisms import MECHANISMS
from clusterscale.reporting.advice import answer
from clusterscale.runtime import Local, SerialExecutor
from clusterscale.testing.population import draw_dense

pytestmark = pytest.mark.slow  # a search is several studies

FAMILIES = [
    {"mechanism": {"name": "threshold"}, "over": {"k": (2, 50)}},
    {
        "mechanism": {"name": "laplace", "unit": "event", "clip": True, "discrete": True},
        "over": {"epsilon": (0.02, 0.5, 2.0)},
    },
    {"mechanism": {"name": "suppress_unpopular", "fraction": 0.5}},
]
LIMIT = AttackedLimit(mean_auc=0.55)
GOAL = [{"measure": {"name": "hotspot_f1"}}, {"measure": {"name": "jensen_shannon"}}]


@pytest.fixture(scope="module")
def fields(shared_plan_fields):
    return shared_plan_fields | {
        "null_roi": False,
        "group_sizes": [6],
        "mechanisms": [{"name": "exact"}],
        "attacks": [{"name": "projection"}],
        "screen": {"groups": 24, "attacks": [{"name": "projection"}]},
        "verdict": {"trials": 40},
    }


def plan_of(**settings):
    known = {
        "goal": GOAL, "families": FAMILIES, "finalists": 2, "rounds": 3, "groups": 2,
        "search_targets": 3, "confirm_targets": 4, "confirm_groups": 4,
    }  # fmt: skip
    return AdvicePlan.model_validate(known | settings, strict=False)


def advise(fields, cube, folder, executor=None, confirm=None, **settings):
    advice = Advice(plan_of(**settings), AuditPlan(**fields))
    return run(advice, cube, folder, executor or SerialExecutor(), confirm=confirm).load()


@pytest.fixture(scope="module")
def undisturbed(fields, cube, tmp_path_factory):
    return advise(fields, cube, tmp_path_factory.mktemp("advice"))


def test_without_limits_raw_counts_are_advised(undisturbed):
    assert undisturbed.verdict == "advised"
    assert undisturbed.yaml == "- {name: exact}"
    best = undisturbed.sel(mechanism=undisturbed.advised)
    assert best.score == best.confirmed_score == 1
    assert best.reason == ""
    assert (undisturbed.reason != "").sum() == undisturbed.sizes["mechanism"] - 1
    assert "covers what it gives away" in undisturbed.price


def test_every_candidate_that_fell_out_has_a_reason_in_words(undisturbed):
    reasons = dict(zip(undisturbed.mechanism_label.values, undisturbed.reason.values, strict=True))
    assert "covers all counts of 6" in reasons["threshold(k=50)"]
    assert undisturbed.reached.sel(mechanism=[undisturbed.advised]).item() == "confirmed"
    noisy = next(text for label, text in reasons.items() if "epsilon=0.02" in label)
    assert "is better: score" in noisy or "others had a better score" in noisy


class Backwards(SerialExecutor):
    n_workers = 3

    def map_batches(self, function, items, **options):
        return super().map_batches(function, reversed(list(items)), **options)


class Breaks(Exception):
    pass


class Interrupted(SerialExecutor):
    """Fails after a number of results."""

    def __init__(self, n):
        super().__init__()
        self.left = n

    def map_batches(self, function, items, **options):
        for batch in super().map_batches(function, items, **options):
            if self.left == 0:
                raise Breaks
            self.left -= 1
            yield batch


def same(one, other):
    xr.testing.assert_identical(one.drop_attrs(), other.drop_attrs())
    drop = {"versions", "cube", "created"}
    keep = [{k: v for k, v in each.attrs.items() if k not in drop} for each in (one, other)]
    assert keep[0] == keep[1]


@pytest.mark.slow
def test_the_order_of_tasks_changes_nothing(undisturbed, fields, cube, tmp_path):
    same(advise(fields, cube, tmp_path / "backwards", Backwards()), undisturbed)


@pytest.mark.slow
def test_workers_change_nothing(undisturbed, fields, cube, tmp_path):
    with Local(workers=2).open() as executor:
        same(advise(fields, cube, tmp_path / "spread", executor), undisturbed)


@pytest.mark.parametrize(
    "n", [pytest.param(n, marks=[] if n == 4 else pytest.mark.slow) for n in (1, 2, 3, 4, 6, 8)]
)
def test_an_interrupted_search_is_resumed_with_the_same_bits(
    undisturbed, fields, cube, tmp_path, n
):
    with pytest.raises(Breaks):
        advise(fields, cube, tmp_path / "run", Interrupted(n))
    same(advise(fields, cube, tmp_path / "run"), undisturbed)


def test_limits_that_nobody_keeps_lead_to_no_advice(fields, cube, tmp_path):
    limits = {"guarantee": {"unit": "user", "epsilon": 0.001}}
    found = advise(fields, cube, tmp_path, limits=limits)
    assert (found.verdict, found.advised, found.yaml) == ("none", "", "")
    assert all("guarantee" in text or "covers all" in text or "ε" in text
               for text in found.reason.values)  # fmt: skip


@pytest.mark.slow
def test_a_limit_excludes_what_cannot_be_screened(fields, cube, tmp_path):
    found = advise(fields, cube, tmp_path, limits={"screened": {"loss": 0.9, "share": 0.9}})
    at = found.mechanism_label.values.tolist().index("suppress_unpopular(fraction=0.5)")
    assert "cannot be shown" in found.reason.values[at]


@pytest.mark.slow
def test_four_targets_cannot_confirm_a_strict_limit(fields, cube, tmp_path, monkeypatch):
    """The search is made to pass; only the confirmation may then decide."""
    monkeypatch.setattr(choosing.Search, "_attack", _attack_without_limits)
    limits = {"attacked": {"mean_auc": 0.54}}  # which no certificate keeps
    found = advise(fields, cube, tmp_path, limits=limits, tries=2)
    assert found.verdict == "inconclusive"
    assert found.advised == ""
    tried = found.reached.values == "confirmed"
    assert 1 <= tried.sum() <= 2
    assert all(text.startswith("not confirmed: ") for text in found.reason.values[tried])


def _attack_without_limits(self, batch):
    for candidate in batch:
        candidate.attacked = Attacked(0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 3)
        candidate.reached = "attacked"
    yield from ()


@pytest.mark.slow
def test_candidates_beside_the_front_are_attacked_if_it_fails(fields, cube, tmp_path, monkeypatch):
    front = []

    def attack(self, batch):
        """Only candidates that were not on the front keep the limit."""
        front.extend([] if front else [one.id for one in self.order])
        for candidate in batch:
            auc = 0.9 if candidate.id in front else 0.5
            candidate.attacked, candidate.reached = Attacked(*[auc] * 6, 3), "attacked"
            candidate.drop(attacked_findings(candidate.attacked, LIMIT), unless=("holds",))
        yield from ()

    monkeypatch.setattr(choosing.Search, "_attack", attack)
    limits = {"attacked": LIMIT.model_dump()}
    found = advise(fields, cube, tmp_path, limits=limits, tries=1)
    reached = dict(zip(found.mechanism.values, found.reached.values, strict=True))
    others = [key for key in reached if key not in front and reached[key] != "listed"]
    assert any(reached[key] == "confirmed" for key in others)
    assert found.verdict in ("advised", "inconclusive")


@pytest.mark.slow
def test_few_targets_leave_it_undecided_whether_any_candidate_keeps_a_limit(fields, cube, tmp_path):
    found = advise(fields, cube, tmp_path, limits={"attacked": {"mean_auc": 0.54}})
    assert found.verdict == "undecided"
    assert "Undecided: no candidate was shown to keep all limits" in answer(found)[0]
    attacked = found.reached.values == "attacked"
    assert attacked.sum() == (found.reached.values != "listed").sum()


@pytest.mark.slow
def test_bounds_alone_ask_for_the_least_exposed(fields, cube, tmp_path):
    goal = [{"measure": {"name": "events_kept"}, "bound": 0.2}]
    found = advise(fields, cube, tmp_path, goal=goal, confirm_groups=10)
    assert found.goal == "bounds"
    best = found.sel(mechanism=found.advised)
    others = found.attacked_auc.values[found.reached == "attacked"]
    assert (others >= best.attacked_auc.item()).all()
    words = answer(found)
    assert f"shown to keep the bounds, of {found.n_attacked} attacked" in words[1]
    assert any("Not attacked: " in text for text in words) == (found.n_unattacked > 0)


def test_users_of_the_confirmation_are_not_those_of_the_search(fields, cube):
    advice = Advice(plan_of(), AuditPlan(**fields))
    held = advice.split(cube, cube)
    assert not set(held.search) & set(held.confirm)
    assert len(held.search) + len(held.confirm) == 60
    assert advice.confirming_seed != fields["seed"]


@pytest.mark.slow
def test_the_advice_is_confirmed_on_another_cube(fields, cube, tmp_path):
    other = write_cube(str(tmp_path / "other"), draw_dense(np.random.default_rng(8), 50, 8, 48))
    found = advise(fields, cube, tmp_path / "run", confirm=other)
    assert found.verdict == "advised"
    assert "chosen on other data" in found.price
    assert found.confirmed_score.notnull().sum() == 1


def test_too_few_users_for_the_targets_are_refused_by_name(fields, cube, tmp_path):
    with pytest.raises(ConfigError, match=r"advise\.confirm_targets: 40 requested.*30 users"):
        advise(fields, cube, tmp_path, confirm_targets=40)


@pytest.mark.slow
def test_failed_attacks_lead_to_an_error_and_are_run_again(fields, cube, tmp_path, undisturbed):
    class Fails(SerialExecutor):
        def map_batches(self, function, items, **options):
            for batch in super().map_batches(function, items, **options):
                yield [self.spoil(one) for one in batch]

        def spoil(self, finished):
            from dataclasses import replace

            if type(finished.item).__name__ == "AuditTask":
                return replace(finished, value=None, error=MemoryError("too large"))
            return finished

    with pytest.raises(StudyError, match=r"3 tasks? of attack-1 failed|tasks of attack-1 failed"):
        advise(fields, cube, tmp_path / "run", Fails())
    same(advise(fields, cube, tmp_path / "run"), undisturbed)


def write_config(fields, cube, folder, **settings):
    plan = plan_of(**settings).model_dump(mode="json")
    config = {"cube": cube.uri, "output": str(folder / "run"), "audit": fields, "advise": plan}
    text = yaml.safe_dump(_lists(config | {"cluster": {"name": "serial"}}))
    (folder / "config.yaml").write_text(text)


def test_the_command_and_the_page_tell_the_same(fields, cube, tmp_path):
    write_config(fields, cube, tmp_path)
    done = CliRunner().invoke(app, ["advise", str(tmp_path / "config.yaml")])
    assert done.exit_code == 0, done.output
    assert "Publish with: " in done.output
    assert "{name: exact}" in done.output
    assert all(len(line) <= 80 for line in done.output.splitlines() if "/" not in line)
    found = open_advice(tmp_path / "run")
    assert MECHANISMS.create(**yaml.safe_load(found.yaml)[0]).id == found.advised
    page = (tmp_path / "run" / "report.html").read_text()
    assert "What to publish" in page
    assert "Publish with: " in page
    assert "every candidate, and why" in page.lower()
    shutil.copy(tmp_path / "run" / "report.html", tmp_path / "before.html")
    cs.report(str(tmp_path / "run"))
    assert (tmp_path / "before.html").read_text() == (tmp_path / "run" / "report.html").read_text()
    explained = CliRunner().invoke(app, ["advise", str(tmp_path / "config.yaml"), "--explain"])
    assert "candidates" in explained.output


@pytest.mark.slow
def test_no_advice_ends_with_four(fields, cube, tmp_path):
    write_config(fields, cube, tmp_path, limits={"guarantee": {"unit": "user", "epsilon": 0.001}})
    done = CliRunner().invoke(app, ["advise", str(tmp_path / "config.yaml")])
    assert done.exit_code == 4
    assert "none to advise" in " ".join(done.output.split())
    assert "There is no advice to publish" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("coarsen", [False, True])
def test_advice_of_no_use_is_told_with_what_helps(fields, cube, tmp_path, coarsen):
    """Noise of 100 on counts of at most 6 is no better than zeros, merged cells or not."""
    noise = {"name": "laplace", "unit": "event", "clip": True, "discrete": True, "epsilon": 0.01}
    limits, families = {"guarantee": {"unit": "event", "epsilon": 0.01}}, [{"mechanism": noise}]
    write_config(fields, cube, tmp_path, limits=limits, families=families, coarsen=coarsen)
    done = CliRunner().invoke(app, ["advise", str(tmp_path / "config.yaml")])
    assert done.exit_code == 0, done.output
    found = open_advice(tmp_path / "run")
    line = answer(found)[2]
    assert line.startswith(
        "It is of no use: a guess without any traces (random values, zeros or eq"
    )
    assert "Coarser cells, longer steps or larger groups help" in line
    assert ("--coarsen" in line) != coarsen
    assert line in " ".join(done.output.split())
    assert line in (tmp_path / "run" / "report.html").read_text()
    assert found.verdict == "advised"
    assert found.group_size == 6 or coarsen


@pytest.mark.slow
def test_the_limits_of_a_policy_hold(fields, cube, tmp_path):
    write_config(fields, cube, tmp_path)
    (tmp_path / "policy.yaml").write_text("{certified_auc: 0.5, share_exposed: 1.0}")
    words = ["advise", str(tmp_path / "config.yaml"), "--policy", str(tmp_path / "policy.yaml")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 4, done.output
    output = " ".join(done.output.split())
    assert "certified AUC" in output
    assert re.search(r"\(limit .*0\.5\)", output)


def _lists(value):
    if isinstance(value, dict):
        return {key: _lists(part) for key, part in value.items()}
    return [_lists(part) for part in value] if isinstance(value, (list, tuple)) else value
