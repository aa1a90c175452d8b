"""The command line as a person uses it: what it prints, and how it ends."""

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from loops import mostly_slow
from typer.testing import CliRunner
from zarr.core.sync import sync

import clusterscale
from clusterscale import cli, errors
from clusterscale.analyses.audit import open_results
from clusterscale.cli import app


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def shell(*words, cwd):
    """Run the installed command as a process."""
    return subprocess.run(
        [sys.executable, "-m", "clusterscale", *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture
def config(tmp_path, cube, plan_fields):
    """A config on disk for the shared cube, without Dask."""
    path = tmp_path / "run.yaml"
    content = {
        "cube": cube.uri,
        "output": str(tmp_path / "run"),
        "audit": plan_fields,
        "cluster": {"name": "serial"},
    }
    path.write_text(yaml.safe_dump(content))
    return path


def test_the_version_is_printed():
    result = call("--version")
    assert (result.exit_code, result.output) == (0, f"clusterscale {clusterscale.__version__}\n")


@pytest.mark.usefixtures("no_figures")
def test_audit_writes_results_and_report(config, tmp_path):
    result = call("audit", config)
    assert result.exit_code == 0, result.output
    assert (open_results(tmp_path / "run").status == "done").all()
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    assert "projection" in result.output
    lines = result.output.splitlines()
    assert len(lines) <= 40
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= 80
    again = call("report", tmp_path / "run", "--output", tmp_path / "again.html")
    assert again.exit_code == 0
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "run/report.html").read_bytes()
    (tmp_path / "run" / "report.html").write_text("my notes")
    resumed = call("audit", config)
    assert "no page is written:" in resumed.output
    assert (tmp_path / "run" / "report.html").read_text() == "my notes"


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_the_command_for_every_case_can_be_pasted(config, tmp_path):
    folder = tmp_path / "it's a (new) run"
    result = call("audit", config, "--output", folder)
    line = next(
        line for line in result.output.splitlines() if line.startswith("all cases and utility: ")
    )
    words = shlex.split(line.removeprefix("all cases and utility: "))
    assert words == ["clusterscale", "report", str(folder), "--full"]
    page = folder / "report.html"
    page.unlink()
    full = call(*words[1:])
    assert full.exit_code == 0, full.output
    assert "groups of 6" in full.output
    assert not page.exists(), "it only shows"
    assert "groups of 6" in call("audit", config, "--output", folder, "--full").output


def test_only_an_audit_has_cases(config, tmp_path):
    result = CliRunner().invoke(app, ["report", str(tmp_path), "--full"])
    assert "there are no results" in str(result.exception)


@mostly_slow(
    ("options", "told"),
    [
        (
            ["--cluster", "slurm"],
            "3.0 GB per worker, 70 % of its memory; set it by `--memory`",
        ),
        (["--cluster", "kubernetes"], "3.0 GB per worker, 70 % of its memory"),
        ([], "2.0 GB per worker, the default of cluster serial; set it by `--memory`"),
        (["--cluster", "slurm", "--memory", "4GB"], "4.0 GB per worker, set by `--memory`"),
    ],
)
@mostly_slow("verb", ["audit", "screen"], n_quick=3)
def test_explain_counts_the_memory_of_the_chosen_cluster(verb, options, told, config):
    result = call(verb, config, "--explain", *options)
    assert result.exit_code == 0, result.output
    shown = " ".join(result.output.split())
    assert told in shown
    assert (
        max(len(line) for line in result.output.splitlines() if str(config.parent) not in line)
        <= 80
    )


def test_explain_with_too_little_memory_names_the_flag(config, monkeypatch, capsys):
    monkeypatch.setattr(
        sys, "argv", ["clusterscale", "audit", str(config), "--explain", "--memory", "600kB"]
    )
    with pytest.raises(SystemExit) as ending:
        cli.main()
    assert ending.value.code == 2
    said = capsys.readouterr().err
    assert "600,000 bytes per worker are too few" in said
    assert said.strip().endswith("give that or more with `--memory`")


def test_a_command_that_fails_waits_for_the_reads_it_began(config, monkeypatch, capsys):
    done = []

    async def read():
        await asyncio.sleep(0.1)
        done.append(True)

    async def begin():
        done.append(asyncio.ensure_future(read()))

    sync(begin())
    monkeypatch.setattr(sys, "argv", ["clusterscale", "inspect", str(config / "no cube")])
    with pytest.raises(SystemExit) as ending:
        cli.main()
    assert ending.value.code == 2
    assert "error:" in capsys.readouterr().err
    assert done[1:] == [True]


def test_explain_runs_nothing(config, tmp_path):
    result = call("audit", config, "--explain")
    assert result.exit_code == 0
    assert "tasks" in result.output
    assert not (tmp_path / "run").exists()


SIZES = ["--users", "1e6", "--places", "500", "--epochs", "168", "--events-per-user", "17.5"]


@pytest.mark.parametrize("verb", ["audit", "screen", "certify"])
def test_explain_needs_no_cube(verb, config):
    content = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump(content | {"cube": "/nowhere/cube.zarr"}))
    shown = call(verb, config, "--explain", "--memory", "8GB", *SIZES).output
    assert "1,000,000" in shown
    assert "78 MB" in shown, "4 bytes an event, and 8 a user"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (SIZES, "--users is for --explain, which is missing"),
        (SIZES[2:], "--places is for --explain, which is missing"),
        (["--explain", *SIZES[:-2]], "--events-per-user is missing: a cube that is not there"),
        (["--explain", "--users", "1.5", *SIZES[2:]], "--users 1.5 is no whole number"),
        (["--explain", "--users", "0", *SIZES[2:]], "users: 0 must be at least 1"),
        (["--explain", *SIZES[:-1], "84001"], "must be above 0, and at most 500 places × 168"),
    ],
)
def test_sizes_that_are_no_cube_are_refused(words, told, config, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["clusterscale", "audit", str(config), *words])
    with pytest.raises(SystemExit) as ending:
        cli.main()
    assert ending.value.code == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_explain_writes_no_cube_of_a_preset(config, tmp_path):
    content = yaml.safe_load(config.read_text())
    preset = {"preset": "milan", "path": str(tmp_path / "milan.zarr")}
    config.write_text(yaml.safe_dump(content | {"cube": preset}))
    result = call("audit", config, "--explain")
    assert result.exit_code == 0, result.output
    assert not (tmp_path / "milan.zarr").exists()


