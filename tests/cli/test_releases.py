"""The verbs that judge releases: exit codes, what they write, what they refuse."""

import json
import shlex
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pandas as pd
import pytest
import yaml
from junitparser import JUnitXml
from oracles.catalogues import write_catalogue, write_release
from typer.testing import CliRunner

from clusterscale.cli import app
from clusterscale.errors import ConfigError, DamagedError, InputError, MissingError, StoreError
from clusterscale.reauditing import Catalogue, Problem, Reaudit
from clusterscale.storage.lease import Lease

pytestmark = pytest.mark.usefixtures("no_figures")


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def catalogue(cube, tmp_path):
    """A catalogue with two releases, and a policy that only minds what is inconsistent."""
    for day in range(2):
        write_release(cube, tmp_path / "releases" / f"day-{day}.nc", first=24 * day)
    return write_catalogue(cube, tmp_path)


def verdicts(folder):
    return pd.read_parquet(folder / "ledger" / "verdicts.parquet")


@pytest.mark.slow
def test_new_releases_are_judged_and_told(catalogue, tmp_path):
    listed = call("reaudit", catalogue, "--list")
    assert listed.exit_code == 0, listed.output
    assert "2 releases, 2 to be evaluated" in listed.output
    assert max(map(len, listed.output.splitlines())) <= 80
    result = call(
        "reaudit", catalogue, "--json", tmp_path / "a.json", "--junit", tmp_path / "a.xml"
    )
    assert result.exit_code == 3, result.output
    assert verdicts(tmp_path).release.tolist() == ["day-0", "day-1"]
    assert "exposed is inconclusive" in result.output, "an audit of few targets"
    told = json.loads((tmp_path / "a.json").read_text())
    assert told["verdict"] == "warn"
    assert [each["release"] for each in told["releases"]] == ["day-0", "day-1"]
    assert told == json.loads((tmp_path / "ledger" / "summary.json").read_text())
    suites = list(JUnitXml.fromfile(str(tmp_path / "a.xml")))
    assert [suite.name for suite in suites] == ["day-0", "day-1"]
    assert sum(suite.failures + suite.errors for suite in suites) == 0
    page = (tmp_path / "ledger" / "trend.html").read_text()
    assert "day-1" in page
    for user in ("u000", "u001", "u059"):
        assert user not in page + result.output + (tmp_path / "a.xml").read_text()
    again = call("reaudit", catalogue)
    assert again.exit_code == 0, again.output
    assert "nothing new among 2 releases" in again.output
    assert len(verdicts(tmp_path)) == 2


def test_what_new_releases_take_is_told_without_any_work(catalogue, cube, tmp_path):
    fields = {"group_size": 200, "mechanism": json.dumps({"name": "threshold", "k": 3})}
    write_release(cube, tmp_path / "releases" / "more-people.nc", first=0, **fields)
    result = call("reaudit", catalogue, "--explain")
    assert result.exit_code == 0, result.output
    for name in ("day-0", "day-1", "more-people"):
        told = result.output.partition(f"{name}\n")[2].splitlines()[:6]
        for kind in ("certify", "audit", "screen"):
            assert any(line.startswith(f"{kind}: time") for line in told), result.output
    assert max(map(len, result.output.splitlines())) <= 80
    assert not (tmp_path / "ledger" / "runs").exists()


def test_what_cannot_be_read_is_named_and_ends_as_a_run_does(catalogue, tmp_path, monkeypatch):
    """Also one that can be listed, and not read any more; the others are explained."""
    listed, broken = tmp_path / "releases" / "day-1.nc", tmp_path / "releases" / "day-0a.nc"
    read = Catalogue.read

    def read_some(self, release):
        if release.name == "day-1":
            raise DamagedError(f"{release.counts} is damaged")
        return read(self, release)

    monkeypatch.setattr(Catalogue, "read", read_some)
    result = call("reaudit", catalogue, "--explain")
    assert result.exit_code == 2, result.output
    assert f"day-1: {listed} is damaged" in result.output
    assert "day-0\n" in result.output
    monkeypatch.undo()
    broken.write_bytes(b"no table")
    for option in ("--explain", "--list"):
        result = call("reaudit", catalogue, option)
        assert result.exit_code == 2, result.output
        assert f"day-0a: {broken}" in result.output
    error = StoreError(f"{broken}: the store does not answer")
    monkeypatch.setattr(Reaudit, "pending", lambda self: [])
    monkeypatch.setattr(Catalogue, "scan", lambda self: [Problem("day-0a", error)])
    assert call("reaudit", catalogue, "--explain").exit_code == 75
    assert call("reaudit", catalogue).exit_code == 75


