"""Releases that are audited before they are published."""

import pytest
from oracles.publications import AUDIT, LAPLACE, plan, publish

from clusterscale.analyses.publish.series import Series
from clusterscale.config import load_gate
from clusterscale.errors import ConfigError, RefusedError
from clusterscale.reauditing import run


def of(policy, **fields):
    return {"plan": {"audit": AUDIT, "everyone": False, "policy": policy}} | fields


def released(folder):
    return [*(folder / "releases/places").glob("places-*")]


@pytest.mark.slow
def test_a_release_that_fails_is_not_published(cube, tmp_path):
    with pytest.raises(RefusedError, match="the policy does not pass this release: fail") as raised:
        publish(
            cube,
            plan(tmp_path, mechanism={"name": "exact"}, budget=None),
            tmp_path / "run",
            of({"mean_privacy_loss": 0.01, "exposure": {"exposed": "fail"}}),
        )
    assert "fail: mean_privacy_loss" in str(raised.value)
    assert not released(tmp_path)
    assert not (tmp_path / "run/publication/gate").exists(), "values of what is not published"


@pytest.mark.slow
def test_a_release_that_passes_is_what_was_audited(cube, tmp_path, monkeypatch):
    seen = []
    original = run.Catalogue.read

    def spy(self, release):
        content = original(self, release)
        seen.append(content.values)
        return content

    monkeypatch.setattr(run.Catalogue, "read", spy)
    lenient = {"exposure": {"exposed": "pass", "partly_exposed": "pass"}, "float_noise": "pass"}
    release = publish(cube, plan(tmp_path), tmp_path / "run", of(lenient, allow_warnings=True))
    assert release.attrs["verdict"] in ("pass", "warn")
    assert (seen[0] == release.counts.values).all()


@pytest.mark.slow
def test_a_warning_is_enough_only_if_that_is_said(cube, tmp_path):
    warns = of({"mean_privacy_loss": {"warn": 0.0001}, "exposure": {"inconclusive": "warn"}})
    mechanism = LAPLACE | {"sensitivity": 400.0}
    with pytest.raises(RefusedError, match="does not pass this release: warn"):
        publish(cube, plan(tmp_path, mechanism=mechanism), tmp_path / "run", warns)
    assert not released(tmp_path)
    release = publish(
        cube,
        plan(tmp_path, mechanism=mechanism),
        tmp_path / "other",  # a run that was refused draws no other noise
        warns | {"allow_warnings": True},
    )
    assert release.attrs["verdict"] == "warn"
    assert Series(plan(tmp_path, week=2), "UTC").spent() == 1.0


@pytest.mark.parametrize(
    ("verdict", "allowed", "published"),
    [
        ("pass", False, True),
        ("warn", False, False),
        ("warn", True, True),
        ("fail", True, False),
        ("error", True, False),
    ],
)
def test_which_verdicts_are_enough(verdict, allowed, published, cube, tmp_path, monkeypatch):
    class Evaluated:
        why = ({"level": "fail", "check": "exposure", "text": "somebody is exposed"},)

        def __init__(self):
            self.verdict, self.reasons = verdict, "[]"

    def evaluate(work, pending, executor, **options):
        (tmp_path / "run/publication/gate/values").write_text("noisy")
        return Evaluated()

    monkeypatch.setattr(run.Reaudit, "evaluate", evaluate)
    if published:
        release = publish(cube, plan(tmp_path), tmp_path / "run", of({}, allow_warnings=allowed))
        assert release.attrs["verdict"] == verdict
        assert not (tmp_path / "run/publication/gate").exists()
        return
    with pytest.raises(RefusedError, match="somebody is exposed"):
        publish(cube, plan(tmp_path), tmp_path / "run", of({}, allow_warnings=allowed))
    assert not released(tmp_path)
    assert Series(plan(tmp_path), "UTC").spent() == 0.0
    assert not (tmp_path / "run/publication/counts").exists()
    with pytest.raises(RefusedError, match="refused before, and draws no other noise"):
        publish(cube, plan(tmp_path), tmp_path / "run")
    assert not (tmp_path / "run/publication/gate").exists()


def test_the_gate_of_an_interrupted_run_is_removed(cube, tmp_path):
    folder = tmp_path / "run/publication/gate/runs"
    publish(cube, plan(tmp_path, week=1), tmp_path / "other")
    made = plan(tmp_path, week=2)
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(Series, "check", lambda *given: (_ for _ in ()).throw(RefusedError("no")))
        with pytest.raises(RefusedError):
            publish(cube, made, tmp_path / "run")
    folder.mkdir(parents=True)
    (folder / "values").write_text("of other noise")
    publish(cube, made, tmp_path / "run")
    assert not folder.exists()


def test_the_audit_of_a_gate_is_in_its_file_or_in_the_config(tmp_path):
    import yaml

    from clusterscale.analyses.audit import AuditPlan

    path = tmp_path / "policy.yaml"
    path.write_text("mean_privacy_loss: 0.5")
    with pytest.raises(ConfigError, match="audit is missing"):
        load_gate(path, None)
    plan_of_config = AuditPlan.model_validate(
        {**AUDIT, "group_sizes": [5], "mechanisms": [{"name": "exact"}]}
    )
    assert load_gate(path, plan_of_config).policy.mean_privacy_loss.fail == 0.5
    whole = {"audit": AUDIT, "policy": {"mean_privacy_loss": 0.5}}
    path.write_text(yaml.safe_dump(whole))
    assert load_gate(path, None).audit.targets.random == 2
    path.write_text(yaml.safe_dump(whole | {"output": "ledger"}))
    assert load_gate(path, None) == load_gate(path, plan_of_config)
