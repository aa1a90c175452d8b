"""Score the published values: how well attacks on them distinguish users of known membership."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.audit.release_scoring import PublishedTask, list_published
from clusterscale.analyses.audit.targets import Presence
from clusterscale.analyses.audit.task import fold_play, play_whole
from clusterscale.contracts import Ints
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Range
from clusterscale.errors import FormatError, InputError
from clusterscale.game import ReleasePlacement
from clusterscale.groups.member_lists import find_listed
from clusterscale.metrics import auc, auc_interval
from clusterscale.reading.tables import read_frame
from clusterscale.reauditing.release_metrics import IntervalEstimate
from clusterscale.seeds import stream
from clusterscale.study import Stage
from clusterscale.study.execution import Finished

_WORDS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}


@dataclass(frozen=True, slots=True, eq=False)
class Membership:
    """Rows of users in the cube, increasing, int64, shape (user,): known inside, known outside."""

    inside: Ints
    outside: Ints

    def among(self, chosen: NDArray[np.bool_]) -> "Membership":
        """Return the users that are ``chosen``, bool, shape (user of the cube,)."""
        return Membership(self.inside[chosen[self.inside]], self.outside[chosen[self.outside]])

    def draw(self, most: int, seed: int) -> tuple[Ints, np.ndarray]:
        """Return up to ``most`` users, half of them inside, and their labels (True inside).

        Both have shape (user,), sorted by row; they are empty if one side is empty.
        """
        rng = stream(seed, "published targets")
        n_side = min(most // 2, len(self.inside), len(self.outside))
        sides = [rng.choice(side, n_side, replace=False) for side in (self.inside, self.outside)]
        users, labels = np.concatenate(sides), np.repeat([True, False], n_side)
        order = np.argsort(users)
        return users[order], labels[order]


NO_MEMBERS = Membership(np.zeros(0, np.int64), np.zeros(0, np.int64))
"""No user has a known membership."""


def read_members(content: bytes, uri: str, cube: TraceCube, group_size: int) -> Membership:
    """Read a table with columns ``user``, as the cube names them, and ``inside``.

    ``uri`` is for messages, which name no users. Raises FormatError if it is not such a table, or
    has other columns; and InputError if a user is listed twice or is not in the cube, if ``inside``
    is neither true nor false, or if more users are inside than the ``group_size`` that the release
    counts.
    """
    table = read_frame(content, uri)
    if sorted(map(str, table.columns)) != ["inside", "user"]:
        raise FormatError(f"{uri} must have the columns user and inside")
    words = table["inside"].astype(str).str.lower().map(_WORDS)
    if words.isna().any():
        raise InputError(f"{uri}: {int(words.isna().sum())} values of inside are not true or false")
    names = table["user"].astype(str).tolist()
    rows, labels = find_listed(cube, names, uri), words.to_numpy(bool)
    if labels.sum() > group_size:
        raise InputError(f"{uri}: {int(labels.sum())} users are inside a group of {group_size}")
    return Membership(np.sort(rows[labels]), np.sort(rows[~labels]))


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
            function=partial(fold_play, users=users) if users else play_whole,
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
