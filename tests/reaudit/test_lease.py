"""Exactly one at a time: a holder that lives is left alone, one that died is taken over from."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Lock

import pytest
from object_store import serve
from oracles.clock import Clock

from clusterscale import storage
from clusterscale.errors import DamagedError, StoreError
from clusterscale.storage import lease
from clusterscale.storage.lease import Lease, LeaseHeldError, LostLeaseError
from clusterscale.storage.process import find_machine

LONG = {"beat": 3600.0, "patience": 60.0}
"""No sign of life by itself within a test."""

HOLDER = """
import sys
from clusterscale.storage.lease import Lease
with Lease(sys.argv[1], beat=0.05):
    print("held", flush=True)
    sys.stdin.read()
"""
FAR = {"id": "other", "host": "far", "boot": "b", "process": 1, "beat": 0, "ended": False}


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "deep" / "lease")


def numbers(folder):
    return [int(name[:8]) for name in storage.list_names(folder)]


def write(folder, number=1, **about):
    """Write the file of a holder by hand."""
    storage.put(f"{folder}/{number:08d}.json", json.dumps(FAR | about).encode())


class WatchedClock(Clock):
    """A clock that counts the waits; ``during`` is called in each of them."""

    def __init__(self, during=lambda: None):
        super().__init__()
        self.n_waits, self._during = 0, during

    def sleep(self, seconds):
        self.n_waits += 1
        super().sleep(seconds)
        self._during()


def lease_at(folder, clock, **options):
    return Lease(folder, clock=clock, pause=clock.sleep, **LONG | options)


@pytest.fixture
def child():
    """A process that does nothing until it is killed."""
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as running:
        yield running
        running.kill()


def here(process):
    """Return what the file of a holder says whose process is on this machine."""
    return {"host": lease.platform.node(), "boot": find_machine(), "process": process.pid}


def test_a_second_one_is_told_who_is_at_work(folder):
    with Lease(folder, **LONG) as first:
        clock = WatchedClock(during=first._renew)
        with pytest.raises(LeaseHeldError) as caught, lease_at(folder, clock):
            pytest.fail("there are two")
        assert caught.value.holder.endswith(f", process {os.getpid()}")
        assert clock.n_waits == 1
        first.check()
    assert numbers(folder) == [1]


def test_a_holder_gives_signs_of_life_until_it_ends(folder, monkeypatch):
    put, given, third = storage.put, [], Event()

    def watch(uri, content):
        put(uri, content)
        given.append(json.loads(content))
        if len(given) == 3:
            third.set()

    monkeypatch.setattr(storage, "put", watch)
    with Lease(folder, beat=0.01):
        assert third.wait(60)
    assert [each["beat"] for each in given[:3]] == [1, 2, 3]
    assert [each["ended"] for each in given] == [False] * (len(given) - 1) + [True]


def test_what_has_ended_is_followed_at_once(folder):
    for number in range(1, 5):
        clock = Clock()
        with lease_at(folder, clock) as lease:
            assert numbers(folder) == [number], "numbers grow, old files go"
            lease.check()
        assert clock.now == 0


def test_an_error_inside_ends_it_too(folder):
    with pytest.raises(ZeroDivisionError), Lease(folder, **LONG):
        raise ZeroDivisionError
    clock = Clock()
    with lease_at(folder, clock):
        assert numbers(folder) == [2]
    assert clock.now == 0


def test_a_silent_process_of_this_machine_that_lives_is_waited_for(folder, child):
    write(folder, **here(child))
    clock = Clock()
    with lease_at(folder, clock, patience=60):
        assert numbers(folder) == [2]
    assert clock.now >= 60


def test_a_process_of_this_machine_that_was_killed(folder, child):
    """A zombie, which still has a process id, has ended, too."""
    write(folder, **here(child))
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie, and stays one
    clock = Clock()
    with lease_at(folder, clock):
        assert numbers(folder) == [2]
    assert clock.now == 0
    assert child.wait() == -signal.SIGKILL
    write(folder, 3, **here(child))
    clock = Clock()
    with lease_at(folder, clock):
        assert numbers(folder) == [4]
    assert clock.now == 0


def test_a_number_that_became_free_behind_a_later_holder_is_given_back(folder):
    """Another process takes the next number and removes the old one while this one looks."""
    write(folder, 5)
    late = lease_at(folder, Clock())
    assert not late._take(3)
    assert numbers(folder) == [5]


@pytest.mark.slow
def test_a_process_that_holds_a_lease_is_killed(folder):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdout.readline() == b"held\n"
        # Time stands still for whoever waits: only a sign of life ends the wait.
        with (
            pytest.raises(LeaseHeldError) as caught,
            Lease(folder, **LONG, clock=lambda: 0.0, pause=lambda seconds: time.sleep(0.01)),
        ):
            pytest.fail("it lives")
        assert caught.value.holder.endswith(f", process {running.pid}")
        running.kill()
    clock = Clock()
    with lease_at(folder, clock):
        assert numbers(folder) == [2]
    assert clock.now == 0


@pytest.mark.parametrize("about", [{}, {"host": lease.platform.node(), "boot": "another start"}])
def test_elsewhere_only_time_can_tell(folder, about):
    """Nor can the number of a process of an earlier start of this machine be looked up."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    write(folder, process=gone.pid, **about)
    clock = Clock()
    with lease_at(folder, clock, patience=60):
        assert clock.now >= 60
        assert numbers(folder) == [2]


