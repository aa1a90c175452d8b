"""Audit a release before it is published, by the policy of re-audits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clusterscale import storage
from clusterscale.contracts import ConfigModel
from clusterscale.cube import TraceCube
from clusterscale.errors import RefusedError
from clusterscale.reauditing.catalogue import Catalogue, Problem
from clusterscale.reauditing.driver import Reaudit
from clusterscale.reauditing.ledger import Verdict
from clusterscale.reauditing.policy import ReauditPlan
from clusterscale.release.entry import ReleaseEntry
from clusterscale.study import Tell, prefixed
from clusterscale.study.execution import Executor

_MOST_REASONS = 8


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

        Parameters
        ----------
        entry
            The release, whose address only this process needs to read.
        cube
            The traces.
        output
            Folder of the audit, which is removed at the end.
        executor, memory
            Runs the tasks, and the bytes that a worker may use.
        tell
            Called with the progress.

        Raises
        ------
        RefusedError
            If the policy does not pass it; says why.
        ClusterscaleError
            If it cannot be audited.
        """
        try:
            work = Reaudit(self.plan, Catalogue((entry,), cube.uri, f"{output}/list.json"), output)
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
            raise RefusedError("\n".join([refusal, *_why(found.why)]))
        return found


def _why(reasons: Sequence[dict[str, Any]]) -> list[str]:
    """Return the reasons that do not pass, the worst first."""
    order = ["error", "fail", "warn"]
    found = [reason for reason in reasons if reason["level"] in order]
    found.sort(key=lambda reason: order.index(reason["level"]))
    return [f"{one['level']}: {one['check']}: {one['text']}" for one in found[:_MOST_REASONS]]
