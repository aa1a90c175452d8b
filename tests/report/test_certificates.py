"""Certificates on the page, and the comparison of measured with certified AUCs."""

from typing import Literal

import numpy as np
import pytest
import typer
from conftest import write_cube
from typer.testing import CliRunner

import clusterscale as cs
from clusterscale.analyses.audit import AuditPlan
from clusterscale.cli import app, reports
from clusterscale.contracts import Guarantee, Mechanism
from clusterscale.mechanisms.noisy_counts import Laplace
from clusterscale.reauditing import Policy
from clusterscale.reauditing.known_part import KnownPart
from clusterscale.reauditing.policy_evaluation import evaluate_ceilings
from clusterscale.reporting import open_run, render
from clusterscale.reporting.certificates import read_brackets
from clusterscale.runtime import SerialExecutor


class FaintLaplace(Laplace):
    """Broken: it states Laplace noise, and draws a fifth of it."""

    name: Literal["faint_laplace"] = "faint_laplace"

    def _draw(self, n, rng):
        return super()._draw(n, rng) / 5


@pytest.fixture(scope="module")
def folder(shared_plan_fields, cube, tmp_path_factory):
    """A run with certificates, an audit and a screen; one of two mechanisms is broken."""
    stated = {"epsilon": 0.1, "unit": "event"}
    plan = AuditPlan(
        **{
            **shared_plan_fields,
            "null_roi": False,
            "group_sizes": [10],
            "priors": [{"name": "known_subset", "alpha": 0.5, "training": 10, "challenges": 400}],
            "mechanisms": [{"name": "laplace", **stated}, FaintLaplace(**stated)],
            "attacks": [{"name": "likelihood"}],
            "screen": {"groups": 200, "attacks": [{"name": "likelihood"}]},
            "verdict": {"trials": 20},
            "utility": {"groups": 2},
        }
    )
    folder = str(tmp_path_factory.mktemp("run"))
    with pytest.MonkeyPatch.context() as patch:
        # One of another package gets no certificate: its noise is not what it states.
        patch.setattr("clusterscale.analyses.certify.basis.is_foreign", lambda _: False)
        for run in (cs.audit, cs.screen):
            with pytest.warns(RuntimeWarning, match="better than any adversary can if faint"):
                run(plan, cube, folder, SerialExecutor(), progress=False)
    return folder


@pytest.mark.slow
def test_a_mechanism_with_less_noise_than_it_states_exceeds_its_ceiling(folder):
    run, notes = open_run(folder)
    assert not notes
    found = {(case.kind, "faint" in case.mechanism): case.bracket for case in read_brackets(run)}
    assert len(found) == 4
    assert not found["audit", False].is_violated
    assert not found["screen", False].is_violated
    assert found["audit", True].is_violated
    assert found["screen", True].is_violated
    sound = found["audit", False]
    assert (sound.n_people, sound.tries) == (4, 8), "four people, and their mean"
    assert 0.5 < sound.mean_low < sound.mean_certified < 1
    assert sound.low < sound.certified < 1


@pytest.mark.slow
def test_adversaries_who_train_on_the_challenge_groups_are_not_compared(folder):
    """They recognise groups, and may be right more often than a ceiling on the target allows."""
    run, _ = open_run(folder)
    reused = run.audit.assign(epsilon_lower=run.audit["epsilon_lower"] * np.nan)
    found = read_brackets(type(run)(audit=reused, screen=run.screen, certify=run.certify))
    assert {case.kind for case in found} == {"screen"}


def test_of_many_people_the_most_exposed_is_drawn(monkeypatch, folder):
    run, _ = open_run(folder)
    every = read_brackets(run)
    monkeypatch.setattr("clusterscale.reporting.certificates._MOST_PEOPLE", 2)
    for case, fewer in zip(every, read_brackets(run), strict=True):
        assert len(case.lows) == case.bracket.n_people
        assert 2 <= len(fewer.lows) <= 3
        assert fewer.lows.max() == pytest.approx(max(case.lows))
        assert (np.diff(case.ceilings) >= 0).all()


def test_the_page_says_so(folder):
    run, _ = open_run(folder)
    page = render(run)
    assert "Ceiling exceeded." in page
    assert "Lower limit ≤ true AUC ≤ certified" in page
    assert "Highest AUC of any adversary on" in page
    assert "independent noise of a known distribution" in page


@pytest.mark.slow
def test_the_command_ends_with_4(folder, tmp_path):
    """Also for a run that others have made: `report` shows it, commands that run fail."""
    with pytest.raises(typer.Exit) as ended:
        reports.write_page(folder)
    assert ended.value.exit_code == 4
    done = CliRunner().invoke(app, ["report", folder, "--output", str(tmp_path / "page.html")])
    assert done.exit_code == 0, done.output


@pytest.mark.slow
def test_without_certificates_there_is_no_comparison(folder):
    run, _ = open_run(folder)
    alone = type(run)(audit=run.audit, screen=run.screen)
    assert read_brackets(alone) == []
    assert "Lower limit ≤ true" not in render(alone)


def test_certificates_alone_make_a_page(folder):
    page = render(cs.open_certificates(folder))
    assert "Ceilings of any adversary" in page
    assert np.char.count(page, "Highest ceiling:") == 1


