"""Judge releases: every new one of a catalogue, or one run before it goes out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from clusterscale.cli.options import (
    ClusterName,
    Memory,
    Move,
    Output,
    Workers,
    argument,
    at_work,
    parse_memory,
    pick_cluster,
    seen,
)
from clusterscale.cli.show import err, out
from clusterscale.errors import InputError, StoreError
from clusterscale.secrets import clean

if TYPE_CHECKING:
    from clusterscale.config import ReleasesConfig
    from clusterscale.contracts import Executor
    from clusterscale.reaudit import Problem, Reaudit, Verdict
    from clusterscale.runtime import Cluster

__all__ = ["CODES", "gate", "reaudit"]

CODES = {"pass": 0, "warn": 3, "fail": 4}
"""Exit code of each verdict."""

_STYLES = {"pass": "green", "warn": "yellow", "fail": "bold red"}
_YAML = (".yaml", ".yml")


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

    Exits with the worst verdict of this run: 0 pass, or nothing new; 3 warn; 4 fail. With 1 where
    tasks failed, 2 where a release cannot be audited. Two at a time do no harm: the second does
    nothing.
    """
    from clusterscale.reaudit import Held, Lease

    chosen = _load(catalogue, config)
    folder = (output or chosen.output).rstrip("/")
    if only_list:
        _show_list(_open(chosen, folder))
        return
    try:
        with Lease(f"{folder}/lease") as lease:
            work = _open(chosen, folder)
            place = pick_cluster(chosen.cluster, cluster, workers)
            allowed = parse_memory(memory, place)
            verdicts, problems = _judge_all(work, place, allowed, lease.check)
            _tell(work, verdicts, problems, to_json, to_junit)
            _post(chosen, work)
    except Held as held:
        out.print(f"{held.holder} is at work on {folder}; nothing is done here", soft_wrap=True)
        return
    raise typer.Exit(_code(verdicts, problems))


def gate(
    results: Annotated[str, argument("Folder of a finished run.")],
    config: Annotated[
        Path | None, typer.Option(help="YAML file of a catalogue, whose policy is taken.")
    ] = None,
    mechanism: Annotated[
        str | None, typer.Option(help="Label of the mechanism that is to be used.")
    ] = None,
    to_json: Annotated[str | None, typer.Option("--json", help="Write the verdict here.")] = None,
) -> None:
    """Judge a run by a policy before anything is released.

    Exits with the verdict: 0 pass, 3 warn, 4 fail.
    """
    from clusterscale.cli.reports import gather
    from clusterscale.config import load_releases
    from clusterscale.cube.storage import put
    from clusterscale.reaudit import Estimate, Policy, judge, measure, verdict_of

    policy = load_releases(config).policy if config else Policy()
    run = gather(results)
    if run.audit is None:
        raise InputError(f"{results}: there is no audit to judge by")
    if (run.audit.status == "failed").any():
        raise InputError(f"{results}: tasks of this audit failed; run it again first")
    label = _pick(list(map(str, run.audit.mechanism.values)), mechanism)
    found = measure(run.audit, run.screen, label, exposed_above=policy.exposed_above)
    reasons = list(judge(policy, found, Estimate()))
    verdict = verdict_of(reasons)
    told = {"verdict": verdict, "mechanism": label, "reasons": [each.plain() for each in reasons]}
    _show_reasons(label, verdict, told["reasons"])  # type: ignore[arg-type]
    if to_json:
        put(to_json, json.dumps(told, indent=1).encode())
    raise typer.Exit(CODES[verdict])


def _pick(labels: list[str], wanted: str | None) -> str:
    if wanted is not None:
        return wanted
    ways = [label for label in labels if label != "exact"] or labels
    if len(ways) > 1:
        raise InputError(
            f"the run has {len(ways)} ways to publish: say with --mechanism which is to be used, "
            f"e.g. --mechanism '{ways[0]}'"
        )
    return ways[0]


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

    cube = chosen.cube.open()
    known = Catalogue(chosen.entries(), cube.uri, f"{folder}/listed.json")
    return Reaudit(chosen.plan, known, folder)