def test_who_ends_while_another_waits_is_followed(folder):
    write(folder)
    clock = WatchedClock(during=lambda: write(folder, ended=True))
    with lease_at(folder, clock):
        assert numbers(folder) == [2]
    assert clock.n_waits == 1


def test_who_was_taken_for_dead_finds_out(folder):
    with Lease(folder, beat=3600, patience=0.5) as first:
        first.check()
        write(folder, 2)
        with pytest.raises(LostLeaseError, match=r"sent no heartbeat for 0\.5 s"):
            first.check()
        assert issubclass(LostLeaseError, StoreError)
        first._renew()
    assert json.loads(storage.read(f"{folder}/00000002.json")) == FAR, "the other one's is left"


def test_a_sign_of_life_that_cannot_be_given_is_given_later(folder, monkeypatch):
    put, failures = storage.put, [StoreError("busy"), StoreError("busy")]

    def fail(uri, content):
        if failures:
            raise failures.pop()
        put(uri, content)

    with Lease(folder, **LONG) as first:
        monkeypatch.setattr(storage, "put", fail)
        given = []
        for _ in range(3):
            first._renew()
            given.append(json.loads(storage.read(f"{folder}/00000001.json"))["beat"])
        assert given == [0, 0, 3]
        first.check()
    assert not failures


def test_old_files_are_removed_also_where_some_are_missing(folder):
    for number in (1, 3, 7):
        write(folder, number, ended=True)
    with Lease(folder, **LONG):
        assert numbers(folder) == [8]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b"{}", b'{"ended": false}'])
def test_a_damaged_file_is_named(folder, content):
    place = f"{folder}/00000004.json"
    storage.put(place, content)
    with pytest.raises(DamagedError, match=r"remove it if no process is running") as caught:
        Lease(folder, **LONG).__enter__()
    assert str(caught.value).startswith(place)


def test_other_files_are_not_looked_at(folder):
    storage.put(f"{folder}/notes.json", b"my own")
    with Lease(folder, **LONG) as first:
        first.check()
    assert storage.list_names(folder) == ["00000001.json", "notes.json"]


def race(folder, n_racers, n_rounds):
    """Let threads take the lease over and over; return how often each of them had it.

    Time stands still: whoever finds a holder waits until it ends or gives a sign of life.
    """
    barrier, inside = Barrier(n_racers), Lock()

    def take(_):
        barrier.wait()
        n_held = 0
        for _ in range(n_rounds):
            try:
                with Lease(folder, **LONG, clock=lambda: 0.0, pause=yield_once) as held:
                    assert inside.acquire(blocking=False), "two hold it"
                    held.check()
                    held._renew()
                    held.check()
                    inside.release()
                    n_held += 1
            except LeaseHeldError:
                pass
        return n_held

    with ThreadPoolExecutor(n_racers) as pool:
        return list(pool.map(take, range(n_racers)))


def yield_once(seconds):
    """Let other threads run."""
    time.sleep(0)


def test_one_at_a_time_of_many(folder):
    assert sum(race(folder, 6, 4)) >= 4
    assert len(numbers(folder)) == 1


@pytest.mark.slow
def test_one_at_a_time_of_many_in_an_object_store():
    with serve() as server:
        folder = f"{server.uri}/lease"
        with ThreadPoolExecutor(4) as pool:
            place = f"{server.uri}/one/file.txt"
            done = list(pool.map(lambda i: storage.put_new(place, b"%d" % i * 9), range(8)))
        assert sum(done) == 1
        assert storage.read(place) == b"%d" % done.index(True) * 9
        assert sum(race(folder, 3, 2)) >= 1
        assert len(numbers(folder)) == 1


def test_one_of_many_makes_a_file(tmp_path):
    for round_ in range(5):
        place, barrier = tmp_path / f"{round_}" / "file", Barrier(8)
        contents = [bytes([65 + i]) * 100_000 for i in range(8)]

        def make(content, place=place, barrier=barrier):
            barrier.wait()
            return storage.put_new(str(place), content)

        with ThreadPoolExecutor(8) as pool:
            done = list(pool.map(make, contents))
        assert sum(done) == 1
        assert place.read_bytes() == contents[done.index(True)], "whole"
        assert [each.name for each in place.parent.iterdir()] == ["file"], "nothing is left beside"


def test_objects_in_memory_are_made_once():
    assert storage.put_new("memory://new/file", b"one")
    assert not storage.put_new("memory://new/file", b"two")
    assert storage.read("memory://new/file") == b"one"
    storage.remove("memory://new")


@pytest.mark.slow
def test_an_object_store_that_is_busy_with_another_upload_is_asked_again(monkeypatch, quick):
    with serve() as server:
        answers = ["409 ConditionalRequestConflict", "503 SlowDown"]
        server.fault = lambda method, path: answers.pop() if method == "PUT" and answers else None
        assert storage.put_new(f"{server.uri}/new/file", b"one")
        assert not answers
        assert storage.read(f"{server.uri}/new/file") == b"one"


def test_a_place_that_cannot_let_one_alone_is_refused(tmp_path, monkeypatch):
    """Where looking and writing are two steps, two would succeed."""
    import fsspec
    from fsspec.implementations.local import LocalFileSystem

    class Plain(LocalFileSystem):
        protocol = "plain"

    fsspec.register_implementation("plain", Plain, clobber=True)
    monkeypatch.setenv("CLUSTERSCALE_PROTOCOLS", "plain")
    with pytest.raises(StoreError, match="cannot create a file exclusively"):
        storage.put_new(f"plain://{tmp_path}/file", b"one")
    assert not (tmp_path / "file").exists()
