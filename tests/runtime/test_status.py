"""What a driver says of its run: written beside the work, never in its way."""

import json
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.audit import AuditPlan, run
from clusterscale.contracts import Crew
from clusterscale.cube import storage
from clusterscale.errors import TEMPORARY, FormatError, MissingError, StalledError
from clusterscale.runtime import Beacon, Local, SerialExecutor, beacon, read_status
from clusterscale.runtime.beacon import Pace
from clusterscale.runtime.status import Stage, Status, place_of

words = st.text(
    st.characters(exclude_categories=["Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"]), max_size=30
)
numbers = st.integers(0, 2**53)
seconds = st.floats(0, 1e12)
stages = st.builds(
    Stage, name=words, n_total=numbers, n_done=numbers, n_failed=numbers, seconds=seconds
)
statuses = st.builds(
    Status,
    work=words,
    state=st.sampled_from(["running", "finished", "failed", "interrupted"]),
    reason=words,
    cluster=words,
    dashboard=words,
    n_workers=st.none() | numbers,
    n_threads=st.none() | numbers,
    began=seconds,
    told=seconds,
    elapsed=seconds,
    beat=seconds,
    stage=words,
    rate=st.none() | seconds,
    stages=st.lists(stages, max_size=3).map(tuple),
)


def say(folder, work="audit", **fields):
    """Put a status at its place."""
    base = {"work": work, "state": "running", "began": 0.0, "told": 0.0, "elapsed": 0.0}
    status = Status(**(base | {"stage": "", "stages": ()} | fields))
    storage.put(place_of(str(folder), work), status.model_dump_json().encode())
    return status


@given(statuses)
def test_what_was_said_is_read(status):
    assert Status.model_validate_json(status.model_dump_json()) == status


@pytest.mark.parametrize("where", ["local", "memory"])
def test_a_run_says_how_far_it_is(where, tmp_path):
    folder = str(tmp_path) if where == "local" else f"memory://{tmp_path.name}"
    with Beacon(folder, "audit", cluster="serial", beat=0.05, pause=0.01) as told:
        with told.seeing(SerialExecutor()):
            told.tell("count", 10, 0)
            told.tell("audit", 10, 2)
            told.tell("audit", np.int64(10), 5, 1)
            status = wait(folder, lambda status: status.stages[-1].n_done == 5)
            assert (status.state, status.stage, status.cluster) == ("running", "audit", "serial")
            assert (status.n_workers, status.n_threads, status.dashboard) == (1, 1, "")
            assert status.rate > 0
            assert status.exit_code is None
            assert status.seconds_left == pytest.approx(4 / status.rate)
            first, second = status.stages
            assert (first.name, first.moved, first.n_left) == ("count", False, 10)
            assert (second.n_before, second.n_failed, second.moved) == (2, 1, True)
            beats = wait(folder, lambda now: now.number > status.number + 1)  # without any news
            assert beats.elapsed > status.elapsed
        told.tell("report", 0, 0)
    status = read_status(folder)
    assert (status.state, status.stage, status.exit_code) == ("finished", "report", 1)
    assert status.n_workers is None
    assert status.stages[1].n_done == 5
    storage.remove(folder)


def wait(folder, wanted):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with_it = storage.exists(place_of(folder, "audit"))
        if with_it and wanted(status := read_status(folder)):
            return status
        time.sleep(0.01)
    raise AssertionError("it was never said")


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (StalledError("u041 hangs"), "failed", "StalledError"),
        (ZeroDivisionError("row 7"), "failed", "ZeroDivisionError"),
        (SystemExit(143), "interrupted", "SIGTERM"),
        (SystemExit(130), "interrupted", "SIGINT"),
        (KeyboardInterrupt(), "interrupted", "SIGINT"),
        (SystemExit(2), "failed", "SystemExit"),
        (SystemExit(4000), "failed", "SystemExit"),
        (SystemExit("why"), "failed", "SystemExit"),
    ],
)
def test_an_end_is_told_by_its_class_alone(error, state, reason, tmp_path):
    def work():
        with Beacon(str(tmp_path), "audit") as told:
            told.tell("audit", 3, 1)
            raise error

    with pytest.raises(type(error)):
        work()
    status = read_status(str(tmp_path))
    assert (status.state, status.reason, status.exit_code) == (state, reason, TEMPORARY)
    text = (tmp_path / "status" / "audit.json").read_text()
    assert "u041" not in text
    assert "row 7" not in text


def test_nothing_is_written_before_work_begins(tmp_path):
    with Beacon(str(tmp_path / "run"), "audit"):
        pass
    assert not (tmp_path / "run").exists()
    with pytest.raises(MissingError, match="there is no run to watch"):
        read_status(str(tmp_path / "run"))


def test_who_cannot_write_says_so_once_and_works_on(tmp_path):
    (tmp_path / "status").write_text("in the way")
    warned = []
    with Beacon(str(tmp_path), "audit", warn=warned.append, beat=0.01, pause=0.01) as told:
        for done in range(20):
            told.tell("audit", 20, done)
            time.sleep(0.01)
    (message,) = warned
    assert message.startswith("how far the work is cannot be told: ")
    assert (tmp_path / "status").read_text() == "in the way"


