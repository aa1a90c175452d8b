"""What a driver says of its run: written beside the work, never in its way."""

import json
import threading
from queue import Queue

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import inproc
from oracles.clock import Clock
from running import run

from clusterscale import storage
from clusterscale.analyses.audit import AuditPlan
from clusterscale.errors import TEMPORARY, FormatError, MissingError, StalledError
from clusterscale.runtime import SerialExecutor, StatusWriter, read_status, status_writer
from clusterscale.runtime.status import Status, status_uri
from clusterscale.study.execution import WorkerCount

LIMIT = 120.0
"""Seconds after which a test gives up waiting for the thread that writes."""

words = st.text(
    st.characters(exclude_categories=["Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"]), max_size=30
)
numbers = st.integers(0, 2**53)
seconds = st.floats(0, 1e11)
statuses = st.builds(
    Status,
    work=words,
    state=st.sampled_from(["running", "finished", "failed", "interrupted"]),
    reason=words,
    stage=words,
    n_tasks=numbers,
    n_done=numbers,
    n_failed=numbers,
    n_workers=st.none() | numbers,
    worker_memory=st.none() | numbers,
    began=seconds,
    since=seconds,
    told=seconds,
    beat=seconds,
)


def say(folder, work="audit", **fields):
    """Put a status at its place."""
    base = {"work": work, "state": "running", "began": 0.0, "since": 0.0, "told": 0.0}
    base |= {"stage": "", "n_tasks": 0, "n_done": 0, "n_failed": 0}
    status = Status(**(base | fields))
    storage.put(status_uri(str(folder), work), status.model_dump_json().encode())
    return status


@given(statuses)
def test_what_was_said_is_read(status):
    assert Status.model_validate_json(status.model_dump_json()) == status


class Writes:
    """Every attempt to write a status, in order, whether it succeeded or not."""

    def __init__(self):
        self._attempts = Queue()

    def put(self, uri, content):
        try:
            storage.put(uri, content)
        finally:
            self._attempts.put(Status.model_validate_json(content))

    def wait(self, wanted=lambda status: True):
        """Return the next written status that is as ``wanted``."""
        while not wanted(status := self._attempts.get(timeout=LIMIT)):
            pass
        return status


@pytest.fixture
def writes(monkeypatch):
    found = Writes()
    monkeypatch.setattr(status_writer, "put", found.put)
    return found


@pytest.fixture(autouse=True)
def _slow_machine(monkeypatch):
    """Let the last write take as long as it needs."""
    monkeypatch.setattr(status_writer, "_LAST", LIMIT)


@pytest.mark.parametrize("where", ["local", "memory"])
def test_a_run_says_how_far_it_is(where, tmp_path, writes):
    folder = str(tmp_path) if where == "local" else f"memory://{tmp_path.name}"
    clock = Clock()
    with StatusWriter(folder, "audit", beat=10.0, pause=0.01, clock=clock) as writer:
        with writer.show_workers_of(SerialExecutor()):
            writer.update("count", 10, 0, 1)
            writer.update("audit", 10, 2)
            writer.update("audit", np.int64(10), 5, 1, 3)
            status = writes.wait(lambda status: status.n_done == 5)
            assert (status.state, status.stage, status.n_workers) == ("running", "audit", 1)
            assert (status.n_tasks, status.n_before, status.n_merging) == (10, 2, 3)
            assert status.n_failed == 2, "in all stages"
            assert status.began <= status.since <= status.told
            assert status.driver_memory > 10**7
            assert status.exit_code is None
            for _ in range(2):  # without any news
                clock.now += 10
                beat = writes.wait()
                assert (beat.n_done, beat.since) == (5, status.since)
                assert beat.told > status.told
        writer.update("report", 0, 0)
    status = read_status(folder)
    assert (status.state, status.stage, status.exit_code) == ("finished", "report", 1)
    assert status.n_workers is None
    storage.remove(folder)


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
        with StatusWriter(str(tmp_path), "audit") as writer:
            writer.update("audit", 3, 1)
            raise error

    with pytest.raises(type(error)):
        work()
    status = read_status(str(tmp_path))
    assert (status.state, status.reason, status.exit_code) == (state, reason, TEMPORARY)
    text = (tmp_path / "status" / "audit.json").read_text()
    assert "u041" not in text
    assert "row 7" not in text


def test_nothing_is_written_before_work_begins(tmp_path):
    with StatusWriter(str(tmp_path / "run"), "audit"):
        pass
    assert not (tmp_path / "run").exists()
    with pytest.raises(MissingError, match="there is no run to watch"):
        read_status(str(tmp_path / "run"))