@pytest.mark.slow
def test_the_gate_fails_what_exceeds_its_ceiling(folder):
    run, _ = open_run(folder)
    broken, sound = sorted(map(str, run.audit.mechanism.values))
    found = {
        name: {why["check"]: why for why in cs.gate(folder, mechanism=name).reasons}["ceiling"]
        for name in (broken, sound)
    }
    assert found[broken]["level"] == "fail"
    assert "better than any adversary can" in found[broken]["text"]
    assert found[sound]["level"] == "pass"
    assert found[sound]["measured"] < found[sound]["limit"]


@pytest.mark.slow
def test_a_policy_limits_the_certified_auc(folder):
    run, _ = open_run(folder)
    sound = max(map(str, run.audit.mechanism.values))
    worst = float(run.certify.auc.sel(mechanism=sound, neighbours="add_remove").max())

    def judged(limit, run=run):
        policy = Policy(certified_auc=limit)
        reasons = cs.gate(run, policy, sound).reasons
        return {why["check"]: why for why in reasons}

    assert judged(worst + 0.01)["certified_auc"]["level"] == "pass"
    found = judged(worst - 0.01)["certified_auc"]
    assert (found["level"], found["measured"]) == ("fail", worst)
    alone = judged(worst, type(run)(audit=run.audit, screen=run.screen))
    assert alone["certified_auc"]["level"] == "error", "what is not known never passes"
    assert alone["ceiling"]["level"] == "unknown"


@pytest.mark.slow
def test_certificates_about_simulated_people_never_pass(folder):
    """Of 60 people 20 are known, or none: how much others change is not known."""
    run, _ = open_run(folder)
    sound = max(map(str, run.audit.mechanism.values))
    worst = float(run.certify.auc.sel(mechanism=sound, neighbours="add_remove").max())
    for n_known, ceiling in ((20, "pass"), (0, "unknown")):
        part, policy = KnownPart(n_known, 60), Policy(certified_auc=worst + 0.01)
        found = {one.check: one for one in evaluate_ceilings(policy, run, sound, part)}
        assert found["ceiling"].level == ceiling
        assert found["certified_auc"].level == "warn"
        assert "it is not known how many counts other people change" in found["certified_auc"].text
        tight = Policy(certified_auc=0.5)
        found = {one.check: one for one in evaluate_ceilings(tight, run, sound, part)}
        assert found["certified_auc"].level == "fail", "what is too high for known people fails"


@pytest.mark.slow
def test_certificates_about_everyone_who_is_counted_pass(folder):
    """Others are simulated to fill the groups, but no release counts them."""
    run, _ = open_run(folder)
    sound = max(map(str, run.audit.mechanism.values))
    (size,), run.certify.attrs["rows"] = run.certify.group_size.values.tolist(), "public"
    stated, silent = Policy(certified_auc=1.0, counts_everyone=True), Policy(certified_auc=1.0)
    for n_known, policy, level in (
        (size, stated, "pass"),
        (size + 1, stated, "warn"),
        (size - 1, stated, "warn"),
        (size, silent, "warn"),  # as many may be counted by chance
    ):
        reasons = evaluate_ceilings(policy, run, sound, KnownPart(n_known, 60))
        found = {one.check: one for one in reasons}
        assert found["certified_auc"].level == level


@pytest.mark.slow
def test_a_certificate_of_rows_that_follow_from_the_records_never_passes(folder):
    run, _ = open_run(folder)
    sound = max(map(str, run.audit.mechanism.values))
    certify = run.certify.assign_attrs(rows="records")
    of_records = type(run)(audit=run.audit, screen=run.screen, certify=certify)
    reasons = cs.gate(of_records, Policy(certified_auc=1.0), sound).reasons
    found = {why["check"]: why for why in reasons}["certified_auc"]
    assert found["level"] == "warn"
    assert "if the places and epochs of releases are public" in found["text"]


class NoisyTotal(Mechanism):
    """Honest: the total with Laplace noise of scale 1/ε, and its guarantee for an event."""

    name: Literal["noisy_total"] = "noisy_total"
    epsilon: float

    @property
    def guarantee(self):
        return Guarantee("event", self.epsilon, 0.0, "add_remove", "noise on the total", 1.0)

    def release(self, counts, *, group_size, rng):
        values = np.zeros(counts.shape)
        totals = counts.sum(axis=(-2, -1))
        values[..., 0, 0] = totals + rng.laplace(0.0, 1 / self.epsilon, totals.shape)
        return values


@pytest.mark.slow
def test_an_honest_total_is_not_accused(tmp_path):
    """One of forty people has ten visits, the others none: measured .94, whatever is stated."""
    dense = np.zeros((40, 4, 48), np.uint8)
    dense[0, 0, :10] = 1
    cube = write_cube(str(tmp_path / "cube.zarr"), dense)
    plan = AuditPlan(
        seed=1,
        null_roi=False,
        group_sizes=[10],
        targets={"listed": ["row 0"], "unseen": "include"},
        periods=[{"name": "all", "first": 0, "epochs": 48}],
        priors=[{"name": "known_subset", "alpha": 0.5, "training": 40, "challenges": 1000}],
        mechanisms=[NoisyTotal(epsilon=0.3)],
        attacks=[{"name": "projection"}],
        verdict={"trials": 200},
        utility={"groups": 2},
    )
    found = cs.audit(plan, cube, str(tmp_path / "run"), SerialExecutor(), progress=False)
    assert float(found.auc.max()) > 0.9
    brackets = [case.bracket for case in read_brackets(open_run(str(tmp_path / "run"))[0])]
    assert brackets
    assert not any(one.is_violated for one in brackets)
