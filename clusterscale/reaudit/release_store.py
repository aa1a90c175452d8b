"""One release audited: the game, everyone screened, the values themselves scored and checked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterscale.audit import AuditPlan, count_failed, plan_resources, run, screen
from clusterscale.consistency import CHECKS, PublishedTable, check_table
from clusterscale.contracts import Bounds, Counts, Executor
from clusterscale.cube import TraceCube
from clusterscale.errors import ConfigError
from clusterscale.reaudit.folder import ReleaseRecord, ReleaseStore
from clusterscale.reaudit.known_counts import count_known
from clusterscale.reaudit.members import Membership
from clusterscale.reaudit.resolved_release import Content, ResolvedRelease
from clusterscale.reaudit.scoring import pool, score
from clusterscale.screening import check as check_screen
from clusterscale.study import Progress, Tell

__all__ = ["AuditSpec", "audit_release", "make_table"]


@dataclass(frozen=True, slots=True)
class AuditSpec:
    """What is asked of a release.

    Attributes
    ----------
    plan
        The audit.
    everyone
        Is everyone screened too?
    n_published
        How many of those of whom it is known are asked for in the values themselves.
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
    """Play the game, screen everyone, score the values and check them; goes on where it was left.

    Parameters
    ----------
    listed, content, members
        What was released, and what is known of whom.
    cube
        Whose traces it counts.
    question
        What is asked.
    folder
        Where all is kept.
    executor, memory
        Where the work is done, and the bytes that a worker may use; neither changes a result.
    tell
        Told how far it is.

    Raises
    ------
    ClusterscaleError
        If the cube cannot answer, the release does not fit it, or the cluster cannot do the work.
    """
    plan = question.plan
    plan.check(cube)
    folder.lay(content, members.inside)

    results = run(plan, cube, folder.uri, executor, memory=memory, on_progress=tell)
    if question.everyone:
        _screen(plan, cube, folder, executor, memory, tell)
    users = plan_resources(plan, cube, memory, executor.n_workers).users
    most, values = question.n_published, folder.tables
    scored, inside, n_lost = score(
        plan, cube, members, executor, most=most, values=values, users=users, tell=tell
    )
    published, attack = pool(scored, inside)
    (price,) = plan.prices(cube)
    steps = listed.mechanism.trace_steps
    parts = users or ((0, cube.n_users),)
    known = count_known(price.source, steps, parts, folder.tables, executor)
    complete = len(members.inside) == listed.group_size and not steps
    table = make_table(listed, content, known.bounds, known.counts(complete=complete))
    alone = [check for check in map(CHECKS.create, CHECKS) if not check.compares]
    tell(Progress("consistency", len(alone)))
    findings = tuple(check_table(table, [], alone, seed=plan.seed))
    n_failed = count_failed(results) + n_lost
    facts = ReleaseRecord(
        listed, cube.fingerprint, n_failed, published, attack, findings, known.bounds
    )
    if not n_failed:
        folder.keep(facts)
    return facts


def _screen(
    plan: AuditPlan,
    cube: TraceCube,
    folder: ReleaseStore,
    executor: Executor,
    memory: int,
    tell: Tell,
) -> None:
    """Screen everyone, where the mechanism lets that be done."""
    try:
        check_screen(plan.whole_screen, cube)
    except ConfigError:
        return

    screen(plan, cube, folder.uri, executor, memory=memory, on_progress=tell)


def make_table(
    listed: ResolvedRelease, content: Content, bounds: Bounds, counts: Counts | None = None
) -> PublishedTable:
    """Return a release as the checks of consistency take it; no count is known where None."""
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
