"""Verdicts as JSON, as JUnit XML and for a webhook; they contain no users."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from clusterscale.errors import StoreError
from clusterscale.reaudit.catalogue import Problem
from clusterscale.reaudit.json_safe import json_safe
from clusterscale.reaudit.ledger import Verdict
from clusterscale.reaudit.policy import worst_of
from clusterscale.redaction import clean

__all__ = ["junit", "post", "summary"]

# Characters that XML 1.0 does not allow, not even escaped.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ATTEMPTS, _TIMEOUT, _LONGEST = 5, 10.0, 20.0
_NUMBERS = (
    "mean_privacy_loss",
    "mean_privacy_loss_low",
    "mean_privacy_loss_high",
    "worst_privacy_loss",
    "share_above",
    "epsilon_lower",
    "epsilon_declared",
    "published_auc",
    "change",
)


def summary(verdicts: Sequence[Verdict], problems: Sequence[Problem] = ()) -> dict[str, Any]:
    """Return verdicts as JSON values: the worst of them, and each with its reasons.

    The worst is ``error`` if a release could not be audited.
    """
    return {
        "verdict": "error" if problems else worst_of(row.verdict for row in verdicts),
        "releases": [_release(row) for row in verdicts],
        "problems": [{"release": one.name, "error": _message(one)} for one in problems],
    }


def _release(row: Verdict) -> dict[str, Any]:
    numbers = {name: getattr(row, name) for name in _NUMBERS}
    return {
        "series": row.series,
        "release": row.release,
        "period": row.period,
        "mechanism": row.mechanism,
        "group_size": row.group_size,
        "verdict": row.verdict,
        "reasons": row.why,
        **json_safe(numbers),
        "utility": json.loads(row.utility),
        "number": row.number,
        "run": row.run,
    }


def junit(verdicts: Sequence[Verdict], problems: Sequence[Problem] = ()) -> str:
    """Return JUnit XML: a suite per release, a case per reason; warnings are skipped cases."""
    report = JUnitXml("clusterscale")
    for row in verdicts:
        suite = TestSuite(_xml(row.release))
        for reason in row.why:
            case = TestCase(reason["check"], classname=_xml(row.series or "releases"))
            if reason["level"] == "fail":
                case.result = [Failure(_xml(reason["text"]))]
            elif reason["level"] != "pass":
                case.result = [Skipped(_xml(f"{reason['level']}: {reason['text']}"))]
            suite.add_testcase(case)
        report.add_testsuite(suite)
    for problem in problems:
        suite, case = TestSuite(_xml(problem.name)), TestCase("audit", classname="releases")
        case.result = [Error(_xml(_message(problem)))]
        suite.add_testcase(case)
        report.add_testsuite(suite)
    return str(report.tostring().decode())  # type: ignore[no-untyped-call]


def post(url: str, content: dict[str, Any]) -> None:
    """Post ``content`` as JSON; retry while the server is busy or unreachable.

    Raises
    ------
    StoreError
        If the server did not accept it; the message omits the URL, which may contain a secret.
    """
    if not url.startswith(("https://", "http://")):
        raise StoreError("the webhook's URL does not begin with https:// or http://")
    headers = {"Content-Type": "application/json", "User-Agent": "clusterscale"}
    body = json.dumps(content, allow_nan=False).encode()

    def send() -> None:
        request = Request(url, body, headers, method="POST")
        with build_opener(_Stay).open(request, timeout=_TIMEOUT) as answer:
            answer.read(0)

    policy = Retrying(
        stop=stop_after_attempt(_ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.5, max=_LONGEST),
        retry=retry_if_exception(_is_transient),
        reraise=True,
    )
    try:
        policy(send)
    except HTTPError as error:
        error.close()
        reason = f"it answered {error.code}"
    except (OSError, HTTPException, ValueError) as error:  # ValueError: a malformed URL
        reason = type(error).__name__
    else:
        return
    raise StoreError(f"the webhook did not accept the verdicts: {reason}")


class _Stay(HTTPRedirectHandler):
    """Follow no redirects: they would turn the POST into a GET without content."""

    def redirect_request(self, *args: Any) -> None:
        return None


def _is_transient(error: BaseException) -> bool:
    """Return whether an error is transient."""
    if isinstance(error, HTTPError):
        is_transient = error.code in (408, 425, 429) or error.code >= 500
        if is_transient:
            error.close()
        return is_transient
    return isinstance(error, OSError)


def _xml(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)


def _message(problem: Problem) -> str:
    return clean(str(problem.error))
