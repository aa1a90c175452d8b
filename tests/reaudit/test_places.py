"""Attributes of a release describe and never point: nothing that they name is opened."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

import pytest
from loops import mostly_slow
from oracles.catalogues import write_catalogue, write_release
from oracles.releases import dataset, write
from typer.testing import CliRunner

from clusterscale.cli import app

_LISTENERS: list = []


def _hear(event, args):
    for listener in _LISTENERS:
        listener(event, args)


sys.addaudithook(_hear)  # cannot be taken away again


@pytest.fixture
def touched():
    """Each path that is opened or listed, and each address that is connected to or resolved."""
    found: list[str] = []

    def listen(event, args):
        if event in ("open", "os.listdir", "os.scandir", "socket.connect", "socket.getaddrinfo"):
            found.append(f"{event} {args[:2]}")

    _LISTENERS.append(listen)
    yield found
    _LISTENERS.remove(listen)


@pytest.fixture
def server():
    """A local HTTP server, and the paths that were asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"user,inside\nu000,true\n")

        do_HEAD = do_GET

        def log_message(self, *args):
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


def _places(folder: Path, url: str) -> dict[str, str]:
    """What an attribute may point to: each exists, and would be noticed if it were opened."""
    secret = folder / "secret.csv"
    secret.write_text("user,inside\nu000,true\n")
    reference = folder / "secret.json"
    command = (
        "{{ cycler.__init__.__globals__.os.system('touch " + str(folder / "secret.ran") + "') }}"
    )
    reference.write_text(
        json.dumps({"version": 1, "templates": {"a": command}, "gen": [], "refs": {"k": "{{a}}"}})
    )
    return {
        "file": str(secret),
        "file URL": f"file://{secret}",
        "network": f"{url}/secret.csv",
        "reference": f"reference://::file://{reference}",
        "chained": f"simplecache::{url}/secret.csv",
    }


@mostly_slow("key", ["members", "cube"])
@mostly_slow("form", ["zarr3", "netcdf4"])
@mostly_slow("words", [["--list"], []], n_quick=2, ids=["list", "audit"])
def test_nothing_that_attributes_name_is_opened(cube, tmp_path, touched, server, key, form, words):
    url, asked = server
    places, releases = _places(tmp_path, url), tmp_path / "releases"
    releases.mkdir()
    for name, place in places.items():
        told = dataset([[1.0] * 6] * 8)
        told.attrs = {"group_size": 5, "mechanism": json.dumps({"name": "exact"}), "first": 0}
        told.attrs |= {key: place}
        write(told, releases, form, name=name)
    config = write_catalogue(cube, tmp_path)
    del touched[:]
    result = CliRunner().invoke(app, ["reaudit", str(config), *words])
    heard = list(touched)
    assert result.exit_code == 2, result.output
    text = " ".join(result.output.split())
    what = {"members": "a `members` file", "cube": "a cube"}[key]
    for name in places:
        assert f"{name}: {name} (" in text
    refusal = f"the release's own attributes name {what}; it is not opened"
    assert text.count(refusal) == len(places)
    assert asked == []
    assert not [each for each in heard if "secret" in each or each.startswith("socket")]
    assert not (tmp_path / "secret.ran").exists()
    assert any("releases" in each for each in heard), "what is opened is heard"
    with urlopen(f"{url}/control") as answer:
        answer.read()
    assert asked == ["/control"], "what is asked for is counted"


def test_a_table_that_the_catalogue_names_is_opened(cube, tmp_path, touched):
    write_release(cube, tmp_path / "releases" / "day-0.nc", members="/nowhere/else.csv")
    (tmp_path / "members").mkdir()
    (tmp_path / "members" / "day-0.csv").write_text("user,inside\nu000,true\n")
    config = write_catalogue(cube, tmp_path, members=str(tmp_path / "members" / "{name}.csv"))
    result = CliRunner().invoke(app, ["reaudit", str(config), "--list"])
    assert result.exit_code == 0, result.output
    assert "1 releases, 1 to be evaluated" in result.output
    assert any("members/day-0.csv" in each for each in touched)
    assert not any("else.csv" in each for each in touched)
