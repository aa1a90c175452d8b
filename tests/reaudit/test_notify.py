"""Verdicts as JSON, as JUnit and posted: whole, strict, and without people or addresses."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Error, Failure, JUnitXml, Skipped
from oracles.verdicts import REASON, verdict

from clusterscale.errors import ConfigError, DamagedError, InputError, StoreError
from clusterscale.reauditing import Problem, Webhook
from clusterscale.reauditing import notify as telling
from clusterscale.reauditing.ledger import Ledger
from clusterscale.reauditing.notify import junit, post, post_new, summary

LEVELS = {"pass": None, "unknown": Skipped, "warn": Skipped, "fail": Failure}
REASONS = [REASON | {"check": f"check-{level}", "level": level} for level in LEVELS]
ROWS = [verdict(0), verdict(1, verdict="fail", reasons=REASONS), verdict(2, verdict="warn")]
PROBLEMS = [Problem("day-9", ConfigError("ftp://ann:geheim@host/x: group_size is missing"))]


def strict(text):
    """Read JSON as those do who know no NaN."""

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_a_summary_is_strict_json():
    told = strict(json.dumps(summary(ROWS, PROBLEMS)))
    assert told["verdict"] == "error"
    assert summary(ROWS)["verdict"] == "fail"
    assert [each["verdict"] for each in told["releases"]] == ["pass", "fail", "warn"]
    assert told["releases"][1]["reasons"] == REASONS
    assert told["releases"][0]["mean_privacy_loss"] == 0.25
    assert told["releases"][0]["published_auc"] is None
    assert told["releases"][0]["epsilon_declared"] is None
    assert told["releases"][0]["utility"] == {"pearson": 0.5}
    assert told["problems"] == [
        {"release": "day-9", "error": "ftp://[hidden]@host/x: group_size is missing"}
    ]


def test_nothing_new():
    assert summary([]) == {"verdict": "pass", "releases": [], "problems": []}
    assert len(JUnitXml.fromstring(junit([]).encode())) == 0


@pytest.mark.slow
@given(st.floats(), st.floats(), st.text())
def test_any_row(number, other, name):
    row = verdict(mean_privacy_loss=number, change=other, release=name, series=name)
    (told,) = strict(json.dumps(summary([row])))["releases"]
    assert told["release"] == told["series"] == name
    (suite,) = JUnitXml.fromstring(junit([row]).encode())
    assert len(suite.name) == len(name)
    assert all(each in suite.name for each in name if each.isprintable())


def test_nothing_of_a_row_names_people():
    told = json.dumps(summary(ROWS, PROBLEMS)) + junit(ROWS, PROBLEMS)
    for word in ("user", "target", "member", "geheim", "cube"):
        assert word not in told


def test_junit_is_read_back():
    report = JUnitXml.fromstring(junit(ROWS, PROBLEMS).encode())
    suites = list(report)
    assert [suite.name for suite in suites] == ["day-0", "day-1", "day-2", "day-9"]
    cases = {case.name: case for case in suites[1]}
    for level, kind in LEVELS.items():
        case = cases[f"check-{level}"]
        assert [type(each) for each in case.result] == ([kind] if kind else [])
        assert case.classname == "daily"
        assert (case.system_out is None) == (level != "pass"), "a pass says what it is about"
    assert (suites[1].tests, suites[1].failures, suites[1].skipped) == (4, 1, 2)
    (case,) = suites[3]
    (error,) = case.result
    assert isinstance(error, Error)
    assert error.message == "ftp://[hidden]@host/x: group_size is missing"


@contextmanager
def listening(answers):
    """Answer posts with these codes, one after the other; yield the address and what came."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.path, self.headers["Content-Type"], strict(body)))
            code = answers[min(len(seen), len(answers)) - 1]
            if code is None:
                self.connection.close()
                return
            self.send_response(code)
            if code in (302, 307):
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook/geheim", seen
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(telling, "_MAX_WAIT", 0.01)
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_who_is_busy_is_asked_again():
    with listening([503, 429, 200]) as (url, seen):
        post(url, summary(ROWS))
    assert len(seen) == 3
    assert seen[2] == ("/hook/geheim", "application/json", strict(json.dumps(summary(ROWS))))


@pytest.mark.parametrize("code", [400, 401, 404, 410, 302, 307])
def test_who_refuses_is_not(code):
    with listening([code, 200]) as (url, seen):
        with pytest.raises(StoreError, match=f"did not accept the verdicts: it answered {code}$"):
            post(url, {})
        assert len(seen) == 1


def test_who_stays_busy(monkeypatch):
    with (
        listening([500]) as (url, seen),
        pytest.raises(StoreError, match="it answered 500") as told,
    ):
        post(url, {})
    assert len(seen) == 5
    assert "127.0.0.1" not in str(told.value)
    assert "geheim" not in str(told.value)
    assert told.value.__cause__ is None


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/geheim",
        "http://host:geheim/hook",
        "http://127.0.0.1:1/a hook/geheim",
        "http://127.0.0.1:1/hóok/geheim",
        "http://[geheim/hook",
        "http:///geheim",
        "file:///geheim",
        "geheim",
        "",
    ],
)
def test_an_address_that_is_none_is_not_repeated(url, caplog):
    with pytest.raises(StoreError) as told:
        post(url, {})
    assert "geheim" not in str(told.value) + caplog.text
    assert told.value.__cause__ is None


def test_a_proxy_of_the_environment_is_used(monkeypatch):
    with listening([200]) as (proxy, seen):
        address = proxy.removesuffix("/hook/geheim")
        monkeypatch.setenv("http_proxy", address.replace("//", "//ann:pass@"))
        post("http://hooks.invalid/hook", {})
        assert seen[0][0] == "http://hooks.invalid/hook"
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        post(proxy, {})
    assert seen[1][0] == "/hook/geheim"


def test_verdicts_are_kept_for_a_webhook_without_an_address(tmp_path, monkeypatch):
    monkeypatch.delenv("HOOK", raising=False)
    ledger, hook = Ledger(str(tmp_path)), Webhook(variable="HOOK")
    ledger.append(verdict(0, verdict="fail"))
    assert isinstance(post_new(hook, ledger), InputError)
    with listening([400]) as (url, seen):
        monkeypatch.setenv("HOOK", url)
        assert isinstance(post_new(hook, ledger), StoreError)
    with listening([200]) as (url, seen):
        monkeypatch.setenv("HOOK", url)
        assert post_new(hook, ledger) is None
        assert post_new(hook, ledger) is None
        for damaged in (b"", b"[]", b'{"rows": null}', b"[" * 100_000):
            (tmp_path / "posted.json").write_bytes(damaged)
            assert isinstance(post_new(hook, ledger), DamagedError)
    assert len(seen) == 1


def test_who_hangs_up():
    with listening([None, None, 200]) as (url, seen):
        post(url, {"a": 1})
    assert len(seen) == 3


def test_what_is_no_json_is_not_posted():
    with listening([200]) as (url, seen), pytest.raises(ValueError, match="JSON compliant"):
        post(url, {"loss": float("nan")})
    assert not seen
