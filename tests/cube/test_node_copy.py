"""Processes of a node share traces: read once, the same bits, and nothing is left of them."""

import signal
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

from clusterscale.cube import blocks, node_copy
from clusterscale.cube.blocks import TraceSource, load_settings

LARGE = 3_000_000  # numbers, 24 MB

PROCESS = """
import sys
import numpy as np
from clusterscale.cube import node_copy

def make(some):
    print("made", some, flush=True)
    return [(np.arange(LARGE) + i, np.full(3, i)) for i in some]

values = node_copy.share(["a", "b"], make)
assert [int(one[0][7]) for one in values] == [7, 8]
assert [one[1].tolist() for one in values] == [[0, 0, 0], [1, 1, 1]]
values[0][0][7] = -1  # of this process only
print("ready", flush=True)
sys.stdin.readline()
""".replace("LARGE", str(LARGE))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(node_copy.VARIABLE, str(tmp_path / "shared"))
    yield tmp_path / "shared"
    while node_copy._held:
        node_copy._held.popitem()[1].close()


@contextmanager
def process():
    with subprocess.Popen(
        [sys.executable, "-c", PROCESS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def said(started):
    lines = []
    while not lines or lines[-1] not in ("ready", ""):
        lines.append(started.stdout.readline().strip())
    return lines


def test_one_process_reads_for_all_and_leaves_nothing(folder):
    with process() as first, process() as second:
        assert sorted([said(first), said(second)]) == [["made [0, 1]", "ready"], ["ready"]]
        assert sum(path.stat().st_size for path in folder.iterdir()) < 200
        for one in (first, second):
            one.communicate("\n")
            assert one.returncode == 0
    assert not folder.exists()


@pytest.mark.slow
def test_what_a_killed_process_held_is_made_again(folder):
    with process() as first:
        assert said(first) == ["made [0, 1]", "ready"]
        with process() as second:
            assert said(second) == ["ready"]
            first.send_signal(signal.SIGKILL)
            first.wait()
            with process() as third:  # the second maps the files still, but does not hold them
                assert said(third) == ["made [0, 1]", "ready"]


def make_large(some):
    return [np.arange(LARGE) + i for i in some]


def test_an_address_of_another_file_is_not_read(folder):
    node_copy.share(["a"], make_large)
    (address,) = (path for path in folder.iterdir() if path.name != "lock")
    address.rename(folder / node_copy._path(folder, "b").name)
    (found,) = node_copy.share(["b"], lambda some: [np.zeros(LARGE)])
    assert not found.any()


@pytest.mark.parametrize("fault", ["space", "mode", "file"])
def test_what_cannot_be_shared_is_read_by_each_and_told(folder, monkeypatch, caplog, fault):
    if fault == "space":
        monkeypatch.setattr(node_copy, "_SPARE", 1e12)
    elif fault == "mode":
        folder.mkdir(mode=0o755)
    else:
        folder.write_text("no folder")
    (found,) = node_copy.share(["a"], make_large)
    assert found[-1] == LARGE - 1
    (record,) = caplog.records
    assert record.getMessage().startswith("the workers of this node each read the traces: ")


def test_small_values_are_not_shared(folder):
    assert node_copy.share(["a"], lambda some: [np.arange(3)])[0].tolist() == [0, 1, 2]
    assert [path.name for path in folder.iterdir()] == ["lock"]


def test_traces_are_the_same_where_they_are_shared(folder, monkeypatch, cube):
    """The second time they come from the file of the first, as for another process."""
    source = TraceSource.of(cube, ((0, 24), (24, 48)), null_roi=True, seed=1)
    monkeypatch.setattr(blocks, "_CACHE", {})
    monkeypatch.delenv(node_copy.VARIABLE)
    (alone,) = load_settings(source, [()]).values()
    monkeypatch.setenv(node_copy.VARIABLE, str(folder))
    monkeypatch.setattr(node_copy, "_LEAST", 0)
    monkeypatch.setattr(node_copy, "keep", lambda keys: None)  # the first process goes on
    for _ in range(2):
        monkeypatch.setattr(blocks, "_CACHE", {})
        (shared,) = load_settings(source, [()]).values()
        assert len(list(folder.iterdir())) == 2 + 1
        pairs = zip((*alone.past, alone.traces), (*shared.past, shared.traces), strict=True)
        for one, other in pairs:
            np.testing.assert_array_equal(one.cells, other.cells)
            np.testing.assert_array_equal(one.offsets, other.offsets)
            np.testing.assert_array_equal(one.idle_epochs, other.idle_epochs)
            assert other.cells.flags.writeable == one.cells.flags.writeable
        assert shared.bounds == alone.bounds
        monkeypatch.setattr(blocks, "read_users", None)  # nothing is read the second time


def test_each_of_many_workers_waits_once_before_it_reads(monkeypatch):
    waits = []
    monkeypatch.setattr(node_copy.time, "sleep", waits.append)
    monkeypatch.setenv(node_copy.START, "5")
    node_copy._stagger.cache_clear()
    try:
        for _ in range(2):
            node_copy.share(["a"], lambda some: [1.0 for _ in some])
    finally:
        node_copy._stagger.cache_clear()
    (seconds,) = waits
    assert 0 <= seconds <= 5
