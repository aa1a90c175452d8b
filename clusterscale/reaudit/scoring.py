"""Score the published values: how well attacks on them distinguish members from others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from clusterscale.audit import AuditPlan
from clusterscale.audit.release_scoring import (
    PublishedTask,
    fold_published,
    list_published,
    score_published,
)
from clusterscale.audit.targets import Presence
from clusterscale.contracts import Executor, Finished
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Range
from clusterscale.game import ReleasePlacement
from clusterscale.metrics import auc, auc_interval
from clusterscale.reaudit.members import Membership
from clusterscale.reaudit.release_metrics import IntervalEstimate
from clusterscale.study import Progress, Tell

__all__ = ["Scored", "pool", "score"]

Scored = dict[tuple[str, str], dict[int, ReleasePlacement]]


def score(
    plan: AuditPlan,
    cube: TraceCube,
    members: Membership,
    executor: Executor,
    *,
    most: int,
    values: str,
    users: tuple[Range, ...],
    tell: Tell,
) -> tuple[Scored, dict[int, bool], int]:
    """Return placements of users with known membership, their labels, and the number of failures.

    Users without an event in the period are left out, unless the plan includes them.
    """
    if plan.targets.unseen == "exclude":
        members = members.among(Presence.of(cube, plan.periods).total > 0)
    rows, labels = members.draw(most, plan.seed)
    tasks = list(list_published(plan, cube, rows, plan.mechanisms[-1], values))
    scores, n_failed = Scored(), 0
    for n_done, finished in enumerate(_finish(executor, tasks, users), 1):
        if finished.value is None:
            n_failed += 1
        for placement in finished.value or ():
            (target, *_), prior = finished.item.key, finished.item.audit.prior.label
            scores.setdefault((prior, placement.attack), {})[target] = placement
        tell(Progress("published", len(tasks), n_done - n_failed, n_failed))
    return scores, dict(zip(rows.tolist(), labels.tolist(), strict=True)), n_failed


def _finish(
    executor: Executor, tasks: list[PublishedTask], users: tuple[Range, ...]
) -> Iterator[Finished[PublishedTask, list[ReleasePlacement]]]:
    if users:
        return executor.map_reductions(fold_published(task, users) for task in tasks)
    return chain.from_iterable(executor.map_batches(score_published, tasks))


def pool(scores: Scored, inside: dict[int, bool]) -> tuple[IntervalEstimate, str]:
    """Return the largest AUC over known users, with its interval, and the name of the attack.

    Scores are not comparable between targets, so ranks among the challenges of each target are
    used. The interval of the best of k attacks has a confidence of 1 − .05/k (Bonferroni).
    """
    best, label = IntervalEstimate(), ""
    for (prior, attack), placements in sorted(scores.items()):
        users = sorted(placements)
        labels = np.array([inside[user] for user in users])
        if labels.all() or not labels.any():
            continue
        ranks = np.array([placements[user].rank for user in users])
        value = auc(labels, ranks)
        if not best.known or value > best.value:
            confidence = 1 - 0.05 / len(scores)
            low, high = auc_interval(labels, ranks, confidence=confidence, scale="odds")
            best, label = IntervalEstimate(value, low, high), f"{attack} · {prior}"
    return best, label
