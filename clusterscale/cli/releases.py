"""The ``reaudit`` command: audit and evaluate every new release of a catalogue."""

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
        Path | None,
        typer.Option(help="YAML file with the other settings, if they are not in CATALOGUE."),
    ] = None,
    output: Output = None,
    cluster: ClusterName = None,
    workers: Workers = None,
    memory: Memory = None,
    only_list: Annotated[
        bool, typer.Option("--list", help="Only list the releases, and which are new.")
    ] = False,
    to_json: Annotated[
        str | None, typer.Option("--json", help="File to write the verdicts to.")
    ] = None,
    to_junit: Annotated[
        str | None, typer.Option("--junit", help="File to write them to as JUnit XML.")
    ] = None,
) -> None:
    """Audit every new or changed release, evaluate it, and add it to the ledger.

    Exits with the worst verdict of this run: 0 pass or nothing new, 3 warn, 4 fail.

    If another process works on the same folder, this one does nothing.
    """
    from clusterscale.reaudit import Lease, LeaseHeldError

    chosen = _load(catalogue, config)
    folder = (output or chosen.output).rstrip("/")
    if only_list:
        _show_list(_open(chosen, folder))
        return
    chosen_cluster = pick_cluster(chosen.cluster, cluster, workers)  # returns only in the driver
    allowed = parse_memory(memory, chosen_cluster)
    try:
        with Lease(f"{folder}/lease") as lease:
            work = _open(chosen, folder)
            verdicts, problems = _judge_all(work, chosen_cluster, allowed, lease.check)
            _write(work, verdicts, problems, to_json, to_junit)
            _post(chosen, work)
    except LeaseHeldError as held:
        out.print(f"{held.holder} is at work on {folder}; this run does nothing", soft_wrap=True)
        return
    raise typer.Exit(_code(verdicts, problems))


def _load(catalogue: str, config: Path | None) -> ReleasesConfig:
    from clusterscale.config import load_releases

    if config is None:
        if not catalogue.endswith(_YAML):
            raise InputError(
                f"{catalogue} is not a YAML file: give the file of the audit and the policy with "
                "--config"
            )
        chosen = load_releases(catalogue)
        if chosen.releases is None:
            raise InputError(f"{catalogue}: `releases` is missing; list them, or give a folder")
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
    new = {item.listed.name for item in work.pending()}
    last = {row.release: row for row in work.ledger.rows}
    key = Key(_LONGEST)
    table = new_table()
    for name in ("release", "series", "epochs", "group size", "mechanism", "verdict"):
        table.add_column(name, no_wrap=name != "group size")
    for release in work.listed:
        row = last.get(release.name)
        verdict = "new" if release.name in new else row.verdict if row else "–"
        first, stop = release.span
        span, size = f"{first}–{stop - 1}", f"{release.group_size:,}"
        names = (key.short(name) for name in (release.name, release.series))
        table.add_row(*names, span, size, key.short(release.mechanism.label), verdict)
    out.print(table)
    key.show(out)
    out.print(f"{len(work.listed)} releases, {len(new)} to be evaluated")
    _show_problems(work.problems)
    if work.problems:
        raise typer.Exit(2)


def _judge_all(
    work: Reaudit, cluster: Cluster, memory: int, check: Callable[[], None]
) -> tuple[list[Verdict], list[Problem]]:
    """Evaluate the new releases; open a cluster only if one of them needs an audit."""
    from clusterscale.reaudit import Problem
    from clusterscale.runtime import SerialExecutor
    from clusterscale.study import prefixed

    pending, verdicts, problems = work.pending(), [], list(work.problems)
    if not pending:
        return [], problems
    with report_status(work.output, "reaudit", cluster) as status, ExitStack() as stack:
        executor: Executor = SerialExecutor()
        tell: Tell = lambda now: None  # noqa: E731 - replaced where a cluster is needed
        if not all(map(work.is_audited, pending)):
            executor, tell = stack.enter_context(running_cluster(cluster, "reaudit", status))
        for number, item in enumerate(pending, 1):
            name = item.listed.name
            result = work.judge(
                item, executor, memory=memory, check=check, tell=prefixed(tell, name)
            )
            if isinstance(result, Problem):
                problems.append(result)
                continue
            verdicts.append(result)
            show_reasons(f"{name} ({number} of {len(pending)})", result.verdict, result.why)
    return verdicts, problems


