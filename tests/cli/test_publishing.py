"""The command ``publish``: what it prints, and how it ends."""

import json
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from oracles.publications import AUDIT, BUDGET, LAPLACE
from typer.testing import CliRunner

from clusterscale.cli import app
from clusterscale.cli.failures import describe_failure
from clusterscale.mechanisms import MECHANISMS
from clusterscale.release import read_table


@pytest.fixture
def config(cube, tmp_path):
    """Writes a config, and returns its path."""

    def write(name="publish", **fields):
        path = tmp_path / f"{name}.yaml"
        section = {
            "mechanism": LAPLACE,
            "period": {"name": name, "first": 0, "epochs": 48},
            "series": "places",
            "budget": BUDGET,
            "releases": str(tmp_path / "releases"),
        } | fields
        content = {"cube": cube.uri, "output": str(tmp_path / name), "publish": section}
        path.write_text(yaml.safe_dump(content | {"cluster": {"name": "serial"}}))
        return str(path)

    return write


def run(*words):
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "80"})


def test_it_says_what_is_published_and_spent(config, tmp_path):
    done = run("publish", config())
    assert done.exit_code == 0, done.output
    assert "published: release 1 of series places" in done.output
    assert "ε 1 per user\n" in done.output
    whose = "ε 1 of 2 is spent for each user, by all releases of the series; about 1 is left, for 1"
    assert f"{whose} more release like this one" in " ".join(done.output.split())
    release = f"{tmp_path}/releases/places/places-0001.zarr"
    assert f"check it: clusterscale check {release}" in done.output
    assert run("check", release).exit_code == 0
    again = run("publish", config())
    assert again.exit_code == 0
    assert "release 1 of series places" in again.output


def test_other_days_are_another_release_in_a_folder_of_its_own(config, cube, tmp_path):
    path, day = config(), cube.calendar.describe_span((24, 48))
    assert run("publish", path).exit_code == 0
    done = run("publish", path, "--days", day)
    assert done.exit_code == 0, done.output
    assert "release 2 of series places" in done.output
    published = read_table(f"{tmp_path}/releases/places/places-0002.zarr")
    assert published.values.shape == (8, 24)
    assert (tmp_path / f"publish-{day}").is_dir()
    for days, fault in (("1.2.2024", "give the first"), ("1999-01-01:1999-01-02", "not in Mon")):
        assert fault in str(run("publish", path, "--days", days).exception)


def test_explain_runs_nothing(config, tmp_path):
    done = run("publish", config(), "--explain")
    assert done.exit_code == 0, done.output
    whose = "0 of ε 2 spent, then 1, for each user, by all releases of the series"
    assert whose in " ".join(done.output.split())
    assert not (tmp_path / "releases").exists()


def test_exceeding_the_privacy_budget_exits_with_4(config):
    for name in ("one", "two"):
        assert run("publish", config(name)).exit_code == 0
    done = run("publish", config("three"))
    assert done.exit_code == 4
    assert "refused  publish.budget:" in done.output
    assert "would spend ε 3 of 2 per user" in done.output


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"mechanism": LAPLACE | {"discrete": False}}, "set discrete: true"),
        ({"mechanism": {"name": "exact"}}, "has no guarantee"),
        ({"seed": 3}, "publish.seed: is not a known key"),
    ],
)
def test_what_cannot_be_published_is_bad_input(fields, words, config):
    done = run("publish", config(**fields))
    message, code = describe_failure(done.exception)
    assert code == 2
    assert words in message


@pytest.fixture(scope="module")
def audited(cube, tmp_path_factory):
    """The folder of a finished audit of two mechanisms in groups of 20; its config is beside it."""
    tmp_path = tmp_path_factory.mktemp("audited")
    folder = str(tmp_path / "audited")
    mechanisms = [{"name": "exact"}, LAPLACE | {"title": "noise a user"}]
    audit = AUDIT | {"group_sizes": [20], "mechanisms": mechanisms, "null_roi": False}
    audit["periods"] = [{"name": "all", "first": 0, "epochs": 48}]
    path = tmp_path / "audit.yaml"
    content = {"cube": cube.uri, "output": folder, "audit": audit, "cluster": {"name": "serial"}}
    path.write_text(yaml.safe_dump(content))
    done = run("audit", str(path))
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def unfinished(config, cube, tmp_path):
    """Writes a config whose release, of 20 users, has no mechanism, and returns its path."""
    panel = tmp_path / "panel.csv"
    panel.write_text("\n".join(["user", *cube.user_ids(0, 20)]))

    def write(**fields):
        path = Path(config(**{"population": str(panel)} | fields))
        content = yaml.safe_load(path.read_text())
        del content["publish"]["mechanism"]
        path.write_text(yaml.safe_dump(content))
        return str(path)

    return write


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"budget": None},
        {"budget": BUDGET | {"unit": "event"}},
        {"budget": BUDGET | {"unit": "user_day"}, "choose_cap": {"epsilon": 0.1}},
    ],
)
def test_a_config_may_leave_the_mechanism_to_a_run(fields, unfinished, monkeypatch):
    path = unfinished(**fields)
    done = run("config", "check", path)
    assert done.exit_code == 0, done.output
    line = "publish.mechanism comes from a run: `publish --from RUN --mechanism TITLE`\n"
    assert done.output == f"{line}the config is valid and fits the cube\n"
    monkeypatch.setitem(sys.modules, "opendp", None)
    done = run("config", "check", path)
    assert ("pip install 'clusterscale[publish]'" in done.output) == (fields != {"budget": None})
    for command in ("publish", "audit"):
        message = describe_failure(run(command, path).exception)[0]
        assert "publish.mechanism: is missing: state it, or" in message
        assert "--from RUN --mechanism TITLE" in message


