"""Runs of a re-audit: of all new releases, and of one before it is published."""

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from clusterscale import storage
from clusterscale.contracts import ConfigModel
from clusterscale.cube import TraceCube
from clusterscale.errors import ClusterscaleError, RefusedError
from clusterscale.phrases import option
from clusterscale.reauditing.catalogue import Catalogue, Problem
from clusterscale.reauditing.driver import Reaudit
from clusterscale.reauditing.notify import Announcement, post_new, summary
from clusterscale.reauditing.policy import ReauditPlan
from clusterscale.redaction import clean
from clusterscale.release.entry import ReleaseEntry
from clusterscale.release.verdict import Verdict
from clusterscale.storage.lease import Lease
from clusterscale.study import Tell, prefixed
from clusterscale.study.execution import MEMORY, Executor

OpenExecutor = Callable[[bool], AbstractContextManager[tuple[Executor, Tell]]]
"""Opens the executor, with a callback for progress; the argument is whether tasks will run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """New verdicts of a run, and the releases that have none.

    ``n_releases`` are those of the catalogue without a problem of listing; ``page`` is the URI of
    the trend page, empty if nothing was new; ``not_posted`` why the verdicts were not posted to the
    webhook, None if they were, or there is none.
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

    ``scan`` returns the re-audit, and is called when no other process works on ``output``, the
    folder of the ledger; ``open_executor`` is called if a release has no verdict. Verdicts go to
    the ledger, to ``summary.json`` and ``trend.html`` beside it, and to the ``announcement``;
    ``write_page`` writes the report of a run that has none, to which the trend page links;
    ``on_verdict`` is called with the name and number of a release and its new verdict. Raises
    LeaseHeldError if another process is at work, and ClusterscaleError if the cluster or a store
    fails, or the process loses its lease; finished work is kept.
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
    from clusterscale.reporting import render_trend
    from clusterscale.reporting import write_page as write_html

    for run in dict.fromkeys(f"{work.output}/{row.run}" for row in work.ledger.rows):
        if not storage.exists(f"{run}/report.html"):
            write_page(run)
    storage.put(f"{work.output}/summary.json", text)
    failed = {problem.name: clean(str(problem.error)) for problem in problems}
    trend = render_trend(work.ledger.rows, errors=failed)
    return write_html(trend, f"{work.output}/trend.html")


class Gate(ConfigModel):
    """The audit and the policy that a release must pass before it is published.

    Attributes
    ----------
    plan
        Audit and policy, as of re-audits, e.g. ``{audit: {targets: {random: 9}, priors: [{name:
        perfect}], attacks: [{name: projection}]}}``.
    allow_warnings
        Whether a release with the verdict ``warn`` is published.
    """

    plan: ReauditPlan
    allow_warnings: bool = False

    def evaluate(
        self,
        entry: ReleaseEntry,
        cube: TraceCube,
        output: str,
        executor: Executor,
        *,
        memory: int,
        tell: Tell,
    ) -> Verdict:
        """Audit a release that is not published yet, and return its verdict.

        Only this process needs to read the address of ``entry``; the folder ``output`` is removed
        at the end. Raises RefusedError, with reasons, if the policy does not pass it, and
        ClusterscaleError if it cannot be audited.
        """
        plan = self.plan.model_copy(update={"together": None})  # there is no other release
        try:
            work = Reaudit(plan, Catalogue((entry,), cube.uri, f"{output}/list.json"), output)
            for problem in work.problems:
                raise problem.error
            (pending,) = work.pending()
            found = work.evaluate(pending, executor, memory=memory, tell=prefixed(tell, "gate"))
        finally:
            storage.remove(output)  # it has values that may not be published, and traces
        if isinstance(found, Problem):
            raise found.error
        if found.verdict not in (("pass", "warn") if self.allow_warnings else ("pass",)):
            refusal = f"the policy does not pass this release: {found.verdict}"
            if found.verdict == "warn":
                refusal += f"; {option('allow_warnings', 'True')} publishes with warnings"
            raise RefusedError("\n".join([refusal, *_why(found.why)]))
        return found


def _why(reasons: Sequence[dict[str, Any]]) -> list[str]:
    """Return the reasons that do not pass, the worst first."""
    order = ["error", "fail", "warn"]
    found = [reason for reason in reasons if reason["level"] in order]
    found.sort(key=lambda reason: order.index(reason["level"]))
    return [f"{one['level']}: {one['check']}: {one['text']}" for one in found[:8]]
