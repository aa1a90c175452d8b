"""Looking on while others work: what is shown, and how it ends."""

import inspect
import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
import yaml
from object_store import serve
from oracles.clock import Clock
from rich.console import Console
from typer.testing import CliRunner

from clusterscale import storage
from clusterscale.cli import app, watch
from clusterscale.cli.watch import Observer
from clusterscale.errors import TEMPORARY, MissingError, StoreError
from clusterscale.runtime import read_status
from clusterscale.runtime.status import ProcessId, Status, status_uri

pytestmark = pytest.mark.usefixtures("no_figures")

RUNNING = Status(
    work="audit",
    state="running",
    stage="audit",
    n_tasks=5000,
    n_done=1234,
    n_failed=2,
    n_before=234,
    n_workers=16,
    n_lost_workers=3,
    n_retries=5,
    n_merging=7,
    driver_memory=1_200_000_000,
    worker_memory=3_400_000_000,
    began=0.0,
    since=500.0,
    told=1000.0,
)

HERE = ProcessId(host="node17", pid=4711, machine="another")


def observe(said, wall=1000.0):
    """Return an observer of drivers that say these things, and its clock."""
    clock, left = Clock(), list(said)

    def read():
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Exception):
            raise found
        return found

    return Observer(read, clock=clock, wall=lambda: wall), clock


def say(number, **fields):
    return RUNNING.model_copy(update={"told": 999.0 + number, **fields})


def show(silence=2.0, **fields):
    observer, clock = observe([RUNNING.model_copy(update=fields)])
    clock.now += silence
    return watch._as_text(observer)


def call(*words):
    return CliRunner().invoke(app, ["watch", *map(str, words)], catch_exceptions=False)


def test_a_line_says_how_far_a_run_is_and_what_failed():
    assert show().split("; ") == [
        "1970-01-01 00:16:40Z audit running",
        "audit 1,234 of 5,000, 2 failed",
        "elapsed 0:16:40",
        "about 0:31:23 left of this stage",
        "workers 16",
        "workers lost 3",
        "retries 5",
        "merges waiting 7",
        "peak memory driver 1.2 GB, worker 3.4 GB",
    ]


@pytest.mark.parametrize(
    ("fields", "silence", "words"),
    [
        ({}, 95.0, "no status update for 0:01:35: its driver was killed, or cannot write"),
        ({"process": HERE}, 95.0, "its driver (node17, process 4711) was killed, or cannot write"),
        ({"began": 2e11, "told": 9.0, "n_tasks": 2**62}, 2.0, "elapsed 0:00:00; about 0:00:00"),
        ({"told": 2e11, "n_tasks": 2**62}, 2.0, "left of this stage"),
        ({"state": "finished"}, 9.0, "finished, 2 failed: see its report"),
        ({"state": "finished", "n_failed": 0}, 9.0, "audit finished;"),
        ({"state": "interrupted", "reason": "SIGTERM"}, 9.0, "interrupted by SIGTERM"),
        ({"state": "failed", "reason": "StoreError"}, 9.0, "StoreError: a store failed"),
        ({"state": "failed", "reason": "ConfigError"}, 9.0, "ConfigError: see its terminal"),
        (
            {"stage": "report", "n_tasks": 0, "n_done": 0},
            2.0,
            "running; report, 2 failed; elapsed 0:16:40; workers",
        ),
    ],
)
def test_every_state_is_told(fields, silence, words):
    assert words in show(silence, **fields)


def test_texts_are_no_markup(tmp_path):
    hostile = "[bold red]owned[/] [link=http://evil]x[/link] [/nothing]"
    put(tmp_path, stage=hostile)
    assert hostile in call(tmp_path, "--once").output


def test_lines_of_json_have_the_status_and_what_the_reader_saw(tmp_path):
    put(tmp_path, told=time.time() - 100)
    result = call(tmp_path, "--once", "--log", "json")
    (line,) = result.output.splitlines()
    found = json.loads(line)
    assert Status.model_validate_json(line).n_lost_workers == 3
    assert (found["overdue"], found["read_error"]) == (True, "")
    assert found["silence"] >= 100


