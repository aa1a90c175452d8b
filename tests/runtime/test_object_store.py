"""Cube, journal, results and report on S3, by the same commands: killed, gone on with, the same."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import cloudpickle
import fsspec
import numpy as np
import pytest
import xarray as xr
import yaml
import zarr
from conftest import draw_dense, write_cube
from object_store import UNCLOSED, Hold, serve
from running import run as run_audit
from running import screen as run_screen

from clusterscale import open_screen, storage
from clusterscale.analyses.audit import AuditPlan, open_results
from clusterscale.runtime import SerialExecutor

pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.dask,
    pytest.mark.nightly(group="object-store"),
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings(UNCLOSED),
]

CANARIES = {
    "AWS_ACCESS_KEY_ID": "CANARYID0123456789AB",
    "AWS_SECRET_ACCESS_KEY": "Canary/secret+0123456789abcdefghijklmnop",
    "AWS_SESSION_TOKEN": "CanaryToken//0123456789abcdefghijklmnopqrstuvwxyz==",
}


@pytest.fixture(scope="module")
def server():
    with serve() as store:
        yield store


@pytest.fixture(scope="module")
def dense():
    return draw_dense(np.random.default_rng(7), 60, 8, 48)


@pytest.fixture(scope="module")
def remote_cube(server, dense):
    return write_cube(f"{server.uri}/cube.zarr", dense)


@pytest.fixture
def fields(plan_fields):
    return plan_fields | {"screen": {"groups": 40}}


@pytest.fixture
def command(tmp_path, server, output):
    """Return the arguments of a verb on a config whose cube and output are on S3."""

    def write(verb, fields):
        path = tmp_path / "config.yaml"
        config = {
            "cube": f"{server.uri}/cube.zarr",
            "output": output,
            "audit": fields,
            "cluster": {"name": "local", "workers": 1},
        }
        path.write_text(yaml.safe_dump(config))
        return [sys.executable, "-m", "clusterscale", verb, str(path)]

    return write


@pytest.fixture
def output(server, tmp_path):
    return f"{server.uri}/{tmp_path.name}"


def same(left, right):
    """Compare bit by bit, but for the time that things took."""
    left, right = (each.load().drop_vars("seconds", errors="ignore") for each in (left, right))
    xr.testing.assert_identical(left, right)


def same_as_on_a_disk(output, fields, dense, folder):
    """Compare an audit with that of the same cube on a local disk."""
    local = write_cube(str(folder / "cube"), dense)
    here = run_audit(AuditPlan(**fields), local, folder / "run", SerialExecutor())
    same(open_results(output), here)


def test_an_audit_that_was_killed_goes_on(
    server, command, output, remote_cube, dense, fields, tmp_path
):
    """Killed while it writes the second file of its journal."""
    audit = command("audit", fields)
    with Hold(server, "PUT", "/journal/", count=2) as hold:
        driver = subprocess.Popen(audit, start_new_session=True)
        try:
            while not hold.begun.wait(0.1):
                assert driver.poll() is None, "the audit ended before it could be killed"
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
    before = set(storage.list_names(f"{output}/journal"))
    assert len(before) == 1
    assert "results.zarr" not in storage.list_names(output)
    done = subprocess.run(audit, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{output}/report.html" in done.stdout
    assert before < set(storage.list_names(f"{output}/journal"))
    kept = {"audit.json", "certify", "journal", "evaluations", "report.html", "results.zarr"}
    assert set(storage.list_names(output)) == kept | {"lease", "status"}
    same_as_on_a_disk(output, fields, dense, tmp_path)


def test_an_audit_of_twenty_targets_takes_few_requests(server, output, remote_cube, fields):
    plan = AuditPlan(**(fields | {"targets": {"random": 20}}))
    server.requests.clear()
    run_audit(plan, remote_cube, output, SerialExecutor())
    assert len(server.requests) <= 600
    server.requests.clear()
    open_results(output)
    assert len(server.requests) <= 200


def test_a_store_that_is_down_for_a_minute_during_tasks(
    server, command, output, remote_cube, dense, fields, tmp_path, monkeypatch
):
    """From the second file of the journal on, every request of driver and workers fails."""
    monkeypatch.delenv("CLUSTERSCALE_RETRY_SECONDS")
    n_puts, began, failed = 0, None, 0

    def fail(method, path):
        nonlocal n_puts, began, failed
        if began is None:
            n_puts += method == "PUT" and "/journal/" in path
            began = time.monotonic() if n_puts == 2 else None
        down = began is not None and time.monotonic() - began < 60
        failed += down
        return ("503 SlowDown" if failed % 2 else "cut") if down else None

    server.fault = fail
    try:
        done = subprocess.run(command("audit", fields), capture_output=True, text=True, check=False)
    finally:
        server.fault = lambda method, path: None
    assert done.returncode == 0, done.stderr
    assert failed > 5
    assert time.monotonic() - began > 60
    assert "Traceback" not in done.stderr
    same_as_on_a_disk(output, fields, dense, tmp_path)


def test_a_screen_on_s3_is_that_on_a_disk(command, output, remote_cube, dense, fields, tmp_path):
    for _ in range(2):  # the second has nothing to do
        done = subprocess.run(
            command("screen", fields), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    kept = {"done", "lease", "results.zarr", "screen.json"}
    assert set(storage.list_names(f"{output}/screen")) == kept
    local = write_cube(str(tmp_path / "cube"), dense)
    same(
        open_screen(output),
        run_screen(AuditPlan(**fields), local, tmp_path / "run", SerialExecutor()),
    )


def test_other_verbs_take_urls(server, output, remote_cube, fields):
    plan = AuditPlan(**fields | {"targets": {"random": 2}})
    run_audit(plan, remote_cube, output, SerialExecutor())
    clusterscale = [sys.executable, "-m", "clusterscale"]
    for verb, expected in (
        (["inspect", remote_cube.uri], remote_cube.fingerprint),
        (["report", output], f"{output}/report.html"),
        (["report", output, "--output", f"{output}/a/b.html"], f"{output}/a/b.html"),
    ):
        done = subprocess.run([*clusterscale, *verb], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout
    pages = {storage.read(f"{output}/{name}") for name in ("report.html", "a/b.html")}
    assert len(pages) == 1
    assert pages.pop().startswith(b"<!DOCTYPE html>")


def everything(uri: str) -> dict[str, str]:
    """Return the content of every file below, and what is packed in it, as text."""
    filesystem, root = fsspec.core.url_to_fs(uri, use_listings_cache=False)
    found = {}
    for path in filesystem.find(root):
        raw = filesystem.cat_file(path)
        found[path] = raw.decode("latin-1")
        if path.endswith("zarr.json") and path.count(".zarr/") == 1:
            node = zarr.open(
                storage.open_store(f"s3://{path.removesuffix('/zarr.json')}"), mode="r"
            )
            found[f"{path}, attributes"] = str(dict(node.attrs))
            if isinstance(node, zarr.Array):
                found[f"{path}, values"] = str(np.asarray(node[...]).tolist())
    return found


@pytest.fixture
def indiscreet(monkeypatch):
    """A server whose refusals repeat what it was asked with."""
    said = "&amp;".join(f"X-Amz-Signature={value} {value}" for value in CANARIES.values())
    body = f"<Error><Code>{{code}}</Code><Message>{said}</Message></Error>"
    monkeypatch.setattr("object_store._BODY", body)


def test_no_credential_is_found_anywhere(
    server, command, output, remote_cube, fields, monkeypatch, indiscreet
):
    """Also where tasks fail on the store, whose errors tell what was asked and by whom."""
    for name, value in CANARIES.items():
        monkeypatch.setenv(name, value)
    refused = []

    def refuse(method, path):
        if path.endswith("/cube.zarr/event_cell/c/0") and len(refused) < 3:
            refused.append(path)
            return "403 SignatureDoesNotMatch"
        return None

    shown = []
    environment = {**os.environ, "DASK_LOGGING__DISTRIBUTED": "debug"}
    for verb in ("screen", "audit", "audit"):
        is_refused = verb == "audit" and not refused
        server.fault = refuse if is_refused else lambda method, path: None
        done = subprocess.run(
            command(verb, fields), capture_output=True, text=True, check=False, env=environment
        )
        shown.append(f"{done.stdout}{done.stderr}")
        if is_refused:
            assert done.returncode == 1, done.stderr
            kept = everything(output).items()
            errors = [entry for name, entry in kept if name.endswith(".record")]
            assert any("StoreError" in each and "[hidden]" in each for each in errors)
        else:
            assert done.returncode == 0, done.stderr
    server.fault = lambda method, path: None
    plan = AuditPlan(**fields)
    tasks = list(plan.tasks(remote_cube, plan.targets.choose(remote_cube, plan.seed, None)))
    places = everything(output) | dict(zip(("screen", "audit", "again"), shown, strict=True))
    places["tasks"] = cloudpickle.dumps(tasks).decode("latin-1")
    assert len(places) > 50
    for where, text in places.items():
        for name, canary in CANARIES.items():
            assert canary not in text, f"{name} is in {where}"
            assert re.sub(r"[^A-Za-z0-9]", "", canary) not in text, f"{name} is in {where}"
