"""What passes is tried again, what lasts is told at once; both name the place."""

from __future__ import annotations

import errno
import random
from collections import Counter
from threading import Lock
from types import SimpleNamespace

import numpy as np
import pytest
import zarr
from cube import crowd
from loops import for_each
from object_store import ObjectStore, serve

from clusterscale import storage
from clusterscale.cube import TraceCube
from clusterscale.errors import DamagedError, FormatError, InputError, MissingError, StoreError
from clusterscale.storage.chunk_store import ChunkStore
from clusterscale.storage.retries import VARIABLE, attempts, is_transient, retry

ATTEMPTS = 5  # with the seconds of these tests

DENSE = crowd.draw(8, 3, 6)


@pytest.fixture(scope="module")
def running():
    with serve() as store:
        yield store


@pytest.fixture
def server(running: ObjectStore, quick):
    running.requests.clear()
    yield running
    running.fault = lambda method, path: None


@pytest.fixture
def uri(server, request):
    return f"{server.uri}/{request.node.name.replace('[', '-').strip(']')}/cube.zarr"


def boto(code, status):
    """Return what s3fs makes of an answer of the server."""
    botocore = pytest.importorskip("botocore.exceptions")
    s3fs = pytest.importorskip("s3fs.errors")
    answer = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return s3fs.translate_boto_error(botocore.ClientError(answer, "PutObject"))


@for_each(
    ("error", "passes"),
    [
        (OSError("the network is down"), True),
        (OSError(errno.EIO, "input/output error"), True),
        (OSError(errno.ESTALE, "stale file handle"), True),
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (FileNotFoundError(), False),
        (FileExistsError(), False),
        (IsADirectoryError(), False),
        (PermissionError(errno.EACCES, "not yours"), False),
        (PermissionError("not yours"), False),
        (OSError(errno.ENOSPC, "full"), False),
        (OSError(errno.EDQUOT, "full"), False),
        (OSError(errno.EROFS, "read-only"), False),
        (OSError(errno.EFBIG, "too large"), False),
        (MissingError("ours"), False),
        (DamagedError("ours"), False),
        (StoreError("ours"), False),
        (ValueError(), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_what_passes(error, passes):
    assert is_transient(error) == passes


@for_each(
    ("code", "status", "passes"),
    [
        ("SlowDown", 503, True),
        ("InternalError", 500, True),
        ("503", 503, True),
        ("500", 500, True),
        ("Unheard", 502, True),
        ("RequestTimeout", 400, True),
        ("IncompleteBody", 400, True),
        ("TooManyRequests", 429, True),
        ("OperationAborted", 409, True),
        ("NotImplemented", 501, False),
        ("NoSuchKey", 404, False),
        ("NoSuchBucket", 404, False),
        ("AccessDenied", 403, False),
        ("InvalidAccessKeyId", 403, False),
        ("InvalidBucketName", 400, False),
        ("XMinioStorageFull", 507, False),
        ("InsufficientStorage", 507, False),
        ("QuotaExceeded", 403, False),
    ],
)
def test_what_passes_of_the_answers_of_s3(code, status, passes):
    assert is_transient(boto(code, status)) == passes


def test_what_passes_of_the_clients():
    aiohttp = pytest.importorskip("aiohttp")
    botocore = pytest.importorskip("botocore.exceptions")
    passing = [
        aiohttp.ClientPayloadError("half"),
        aiohttp.ServerDisconnectedError(),
        botocore.EndpointConnectionError(endpoint_url="http://localhost"),
        botocore.ReadTimeoutError(endpoint_url="http://localhost"),
        botocore.ConnectionClosedError(endpoint_url="http://localhost"),
    ]
    lasting = [botocore.NoCredentialsError(), botocore.ParamValidationError(report="bucket")]
    assert [is_transient(error) for error in passing] == [True] * 5
    assert [is_transient(error) for error in lasting] == [False] * 2


class Flaky:
    """Fails so often, then succeeds."""

    def __init__(self, error, n_times):
        self.error, self.n_left, self.n_calls = error, n_times, 0

    def __call__(self, value):
        self.n_calls += 1
        if self.n_left:
            self.n_left -= 1
            raise self.error
        return value


def test_a_call_is_made_five_times_and_no_random_stream_moves(quick):
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist()
    flaky = Flaky(OSError("down"), ATTEMPTS - 1)
    assert retry("place", flaky, 3) == 3
    assert flaky.n_calls == ATTEMPTS == 5
    dead = Flaky(OSError("down"), ATTEMPTS)
    with pytest.raises(StoreError) as caught:
        retry("place", dead, 3)
    assert str(caught.value) == "place: tried 5 times; last error: OSError: down"
    assert dead.n_calls == ATTEMPTS
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            PermissionError(errno.EACCES, "not yours"),
            "place: access denied (PermissionError: [Errno 13] not yours)",
        ),
        (
            OSError(errno.EROFS, "read-only"),
            "place cannot be used (OSError: [Errno 30] read-only)",
        ),
        (
            OSError(errno.EDQUOT, "quota"),
            "place is full; finished work is kept; free some space and run the same command again",
        ),
    ],
)
def test_what_lasts_is_told_at_once(error, message):
    flaky = Flaky(error, 1)
    with pytest.raises(StoreError) as caught:
        retry("place", flaky, 3)
    assert str(caught.value) == message
    assert caught.value.__suppress_context__  # or the words of the cause would be stored with it
    assert flaky.n_calls == 1