def look(observer, clock, patience=600.0):
    return sum(1 for _ in watch._poll(observer, patience, clock.sleep))


def test_it_ends_when_the_run_does():
    observer, clock = observe([say(1), say(1), say(2), say(3, state="finished")])
    assert look(observer, clock) == 4
    assert observer.status.exit_code == 1
    assert observer.silence == 0


def test_it_ends_when_nothing_is_heard_for_long():
    observer, clock = observe([say(1)])
    look(observer, clock, patience=100.0)
    assert 100 < observer.silence <= 102
    assert observer.overdue
    assert observer.status.exit_code is None


@pytest.fixture
def ended_process():
    """Return the identity of a process of this machine that has ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        known = ProcessId.current().model_copy(update={"pid": process.pid, "started": None})
        assert not known.is_gone()
        process.kill()
    return known


def test_a_driver_whose_process_is_gone_is_told_at_once(ended_process):
    observer, clock = observe([say(1, process=ended_process)])
    assert look(observer, clock) == 1
    assert clock.now == 0, "nobody waits"
    assert observer.silence == 0
    assert observer.overdue
    text = watch._as_text(observer)
    assert "its process is gone from this machine; run the same command again" in text


def test_watching_a_driver_that_is_gone_ends_in_75(ended_process, tmp_path):
    put(tmp_path, process=ended_process)
    for options in ([], ["--once"]):
        result = call(tmp_path, *options)
        assert result.exit_code == TEMPORARY
        (line,) = result.output.splitlines()
        assert "its process is gone" in line


def test_what_a_driver_wrote_last_counts_though_it_is_gone(ended_process):
    said = [say(1, process=ended_process), say(2, process=ended_process, state="finished")]
    observer, clock = observe(said)
    assert look(observer, clock) == 1
    assert not observer.driver_is_gone
    assert observer.status.exit_code == 1, "two tasks have failed"


def test_a_later_process_with_the_same_number_is_not_the_driver():
    now = ProcessId.current()
    assert not now.is_gone()
    assert now.started is not None
    earlier = now.model_copy(update={"started": now.started - 1})
    observer, clock = observe([say(1, process=earlier)])
    assert look(observer, clock) == 1
    assert observer.driver_is_gone


def test_nothing_is_concluded_about_a_process_of_another_machine(ended_process):
    elsewhere = ended_process.model_copy(update={"machine": "node17 0 pid:[1]"})
    observer, clock = observe([say(1, process=elsewhere)])
    assert look(observer, clock, patience=0) > 1
    assert 30 < observer.silence <= 32, "three heartbeats"
    assert not observer.driver_is_gone
    assert observer.overdue


def test_without_an_option_a_watcher_waits_for_three_heartbeats():
    default = inspect.signature(watch.watch).parameters["patience"].default
    observer, clock = observe([say(1)])
    look(observer, clock, patience=default)
    assert 30 < observer.silence <= 32


def test_clocks_that_differ_by_an_hour_do_not_matter():
    ahead, clock = observe([say(1), say(1), say(2), say(3, state="finished")], wall=4600.0)
    assert ahead.overdue
    assert ahead.silence == 3600
    assert look(ahead, clock) == 4, "it waits for a sign before it gives up"
    behind, clock = observe([say(1)], wall=-2600.0)
    assert behind.silence == 0


def test_a_store_that_cannot_be_read_for_a_while():
    lost = StoreError("s3://bucket: tried 5 times")
    observer, clock = observe([say(1), lost, lost, say(2, state="interrupted")])
    observer.update()
    assert observer.read_error == "s3://bucket: tried 5 times"
    look(observer, clock)
    assert observer.read_error == ""
    assert observer.status.exit_code == TEMPORARY


def test_a_restarted_run_resets_the_silence():
    observer, _ = observe([say(9), say(9, began=5.0)])
    observer._heard -= 500
    observer.update()
    assert observer.silence == 0


def put(folder, **fields):
    path = folder / "status" / "audit.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    now = {"told": time.time()}
    path.write_text(RUNNING.model_copy(update=now | fields).model_dump_json())


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, 0),
        ({"told": 1.0}, TEMPORARY),
        ({"state": "finished"}, 1),
        ({"state": "finished", "n_failed": 0}, 0),
        ({"state": "failed", "reason": "ClusterError"}, TEMPORARY),
        ({"state": "interrupted", "reason": "SIGINT"}, TEMPORARY),
    ],
)
def test_one_look_for_scripts(fields, code, tmp_path):
    put(tmp_path, **fields)
    result = call(tmp_path, "--once")
    assert result.exit_code == code
    assert " audit " in result.output
    if "state" in fields:
        assert call(tmp_path).exit_code == code, "and it ends by itself"


def test_a_line_is_printed_for_each_stage_and_every_half_minute(monkeypatch):
    shown = Console(file=io.StringIO(), width=80)
    monkeypatch.setattr(watch, "out", shown)
    told = [say(n, n_tasks=90, n_done=n) for n in range(40)]
    told += [say(50, stage="report", n_tasks=0), say(60, state="finished")]
    observer, clock = observe(told)
    monkeypatch.setattr(watch._poll, "__defaults__", (clock.sleep,))
    assert watch._follow(observer, 600.0, "text") == 1, "two tasks have failed"
    lines = [line.partition(" audit ")[2] for line in shown.file.getvalue().splitlines()]
    assert [line.partition(", ")[0] for line in lines[:4]] == [
        *(f"running; audit {n} of 90" for n in (0, 15, 30)),
        "running; report",
    ]
    assert lines[4].startswith("finished, 2 failed")
    assert len(lines) == 5


def test_where_nothing_runs(tmp_path):
    result = CliRunner().invoke(app, ["watch", str(tmp_path / "nowhere")])
    assert isinstance(result.exception, MissingError)
    assert "nowhere: there is no run to watch" in str(result.exception)
    assert result.output == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_ctrl_c_leaves_in_order(tmp_path):
    put(tmp_path)
    words = [sys.executable, "-m", "clusterscale", "watch", str(tmp_path)]
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        words,
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job ignores it
    ) as process:
        os.close(theirs)
        said = b""
        while b"running" not in said:
            said += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        with suppress(OSError):  # as Linux says that the other end is closed
            while piece := os.read(ours, 4096):
                said += piece
        assert process.wait(30) == 130
        assert process.stderr.read() == b""
    os.close(ours)


@pytest.fixture
def config(tmp_path, cube, plan_fields):
    path = tmp_path / "run.yaml"
    tiny = {
        "targets": {"random": 2},
        "group_sizes": [3],
        "priors": [{"name": "known_subset", "alpha": 0.5, "training": 10, "challenges": 10}],
        "attacks": [{"name": "projection"}],
        "utility": {"groups": 2},
        "verdict": {"trials": 40},
        "screen": {"groups": 60},
    }
    content = {
        "cube": cube.uri,
        "output": str(tmp_path / "run"),
        "audit": plan_fields | tiny,
        "recovery": {"observed": 24, "epochs": 12, "priors": [{"name": "roi_day"}]},
        "cluster": {"name": "serial"},
    }
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "work", "stages"),
    [
        ("audit", "audit", ["audit", "report"]),
        ("screen", "screen", ["count", "score", "report"]),
        ("recover", "recovery", ["recover", "report"]),
    ],
)
def test_every_long_verb_can_be_watched(verb, work, stages, config, tmp_path):
    for _ in range(2):  # the second has little to do
        result = CliRunner().invoke(app, [verb, str(config)], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        status = read_status(str(tmp_path / "run"))
        assert (status.work, status.state, status.exit_code) == (work, "finished", 0)
        assert status.stage == stages[-1]
    assert call(tmp_path / "run").exit_code == 0
    assert [path.name for path in (tmp_path / "run" / "status").iterdir()] == [f"{work}.json"]


@pytest.mark.slow
def test_failed_tasks_are_seen(config, tmp_path, monkeypatch):
    monkeypatch.setattr("clusterscale.analyses.audit.analysis.play_whole", lambda task: 1 / 0)
    assert CliRunner().invoke(app, ["audit", str(config)]).exit_code == 1
    result = call(tmp_path / "run")
    assert result.exit_code == 1
    assert "finished, 2 failed" in result.output


@pytest.mark.slow
def test_one_folder_serves_every_verb(config):
    for verb in ("recover", "screen", "audit"):
        result = CliRunner().invoke(app, [verb, str(config)], catch_exceptions=False)
        assert result.exit_code == 0, result.output


def test_a_foreign_folder_gets_no_status(config, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("chapter one")
    assert CliRunner().invoke(app, ["audit", str(config)]).exit_code == 1
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.tex"]


DRIVER = """
import sys, time
from pathlib import Path
from clusterscale.analyses.audit import analysis as driver
from clusterscale.cli import main