def _show_list(work: Reaudit) -> None:
    new = {each.listed.name for each in work.pending()}
    last = {row.release: row for row in work.ledger.rows}
    table = Table("release", "series", "epochs", "group size", "mechanism", "verdict")
    for each in work.listed:
        row = last.get(each.name)
        verdict = "new" if each.name in new else row.verdict if row else "–"
        first, stop = each.span
        cells = (each.name, each.series, f"{first}–{stop - 1}", str(each.group_size))
        table.add_row(*map(escape, (*cells, each.mechanism.label)), verdict)
    out.print(table)
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

    pending, verdicts, problems = work.pending(), [], list(work.problems)
    if not pending:
        return [], problems
    with seen(work.output, "reaudit", place) as beacon, ExitStack() as stack:
        executor: Executor = SerialExecutor()
        move: Move = _stay
        if not all(map(work.is_audited, pending)):
            executor, move = stack.enter_context(at_work(place, "reaudit", beacon))
        for number, each in enumerate(pending, 1):
            name = each.listed.name

            def tell(stage: str, total: int, done: int, failed: int, name: str = name) -> None:
                move(f"{name}: {stage}", total, done, failed)

            found = work.judge(each, executor, memory=memory, check=check, tell=tell)
            if isinstance(found, Problem):
                problems.append(found)
                continue
            verdicts.append(found)
            _show_reasons(f"{name} ({number} of {len(pending)})", found.verdict, found.why)
    return verdicts, problems


def _stay(doing: str, total: int, done: int, failed: int = 0) -> None:
    """Move no bar."""


def _tell(
    work: Reaudit,
    verdicts: Sequence[Verdict],
    problems: Sequence[Problem],
    to_json: str | None,
    to_junit: str | None,
) -> None:
    """Write verdicts where they are asked for, and the page of all of them."""
    from clusterscale.cube.storage import put
    from clusterscale.reaudit.telling import junit, summary

    _complain(problems)
    if not verdicts and not problems:
        out.print(f"nothing new among {len(work.listed)} releases")
    text = json.dumps(summary(verdicts, problems), indent=1).encode()
    if verdicts:
        from clusterscale.report import write_trend

        put(f"{work.output}/summary.json", text)
        page = write_trend(work.ledger.table(), f"{work.output}/trend.html")
        out.print(f"trend    {page}", highlight=False, soft_wrap=True)
    if to_json:
        put(to_json, text)
    if to_junit:
        put(to_junit, junit(verdicts, problems).encode())


def _post(chosen: ReleasesConfig, work: Reaudit) -> None:
    """Post the verdicts that were not posted yet; what cannot be is tried again by the next run."""
    from clusterscale.cube.storage import exists, put, read
    from clusterscale.reaudit import LEVELS
    from clusterscale.reaudit.telling import post, summary

    if chosen.webhook is None:
        return
    url = os.environ.get(chosen.webhook.variable, "")
    if not url:
        raise InputError(f"webhook: the environment variable {chosen.webhook.variable} is not set")
    place, rows = f"{work.output}/posted.json", work.ledger.rows
    n_posted = json.loads(read(place))["rows"] if exists(place) else 0
    least = LEVELS.index(chosen.webhook.least)
    wanted = [row for row in rows[n_posted:] if LEVELS.index(row.verdict) >= least]
    try:
        if wanted:
            post(url, summary(wanted))
    except StoreError as error:
        err.print(f"[yellow]note:[/] {escape(str(error))}; the next run tries again")
        return
    if len(rows) > n_posted:
        put(place, json.dumps({"rows": len(rows)}).encode())


def _show_reasons(name: str, verdict: str, reasons: Sequence[dict[str, object]]) -> None:
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
        return 2 if any(isinstance(each.error, InputError) for each in problems) else 1
    return max((CODES[row.verdict] for row in verdicts), default=0)