@pytest.mark.parametrize(
    "error", [FileNotFoundError("x"), ZeroDivisionError("x"), FormatError("x")]
)
def test_what_callers_ask_for_and_faults_of_code_stay_as_they_are(error):
    with pytest.raises(type(error)) as caught:
        retry("place", Flaky(error, 1), 3)
    assert caught.value is error


@pytest.mark.parametrize(
    ("seconds", "times"), [("0", 1), ("0.1", 2), ("5", 5), ("60", 13), ("", 17), ("90", 17)]
)
def test_retries_take_the_seconds_of_the_setting(monkeypatch, seconds, times):
    monkeypatch.setenv(VARIABLE, seconds)
    assert attempts() == times


@pytest.mark.parametrize("text", ["soon", "-1", "inf", "nan"])
def test_a_setting_that_is_no_number_of_seconds_is_named(monkeypatch, text):
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(InputError, match=f"CLUSTERSCALE_RETRY_SECONDS={text}: give a number"):
        retry("place", Flaky(OSError("down"), 0), 3)


def test_a_store_that_stays_silent_is_named_in_the_log(quick, caplog):
    assert retry("s3://there/cube", Flaky(OSError("down"), 3), 3) == 3
    (record,) = caplog.records
    said = "s3://there/cube: OSError: down; it is tried 5 times in all"
    assert record.getMessage() == said
    caplog.clear()
    assert retry("s3://there/cube", Flaky(OSError("down"), 2), 3) == 3
    assert not caplog.records


def test_waits_grow_and_are_of_different_lengths(monkeypatch):
    waits = []
    # Not time.sleep itself: other threads of this process may call that.
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=waits.append))
    for _ in range(20):
        with pytest.raises(StoreError):
            retry("place", Flaky(OSError("down"), ATTEMPTS), 3)
    firsts, lasts = waits[:: ATTEMPTS - 1], waits[ATTEMPTS - 2 :: ATTEMPTS - 1]
    assert len(waits) == 20 * (ATTEMPTS - 1)
    assert 0.25 <= min(firsts) <= max(firsts) <= 0.5
    assert 2 <= min(lasts) <= max(lasts) <= 4
    assert len(set(firsts)) == 20


@pytest.mark.slow
def test_a_cube_is_written_and_read_over_a_bad_line(server, uri):
    """Every second request of each kind fails, each time in another way; the cube is the same."""
    faults = ["503 SlowDown", "500 InternalError", "cut", "429 TooManyRequests"]
    count, lock = Counter(), Lock()

    def fault(method, path):
        with lock:  # requests are answered in several threads
            count[method, path] += 1
            if count[method, path] % 2 == 0:  # so none fails five times in a row
                return None
            count["failed"] += 1
            return faults[count["failed"] % len(faults)]

    server.fault = fault
    cube = crowd.write(uri, DENSE)
    np.testing.assert_array_equal(crowd.densify(cube.traces()), DENSE)
    np.testing.assert_array_equal(crowd.densify(TraceCube(uri).traces()), DENSE)
    assert count["failed"] >= 10


@pytest.mark.slow
def test_half_an_answer_is_asked_for_again(server, uri):
    cube = crowd.write(uri, DENSE)
    halves = []

    def fault(method, path):
        if method == "GET" and path.endswith("/event_cell/c/0") and len(halves) < 3:
            halves.append(path)
            return "short"
        return None

    server.fault = fault
    np.testing.assert_array_equal(crowd.densify(cube.traces()), DENSE)
    assert len(halves) == 3


