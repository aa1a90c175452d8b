"""Verdicts as JSON, as JUnit XML and for a webhook; they contain no users."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any
from urllib.parse import unquote
from urllib.request import getproxies, proxy_bypass

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite
from pydantic import Field
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential
from urllib3 import PoolManager, ProxyManager, make_headers
from urllib3.exceptions import HTTPError
from urllib3.util import parse_url

from clusterscale import storage
from clusterscale.contracts import VERDICT_LEVELS, ConfigModel, Level
from clusterscale.errors import ClusterscaleError, DamagedError, InputError, StoreError
from clusterscale.reauditing.catalogue import Problem
from clusterscale.reauditing.ledger import Ledger, json_safe
from clusterscale.reauditing.policy import worst_of
from clusterscale.redaction import clean
from clusterscale.release.checks import TableFindings
from clusterscale.release.checks.opened import OPEN_CELL
from clusterscale.release.verdict import Verdict

# Characters that XML 1.0 does not allow, not even escaped.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ATTEMPTS, _TIMEOUT, _MAX_WAIT = 5, 10.0, 20.0
_TOLD = (  # fields of a verdict, in this order
    *("series", "release", "period", "mechanism", "group_size", "verdict", "reasons"),
    *("mean_privacy_loss", "mean_privacy_loss_low", "mean_privacy_loss_high"),
    *("worst_privacy_loss", "share_above", "epsilon_lower", "epsilon_declared", "published_auc"),
    *("change", "utility", "number", "run"),
)


def summary(verdicts: Sequence[Verdict], problems: Sequence[Problem] = ()) -> dict[str, Any]:
    """Return verdicts, with their reasons, and problems as JSON values.

    ``verdict`` is the worst of them, or ``error`` if there is a problem.
    """
    return {
        "verdict": "error" if problems else worst_of(row.verdict for row in verdicts),
        "releases": [_release(row) for row in verdicts],
        "problems": [{"release": one.name, "error": _message(one)} for one in problems],
    }


def _release(row: Verdict) -> dict[str, Any]:
    fields = json_safe(asdict(row))
    told = {name: fields[name] for name in _TOLD}
    return told | {"reasons": row.why, "utility": json.loads(row.utility)}


def junit(verdicts: Sequence[Verdict], problems: Sequence[Problem] = ()) -> str:
    """Return JUnit XML: a suite per release, a case per reason; warnings are skipped cases."""
    report = JUnitXml("clusterscale")
    for row in verdicts:
        report.add_testsuite(_suite(row.release, row.series or "releases", row.why))
    for problem in problems:
        suite, case = TestSuite(_xml(problem.name)), TestCase("audit", classname="releases")
        case.result = [Error(_xml(_message(problem)))]
        suite.add_testcase(case)
        report.add_testsuite(suite)
    return str(report.tostring().decode())  # type: ignore[no-untyped-call]


def junit_of_tables(findings: Sequence[TableFindings]) -> str:
    """Return checks of published tables as JUnit XML: a suite per table, a case per check.

    What could not be decided is a skipped case.
    """
    report = JUnitXml("clusterscale")
    levels = {"consistent": "pass", "inconsistent": "fail", "unknown": "unknown"}
    for table in findings:
        cases = [
            {"check": result.check, "level": levels[result.level], "text": result.text}
            for result in table.results
        ]
        wrong = {result.check for result in table.results if result.level == "inconsistent"}
        for cell in table.open_cells:
            is_known = cell.rest or cell.low == cell.high or "narrowed" in wrong
            level = "fail" if is_known else "unknown"
            cases.append(
                {"check": "open cell", "level": level, "text": f"{cell.table}: {cell.text}"}
            )
        report.add_testsuite(_suite(table.name, "tables", cases))
    return str(report.tostring().decode())  # type: ignore[no-untyped-call]


def _suite(name: str, kind: str, cases: Sequence[Mapping[str, Any]]) -> TestSuite:
    suite = TestSuite(_xml(name))
    for one in cases:
        case = TestCase(one["check"], classname=_xml(kind))
        if one["level"] == "fail":
            case.result = [Failure(_xml(one["text"]))]
        elif one["level"] == "pass":
            case.system_out = _xml(one["text"])
        else:
            case.result = [Skipped(_xml(f"{one['level']}: {one['text']}"))]
        suite.add_testcase(case)
    return suite


class Webhook(ConfigModel):
    """Webhook to which new verdicts are posted as JSON, without personal data.

    The address is read from the environment variable ``variable``, since it is often a secret.
    ``least``: the mildest verdict that is posted.

    Attributes
    ----------
    variable
        Environment variable with the address.
    least
        The mildest verdict that is posted.
    """

    variable: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = "CLUSTERSCALE_WEBHOOK"
    least: Level = "warn"

    def address(self) -> str:
        """Return the address; raises InputError if the environment has none."""
        if not (url := os.environ.get(self.variable, "")):
            raise InputError(f"webhook: the environment variable {self.variable} is not set")
        return url


@dataclass(frozen=True, slots=True)
class Announcement:
    """Where verdicts go besides the ledger; None for nowhere.

    ``json`` and ``junit`` are files, local paths or URLs; new verdicts are posted to ``webhook``.
    """

    json: str | None = None
    junit: str | None = None
    webhook: Webhook | None = None

    def write(self, verdicts: Sequence[Verdict], problems: Sequence[Problem]) -> None:
        """Write the files."""
        if self.json:
            storage.put(self.json, json.dumps(summary(verdicts, problems), indent=1).encode())
        if self.junit:
            storage.put(self.junit, junit(verdicts, problems).encode())


def post_new(webhook: Webhook, ledger: Ledger) -> ClusterscaleError | None:
    """Post the verdicts that were not posted yet; return why they were not, None if they were.

    It is an :class:`InputError` if the environment has no URL, else a :class:`StoreError` or a
    :class:`DamagedError`; the next call tries again.
    """
    try:
        url = webhook.address()
    except InputError as error:
        return error
    uri, n_posted = f"{ledger.uri}/posted.json", 0
    if storage.exists(uri):
        try:
            n_posted = int(json.loads(storage.read(uri))["rows"])
        except (ValueError, TypeError, KeyError, RecursionError):
            return DamagedError(f"{uri} is damaged: remove it, and every verdict is posted again")
    least = VERDICT_LEVELS.index(webhook.least)
    rows = [row for row in ledger.rows[n_posted:] if VERDICT_LEVELS.index(row.verdict) >= least]
    try:
        if rows:
            content = summary(rows)
            for one in content["releases"]:  # numbers only
                one["reasons"] = [why for why in one["reasons"] if why["check"] != OPEN_CELL]
            post(url, content)
    except StoreError as error:
        return error
    if len(ledger) > n_posted:
        storage.put(uri, json.dumps({"rows": len(ledger)}).encode())
    return None


class _RefusedError(Exception):
    """The server answered with ``code``, which is not a success."""

    def __init__(self, code: int) -> None:
        super().__init__(f"it answered {code}")
        self.code = code


def post(url: str, content: dict[str, Any]) -> None:
    """Post ``content`` as JSON; retry while the server is busy or unreachable.

    Redirects are not followed: they would turn the POST into a GET without content. Raises
    StoreError if the server did not accept it; the message omits the URL, which may contain a
    secret.
    """
    if not url.startswith(("https://", "http://")):
        raise StoreError("the webhook's URL does not begin with https:// or http://")
    headers = {"Content-Type": "application/json", "User-Agent": "clusterscale"}
    body = json.dumps(content, allow_nan=False).encode()

    def send() -> None:
        # without urllib3's own retries, whose log messages contain the URL
        how: dict[str, Any] = {"retries": False, "redirect": False, "timeout": _TIMEOUT}
        with _connection(url) as pool:
            answer = pool.request(
                "POST", url, body=body, headers=headers, preload_content=False, **how
            )
            answer.close()
        if not 200 <= answer.status < 300:
            raise _RefusedError(answer.status)

    policy = Retrying(
        stop=stop_after_attempt(_ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.5, max=_MAX_WAIT),
        retry=retry_if_exception(_is_transient),
        reraise=True,
    )
    try:
        policy(send)
    except _RefusedError as error:
        reason = str(error)
    except (OSError, HTTPError, ValueError) as error:  # ValueError: a malformed URL
        reason = type(error).__name__
    else:
        return
    raise StoreError(f"the webhook did not accept the verdicts: {reason}")


def _connection(url: str) -> PoolManager:
    """Return a pool of connections, through the proxy that the environment names for a URL."""
    address = parse_url(url)
    proxy = getproxies().get(address.scheme or "")
    if not proxy or proxy_bypass(address.host or ""):
        return PoolManager()
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    login = unquote(parse_url(proxy).auth or "")
    return ProxyManager(proxy, proxy_headers=make_headers(proxy_basic_auth=login or None))


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, _RefusedError):
        return error.code in (408, 425, 429) or error.code >= 500
    return isinstance(error, OSError | HTTPError) and not isinstance(error, ValueError)


def _xml(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)


def _message(problem: Problem) -> str:
    return clean(str(problem.error))
