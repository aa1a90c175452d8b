"""A release of somebody else: what its attributes say is neither run nor fetched."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import urlopen

import numpy as np
import pytest
import xarray as xr
import yaml

pytestmark = pytest.mark.slow

KEYS = ("members", "cube")


def clusterscale(*words):
    """Run a command line in a process of its own; return its exit code and what it printed."""
    command = [sys.executable, "-m", "clusterscale", *map(str, words)]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )
    return done.returncode, " ".join(done.stdout.split())


@pytest.fixture(scope="module")
def cube(tmp_path_factory):
    path = tmp_path_factory.mktemp("cube") / "own.zarr"
    code, output = clusterscale("synth", "tfl", path, "--users", 20, "--seed", 1)
    assert code == 0, output
    return path


def audit_releases(cube, folder, places):
    """Audit a release for each attribute that points to one of ``places``."""
    values = xr.Dataset({"counts": (("roi", "epoch"), np.ones((8, 6)))})
    for number, place in enumerate(places):
        for key in KEYS:
            attributes = {"group_size": 5, "mechanism": {"name": "exact"}, "first": 0, key: place}
            values.assign_attrs(attributes).to_zarr(
                folder / "releases" / f"{key}-{number}.zarr", zarr_format=2, consolidated=False
            )
    catalogue = folder / "catalogue.yaml"
    audit = {
        "seed": 3,
        "targets": {"random": 2},
        "priors": [{"name": "known_subset", "alpha": 0.5, "training": 20, "challenges": 10}],
        "attacks": [{"name": "projection"}],
    }
    content = {
        "cube": str(cube),
        "output": str(folder / "ledger"),
        "releases": str(folder / "releases"),
        "audit": audit,
        "cluster": {"name": "serial"},
    }
    catalogue.write_text(yaml.safe_dump(content))
    return clusterscale("reaudit", catalogue)


def assert_refused(code, output, n_places):
    assert code == 2, output
    assert "Traceback" not in output
    for number in range(n_places):
        for key in KEYS:
            assert f"{key}-{number}: {key}-{number} (" in output
            assert f"Set it in the catalogue as `{key}:`" in output


def test_a_command_in_an_attribute_does_not_run(cube, tmp_path):
    """Templates of reference file systems ran commands in earlier versions of fsspec."""
    marker = tmp_path / "marker"
    command = f"{{{{ cycler.__init__.__globals__.os.system('touch {marker}') }}}}"
    references = {
        "version": 1,
        "templates": {"a": command},
        "gen": [{"key": f"k{command}", "url": "u", "dimensions": {"i": [0]}}],
        "refs": {},
    }
    encoded = base64.b64encode(json.dumps(references).encode()).decode()
    data = f"data:application/json;base64,{encoded}"
    places = [f"reference::{data}", f"reference://members.csv::{data}"]
    code, output = audit_releases(cube, tmp_path, places)
    assert not marker.exists()
    assert_refused(code, output, len(places))


@pytest.fixture
def server():
    """The address of a local HTTP server, and the paths that were requested."""
    requested = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requested.append(self.path)
            self.send_response(404)
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, *args):
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", requested
        server.shutdown()
        thread.join()


def test_an_address_in_an_attribute_is_not_fetched(cube, tmp_path, server):
    url, requested = server
    places = [f"{url}/members.csv", f"simplecache::{url}/members.csv"]
    code, output = audit_releases(cube, tmp_path, places)
    assert requested == []
    assert_refused(code, output, len(places))
    with pytest.raises(OSError, match="404"):
        urlopen(f"{url}/control")
    assert requested == ["/control"]  # requests are counted
