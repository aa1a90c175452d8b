"""Score the published release on users whose membership is known."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np

from clusterscale.analyses.audit.plan import AuditPlan
from clusterscale.analyses.audit.targets import Chosen
from clusterscale.analyses.audit.task import AuditTask, Games, Key
from clusterscale.contracts import Ints, Mechanism, Values
from clusterscale.cube import TraceCube
from clusterscale.game import AttackEvaluation, ReleasePlacement
from clusterscale.storage import open_group

VALUES = "values"
"""Name of the Zarr array with the published values, float64, (roi, epoch)."""


@dataclass(frozen=True, slots=True)
class PublishedTask:
    """A task of an audit under the declared mechanism, and the URI of the published values."""

    audit: AuditTask
    uri: str

    @property
    def key(self) -> Key:
        """The key of the task of the audit."""
        return self.audit.key

    def play(self, games: Games) -> list[ReleasePlacement]:
        """Train on the groups of the audit and score the release itself.

        Raises
        ------
        InputError
            If the release does not have the shape that the mechanism publishes of this cube.
        """
        ((game, bounds),), (mechanism,) = games(), self.audit.mechanisms
        evaluation = AttackEvaluation(
            game,
            mechanism,
            self.audit.attacks,
            seed=self.audit.source.seed,
            path=self.audit.path,
            bounds=bounds,
            control=False,
            retrain=False,
        )
        return evaluation.score_release(_read(self.uri))


def list_published(
    plan: AuditPlan, cube: TraceCube, users: Ints, mechanism: Mechanism, uri: str
) -> Iterator[PublishedTask]:
    """Yield a task for each of ``users``, prior, period and group size of ``plan``.

    The adversary trains on the same groups as in the audit of the target.
    """
    for task in plan.tasks(cube, Chosen(users)):
        yield PublishedTask(task.alone(mechanism), uri)


@lru_cache(maxsize=2)
def _read(uri: str) -> Values:
    values = np.asarray(open_group(uri)[VALUES][:], np.float64)
    return cast(Values, np.nan_to_num(values, nan=0.0))  # redacted cells carry no information
