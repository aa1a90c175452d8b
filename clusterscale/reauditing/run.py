"""One run of a re-audit: evaluate all new releases, write the pages, announce the verdicts."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from clusterscale import storage
from clusterscale.errors import ClusterscaleError
from clusterscale.reauditing.catalogue import Problem
from clusterscale.reauditing.driver import Reaudit
from clusterscale.reauditing.ledger import Verdict
from clusterscale.reauditing.notify import Announcement, post_new, summary
from clusterscale.redaction import clean
from clusterscale.storage.lease import Lease
from clusterscale.study import Tell, prefixed
from clusterscale.study.execution import MEMORY, Executor

OpenExecutor = Callable[[bool], AbstractContextManager[tuple[Executor, Tell]]]
"""Opens the executor, with a callback for progress; the argument is whether tasks will run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run has added.

    Attributes
    ----------
    verdicts, problems
        New verdicts, and the releases that have none.
    n_releases
        Number of releases of the catalogue without a problem of listing.
    page
        URI of the trend page, empty if nothing was new.
    not_posted
        Why the verdicts were not posted to the webhook; None if they were, or there is none.
    """

    verdicts: list[Verdict]
    problems: list[Problem]
    n_releases: int
    page: str
    not_posted: ClusterscaleError | None


def audit_new(
    scan: Callable[[], Reaudit],
    output: str,
    open_executor: OpenExecutor,
    *,
    memory: int = MEMORY,
    announcement: Announcement | None = None,
    write_page: Callable[[str], None] = lambda run: None,
    on_verdict: Callable[[str, Verdict], None] = lambda name, verdict: None,
) -> Outcome:
    """Evaluate the releases of a catalogue that have no verdict, as the only process that does.

    Parameters
    ----------
    scan
        Returns the re-audit; called when no other process works on ``output``.
    output
        Folder of the ledger, a local path or fsspec URL.
    open_executor
        Called if a release has no verdict.
    memory
        Bytes that a worker may use.
    announcement
        Where the verdicts go, besides the ledger and ``summary.json`` and ``trend.html`` beside it.
    write_page
        Writes the report of a run that has none, to which the trend page links.
    on_verdict
        Called with each new verdict and the name and number of its release.

    Returns
    -------
    Outcome
        New verdicts and problems, and the location of the trend page.

    Raises
    ------
    LeaseHeldError
        If another process is at work.
    ClusterscaleError
        If the cluster or a store fails, or the process loses its lease; finished work is kept.
    """
    with Lease(f"{output.rstrip('/')}/lease") as lease:
        work = scan()
        pending, verdicts, problems = work.pending(), list[Verdict](), list(work.problems)
        if pending:
            with open_executor(not all(map(work.is_audited, pending))) as (executor, tell):
                for number, item in enumerate(pending, 1):
                    name = item.release.name
                    result = work.evaluate(
                        item, executor, memory=memory, check=lease.check, tell=prefixed(tell, name)
                    )
                    if isinstance(result, Problem):
                        problems.append(result)
                        continue
                    verdicts.append(result)
                    on_verdict(f"{name} ({number} of {len(pending)})", result)
        page, announcement = "", announcement or Announcement()
        if verdicts or problems:
            text = json.dumps(summary(verdicts, problems), indent=1).encode()
            page = _write_pages(work, problems, text, write_page)
        announcement.write(verdicts, problems)
        webhook = announcement.webhook
        not_posted = post_new(webhook, work.ledger) if webhook else None
        return Outcome(verdicts, problems, len(work.releases), page, not_posted)


def _write_pages(
    work: Reaudit, problems: list[Problem], text: bytes, write_page: Callable[[str], None]
) -> str:
    """Write the summary, the missing reports, and the trend page, whose URI is returned."""
    from clusterscale.reporting import write_trend

    for run in dict.fromkeys(f"{work.output}/{row.run}" for row in work.ledger.rows):
        if not storage.exists(f"{run}/report.html"):
            write_page(run)
    storage.put(f"{work.output}/summary.json", text)
    failed = {problem.name: clean(str(problem.error)) for problem in problems}
    return write_trend(work.ledger.table(), f"{work.output}/trend.html", errors=failed)