def test_a_store_that_hangs_holds_nothing_up(tmp_path, monkeypatch):
    free = threading.Event()
    monkeypatch.setattr(beacon, "put", lambda uri, content: free.wait(30))
    monkeypatch.setattr(beacon, "_LAST", 0.1)
    began = time.monotonic()
    with Beacon(str(tmp_path), "audit") as told:
        told.tell("audit", 2, 1)
    assert time.monotonic() - began < 10
    free.set()


def test_no_thread_to_write_is_no_reason_to_stop(tmp_path, monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    warned = []
    with Beacon(str(tmp_path), "audit", warn=warned.append) as told:
        told.tell("audit", 2, 1)
    assert warned == ["how far the work is cannot be told: can't start new thread"]


class Crewed(SerialExecutor):
    dashboard = "https://ann:geheim@host:8787/status"

    def crew(self):
        return Crew(4, 8)


def test_a_dashboard_is_told_without_its_password(tmp_path):
    with Beacon(str(tmp_path), "audit", beat=0.05, pause=0.01) as told, told.seeing(Crewed()):
        told.tell("audit", 2, 1)
        status = wait(str(tmp_path), lambda status: True)
    assert (status.n_workers, status.n_threads) == (4, 8)
    assert status.dashboard == "https://[hidden]@host:8787/status"


@pytest.mark.dask
def test_a_cluster_says_who_is_at_work(tmp_path):
    pytest.importorskip("distributed")
    with Local(workers=2).open() as executor, Beacon(str(tmp_path), "audit") as told:
        executor.preflight(lambda: None)
        with told.seeing(executor):
            told.tell("audit", 2, 1)
            status = wait(str(tmp_path), lambda status: status.n_workers == 2)
        assert status.n_threads == 2
        assert status.dashboard == executor.dashboard
    assert executor.crew() is None, "it is closed"


def test_a_stage_that_comes_again_adds_up(tmp_path):
    with Beacon(str(tmp_path), "screen") as told:
        for done in (0, 5):
            told.tell("count", 10, done)
            time.sleep(0.05)
            told.tell("score", 10, done)
            told.tell("score", 10, done + 5)
    count, score = read_status(str(tmp_path)).stages
    assert 0.1 <= count.seconds < 10
    assert (score.n_done, score.n_before) == (10, 0)
    assert score.moved
    assert not count.moved, "what another stage does is not counted twice"


def test_a_rate_is_that_of_late():
    pace = Pace(0.0, 100)
    assert pace.rate(5.0) is None
    for second in range(1, 101):
        pace.add(float(second), 100 + second)
    assert pace.rate(100.0) == pytest.approx(1.0)
    for second in range(101, 201):
        pace.add(float(second), 200 + 10 * (second - 100))
    assert pace.rate(200.0) == pytest.approx(10.0, rel=0.02)
    assert pace.rate(400.0) < 5.0, "when nothing comes, it falls"
    assert len(pace._marks) < 70


def test_a_rate_of_rare_results_looks_further_back():
    pace = Pace(0.0, 0)
    for n in range(1, 21):
        pace.add(600.0 * n, n)
    assert pace.rate(12_000.0) == pytest.approx(1 / 600)
    assert len(pace._marks) <= 10


@given(st.lists(st.floats(0, 5), min_size=1, max_size=200))
def test_a_steady_rate_is_found_whatever_the_bursts(gaps):
    pace, now = Pace(0.0, 0), 0.0
    for gap in gaps:
        now += gap
        pace.add(now, int(now * 3))
    if rate := pace.rate(now):
        assert rate <= 3 * (1 + 1e-9) + 1 / max(now, 1e-9)
        assert len(pace._marks) <= 80


def test_of_several_the_one_that_goes_on_is_shown(tmp_path):
    say(tmp_path, "audit", state="finished", told=1000.0, began=900.0)
    assert read_status(str(tmp_path)).work == "audit"
    say(tmp_path, "recovery", told=995.0, began=500.0)
    assert read_status(str(tmp_path)).work == "recovery"
    say(tmp_path, "recovery", told=500.0, began=400.0)  # which was killed long before
    assert read_status(str(tmp_path) + "/").work == "audit"
    (tmp_path / "status" / "notes.txt").write_text("mine")
    assert read_status(str(tmp_path)).work == "audit"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"format": "clusterscale-status"}',
        b'{"a":' * 5000,
        json.dumps({"rate": float("nan")}).encode(),
    ],
)
def test_what_is_no_status_is_refused(content, tmp_path):
    storage.put(place_of(str(tmp_path), "audit"), content)
    with pytest.raises(FormatError, match="is no status of a run that this clusterscale knows"):
        read_status(str(tmp_path))


def test_a_status_of_a_later_version_may_say_more(tmp_path):
    fields = json.loads(say(tmp_path).model_dump_json()) | {"temperature": 451}
    storage.put(place_of(str(tmp_path), "audit"), json.dumps(fields).encode())
    assert read_status(str(tmp_path)).work == "audit"


def test_letters_that_move_a_cursor_are_dropped():
    stage = Stage(name="a\x1b[2Jb\r\nc\u202ed", n_total=1, n_done=0)
    assert stage.name == "a[2Jbcd"


def test_a_status_is_no_foreign_content(cube, tmp_path, plan_fields):
    say(tmp_path / "run", "audit")
    (tmp_path / "run" / "recovery").mkdir()
    results = run(AuditPlan(**plan_fields), cube, tmp_path / "run", SerialExecutor())
    assert (results.status == "done").all()
    assert (tmp_path / "run" / "status" / "audit.json").exists()