@pytest.mark.slow
def test_what_is_wrong_ends_in_4_and_what_is_told_in_3(catalogue, cube, tmp_path):
    write_release(cube, tmp_path / "releases" / "day-2.nc", first=0, fault=0.5)
    result = call("reaudit", catalogue)
    assert result.exit_code == 4, result.output
    assert "fail: possible_values" in " ".join(result.output.split())
    strict = write_catalogue(cube, tmp_path, policy={"mean_privacy_loss": {"warn": 0.01}})
    assert call("reaudit", strict).exit_code == 4, "the fault is still there"
    lenient = {"mean_privacy_loss": {"warn": 0.01}, "consistency": "warn"}
    result = call("reaudit", write_catalogue(cube, tmp_path, policy=lenient))
    assert result.exit_code == 3, result.output
    assert len(verdicts(tmp_path)) == 9, "three policies, three releases"
    assert len(list((tmp_path / "ledger" / "runs").iterdir())) == 3, "each audited once"


@pytest.mark.slow
def test_a_release_that_changes_is_judged_again(catalogue, cube, tmp_path):
    assert call("reaudit", catalogue).exit_code == 3
    write_release(cube, tmp_path / "releases" / "day-1.nc", first=24, fault=1.5)
    assert call("reaudit", catalogue).exit_code == 4
    table = verdicts(tmp_path)
    assert table.release.tolist() == ["day-0", "day-1", "day-1"]
    assert table.verdict.tolist() == ["warn", "warn", "fail"]


@pytest.mark.slow
def test_the_same_content_under_another_name_is_not_audited_again(catalogue, cube, tmp_path):
    assert call("reaudit", catalogue).exit_code == 3
    runs = sorted((tmp_path / "ledger" / "runs").iterdir())
    write_release(cube, tmp_path / "releases" / "day-1-again.nc", first=24)
    result = call("reaudit", catalogue)
    assert result.exit_code in (3, 4), result.output
    table = verdicts(tmp_path)
    assert table.release.tolist() == ["day-0", "day-1", "day-1-again"]
    assert table.run[2] == table.run[1]
    assert sorted((tmp_path / "ledger" / "runs").iterdir()) == runs


@pytest.mark.slow
def test_one_that_cannot_be_audited_does_not_keep_the_others(catalogue, cube, tmp_path):
    (tmp_path / "releases" / "day-0a.nc").write_bytes(b"no table")
    result = call("reaudit", catalogue, "--junit", tmp_path / "a.xml")
    assert result.exit_code == 2
    assert "day-0a" in result.output
    assert verdicts(tmp_path).release.tolist() == ["day-0", "day-1"]
    assert [suite.errors for suite in JUnitXml.fromfile(str(tmp_path / "a.xml"))] == [0, 0, 1]
    assert call("reaudit", catalogue, "--list").exit_code == 2


def test_the_second_of_two_does_nothing(catalogue, tmp_path):
    with Lease(str(tmp_path / "ledger" / "lease"), beat=0.05):
        result = call("reaudit", catalogue)
    assert result.exit_code == 0
    assert "is at work on" in result.output
    assert not (tmp_path / "ledger" / "verdicts.parquet").exists()


@pytest.mark.slow
def test_a_folder_and_a_config_apart(catalogue, cube, tmp_path):
    pattern = tmp_path / "releases" / "*-1.nc"
    result = call("reaudit", pattern, "--config", catalogue, "--output", tmp_path / "other")
    assert result.exit_code == 3, result.output
    table = pd.read_parquet(tmp_path / "other" / "verdicts.parquet")
    assert table.release.tolist() == ["day-1"]


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (["releases"], InputError, "with --config"),
        (["releases.yaml", "--config", "releases.yaml"], InputError, "give one YAML file"),
        (["nowhere.yaml"], MissingError, "there is no such config file"),
        (["none/*.nc", "--config", "releases.yaml"], MissingError, "there are no releases"),
    ],
)
def test_what_is_refused(catalogue, tmp_path, monkeypatch, words, error, message):
    monkeypatch.chdir(tmp_path)
    result = call("reaudit", *words)
    assert isinstance(result.exception, error)
    assert message in str(result.exception)


@pytest.mark.slow
def test_verdicts_are_posted_once(catalogue, cube, tmp_path, monkeypatch):
    """As bad as asked for, and again when the other side was away."""
    taken, answers = [], [503, 200]

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self):
            taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(answers.pop(0) if answers else 200)
            self.end_headers()

        def log_message(self, *words):
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr("clusterscale.reauditing.notify._MAX_WAIT", 0.01)
    monkeypatch.setenv("TOLD_TO", f"http://127.0.0.1:{server.server_port}/secret")
    hook = {"variable": "TOLD_TO", "least": "fail"}
    write_release(cube, tmp_path / "releases" / "day-2.nc", first=0, fault=0.5)
    config = write_catalogue(cube, tmp_path, webhook=hook)
    result = call("reaudit", config)
    assert result.exit_code == 4, result.output
    assert "secret" not in result.output
    assert len(taken) == 2, "once more after 503"
    assert [each["release"] for each in taken[1]["releases"]] == ["day-2"]
    assert call("reaudit", config).exit_code == 0
    assert len(taken) == 2
    server.shutdown()
    server.server_close()


