"""Score the published values: how well attacks on them distinguish members from others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.audit.release_scoring import (
    PublishedTask,
    fold_published,
    list_published,
    score_published,
)
from clusterscale.analyses.audit.targets import Presence
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Range
from clusterscale.game import ReleasePlacement
from clusterscale.metrics import auc, auc_interval
from clusterscale.reauditing.members import Membership
from clusterscale.reauditing.metric_types import IntervalEstimate
from clusterscale.study import Stage
from clusterscale.study.execution import Finished

Placements = dict[tuple[str, str], dict[int, ReleasePlacement]]


class PublishedScores:
    """Placements of the published values, for users with known membership.

    Up to ``n_most`` of the ``members`` are scored on the values in the Zarr group ``uri``; users
    without an event in the period are left out, unless the plan includes them. ``labels`` says
    whether each scored user is inside, ``placements`` are by prior, attack and user, and
    ``n_failed`` is the number of failed tasks.
    """

    def __init__(
        self, plan: AuditPlan, cube: TraceCube, members: Membership, n_most: int, uri: str
    ) -> None:
        if plan.targets.unseen == "exclude":
            members = members.among(Presence.of(cube, plan.periods).total > 0)
        users, labels = members.draw(n_most, plan.seed)
        self.labels: dict[int, bool] = dict(zip(users.tolist(), labels.tolist(), strict=True))
        self.placements: Placements = {}
        self.n_failed = 0
        self._tasks = list(list_published(plan, cube, users, plan.mechanisms[-1], uri))

    def stage(self, users: tuple[Range, ...]) -> Stage[PublishedTask, list[ReleasePlacement]]:
        """Return the stage of all tasks, by parts of the users if there are any."""
        return Stage(
            name="published",
            function=partial(fold_published, users=users) if users else score_published,
            tasks=self._tasks,
            keep=self._add,
            n_tasks=len(self._tasks),
            by_parts=bool(users),
            keeps_errors=True,
        )

    def _add(self, batch: Sequence[Finished[PublishedTask, list[ReleasePlacement]]]) -> None:
        for finished in batch:
            self.n_failed += finished.error is not None
            for placement in finished.value or ():
                (target, *_), prior = finished.item.key, finished.item.audit.prior.label
                self.placements.setdefault((prior, placement.attack), {})[target] = placement


def pool(scores: Placements, inside: dict[int, bool]) -> tuple[IntervalEstimate, str]:
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