released, ordinary = Path(sys.argv.pop()), driver.play_whole

def wait_and_run(task):
    while not released.exists():
        time.sleep(0.01)
    return ordinary(task)

driver.play_whole = wait_and_run
main()
"""


@pytest.fixture
def released(tmp_path):
    """Return the path of a file: the tasks of a driver wait until it exists."""
    return tmp_path / "released"


@pytest.fixture
def driving(config, released, tmp_path):
    """Return the process of an audit that has begun, and whose tasks wait to be released."""
    words = [sys.executable, "-c", DRIVER, "audit", str(config), str(released)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, **quiet) as process:
        try:
            while not (tmp_path / "run" / "status" / "audit.json").exists():
                assert process.poll() is None
                time.sleep(0.02)
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_a_run_is_watched_to_its_end(driving, released, tmp_path, monkeypatch):
    def pause(seconds):
        released.touch()  # so the watcher has seen it run
        time.sleep(seconds)

    monkeypatch.setattr(watch._poll, "__defaults__", (pause,))
    result = call(tmp_path / "run")
    assert released.exists()
    assert result.exit_code == 0, result.output
    assert driving.wait(240) == 0
    assert "finished" in result.output
    assert (tmp_path / "run" / "report.html").exists(), "the report is part of it"


@pytest.mark.slow
def test_a_driver_that_is_killed_is_told_at_once(driving, tmp_path, monkeypatch):
    assert call(tmp_path / "run", "--once").exit_code == 0
    driving.kill()
    driving.wait()
    clock = Clock()
    monkeypatch.setitem(Observer.__init__.__kwdefaults__, "clock", clock)
    monkeypatch.setattr(watch._poll, "__defaults__", (clock.sleep,))
    result = call(tmp_path / "run")
    assert clock.now == 0, "nobody waits"
    assert result.exit_code == TEMPORARY
    assert "its process is gone" in " ".join(result.output.split())


@pytest.mark.slow
def test_a_driver_that_is_told_to_end_says_so(driving, tmp_path):
    driving.send_signal(signal.SIGTERM)
    result = call(tmp_path / "run")
    assert driving.wait(240) == 143
    assert result.exit_code == TEMPORARY
    assert "interrupted by SIGTERM" in result.output


@pytest.mark.slow
def test_a_run_on_object_storage_is_watched():
    with serve() as store:
        path = status_uri(f"{store.uri}/run", "audit")
        now = RUNNING.model_copy(update={"told": time.time(), "state": "finished"})
        storage.put(path, now.model_dump_json().encode())
        result = call(f"{store.uri}/run")
    assert result.exit_code == 1
    assert "finished, 2 failed" in result.output


def test_an_address_with_a_password_is_refused():
    result = CliRunner().invoke(app, ["watch", "s3://ann:geheim@bucket/run"])
    assert result.exit_code != 0
    assert "geheim" not in result.output
