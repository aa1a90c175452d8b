"""The ``reaudit`` command: audit and evaluate every new release of a catalogue."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from clusterscale.cli import options as shared
from clusterscale.cli.console import err, out
from clusterscale.cli.reports import gather
from clusterscale.cli.running import report_status, running_cluster
from clusterscale.cli.tables import Key, show_pairs, show_table
from clusterscale.errors import TEMPORARY, ClusterError, ClusterscaleError, InputError, StoreError
from clusterscale.redaction import clean
from clusterscale.storage import check_new, check_outputs, put

if TYPE_CHECKING:
    from clusterscale.config import ReleasesConfig
    from clusterscale.contracts import Mechanism
    from clusterscale.reauditing import Outcome, Problem, Reaudit
    from clusterscale.runtime import Cluster
    from clusterscale.study import Tell
    from clusterscale.study.execution import Executor

EXIT_CODES = {"pass": 0, "warn": 3, "fail": 4, "error": 2}
"""Exit code of each verdict."""

VERDICT_STYLES = {"pass": "green", "warn": "yellow", "fail": "bold red", "error": "bold red"}
_YAML = (".yaml", ".yml")
_OWN = ("ledger", "summary.json", "trend.html")  # in the folder of a catalogue
_MOST_CELLS = 10  # counts that follow, in the terminal


def gate(
    results: shared.AddressArgument,
    policy: Path | None = None,
    mechanism: str | None = None,
    group_size: shared.GroupSize = None,
    release: Path | None = None,
    to_json: shared.JsonFile = None,
) -> None:
    """Evaluate a run against a policy before anything is released.

    Exits with the verdict: 0 pass, 3 warn, 4 fail. Without a policy, the verdict exposed fails, and
    an inconclusive run warns, as does a run whose groups do not have the size of the release. A run
    that cannot be evaluated is an error, never a pass.

    Parameters
    ----------
    results
        Folder of a finished run.
    policy
        YAML file of a policy, or of a catalogue that has one.
    mechanism
        Label or id of the mechanism to evaluate.
    group_size
        Number of people that the release counts, or set it in the policy.
    release
        Config of the release: a run of other data, days, people or sizes never passes.
    to_json
        File to write the verdict to.
    """
    from clusterscale.api import releases
    from clusterscale.reporting.audit.model import AuditReport
    from clusterscale.study.identity import results_in

    check_outputs([to_json], [policy, *results_in(results)])
    check_new([to_json], renews=())
    outcome: dict[str, object] = {"verdict": "error"}
    try:
        run = gather(results)
        found = releases.gate(run, policy, mechanism, group_size, release)
        show_reasons(found.mechanism, found.verdict, found.reasons)
        assert run.audit is not None  # or there is no verdict
        for reason, names in AuditReport(run.audit).refused.items():
            if found.mechanism in names:
                out.print(f"publish refuses it: {reason}", markup=False, soft_wrap=True)
        outcome = asdict(found)
    except ClusterscaleError as error:
        outcome["error"] = clean(str(error))
        raise
    finally:
        if to_json:
            put(to_json, json.dumps(outcome, indent=1).encode())
    raise typer.Exit(EXIT_CODES[str(outcome["verdict"])])


def say_opendp(mechanisms: Iterable[Mechanism]) -> None:
    """Print that OpenDP is not installed, if a mechanism can only be published with it."""
    from importlib.util import find_spec

    if find_spec("opendp") is not None:
        return
    from clusterscale.analyses.publish.plan import draws_noise, find_faults
    from clusterscale.analyses.publish.source import INSTALL_OPENDP

    if any(draws_noise(one) and not any(find_faults(one, null_roi=False)) for one in mechanisms):
        line = f"before you publish with noise, install OpenDP: {INSTALL_OPENDP}"
        out.print(line, markup=False, soft_wrap=True)


def reaudit(
    catalogue: shared.AddressArgument,
    config: Path | None = None,
    output: shared.OptionalAddress = None,
    cluster: str | None = None,
    workers: shared.Workers = None,
    memory: str | None = None,
    only_list: shared.OnlyList = False,
    explain: shared.Explain = False,
    to_json: shared.JsonFile = None,
    to_junit: shared.JunitFile = None,
) -> None:
    """Audit every new or changed release, evaluate it, and add it to the ledger.

    Exits with the worst verdict of this run: 0 pass or nothing new, 3 warn, 4 fail.

    If another process works on the same folder, this one does nothing.

    Parameters
    ----------
    catalogue
        YAML file with releases; or a folder or pattern, with --config.
    config
        YAML file with the other settings, if they are not in CATALOGUE.
    only_list
        Only list the releases, and which are new.
    to_json
        File to write the verdicts to.
    to_junit
        File to write them to as JUnit XML.
    """
    from clusterscale.api.releases import open_catalogue, write_page
    from clusterscale.reauditing import Announcement, audit_new
    from clusterscale.storage.lease import LeaseHeldError
    from clusterscale.storage.outputs import inputs_in

    chosen = _load(catalogue, config)
    folder = (output or chosen.output).rstrip("/")
    announced, own = [to_json, to_junit], [f"{folder}/{name}" for name in _OWN]
    read = [catalogue, config, *inputs_in(chosen.model_dump(exclude={"output"}))]
    if isinstance(chosen.releases, str) and any(announced):
        read += [entry.counts for entry in chosen.entries()]
    check_outputs([*announced, *own], read)
    check_new(announced, renews=())
    if only_list:
        _show_list(open_catalogue(chosen, folder))
        return
    if chosen.webhook is not None:
        chosen.webhook.address()  # before the work
    # Returns only in the driver.
    chosen_cluster = shared.pick_cluster(chosen.cluster, cluster, workers, serve=not explain)
    usable = shared.parse_memory(memory, chosen_cluster)
    if explain:
        _explain(open_catalogue(chosen, folder), usable, chosen_cluster.n_workers)
        return
    try:
        outcome = audit_new(
            partial(open_catalogue, chosen, folder),
            folder,
            partial(_open_executor, folder, chosen_cluster),
            memory=usable,
            announcement=Announcement(to_json, to_junit, chosen.webhook),
            write_page=partial(write_page, open_run=gather),
            on_verdict=lambda name, row: show_reasons(name, row.verdict, row.why),
        )
    except LeaseHeldError as held:
        out.print(f"{held.holder} is at work on {folder}; this run does nothing", soft_wrap=True)
        return
    _show_outcome(outcome)
    _end_with(outcome.problems)
    raise typer.Exit(max((EXIT_CODES[row.verdict] for row in outcome.verdicts), default=0))


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


def _show_list(work: Reaudit) -> None:
    new = {item.release.name for item in work.pending()}
    last = {row.release: row for row in work.ledger.rows}
    rows = []
    for release in work.releases:
        row = last.get(release.name)
        verdict = "new" if release.name in new else row.verdict if row else "–"
        rows.append({"release": release, "verdict": verdict})
    key = Key(20)  # characters of a name in the list of releases
    show_table(out, "releases", rows, key=key)
    key.show(out)
    out.print(f"{len(work.releases)} releases, {len(new)} to be evaluated")
    _show_opened(work)
    _show_problems(work.problems)
    _end_with(work.problems)


def _explain(work: Reaudit, memory: int, n_workers: int) -> None:
    """Show what each new release would take, and end with the exit code if one cannot be read."""
    from clusterscale.reauditing import Problem

    problems = [*work.problems]
    for item in work.pending():
        try:
            found = {} if work.is_audited(item) else work.explain(item, memory, n_workers)
        except ClusterscaleError as error:
            problems.append(Problem(item.release.name, error))
            continue
        rows = {f"{kind}: {row}": found[kind][row] for kind in found for row in ("work", "time")}
        show_pairs(
            out, item.release.name, rows or {"time": "only that of a verdict: it is audited"}
        )
    _show_opened(work)
    _show_problems(problems)
    _end_with(problems)


def _show_opened(work: Reaudit) -> None:
    """Show how many counts evaluated releases have opened, or why that is not known."""
    from clusterscale.release.checks.opened import OPENED

    for row in filter(None, work.current()):
        for reason in row.why:
            if reason["check"] == OPENED and reason["level"] != "pass":
                out.print(str(reason["text"]), markup=False, soft_wrap=True)


@contextmanager
def _open_executor(
    folder: str, cluster: Cluster, has_tasks: bool
) -> Iterator[tuple[Executor, Tell]]:
    """Open a cluster only if a release needs an audit."""
    from clusterscale.runtime import SerialExecutor

    with report_status(folder, "reaudit") as status:
        if not has_tasks:
            yield SerialExecutor(), lambda now: None
            return
        with running_cluster(cluster, "reaudit", status) as opened:
            yield opened


def _show_outcome(outcome: Outcome) -> None:
    """Show what is not a verdict; raise the error of a webhook without an address."""
    _show_problems(outcome.problems)
    if outcome.page:
        out.print(f"trend    {outcome.page}", soft_wrap=True)
    else:
        out.print(f"nothing new among {outcome.n_releases} releases")
    if isinstance(outcome.not_posted, InputError):
        raise outcome.not_posted
    if outcome.not_posted:
        text = escape(str(outcome.not_posted))
        err.print(f"[yellow]note:[/] {text}; the next run tries again")


def show_reasons(name: str, verdict: str, reasons: Sequence[dict[str, object]]) -> None:
    """Print a verdict with what was audited, and the checks that do not pass."""
    from clusterscale.release.checks.opened import OPEN_CELL

    style = VERDICT_STYLES[verdict]
    out.print(f"[{style}]{verdict}[/]  {escape(name)}", soft_wrap=True)
    cells = [reason for reason in reasons if reason["check"] == OPEN_CELL]
    for reason in [one for one in reasons if one not in cells[_MOST_CELLS:]]:
        if reason["level"] != "pass" or reason["check"] in ("scope", "reading"):
            check, text = escape(str(reason["check"])), escape(str(reason["text"]))
            level = "" if reason["level"] == "pass" else f"{reason['level']}: "
            out.print(f"      {level}{check}: {text}", soft_wrap=True)


def _show_problems(problems: Sequence[Problem]) -> None:
    for problem in problems:
        text = escape(clean(str(problem.error)))
        err.print(f"[bold red]{escape(problem.name)}:[/] {text}", soft_wrap=True)


def _end_with(problems: Sequence[Problem]) -> None:
    """End the command with the exit code of problems, if there are any."""
    if problems:
        if any(isinstance(problem.error, ClusterError | StoreError) for problem in problems):
            raise typer.Exit(TEMPORARY)
        raise typer.Exit(1 if all(problem.passing for problem in problems) else 2)
