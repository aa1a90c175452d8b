"""Audit a release before it is published, by the policy of re-audits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from clusterscale import storage
from clusterscale.consistency import NamedRelease, check_together, create_checks
from clusterscale.contracts import ConfigModel
from clusterscale.cube import TraceCube
from clusterscale.errors import RefusedError
from clusterscale.reaudit import Catalogue, Problem, Reaudit, ReauditPlan, ReleaseEntry, Verdict
from clusterscale.study import Tell, prefixed
from clusterscale.study.execution import Executor
from clusterscale.tables import RawRelease, read_table

__all__ = ["Gate", "compare_series", "evaluate"]

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
    gate: Gate,
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
    gate
        Audit and policy.
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
        return _evaluate(gate, entry, cube, output, executor, memory, tell)
    finally:
        storage.remove(output)  # it has values that may not be published, and traces


def _evaluate(
    gate: Gate,
    entry: ReleaseEntry,
    cube: TraceCube,
    output: str,
    executor: Executor,
    memory: int,
    tell: Tell,
) -> Verdict:
    catalogue = Catalogue((entry,), cube.uri, f"{output}/catalogue.json")
    work = Reaudit(gate.plan, catalogue, output)
    for problem in work.problems:
        raise problem.error
    (pending,) = work.pending()
    found = work.evaluate(pending, executor, memory=memory, tell=prefixed(tell, "gate"))
    if isinstance(found, Problem):
        raise found.error
    passed = ("pass", "warn") if gate.allow_warnings else ("pass",)
    if found.verdict not in passed:
        raise RefusedError(
            "\n".join([f"the policy does not pass this release: {found.verdict}", *_why(found.why)])
        )
    return found


def compare_series(release: RawRelease, size: int, earlier: Sequence[str], *, strict: bool) -> str:
    """Compare a release that is not published yet with the earlier ones of its series.

    Parameters
    ----------
    release
        The release.
    size
        Number of people whom it counts.
    earlier
        Addresses of the earlier releases.
    strict
        Whether a release with a comparison that cannot be decided is refused, too.

    Returns
    -------
    str
        Why a comparison cannot be decided; empty if all can.

    Raises
    ------
    RefusedError
        If the difference of two releases describes few people, or noise was reused.
    """
    about = release.metadata.model_copy(update={"group_size": size})
    new = NamedRelease("the new release", replace(release, metadata=about))
    old = [NamedRelease(uri.rpartition("/")[2], read_table(uri)) for uri in earlier]
    start, stop = _span(release)
    old = [one for one in old if (span := _span(one.release))[0] < stop and start < span[1]]
    if not old:
        return ""
    (found,) = check_together([new], old, create_checks(compares=True))
    if found.verdict == "fail" or (strict and found.omitted):
        wrong = [one.text for one in found.results if one.level == "inconsistent"]
        raise RefusedError(
            "\n".join(["the release does not fit its series:", *(wrong or [found.omitted])])
        )
    return found.omitted


def _span(release: RawRelease) -> tuple[int, int]:
    entry = release.metadata.ledger
    assert entry is not None  # of a release of a series
    return entry.start, entry.stop


def _why(reasons: Sequence[dict[str, Any]]) -> list[str]:
    """Return the reasons that do not pass, the worst first."""
    order = ["error", "fail", "warn"]
    found = [reason for reason in reasons if reason["level"] in order]
    found.sort(key=lambda reason: order.index(reason["level"]))
    return [f"{one['level']}: {one['check']}: {one['text']}" for one in found[:_MOST_REASONS]]
