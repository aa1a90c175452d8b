"""Schedules of every kind run one command; their files say what they mean to who reads them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from doubles.command import StandIn
from oracles.manifests import check_schedule

from clusterscale.errors import TEMPORARY

DEPLOY = Path(__file__).parents[2] / "deploy"
SERVICE = DEPLOY / "systemd" / "clusterscale-reaudit.service"
TIMER = DEPLOY / "systemd" / "clusterscale-reaudit.timer"
CRON = DEPLOY / "cron" / "clusterscale-reaudit"
SCRONTAB = DEPLOY / "slurm" / "scrontab"
COMMAND = "/opt/clusterscale/bin/clusterscale"
CATALOGUE = "/srv/clusterscale/releases.yaml"
ONE_THREAD = {f"{name}_NUM_THREADS=1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
SHUT = {
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "CapabilityBoundingSet": "",
    "RestrictSUIDSGID": "yes",
    "RestrictNamespaces": "yes",
    "SystemCallFilter": "@system-service",
    "UMask": "0077",
}


def read_unit(text):
    """Return the values of every key of a unit, by section: a key may come again."""
    sections = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if header := re.fullmatch(r"\[(\w+)\]", line):
            section = sections.setdefault(header[1], {})
        else:
            key, sign, value = line.partition("=")
            assert sign, line
            section.setdefault(key, []).append(value)
    return sections


def lines(path):
    """Return what is no comment, and no empty line."""
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


@pytest.fixture
def service():
    return read_unit(SERVICE.read_text())


@pytest.fixture
def timer():
    return read_unit(TIMER.read_text())


def test_the_service_runs_the_one_command_once_and_shut_in(service):
    told = service["Service"]
    assert told["Type"] == ["oneshot"]
    assert told["ExecStart"] == [f"{COMMAND} reaudit {CATALOGUE}"]
    assert {key: told[key] for key in SHUT} == {key: [value] for key, value in SHUT.items()}
    assert told["User"] == ["clusterscale"]
    (place,) = told["ReadWritePaths"]
    assert place.startswith(f"{Path(CATALOGUE).parent}/")
    assert "MemoryDenyWriteExecute" not in told, "kernels are compiled while it runs"
    assert set(" ".join(told["Environment"]).split()) >= ONE_THREAD


def test_a_verdict_is_a_failure_that_is_not_tried_again(service):
    told = service["Service"]
    assert told["SuccessExitStatus"] == ["143"], "who stops it on purpose sees no failure"
    assert told["Restart"] == ["on-failure"]
    final = set(map(int, told["RestartPreventExitStatus"][0].split()))
    assert final == {1, 2, 3, 4}
    assert TEMPORARY not in final
    assert service["Unit"]["StartLimitBurst"] == ["4"], "as often as a Job of Kubernetes tries"


def test_the_timer_makes_up_for_what_was_missed(timer):
    assert timer["Timer"]["OnCalendar"] == ["Mon 02:17"]
    assert timer["Timer"]["Persistent"] == ["true"]
    assert "RandomizedDelaySec" in timer["Timer"]
    assert timer["Install"]["WantedBy"] == ["timers.target"]
    assert TIMER.stem == SERVICE.stem, "it starts the service of its name"


@pytest.fixture
def systemd(tmp_path):
    """Return what verifies the two units after a change, with a command that is there."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    command = StandIn(tmp_path / "command").path

    def analyze(*words, change=("", "")):
        text = SERVICE.read_text().replace(COMMAND, str(command)).replace(*change)
        (tmp_path / SERVICE.name).write_text(text)
        shutil.copy(TIMER, tmp_path)
        units = [str(tmp_path / each.name) for each in (SERVICE, TIMER)]
        units = units if words == ("verify",) else units[:1]
        done = subprocess.run(
            ["systemd-analyze", *words, *units], capture_output=True, text=True, check=False
        )
        if "Failed to" in done.stderr and "namespace" in done.stderr:
            pytest.skip(f"systemd-analyze does not work here: {done.stderr}")
        return done.stdout + done.stderr, done.returncode

    return analyze