def _write(
    work: Reaudit,
    verdicts: Sequence[Verdict],
    problems: Sequence[Problem],
    to_json: str | None,
    to_junit: str | None,
) -> None:
    """Write the verdicts to the requested files, and the trend page."""
    from clusterscale.reaudit.notify import junit, summary
    from clusterscale.storage import put

    _show_problems(problems)
    if not verdicts and not problems:
        out.print(f"nothing new among {len(work.listed)} releases")
    text = json.dumps(summary(verdicts, problems), indent=1).encode()
    if verdicts or problems:
        from clusterscale.report import write_trend

        _write_pages(work)
        put(f"{work.output}/summary.json", text)
        failed = {problem.name: clean(str(problem.error)) for problem in problems}
        page = write_trend(work.ledger.table(), f"{work.output}/trend.html", errors=failed)
        out.print(f"trend    {page}", highlight=False, soft_wrap=True)
    if to_json:
        put(to_json, text)
    if to_junit:
        put(to_junit, junit(verdicts, problems).encode())


def _write_pages(work: Reaudit) -> None:
    """Write the missing report pages of audits, which the trend page links to."""
    from clusterscale.cli.reports import gather
    from clusterscale.report import write_report
    from clusterscale.storage import exists

    for run in dict.fromkeys(f"{work.output}/{row.run}" for row in work.ledger.rows):
        if not exists(f"{run}/report.html"):
            write_report(gather(run), f"{run}/report.html")


def _post(chosen: ReleasesConfig, work: Reaudit) -> None:
    """Post the verdicts not posted yet; if that fails, the next run retries."""
    from clusterscale.contracts import VERDICT_LEVELS
    from clusterscale.reaudit.notify import post, summary
    from clusterscale.storage import exists, put, read

    if chosen.webhook is None:
        return
    url = os.environ.get(chosen.webhook.variable, "")
    if not url:
        raise InputError(f"webhook: the environment variable {chosen.webhook.variable} is not set")
    path, rows = f"{work.output}/posted.json", work.ledger.rows
    n_posted = json.loads(read(path))["rows"] if exists(path) else 0
    least = VERDICT_LEVELS.index(chosen.webhook.least)
    wanted = [row for row in rows[n_posted:] if VERDICT_LEVELS.index(row.verdict) >= least]
    try:
        if wanted:
            post(url, summary(wanted))
    except StoreError as error:
        err.print(f"[yellow]note:[/] {escape(str(error))}; the next run tries again")
        return
    if len(rows) > n_posted:
        put(path, json.dumps({"rows": len(rows)}).encode())


def show_reasons(name: str, verdict: str, reasons: Sequence[dict[str, object]]) -> None:
    """Print a verdict, and the checks that do not pass."""
    style = _STYLES[verdict]
    out.print(f"[{style}]{verdict}[/]  {escape(name)}", highlight=False, soft_wrap=True)
    for reason in reasons:
        if reason["level"] != "pass":
            check, text = escape(str(reason["check"])), escape(str(reason["text"]))
            out.print(
                f"      {reason['level']}: {check}: {text}",
                highlight=False,
                soft_wrap=True,
            )


def _show_problems(problems: Sequence[Problem]) -> None:
    for problem in problems:
        text = escape(clean(str(problem.error)))
        err.print(f"[bold red]{escape(problem.name)}:[/] {text}", soft_wrap=True, highlight=False)


def _code(verdicts: Sequence[Verdict], problems: Sequence[Problem]) -> int:
    """Return the exit code; errors take precedence over verdicts."""
    if problems:
        if any(isinstance(problem.error, ClusterError | StoreError) for problem in problems):
            return TEMPORARY
        return 1 if all(problem.passing for problem in problems) else 2
    return max((CODES[row.verdict] for row in verdicts), default=0)
