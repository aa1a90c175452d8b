"""Looking on while others work: what is shown, and how it ends."""

import inspect
import io
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
from clusterscale.cli.status_view import draw, duration
from clusterscale.cli.watch import Observer
from clusterscale.errors import TEMPORARY, MissingError, StoreError
from clusterscale.runtime import read_status
from clusterscale.runtime.status import ProcessId, Stage, Status, status_uri

pytestmark = pytest.mark.usefixtures("no_figures")

STAGES = (
    Stage(name="count", n_total=1000, n_done=0, seconds=12.0),
    Stage(name="score", n_total=1000, n_done=1000, seconds=200.0),
    Stage(name="audit", n_total=5000, n_done=1234, n_failed=2, n_before=100, seconds=788.0),
)
RUNNING = Status(
    work="audit",
    state="running",
    cluster="slurm(jobs=4)",
    driver="node17, process 4711",
    dashboard="http://127.0.0.1:8787/status",
    n_workers=16,
    n_threads=32,
    began=0.0,
    told=1000.0,
    elapsed=1000.0,
    number=9,
    stage="audit",
    rate=2.0,
    stages=STAGES,
)


def show(silence=2.0, *, width=80, read_error="", **fields):
    console = Console(width=width, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    with console.file:
        console.print(draw(RUNNING.model_copy(update=fields), silence, read_error=read_error))
    return console.export_text()


def call(*words):
    return CliRunner().invoke(app, ["watch", *map(str, words)], catch_exceptions=False)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_run_that_goes_on(width):
    text = show(width=width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].split() == ["audit", "running"]
    rows = {line.split()[0]: line.split() for line in lines[1:]}
    assert rows["count"] == ["count", "12", "s"], "nothing is counted there"
    assert rows["score"][2:] == ["1,000", "1,000", "0", "3", "min", "20", "s"]
    assert "1,234" in rows["audit"]
    assert rows["rate"][1:] == ["2", "per", "second"]
    assert rows["left"][1:5] == ["about", "31", "min", "20"]
    assert rows["workers"][1:] == ["16,", "32", "threads"]
    assert rows["dashboard"][1] == "http://127.0.0.1:8787/status"
    assert "updated 2 s ago" in text
    assert "16 min 42 s" in text, "time goes on between two signs"


def test_a_narrow_terminal_still_shows_all():
    text = " ".join(show(width=40).split())
    for words in ("count", "score", "audit", "1,234", "2 per second", "node17"):
        assert words in text


@pytest.mark.parametrize(
    ("fields", "silence", "words"),
    [
        ({}, 95.0, "no status update for 1 min 35 s: its driver was killed, or cannot write"),
        ({"state": "finished"}, 9.0, "finished, 2 failed: see its report"),
        ({"state": "finished", "stages": STAGES[:2]}, 9.0, "audit finished"),
        ({"state": "interrupted", "reason": "SIGTERM"}, 9.0, "interrupted by SIGTERM"),
        ({"state": "failed", "reason": "StoreError"}, 9.0, "StoreError: a store failed"),
        ({"state": "failed", "reason": "ConfigError"}, 9.0, "ConfigError: see its terminal"),
        ({"rate": None}, 2.0, "not known before the first result"),
        ({"rate": 0.004}, 2.0, "14.4 per hour"),
        ({"rate": 123456.0}, 2.0, "123,456 per second"),
        ({"n_workers": None}, 2.0, "not known"),
        ({"stage": "report"}, 2.0, "not known yet"),
    ],
)
def test_every_state_is_told(fields, silence, words):
    text = " ".join(show(silence, **fields).split())
    assert words in text
    ended = "state" in fields or silence > 30
    assert ("rate" in text) is not ended
    assert ("dashboard" in text) is not ended, "what is over has none"


def test_all_texts_are_shown_as_they_are():
    hostile = "[bold red]owned[/] [link=http://evil]x[/link] [/nothing]"
    text = show(
        width=200,
        dashboard=f"http://{hostile}",
        cluster=hostile,
        driver=hostile,
        work=hostile,
        stage=hostile,
        stages=(Stage(name=hostile, n_total=2, n_done=1),),
        read_error=hostile,
    )
    assert text.count(hostile) == 6
    assert hostile in show(width=200, state="failed", reason=hostile)


def test_only_web_addresses_are_links():
    for address, is_link in (("https://host/status", True), ("javascript:alert(1)", False)):
        console = Console(width=80, force_terminal=True, file=open(os.devnull, "w"), record=True)  # noqa: SIM115
        with console.file:
            console.print(draw(RUNNING.model_copy(update={"dashboard": address}), 1.0))
        assert ("\x1b]8;" in console.export_text(styles=True)) is is_link


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (75, "1 min 15 s"),
        (7260, "2 h 1 min"),
        (86_400, "1 d"),
        (10**9, "11,574 d 2 h"),
    ],
)
def test_times_are_as_a_person_writes_them(seconds, text):
    assert duration(seconds) == text