def test_systemd_understands_the_units(systemd):
    assert systemd("verify") == ("", 0)


@pytest.mark.parametrize(
    "change",
    [
        ("Type=oneshot", "Type=oneshoot"),
        ("ProtectSystem=strict", "ProtectSystems=strict"),
        ("Restart=on-failure", "Restart=always"),
        ("@system-service", "@sistem-service"),
    ],
)
def test_what_it_would_not_understand_is_found(change, systemd):
    said, _ = systemd("verify", change=change)
    assert SERVICE.name in said, said


def test_systemd_finds_little_that_is_open(systemd):
    said, code = systemd("security", "--offline=true", "--no-pager", "--threshold=20")
    assert code == 0, said
    said, code = systemd(
        "security", "--offline=true", "--threshold=20", change=("CapabilityBoundingSet=\n", "")
    )
    assert code != 0, said


def test_the_calendar_is_one(timer):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    (when,) = timer["Timer"]["OnCalendar"]
    words = ["systemd-analyze", "calendar", when]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "Normalized form: Mon *-*-* 02:17:00" in said


def test_cron_takes_the_file_and_runs_the_one_command():
    *settings, entry = lines(CRON)
    assert re.fullmatch(r"[\w-]+", CRON.name), "cron passes over names with a dot"
    assert CRON.read_text().endswith("\n"), "cron does not read a line without an end"
    *when, user, command = entry.split(maxsplit=6)
    check_schedule(" ".join(when))
    assert (user, command) == ("clusterscale", f"clusterscale reaudit {CATALOGUE}")
    assert "%" not in entry, "which cron takes for the end of the line"
    variables = dict(setting.split("=", 1) for setting in settings)
    assert str(Path(COMMAND).parent) in variables["PATH"].split(":")
    assert set(settings) >= ONE_THREAD


def test_the_line_of_cron_calls_the_command_as_it_is_written(tmp_path):
    command = StandIn(tmp_path, 4)
    text = lines(CRON)[-1].split(maxsplit=6)[-1]
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert subprocess.run(["/bin/sh", "-c", text], env=env, check=False).returncode == 4
    assert command.diary[0] == ["began", "here", "reaudit", CATALOGUE]


def test_scrontab_has_the_line_and_the_options_of_the_series():
    (entry,) = lines(SCRONTAB)
    *when, command = entry.split(maxsplit=5)
    check_schedule(" ".join(when))
    assert command == f"{COMMAND} reaudit {CATALOGUE}"
    options = set(re.findall(r"^#SCRON (--\S+)", SCRONTAB.read_text(), re.MULTILINE))
    script = (DEPLOY / "slurm" / "reaudit.sh").read_text()
    series = set(re.findall(r"^#SBATCH (--\S+)", script, re.MULTILINE))
    of_the_series = {"--signal=B:USR1@300", "--requeue", "--dependency=singleton"}
    assert series - options == of_the_series | {"--output=%x-%j.log"}
    assert options - series == {"--output=clusterscale-reaudit-%j.log"}


def test_the_readme_names_every_schedule():
    text = (DEPLOY / "README.md").read_text()
    section = text.partition("## Every new release, on a schedule")[2].partition("\n## ")[0]
    named = {link for link in re.findall(r"\]\(([\w./-]+)\)", section) if "#" not in link}
    places = {path.parent.relative_to(DEPLOY) / path.name for path in (SERVICE, TIMER, CRON)}
    places |= {Path("slurm/reaudit.sh"), Path("slurm/scrontab")}
    places |= {Path("kubernetes/base/schedule.yaml")}
    assert {str(place) for place in places} <= named
    assert all((DEPLOY / link).exists() for link in named)