@pytest.mark.parametrize(
    ("fault", "n_expected"),
    [
        ("503 SlowDown", ATTEMPTS),
        ("500 InternalError", ATTEMPTS),
        ("cut", 2 * ATTEMPTS),  # an old connection that ends is opened anew at once, below it all
    ],
)
def test_tries_do_not_multiply(server, uri, fault, n_expected):
    """Neither s3fs nor botocore tries again what is tried again here."""

    def asked(ending):
        return sum(path.endswith(ending) for _, path, _ in server.requests)

    cube = crowd.write(uri, DENSE)
    server.requests.clear()
    server.fault = lambda method, path: fault if path.endswith("/event_cell/c/0") else None
    with pytest.raises(StoreError) as caught:
        cube.traces()
    assert str(caught.value).startswith(f"{uri}/event_cell/c/0: tried 5 times; last error: ")
    assert asked("/event_cell/c/0") == n_expected
    server.requests.clear()
    server.fault = lambda method, path: fault if path.endswith("/page.html") else None
    with pytest.raises(StoreError, match=r"/page.html: tried 5 times"):
        storage.put(f"{uri}/page.html", b"page")
    assert asked("/page.html") == n_expected


def test_nothing_is_taken_for_absent_while_the_store_is_down(server, uri):
    crowd.write(uri, DENSE)
    server.fault = lambda method, path: "503 SlowDown"
    for look in (storage.exists, TraceCube, storage.list_names, storage.remove, storage.size):
        with pytest.raises(StoreError, match="tried 5 times"):
            look(uri)


def test_refusals_are_told_at_once(server, uri):
    cube = crowd.write(uri, DENSE)
    server.requests.clear()
    server.fault = lambda method, path: "403 AccessDenied" if "/event_cell/" in path else None
    with pytest.raises(StoreError, match=rf"{uri}/event_cell/c/0: access denied") as caught:
        cube.traces()
    assert "PermissionError" in str(caught.value)
    assert len(server.requests) == 2  # offsets, events
    with pytest.raises(StoreError) as caught:
        storage.put("s3://nowhere/page.html", b"page")
    assert str(caught.value) == (
        "s3://nowhere/page.html cannot be written: there is no such bucket or folder"
    )
    with pytest.raises(StoreError, match="there is no such bucket or folder"):
        crowd.write("s3://nowhere/cube.zarr", DENSE)


@pytest.mark.parametrize("fault", ["507 XMinioStorageFull", "403 QuotaExceeded"])
def test_a_full_bucket_is_called_full(server, uri, fault):
    crowd.write(uri, DENSE)
    server.fault = lambda method, path: fault if method == "PUT" else None
    full = " is full; finished work is kept; free some space and run the same command again"
    with pytest.raises(StoreError) as caught:
        storage.put(f"{uri}/page.html", b"page")
    assert str(caught.value) == f"{uri}/page.html{full}"
    with pytest.raises(StoreError, match=full):
        crowd.write(f"{uri}-2", DENSE)
    server.fault = lambda method, path: None
    assert not storage.exists(f"{uri}/page.html")
    assert not storage.exists(f"{uri}-2")


def test_parts_of_chunks_are_read_as_parts(server, uri):
    """Sharded arrays of others are not read whole for a few cells."""
    group = storage.create_group(uri)
    array = group.create_array("a", shape=(4096,), shards=(4096,), chunks=(64,), dtype="i8")
    array[:] = np.arange(4096)
    server.requests.clear()
    failing = ["503 SlowDown"]
    server.fault = lambda method, path: failing.pop() if failing and "/c/" in path else None
    found = storage.open_group(uri)["a"][100:110]
    np.testing.assert_array_equal(found, np.arange(100, 110))
    asked = [about for method, path, about in server.requests if method == "GET" and "/c/" in path]
    assert len(asked) >= 2
    assert all(about.startswith("bytes=") for about in asked)


def test_a_local_disk_that_fails_is_not_called_damaged(tmp_path):
    cube = crowd.write(tmp_path / "cube", DENSE)
    chunk = tmp_path / "cube/event_cell/c/0"
    chunk.unlink()
    chunk.symlink_to(chunk)
    with pytest.raises(StoreError) as caught:
        cube.traces()
    assert str(caught.value).startswith(f"{chunk} cannot be used (OSError: [Errno 40] ")


def test_zarr_finds_its_store_as_it_knows_it(tmp_path):
    """Comparison, read-only copies and listings are those of the store within."""
    crowd.write(tmp_path / "cube", DENSE)
    store, other = (storage.open_store(str(tmp_path / "cube"), "r+") for _ in range(2))
    assert store == other
    assert store != storage.open_store(str(tmp_path), "r+")
    assert isinstance(store.with_read_only(True), ChunkStore)
    assert store.with_read_only(True).read_only
    assert str(store) == str(tmp_path / "cube")
    names = {"event_cell", "roi", "roi_lat", "roi_lon", "user", "user_offset"}
    assert set(zarr.open_group(store, mode="r").array_keys()) == names