def test_explain_says_which_noise_is_not_safe_as_floats(tmp_path, cube, plan_fields, config):
    content = yaml.safe_load(config.read_text())
    laplace = {"name": "laplace", "epsilon": 1.0, "unit": "event"}
    content["audit"]["mechanisms"] = [
        {"name": "exact"},
        laplace | {"integers": "round"},
        laplace | {"discrete": True},
    ]
    config.write_text(yaml.safe_dump(content))
    assert "not safe to publish" not in call("audit", config, "--explain").output
    content["audit"]["mechanisms"].append(laplace)
    config.write_text(yaml.safe_dump(content))
    said = call("audit", config, "--explain").output.partition("not safe to publish as")[2]
    said = " ".join(said.split())
    assert said.count("laplace(epsilon=1.0, unit='event')") == 1
    assert "exact" not in said
    assert "publish whole numbers: integers: round" in said


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_failed_tasks_end_in_1(config, tmp_path, monkeypatch):
    monkeypatch.setattr("clusterscale.analyses.audit.analysis.play_whole", lambda task: 1 / 0)
    result = call("audit", config)
    assert result.exit_code == 1
    assert "cases failed" in result.output
    assert "ZeroDivisionError" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["audit", "no.yaml"], "error: no.yaml: there is no such config file"),
        (["inspect", "nowhere"], "error: nowhere: nothing is stored there"),
        (
            ["synth", "paris", "cube"],
            "error: unknown preset 'paris': choose from cdr, milan, sfc, tfl",
        ),
        (
            ["audit", "--cluster", "mars"],
            "error: unknown cluster 'mars': choose from address, gateway, htcondor, kubernetes, "
            "local, lsf, moab, oar, pbs, serial, sge, slurm, slurm-allocation",
        ),
        (
            ["audit", "--cluster", "serial", "--workers", "2"],
            "error: cluster serial has no configurable number of workers",
        ),
        (["report", "nowhere"], "error: nowhere: there are no results; has a run finished there?"),
    ],
)
def test_bad_input_ends_in_2_with_one_clear_line(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["clusterscale", *words])
    with pytest.raises(SystemExit) as ending:
        cli.main()
    assert ending.value.code == 2
    written = capsys.readouterr()
    assert written.err.strip() == message
    assert written.out == ""
    assert list(tmp_path.iterdir()) == [], "bad input must leave nothing behind"


@pytest.mark.slow
def test_a_process_ends_as_main_does(tmp_path):
    result = shell("audit", "no.yaml", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.strip() == "error: no.yaml: there is no such config file"
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ClusterError("two workers"), os.EX_TEMPFAIL),
        (errors.StalledError("two workers"), os.EX_TEMPFAIL),
        (errors.StoreError("two workers"), os.EX_TEMPFAIL),
        (errors.DamagedError("two workers"), 2),
        (errors.PackageError("two workers"), 2),
    ],
)
def test_only_what_may_go_on_by_itself_ends_in_75(error, code, monkeypatch, capsys):
    def fail():
        raise error

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as ending:
        cli.main()
    assert ending.value.code == code
    assert capsys.readouterr().err == "error: two workers\n"


@pytest.mark.slow
def test_synth_and_inspect_agree(tmp_path):
    made = call("synth", "milan", tmp_path / "cube", "--users", 40, "--seed", 3)
    seen = call("inspect", tmp_path / "cube")
    assert made.exit_code == seen.exit_code == 0
    assert made.output == seen.output
    assert "40" in seen.output


def test_config_verbs(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where no quickstart has run
    assert "fits the cube" in call("config", "check", config).output
    shown = yaml.safe_load(call("config", "show", config).output)
    assert shown["audit"]["control"] is True
    assert '"known_subset"' in call("config", "schema").output
    assert "the run will write its cube" in call("config", "check").output


@pytest.mark.slow
def test_help_is_quick_and_names_the_verbs(tmp_path):
    result = shell("--help", cwd=tmp_path)
    assert result.returncode == 0
    for verb in ("audit", "ingest", "synth", "inspect", "report", "config"):
        assert verb in result.stdout


@pytest.mark.dask
def test_readme_command_is_installed():
    script = shutil.which("clusterscale", path=str(Path(sys.executable).parent))
    assert script is not None