def observe(said, wall=1000.0):
    """Return an observer of drivers that say these things, and its clock."""
    clock, left = Clock(), list(said)

    def read():
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Exception):
            raise found
        return found

    return Observer(read, clock=clock, wall=lambda: wall), clock


def look(observer, clock, patience=600.0):
    return sum(1 for _ in watch._poll(observer, 2.0, patience, clock.sleep))


def say(number, **fields):
    return RUNNING.model_copy(update={"number": number, **fields})


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
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(watch._draw(observer))
    text = " ".join(console.export_text().split())
    assert "its process is gone from this machine; run the same command again" in text
    assert "rate" not in text


def test_watching_a_driver_that_is_gone_ends_in_75(ended_process, tmp_path):
    put(tmp_path, process=ended_process)
    for options in ([], ["--once"]):
        result = call(tmp_path, *options)
        assert result.exit_code == TEMPORARY
        assert "its process is gone" in " ".join(result.output.split())


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


def test_a_status_of_an_earlier_version_is_read(tmp_path):
    path = tmp_path / "status" / "audit.json"
    path.parent.mkdir()
    path.write_text(RUNNING.model_dump_json(exclude={"process"}))
    assert read_status(str(tmp_path)).process is None


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
    now = {"told": time.time(), "elapsed": 0.0}
    path.write_text(RUNNING.model_copy(update=now | fields).model_dump_json())


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, 0),
        ({"told": 1.0}, TEMPORARY),
        ({"state": "finished"}, 1),
        ({"state": "finished", "stages": STAGES[:2]}, 0),
        ({"state": "failed", "reason": "ClusterError"}, TEMPORARY),
        ({"state": "interrupted", "reason": "SIGINT"}, TEMPORARY),
    ],
)
def test_one_look_for_scripts(fields, code, tmp_path):
    put(tmp_path, **fields)
    result = call(tmp_path, "--once")
    assert result.exit_code == code
    assert result.output.startswith("audit")
    if "state" in fields:
        assert call(tmp_path).exit_code == code, "and it ends by itself"


def test_a_terminal_shows_every_look_until_the_run_has_ended(monkeypatch):
    shown = Console(file=io.StringIO(), force_terminal=True, width=80)
    monkeypatch.setattr(watch, "out", shown)
    observer, clock = observe([say(1), say(2), say(3, state="finished")])
    monkeypatch.setattr(watch._poll, "__defaults__", (clock.sleep,))
    assert watch._follow(observer, 2.0, 600.0) == 1, "two tasks have failed"
    assert "finished" in shown.file.getvalue()


def test_without_a_terminal_lines_are_printed(monkeypatch):
    shown = Console(file=io.StringIO(), width=80)
    monkeypatch.setattr(watch, "out", shown)
    told = [say(n, stages=(Stage(name="audit", n_total=90, n_done=n),)) for n in range(40)]
    told += [say(50, stage="report"), say(60, state="finished")]
    observer, clock = observe(told)
    monkeypatch.setattr(watch._poll, "__defaults__", (clock.sleep,))
    assert watch._follow(observer, 2.0, 600.0) == 1
    lines = shown.file.getvalue().splitlines()
    assert [line.partition(";")[0] for line in lines[:4]] == [
        *(f"audit running: audit {n} of 90, 0 failed" for n in (0, 15, 30)),
        "audit running: report",
    ]
    assert "left: about" in lines[0]
    assert lines[4].startswith("audit  finished")


def test_where_nothing_runs(tmp_path):
    result = CliRunner().invoke(app, ["watch", str(tmp_path / "nowhere")])
    assert isinstance(result.exception, MissingError)
    assert "nowhere: there is no run to watch" in str(result.exception)
    assert result.output == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_ctrl_c_leaves_in_order(tmp_path):
    put(tmp_path)
    words = [sys.executable, "-m", "clusterscale", "watch", str(tmp_path), "--every", "0.1"]
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
    assert said.rindex(b"\x1b[?25h") > said.rindex(b"\x1b[?25l"), "the cursor is shown again"


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
    result = call(tmp_path / "run", "--every", 0.1)
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
    result = call(tmp_path / "run", "--every", 0.1)
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