def test_the_rest_of_such_a_config_is_checked(unfinished):
    for fields, words in (
        ({"period": {"name": "late", "first": 40, "epochs": 9}}, "publish.period: epochs 40 to 48"),
        ({"budget": {"unit": "week", "epsilon": 1.0}}, "publish.budget.unit"),
        ({"seed": 3}, "publish.seed: is not a known key"),
    ):
        message, code = describe_failure(run("config", "check", unfinished(**fields)).exception)
        assert (words in message, code) == (True, 2), message


def test_the_page_to_sign_adds_up_the_series(config, unfinished, audited, tmp_path):
    sign = ("report", audited, "--sign-off", "--mechanism", "noise a user")

    def series(*words):
        done = run(*sign, *words)
        assert done.exit_code == 0, done.output
        return json.loads(Path(audited, "sign-off.json").read_text())["series"]

    assert "not named: give its config, `--release`" in series()["not_examined"]
    page = Path(audited, "sign-off.html")
    assert "not examined: the release is not named" in page.read_text()
    assert run("publish", config("one")).exit_code == 0
    named = ("--release", unfinished(per_year=52))
    found = series(*named)
    assert found["person"] == {"so far": [1, 0], "with this release": [2, 0], "a year": [52, 0]}
    assert (found["spent"], found["refused"]) == ([1, 2], "")
    assert found["all_days"] == {"days": 2, "releases": 2, "spent": 2, "exceeds": False}
    assert "so far 1, with this release 2, with all 52 of a year 52" in page.read_text()
    assert f"{' to '.join(found['days'])}: all examined" in page.read_text()
    assert series("--release", config("two"))["releases"] == {"so far": 1, "with this release": 2}
    other = config("three", mechanism=LAPLACE | {"epsilon": 0.5})
    message = describe_failure(run(*sign, "--release", other).exception)[0]
    assert "should be the config of a release with noise a user" in message
    shutil.rmtree(tmp_path / "releases/places/places-0001.zarr")
    assert "places-0001.zarr is missing" in series(*named)["not_examined"]
    assert "not examined: " in page.read_text()


def test_without_opendp_it_is_said_before(audited, monkeypatch):
    words = ("audit", str(Path(audited).with_name("audit.yaml")), "--explain")
    assert "pip install" not in run(*words).output
    monkeypatch.setitem(sys.modules, "opendp", None)
    done = run(*words)
    assert done.exit_code == 0, done.output
    assert done.output.count("install OpenDP: pip install 'clusterscale[publish]'\n") == 1


def test_the_mechanism_of_a_run_is_published(config, unfinished, audited, tmp_path):
    path = unfinished()
    done = run("publish", path, "--from", audited, "--mechanism", "noise a user")
    assert done.exit_code == 0, done.output
    metadata = read_table(f"{tmp_path}/releases/places/places-0001.zarr").metadata
    assert metadata.mechanism.noise == MECHANISMS.create(**LAPLACE).noise
    for words, why in (
        ((), "has the mechanisms exact, noise a user: name one with --mechanism"),
        (("--mechanism", "exakt"), "none is 'exakt'"),
        (("--mechanism", "exact"), "has no guarantee"),
    ):
        done = run("publish", path, "--from", audited, *words)
        assert why in describe_failure(done.exception)[0]
    done = run("publish", config(), "--from", audited, "--mechanism", "noise a user")
    assert "a section without mechanism" in describe_failure(done.exception)[0]
    done = run("publish", path, "--mechanism", "noise a user")
    assert "--from, which is missing" in describe_failure(done.exception)[0]
    done = run("publish", path, "--from", str(tmp_path))
    assert describe_failure(done.exception)[1] != 70


def test_a_config_without_a_publication(config):
    done = run("publish")
    assert describe_failure(done.exception) == (
        "publish: missing; set mechanism, period, series, budget and releases",
        2,
    )
    done = run("publish", config(), "--allow-warn")
    assert "--gate" in describe_failure(done.exception)[0]
    assert run("config", "check", config()).exit_code == 0


@pytest.mark.slow
def test_a_gate_that_fails_ends_with_4(config, tmp_path):
    policy = tmp_path / "policy.yaml"
    rules = {"audit": AUDIT, "everyone": False, "policy": {"mean_privacy_loss": 0.01}}
    policy.write_text(yaml.safe_dump(rules))
    path = config(mechanism={"name": "exact"}, budget=None)
    done = run("publish", path, "--gate", str(policy))
    assert done.exit_code == 4, done.output
    assert "refused  the policy does not pass this release: fail" in done.output
    assert not [*(tmp_path / "releases/places").glob("places-*")]
