"""Audit one release: run the audit and screen, then score and check the published values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterscale.audit import AuditPlan, count_failed, plan_resources, run, screen
from clusterscale.consistency import CHECKS, PublishedTable, check_table
from clusterscale.contracts import Bounds, Counts
from clusterscale.cube import TraceCube
from clusterscale.errors import ConfigError
from clusterscale.reaudit.folder import ReleaseRecord, ReleaseStore
from clusterscale.reaudit.known_counts import count_known
from clusterscale.reaudit.members import Membership
from clusterscale.reaudit.resolved_release import Content, ResolvedRelease
from clusterscale.reaudit.scoring import pool, score
from clusterscale.screening import check as check_screen
from clusterscale.study import Progress, Tell
from clusterscale.study.execution import Executor

__all__ = ["AuditSpec", "audit_release", "make_table"]


@dataclass(frozen=True, slots=True)
class AuditSpec:
    """Settings of the audit of a release.

    Attributes
    ----------
    plan
        The audit.
    everyone
        Whether all users are screened too.
    n_published
        Number of users with known membership on which attacks on the published values are scored.
    """

    plan: AuditPlan
    everyone: bool
    n_published: int


def audit_release(
    listed: ResolvedRelease,
    content: Content,
    members: Membership,
    cube: TraceCube,
    question: AuditSpec,
    folder: ReleaseStore,
    executor: Executor,
    *,
    memory: int,
    tell: Tell,
) -> ReleaseRecord:
    """Run the audit and screen, score and check the values; a repeated call resumes.

    Parameters
    ----------
    listed, content, members
        The release, and the users with known membership.
    cube
        The traces that it counts.
    question
        Settings of the audit.
    folder
        Folder of the results.
    executor, memory
        Runs the tasks, and the bytes that a worker may use; neither changes a result.
    tell
        Called with the progress.

    Raises
    ------
    ClusterscaleError
        If the plan or the release does not fit the cube, or the cluster fails.
    """
    plan = question.plan
    plan.check(cube)
    folder.lay(content, members.inside)

    results = run(plan, cube, folder.uri, executor, memory=memory, on_progress=tell)
    if question.everyone:
        _screen(plan, cube, folder, executor, memory, tell)
    users = plan_resources(plan, cube, memory, executor.n_workers).users
    most, values = question.n_published, folder.tables
    scores, inside, n_lost = score(
        plan, cube, members, executor, most=most, values=values, users=users, tell=tell
    )
    published, attack = pool(scores, inside)
    (evaluation,) = plan.evaluations(cube)
    steps = listed.mechanism.trace_steps
    parts = users or ((0, cube.n_users),)
    known = count_known(evaluation.source, steps, parts, folder.tables, executor)
    complete = len(members.inside) == listed.group_size and not steps
    table = make_table(listed, content, known.bounds, known.counts(complete=complete))
    alone = [check for check in map(CHECKS.create, CHECKS) if not check.compares]
    tell(Progress("consistency", len(alone)))
    findings = tuple(check_table(table, [], alone, seed=plan.seed))
    n_failed = count_failed(results) + n_lost
    record = ReleaseRecord(
        listed, cube.fingerprint, n_failed, published, attack, findings, known.bounds
    )
    if not n_failed:
        folder.keep(record)
    return record


def _screen(
    plan: AuditPlan,
    cube: TraceCube,
    folder: ReleaseStore,
    executor: Executor,
    memory: int,
    tell: Tell,
) -> None:
    """Screen all users, unless the mechanism cannot be screened."""
    try:
        check_screen(plan.whole_screen, cube)
    except ConfigError:
        return

    screen(plan, cube, folder.uri, executor, memory=memory, on_progress=tell)


def make_table(
    listed: ResolvedRelease, content: Content, bounds: Bounds, counts: Counts | None = None
) -> PublishedTable:
    """Return a release as input of consistency checks; ``counts`` is None if no count is known."""
    unknown = np.full(content.values.shape, -1, np.int32) if counts is None else counts
    return PublishedTable(
        name=listed.name,
        values=content.values,
        group_size=listed.group_size,
        mechanism=listed.mechanism.bind(bounds),
        first_epoch=listed.first,
        counts=unknown,
        roi_totals=content.totals.roi,
        epoch_totals=content.totals.epoch,
    )