def test_a_status_that_cannot_be_written_warns_once_and_the_run_continues(tmp_path, writes):
    (tmp_path / "status").write_text("in the way")
    warned = []
    with StatusWriter(str(tmp_path), "audit", warn=warned.append, pause=0.001) as writer:
        for done in range(5):
            writer.update("audit", 20, done)
            writes.wait(lambda status, done=done: status.n_done == done)
    (message,) = warned
    assert message.startswith("the status of the run cannot be written: ")
    assert (tmp_path / "status").read_text() == "in the way"


def test_a_store_that_hangs_holds_nothing_up(tmp_path, monkeypatch):
    hanging, free, returned = threading.Event(), threading.Event(), threading.Event()

    def hang(uri, content):
        hanging.set()
        free.wait(LIMIT)
        returned.set()

    monkeypatch.setattr(status_writer, "put", hang)
    monkeypatch.setattr(status_writer, "_LAST", 0.01)
    with StatusWriter(str(tmp_path), "audit") as writer:
        writer.update("audit", 2, 1)
        assert hanging.wait(LIMIT)
    assert not returned.is_set(), "the end waits for the store"
    free.set()
    writer._thread.join(LIMIT)


def test_no_thread_to_write_is_no_reason_to_stop(tmp_path, monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    warned = []
    with StatusWriter(str(tmp_path), "audit", warn=warned.append) as writer:
        writer.update("audit", 2, 1)
    assert warned == ["the status of the run cannot be written: can't start new thread"]


class WithWorkers(SerialExecutor):
    def count_workers(self):
        return WorkerCount(4, 2, 7, 10**9)


def test_what_was_lost_is_said_after_the_cluster_is_closed(tmp_path):
    with StatusWriter(str(tmp_path), "audit") as writer:
        with writer.show_workers_of(WithWorkers()):
            writer.update("audit", 2, 1)
            writer._current()  # as the thread does
        writer.update("report", 0, 0)
    status = read_status(str(tmp_path))
    assert (status.n_workers, status.n_lost_workers, status.n_retries) == (None, 2, 7)
    assert status.worker_memory == 10**9


@pytest.mark.dask
def test_a_cluster_says_who_is_at_work(tmp_path, local_cluster, writes, monkeypatch):
    monkeypatch.setattr("clusterscale.runtime.dask._QUERY", LIMIT)
    local_cluster.preflight(lambda: None)
    with StatusWriter(str(tmp_path), "audit") as writer, writer.show_workers_of(local_cluster):
        writer.update("audit", 2, 1)
        status = writes.wait()
    assert status.n_workers == 2


@pytest.mark.dask
def test_a_closed_cluster_does_not_say_who_is_at_work():
    pytest.importorskip("distributed")
    with inproc.open_executor() as executor:
        assert executor.count_workers().n_workers == 1
    assert executor.count_workers() is None


def test_what_is_left_of_a_stage_follows_from_what_it_has_done(tmp_path):
    status = say(tmp_path, n_tasks=100, n_done=40, n_before=20, since=50.0, told=90.0)
    assert status.seconds_left == 120
    assert say(tmp_path, n_tasks=100, n_done=20, n_before=20).seconds_left is None
    assert say(tmp_path, n_tasks=9, n_done=5, state="finished").seconds_left is None


def test_a_running_study_is_shown_before_a_finished_one(tmp_path):
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
    storage.put(status_uri(str(tmp_path), "audit"), content)
    with pytest.raises(FormatError, match="is not a run status that this version"):
        read_status(str(tmp_path))


def test_a_status_of_a_later_version_may_say_more(tmp_path):
    fields = json.loads(say(tmp_path).model_dump_json()) | {"temperature": 451}
    storage.put(status_uri(str(tmp_path), "audit"), json.dumps(fields).encode())
    assert read_status(str(tmp_path)).work == "audit"


def test_letters_that_move_a_cursor_are_dropped(tmp_path):
    assert say(tmp_path, stage="a\x1b[2Jb\r\nc\u202ed").stage == "a[2Jbcd"


def test_a_long_name_of_a_stage_does_not_stop_a_run(tmp_path):
    with StatusWriter(str(tmp_path), "audit") as writer:
        writer.update("x" * 5000, 1, 1)
    assert len(read_status(str(tmp_path)).stage) == 2000


def test_a_status_and_another_study_are_no_foreign_content(cube, tmp_path, plan_fields):
    say(tmp_path / "run", "audit")
    (tmp_path / "run" / "recovery").mkdir()
    (tmp_path / "run" / "recovery" / "recovery.json").write_text("{}")
    tiny = {"targets": {"random": 1}, "group_sizes": [3], "mechanisms": [{"name": "exact"}]}
    plan = AuditPlan(**plan_fields | tiny | {"attacks": [{"name": "projection"}]})
    results = run(plan, cube, tmp_path / "run", SerialExecutor())
    assert (results.status == "done").all()
    assert (tmp_path / "run" / "status" / "audit.json").exists()