def audit(cube, plan, tmp_path):
    """Run an audit, and return its folder."""
    path = tmp_path / "run.yaml"
    content = {
        "cube": cube.uri,
        "output": str(tmp_path / "run"),
        "audit": plan,
        "cluster": {"name": "serial"},
    }
    path.write_text(yaml.safe_dump(content))
    assert call("audit", path).exit_code == 0
    return tmp_path / "run"


@pytest.fixture
def run(cube, plan_fields, tmp_path):
    """The folder of a finished audit."""
    return audit(cube, plan_fields, tmp_path)


def write_policy(tmp_path, **policy):
    path = tmp_path / "policy.yaml"
    path.write_text(yaml.safe_dump(policy))
    return path


@pytest.mark.slow
def test_a_gate_before_release(cube, run, tmp_path):
    ours = call("gate", run, "--json", tmp_path / "gate.json")
    told = json.loads((tmp_path / "gate.json").read_text())
    assert ours.exit_code == {"warn": 3, "fail": 4}[told["verdict"]], ours.output
    reasons = {each["check"]: each for each in told["reasons"]}
    assert next(iter(reasons)) == "exposure"
    assert reasons["float_noise"]["level"] == "warn"
    assert "discrete: true" in reasons["float_noise"]["text"]
    limits = {"promise": "pass", "float_noise": "pass", "exposure": {"inconclusive": "warn"}}
    for limit, code in ((0.01, 4), ({"warn": 0.01}, 3)):
        policy = write_policy(tmp_path, worst_privacy_loss=limit, **limits)
        result = call("gate", run, "--policy", policy)
        assert result.exit_code == code, result.output
        same = write_catalogue(cube, tmp_path, policy=yaml.safe_load(policy.read_text()))
        assert call("gate", run, "--policy", same).exit_code == code
    unknown = call("gate", run, "--mechanism", "none", "--json", tmp_path / "gate.json")
    assert isinstance(unknown.exception, InputError)
    assert "there are no results of none" in str(unknown.exception)
    told = json.loads((tmp_path / "gate.json").read_text())
    assert (told["verdict"], told["error"]) == ("error", str(unknown.exception))


@pytest.mark.slow
def test_a_gate_passes_a_release_of_the_audited_size_only(run, tmp_path):
    limits = {"promise": "pass", "float_noise": "pass", "worst_privacy_loss": 1.0}
    policy = write_policy(tmp_path, **limits, exposure={"exposed": "pass", "inconclusive": "fail"})
    unstated = call("gate", run, "--policy", policy)
    assert unstated.exit_code == 4
    assert "state it by `--group-size`" in " ".join(unstated.output.split())
    other = call("gate", run, "--policy", policy, "--group-size", 4)
    assert other.exit_code == 4
    assert "counts 4 people, but the audit is of groups of 3, 6" in " ".join(other.output.split())
    sized = write_policy(tmp_path, **limits, group_size=6, exposure={"inconclusive": "warn"})
    same = call("gate", run, "--policy", sized, "--json", tmp_path / "gate.json")
    assert "scope: groups of 6; period all; 4 targets" in " ".join(same.output.split())
    reasons = json.loads((tmp_path / "gate.json").read_text())["reasons"]
    assert {one["check"]: one["level"] for one in reasons}["group_size"] == "pass"
    clash = call("gate", run, "--policy", sized, "--group-size", 3)
    assert "3 people by `group_size`, 6 people by the policy" in " ".join(clash.output.split())


@pytest.mark.slow
def test_a_gate_does_not_pass_where_a_part_of_the_results_is_gone(run, tmp_path):
    policy = write_policy(tmp_path, utility={"pearson": 0.1}, float_noise="pass")
    for part in ("verdict", "status", "utility"):
        chunks = run / "results.zarr" / part / "c"
        chunks.rename(tmp_path / part)
        gone = call("gate", run, "--policy", policy, "--json", tmp_path / "gate.json")
        assert json.loads((tmp_path / "gate.json").read_text())["verdict"] == "error"
        assert isinstance(gone.exception, DamagedError)
        assert f"/{part}/c/" in str(gone.exception)
        (tmp_path / part).rename(chunks)


@pytest.mark.slow
def test_the_mechanism_that_a_gate_suggests_can_be_pasted(cube, plan_fields, tmp_path):
    laplace = {"name": "laplace", "unit": "user_day", "epsilon": 1.0}
    plan = plan_fields | {"mechanisms": [laplace, laplace | {"epsilon": 2.0}]}
    folder = audit(cube, plan, tmp_path)
    refused = call("gate", folder).exception
    assert isinstance(refused, InputError)
    flag, label = shlex.split(str(refused).partition("e.g. ")[2])
    assert flag == "--mechanism"
    assert call("gate", folder, flag, label).exit_code in (3, 4)


@pytest.mark.slow
def test_a_policy_with_a_fault_is_refused(run, tmp_path):
    refused = call("gate", run, "--policy", write_policy(tmp_path, exposure={"exposed": "no"}))
    assert isinstance(refused.exception, ConfigError)
    assert "exposure.exposed" in str(refused.exception)
