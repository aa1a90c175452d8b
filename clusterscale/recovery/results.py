"""The results of a recovery at rest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clusterscale.contracts import names_of
from clusterscale.cube import TraceCube
from clusterscale.cube.provenance import describe_origin
from clusterscale.recovery.errors import one_minus_f1, privacy_gain, privacy_loss
from clusterscale.recovery.estimates import DECISION_RULES
from clusterscale.recovery.plan import RecoveryPlan
from clusterscale.recovery.task import ALONE, Recovered
from clusterscale.schema import RECOVERY, RECOVERY_FORMAT
from clusterscale.storage.result_table import TableStore, create_table, open_table

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["RecoveryStore", "open_recovery"]

_USERS = 1 << 16  # of a chunk
_BARE = 0  # the place of bare counts among mechanisms


class RecoveryStore(TableStore):
    """A recovery that is being written, case by case: a mechanism and a prior each."""

    def __init__(self, uri: str, plan: RecoveryPlan, cube: TraceCube) -> None:
        super().__init__(uri, RECOVERY_FORMAT, partial(_create, plan=plan, cube=cube))
        self._plan = plan

    def add(self, mechanism: int, prior: int, found: Recovered, name: str) -> None:
        """Keep what was found of a mechanism and prior; only then say so, under ``name``."""
        place = mechanism, prior
        profiling = found.distance / self._plan.epochs
        self.array("profiling_error")[place] = profiling
        self.array("profiling_loss")[place] = privacy_loss(profiling[0], profiling)
        localization = one_minus_f1(found.hits, found.told, found.true[:, None])
        self.array("localization_error")[place] = localization
        self.array("localization_loss")[place] = privacy_loss(localization[0], localization)
        self.array("profiling_error_of_epoch")[place] = found.by_epoch[:, 0]
        self.array("localization_error_of_epoch")[place] = found.by_epoch[:, 1:]
        self.mark_done(name)

    def add_error(self, mechanism: int, relative_error: float) -> None:
        """Keep the mean relative error of what a mechanism publishes."""
        self.array("relative_error")[mechanism] = relative_error

    def finish(self) -> None:
        """Tell gains against bare counts, and say that all is there."""
        for kind in ("profiling", "localization"):
            errors, gains = self.array(f"{kind}_error"), self.array(f"{kind}_gain")
            for mechanism in range(errors.shape[0]):
                for prior in range(errors.shape[1]):
                    gains[mechanism, prior] = privacy_gain(
                        np.asarray(errors[_BARE, prior]), np.asarray(errors[mechanism, prior])
                    )
        super().finish()


def open_recovery(uri: str | Path) -> xr.Dataset:
    """Open the results of a finished recovery, lazily.

    Parameters
    ----------
    uri
        Folder of the run, of its recovery, or the store itself.

    Raises
    ------
    MissingError
        If there is none, or it has not finished.
    FormatError
        If what is there are not the results of a recovery.
    """
    return open_table(uri, "recovery", RECOVERY_FORMAT, RECOVERY)


def _create(uri: str, plan: RecoveryPlan, cube: TraceCube) -> None:
    strategies = {
        name: [*ALONE, *values] for name, values in names_of("strategy", plan.strategies).items()
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
