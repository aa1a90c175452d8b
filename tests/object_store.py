"""An S3 server of this process that can be made to fail as real ones do."""

from __future__ import annotations

import gc
import socket
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self
from urllib.request import Request, urlopen

import fsspec
import pytest

BUCKET = "audits"

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "nobody",
    "AWS_SECRET_ACCESS_KEY": "nothing",
    "AWS_DEFAULT_REGION": "us-east-1",
}

UNCLOSED = "ignore:Unclosed client session:ResourceWarning"
"""Filter for a test that uses S3 in its own process: Zarr leaves its session to the collector."""

Fault = Callable[[str, str], str | None]

_BODY = "<Error><Code>{code}</Code><Message>{code} of the test</Message></Error>"


class ObjectStore:
    """What a running server was asked, and how it is to fail.

    ``fault`` is called with the method and the path of each request; it returns None, a status with
    a code such as ``503 SlowDown``, ``cut`` (the connection ends) or ``short`` (half the answer).
    """

    uri = f"s3://{BUCKET}"

    def __init__(self, inner: Any) -> None:
        self._inner, self._lock, self._only_one = inner, threading.Lock(), threading.Lock()
        self.fault: Fault = lambda method, path: None
        self.requests: list[tuple[str, str, str]] = []

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        with self._lock:
            self.requests.append((method, path, environ.get("HTTP_RANGE", "")))
        fault = self.fault(method, path)
        if fault is None and environ.get("HTTP_IF_NONE_MATCH"):
            with self._only_one:  # the server looks and writes in two steps, which real ones do not
                return self._inner(environ, start)
        if fault is None:
            return self._inner(environ, start)
        if fault == "cut":
            with suppress(OSError):  # the client is gone already
                environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionResetError
        if fault == "short":
            start("200 OK", [("Content-Length", "1000")])
            return [b"half"]
        status, code = fault.split()
        body = _BODY.format(code=code).encode()
        start(f"{status} {code}", [("Content-Length", str(len(body)))])
        return [b"" if method == "HEAD" else body]


class Hold:
    """A fault that holds requests from the ``count``-th of a kind on, until it is released.

    Within the block every such request waits; they are all cut when the block ends, so that none
    of them changes the store. ``begun`` is set when the first of them waits.
    """

    def __init__(self, store: ObjectStore, method: str, part: str, count: int) -> None:
        self._store, self._method, self._part, self._left = store, method, part, count
        self._lock, self._over, self.begun = threading.Lock(), threading.Event(), threading.Event()

    def __enter__(self) -> Self:
        self._store.fault = self._hold
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._store.fault = lambda method, path: None

    def _hold(self, method: str, path: str) -> str | None:
        if method != self._method or self._part not in path:
            return None
        with self._lock:
            self._left -= 1
            if self._left > 0:
                return None
        self.begun.set()
        self._over.wait()
        return "cut"


@contextmanager
def serve() -> Iterator[ObjectStore]:
    """Run a server with an empty bucket; the environment says where it is, and who asks."""
    pytest.importorskip("s3fs")
    moto = pytest.importorskip("moto.server")
    serving = pytest.importorskip("werkzeug.serving")
    store = ObjectStore(moto.DomainDispatcherApplication(moto.create_backend_app))
    quiet = type("Quiet", (serving.WSGIRequestHandler,), {"log": lambda *args: None})
    server = serving.make_server("127.0.0.1", 0, store, threaded=True, request_handler=quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        address = f"http://127.0.0.1:{server.server_port}"
        patch.setenv("AWS_ENDPOINT_URL", address)
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        # What moto holds is of the process: another server may have left a bucket.
        urlopen(Request(f"{address}/moto-api/reset", method="POST")).close()
        filesystem = fsspec.filesystem("s3", skip_instance_cache=True)
        filesystem.mkdir(BUCKET)
        try:
            yield store
        finally:  # or a test that fails would keep the process from ending
            server.shutdown()
            thread.join()
            server.server_close()
            filesystem.clear_instance_cache()
            _detach_sessions()
        with warnings.catch_warnings():
            # The session of the file system that Zarr made for itself is closed by nobody.
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def _detach_sessions() -> None:
    """Mark the sessions that nobody closes as closed, whoever still holds them.

    Otherwise each would warn when it is collected, in another test or when the process ends.
    """
    session = pytest.importorskip("aiohttp").ClientSession
    for each in gc.get_objects():
        if type(each) is session and not each.closed:
            each.detach()
