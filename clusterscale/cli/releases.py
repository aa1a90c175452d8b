"""The verb that judges every new release of a catalogue."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from clusterscale.cli.console import err, out
from clusterscale.cli.options import (
    ClusterName,
    Memory,
    Output,
    Workers,
    argument,
    parse_memory,
    pick_cluster,
)
from clusterscale.cli.running import report_status, running_cluster
from clusterscale.cli.tables import Key, new_table
from clusterscale.errors import TEMPORARY, ClusterError, InputError, StoreError
from clusterscale.redaction import clean

if TYPE_CHECKING:
    from clusterscale.config import ReleasesConfig
    from clusterscale.contracts import Executor
    from clusterscale.reaudit import Problem, Reaudit, Verdict
    from clusterscale.runtime import Cluster
    from clusterscale.study import Tell

__all__ = ["CODES", "reaudit", "show_reasons"]

CODES = {"pass": 0, "warn": 3, "fail": 4, "error": 2}
"""Exit code of each verdict."""

_STYLES = {"pass": "green", "warn": "yellow", "fail": "bold red", "error": "bold red"}
_YAML = (".yaml", ".yml")
_LONGEST = 14  # characters of a name in the list of releases


def reaudit(
    catalogue: Annotated[
        str, argument("YAML file with releases; or a folder or pattern, with --config.")
    ],
    config: Annotated[
        Path | None, typer.Option(help="YAML file with all else, if it is not in CATALOGUE.")
    ] = None,
    output: Output = None,
    cluster: ClusterName = None,
    workers: Workers = None,
    memory: Memory = None,
    only_list: Annotated[
        bool, typer.Option("--list", help="Only say which releases there are, and what is new.")
    ] = False,
    to_json: Annotated[str | None, typer.Option("--json", help="Write the verdicts here.")] = None,
    to_junit: Annotated[str | None, typer.Option("--junit", help="And here as JUnit XML.")] = None,
) -> None:
    """Audit every release that is new or has changed, judge it, and add it to the ledger.

    Ends with the worst verdict of this run: 0 pass or nothing new, 3 warn, 4 fail.

    Two at a time do no harm: the second does nothing.
    """
    from clusterscale.reaudit import Lease, LeaseHeldError

    chosen = _load(catalogue, config)
    folder = (output or chosen.output).rstrip("/")
    if only_list:
        _show_list(_open(chosen, folder))
        return
    place = pick_cluster(chosen.cluster, cluster, workers)  # does not return in a mere worker
    allowed = parse_memory(memory, place)
    try:
        with Lease(f"{folder}/lease") as lease:
            work = _open(chosen, folder)
            verdicts, problems = _judge_all(work, place, allowed, lease.check)
            _tell(work, verdicts, problems, to_json, to_junit)
            _post(chosen, work)
    except LeaseHeldError as held:
        out.print(f"{held.holder} is at work on {folder}; nothing is done here", soft_wrap=True)
        return
    raise typer.Exit(_code(verdicts, problems))


def _load(catalogue: str, config: Path | None) -> ReleasesConfig:
    from clusterscale.config import load_releases

    if config is None:
        if not catalogue.endswith(_YAML):
            raise InputError(
                f"{catalogue} is no YAML file: say with --config which file has the audit and the "
                "policy"
            )
        chosen = load_releases(catalogue)
        if chosen.releases is None:
            raise InputError(f"{catalogue}: releases is missing; list them, or give a folder")
        return chosen
    if catalogue.endswith(_YAML):
        raise InputError("give one YAML file; with --config the catalogue is a folder or pattern")
    return load_releases(config).model_copy(update={"releases": catalogue})


def _open(chosen: ReleasesConfig, folder: str) -> Reaudit:
    from clusterscale.reaudit import Catalogue, Reaudit

    entries = chosen.entries()  # before a preset is written
    known = Catalogue(entries, chosen.cube.open().uri, f"{folder}/listed.json")
    return Reaudit(chosen.plan, known, folder)


def _show_list(work: Reaudit) -> None:
    new = {each.listed.name for each in work.pending()}
    last = {row.release: row for row in work.ledger.rows}
    key = Key(_LONGEST)
    table = new_table()
    for name in ("release", "series", "epochs", "group size", "mechanism", "verdict"):
        table.add_column(name, no_wrap=name != "group size")
    for each in work.listed:
        row = last.get(each.name)
        verdict = "new" if each.name in new else row.verdict if row else "–"
        first, stop = each.span
        span, size = f"{first}–{stop - 1}", f"{each.group_size:,}"
        names = (key.short(name) for name in (each.name, each.series))
        table.add_row(*names, span, size, key.short(each.mechanism.label), verdict)
    out.print(table)
    key.show(out)
    out.print(f"{len(work.listed)} releases, {len(new)} to be judged")
    _complain(work.problems)
    if work.problems:
        raise typer.Exit(2)


def _judge_all(
    work: Reaudit, place: Cluster, memory: int, check: Callable[[], None]
) -> tuple[list[Verdict], list[Problem]]:
    """Judge what is new; a cluster is opened only if something must be audited."""
    from clusterscale.reaudit import Problem
    from clusterscale.runtime import SerialExecutor
    from clusterscale.study import prefixed

    pending, verdicts, problems = work.pending(), [], list(work.problems)
    if not pending:
        return [], problems
    with report_status(work.output, "reaudit", place) as beacon, ExitStack() as stack:
        executor: Executor = SerialExecutor()
        tell: Tell = lambda now: None  # noqa: E731 - replaced where a cluster is needed
        if not all(map(work.is_audited, pending)):
            executor, tell = stack.enter_context(running_cluster(place, "reaudit", beacon))
        for number, each in enumerate(pending, 1):
            name = each.listed.name
            found = work.judge(
                each, executor, memory=memory, check=check, tell=prefixed(tell, name)
            )
            if isinstance(found, Problem):
                problems.append(found)
                continue
            verdicts.append(found)
            show_reasons(f"{name} ({number} of {len(pending)})", found.verdict, found.why)
    return verdicts, problems


def _tell(
    work: Reaudit,
    verdicts: Sequence[Verdict],
    problems: Sequence[Problem],
    to_json: str | None,
    to_junit: str | None,
) -> None:
    """Write verdicts where they are asked for, and the page of all of them."""
    from clusterscale.reaudit.notify import junit, summary
    from clusterscale.storage import put

    _complain(problems)
    if not verdicts and not problems:
        out.print(f"nothing new among {len(work.listed)} releases")
    text = json.dumps(summary(verdicts, problems), indent=1).encode()
    if verdicts or problems:
        from clusterscale.report import write_trend

        _write_pages(work)
        put(f"{work.output}/summary.json", text)
        failed = {each.name: clean(str(each.error)) for each in problems}
        page = write_trend(work.ledger.table(), f"{work.output}/trend.html", errors=failed)
        out.print(f"trend    {page}", highlight=False, soft_wrap=True)
    if to_json:
        put(to_json, text)
    if to_junit:
        put(to_junit, junit(verdicts, problems).encode())


def _write_pages(work: Reaudit) -> None:
    """Write the page of each audit that has none, which the page of all of them leads to."""
    from clusterscale.cli.reports import gather
    from clusterscale.report import write_report
    from clusterscale.storage import exists

    for run in dict.fromkeys(f"{work.output}/{row.run}" for row in work.ledger.rows):
        if not exists(f"{run}/report.html"):
            write_report(gather(run), f"{run}/report.html")


def _post(chosen: ReleasesConfig, work: Reaudit) -> None:
    """Post the verdicts that were not posted yet; what cannot be is tried again by the next run."""
    from clusterscale.contracts import VERDICT_LEVELS
    from clusterscale.reaudit.notify import post, summary
    from clusterscale.storage import exists, put, read

    if chosen.webhook is None:
        return
    url = os.environ.get(chosen.webhook.variable, "")
    if not url:
        raise InputError(f"webhook: the environment variable {chosen.webhook.variable} is not set")
    place, rows = f"{work.output}/posted.json", work.ledger.rows
    n_posted = json.loads(read(place))["rows"] if exists(place) else 0
    least = VERDICT_LEVELS.index(chosen.webhook.least)
    wanted = [row for row in rows[n_posted:] if VERDICT_LEVELS.index(row.verdict) >= least]
    try:
        if wanted:
            post(url, summary(wanted))
    except StoreError as error:
        err.print(f"[yellow]note:[/] {escape(str(error))}; the next run tries again")
        return
    if len(rows) > n_posted:
        put(place, json.dumps({"rows": len(rows)}).encode())


def show_reasons(name: str, verdict: str, reasons: Sequence[dict[str, object]]) -> None:
    """Print a verdict, and why it is not better."""
    style = _STYLES[verdict]
    out.print(f"[{style}]{verdict}[/]  {escape(name)}", highlight=False, soft_wrap=True)
    for each in reasons:
        if each["level"] != "pass":
            out.print(
                f"      {each['level']}: {escape(str(each['check']))}: {escape(str(each['text']))}",
                highlight=False,
                soft_wrap=True,
            )


def _complain(problems: Sequence[Problem]) -> None:
    for each in problems:
        text = escape(clean(str(each.error)))
        err.print(f"[bold red]{escape(each.name)}:[/] {text}", soft_wrap=True, highlight=False)


def _code(verdicts: Sequence[Verdict], problems: Sequence[Problem]) -> int:
    """Return the exit code: of what could not be judged before that of any verdict."""
    if problems:
        if any(isinstance(each.error, ClusterError | StoreError) for each in problems):
            return TEMPORARY
        return 1 if all(each.passing for each in problems) else 2
    return max((CODES[row.verdict] for row in verdicts), default=0)
