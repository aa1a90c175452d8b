"""Stored results of a recovery."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from clusterscale.analyses.recovery.errors import one_minus_f1, privacy_gain, privacy_loss
from clusterscale.analyses.recovery.estimates import DECISION_RULES
from clusterscale.analyses.recovery.plan import RecoveryPlan
from clusterscale.analyses.recovery.task import BASELINES, Recovered
from clusterscale.contracts import names_of
from clusterscale.cube import TraceCube
from clusterscale.cube.describe import describe_origin
from clusterscale.schema import RECOVERY_FORMAT, Variable, name_variables
from clusterscale.storage.result_table import TableStore, create_table

if TYPE_CHECKING:
    pass


_USERS = 1 << 16  # users per chunk
_RAW = 0  # index of raw counts among mechanisms


_RECOVERED = ("mechanism", "prior", "strategy")

RECOVERY: Mapping[str, Variable] = {
    "user": Variable(("user",), "iu", "1", "index of the user in the cube"),
    "n_events": Variable(("user",), "iu", "1", "events of the user in the whole cube"),
    "mechanism": Variable(("mechanism",), "OUT", "", "how counts were published"),
    **name_variables("mechanism"),
    "prior": Variable(("prior",), "OUT", "", "what the adversary knows about everyone"),
    **name_variables("prior"),
    "strategy": Variable(
        ("strategy",), "OUT", "", "how prior and release are combined; or either of them alone"
    ),
    **name_variables("strategy"),
    "reading": Variable(
        ("reading",), "OUT", "", "which ROIs are predicted from shares: popular ones, or every one"
    ),
    "epoch": Variable(("epoch",), "iu", "1", "epoch of the cube"),
    "profiling_error": Variable(
        (*_RECOVERED, "user"), "f", "1", "mean Jensen–Shannon distance of profiles over epochs"
    ),
    "profiling_loss": Variable(
        (*_RECOVERED, "user"), "f", "1", "share of the prior's profiling error that is removed"
    ),
    "profiling_gain": Variable(
        (*_RECOVERED, "user"), "f", "1", "share of the possible increase that a defence adds"
    ),
    "localization_error": Variable(
        (*_RECOVERED, "reading", "user"), "f", "1", "1 - F1 of the predicted ROIs"
    ),
    "localization_loss": Variable(
        (*_RECOVERED, "reading", "user"), "f", "1", "share of the prior's error that is removed"
    ),
    "localization_gain": Variable(
        (*_RECOVERED, "reading", "user"), "f", "1", "share of the possible increase that is added"
    ),
    "profiling_error_of_epoch": Variable(
        (*_RECOVERED, "epoch"), "f", "1", "profiling error of an epoch, mean over users"
    ),
    "localization_error_of_epoch": Variable(
        (*_RECOVERED, "reading", "epoch"), "f", "1", "1 - F1 of all users' ROIs in an epoch"
    ),
    "relative_error": Variable(
        ("mechanism",), "f", "1", "mean relative error of the published values, floor 0.1 %"
    ),
}
"""Variables and coordinates of the dataset of a recovery."""


class RecoveryStore(TableStore):
    """Writes a recovery case by case: one mechanism and one prior each."""

    def __init__(self, uri: str, plan: RecoveryPlan, cube: TraceCube) -> None:
        super().__init__(uri, RECOVERY_FORMAT, partial(_create, plan=plan, cube=cube))
        self._plan = plan

    def add(self, mechanism: int, prior: int, sums: Recovered, name: str) -> None:
        """Write the errors of a mechanism and prior, then mark ``name`` as done."""
        at = mechanism, prior
        profiling = sums.distance / self._plan.epochs
        self.array("profiling_error")[at] = profiling
        self.array("profiling_loss")[at] = privacy_loss(profiling[0], profiling)
        localization = one_minus_f1(sums.hits, sums.predicted, sums.true[:, None])
        self.array("localization_error")[at] = localization
        self.array("localization_loss")[at] = privacy_loss(localization[0], localization)
        self.array("profiling_error_of_epoch")[at] = sums.by_epoch[:, 0]
        self.array("localization_error_of_epoch")[at] = sums.by_epoch[:, 1:]
        self.mark_done(name)

    def add_error(self, mechanism: int, relative_error: float) -> None:
        """Write the mean relative error of a mechanism's release."""
        self.array("relative_error")[mechanism] = relative_error

    def finish(self) -> None:
        """Write the gains relative to raw counts, and mark the recovery as complete."""
        for kind in ("profiling", "localization"):
            errors, gains = self.array(f"{kind}_error"), self.array(f"{kind}_gain")
            for mechanism in range(errors.shape[0]):
                for prior in range(errors.shape[1]):
                    gains[mechanism, prior] = privacy_gain(
                        np.asarray(errors[_RAW, prior]), np.asarray(errors[mechanism, prior])
                    )
        super().finish()


def _create(uri: str, plan: RecoveryPlan, cube: TraceCube) -> None:
    strategies = {
        name: [*BASELINES, *values]
        for name, values in names_of("strategy", plan.strategies).items()
    }
    columns: dict[str, Sequence[Any]] = {
        "user": range(cube.n_users),
        "n_events": np.diff(cube.offsets),  # type: ignore[dict-item]
        **names_of("mechanism", plan.published),
        **names_of("prior", plan.priors),
        **strategies,
        "reading": DECISION_RULES,
        "epoch": range(*plan.inferred),
    }
    chunks = {
        "user": _USERS,
        "strategy": len(strategies["strategy"]),
        "reading": len(DECISION_RULES),
        "epoch": plan.epochs,
    }
    attributes = {
        "format": RECOVERY_FORMAT,
        "complete": False,
        "plan": json.dumps(plan.describe()),
        "plan_digest": plan.digest,
        "seed": plan.seed,
        **describe_origin(cube, null_roi=True),
    }
    create_table(uri, RECOVERY, columns, chunks, attributes)
