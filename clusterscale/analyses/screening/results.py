"""Stored results of a screen: one row per user."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from clusterscale import storage
from clusterscale.analyses.screening.plan import Screen
from clusterscale.analyses.screening.resources import part_size
from clusterscale.analyses.screening.scoring import CONFIDENCE, STATISTICS, Scored
from clusterscale.contracts import ConfigModel, names_of
from clusterscale.cube import TraceCube
from clusterscale.cube.describe import count_events, describe_origin
from clusterscale.schema import SCREEN_FORMAT, Variable, name_variables
from clusterscale.storage.result_table import TableStore, create_table

if TYPE_CHECKING:
    import xarray as xr


_SCREENED = ("user", "period", "group_size", "mechanism", "attack")

SCREEN: Mapping[str, Variable] = {
    "user": Variable(("user",), "iu", "1", "index of the user in the cube"),
    "n_events": Variable(("user", "period"), "iu", "1", "events of the user in the period"),
    "period": Variable(("period",), "OUT", "", "epochs of the release"),
    "n_seen": Variable(("period",), "iu", "1", "users of the cube with an event in the period"),
    "group_size": Variable(("group_size",), "iu", "1", "members in each group"),
    "mechanism": Variable(("mechanism",), "OUT", "", "how counts were published"),
    **name_variables("mechanism"),
    "attack": Variable(("attack",), "OUT", "", "how the adversary decides"),
    **name_variables("attack"),
    "n_groups": Variable(
        ("user", "period", "group_size"), "iu", "1", "groups compared, those without the user"
    ),
    "auc": Variable(_SCREENED, "f", "1", "area under the ROC curve over pairs of groups"),
    "auc_low": Variable(_SCREENED, "f", "1", "lower end of the interval of auc"),
    "auc_high": Variable(_SCREENED, "f", "1", "upper end of the interval of auc"),
    "privacy_loss": Variable(_SCREENED, "f", "1", "max(0, 2 auc - 1)"),
    "score_gap": Variable(
        _SCREENED, "f", "1", "mean score with the user minus without, in standard deviations"
    ),
}
"""Variables and coordinates of the dataset of a screen."""


class ScreenStore(TableStore):
    """Writes a screen block by block; ``groups-….zarr`` holds counted groups."""

    def __init__(self, uri: str, screen: Screen, cube: TraceCube) -> None:
        super().__init__(uri, SCREEN_FORMAT, partial(_create, screen=screen, cube=cube))

    def groups(self, index: int) -> str:
        """Return the URI of the counted groups of a setting."""
        return f"{self.uri}/groups-{index}.zarr"

    def add(
        self,
        scored: Scored,
        start: int,
        position: tuple[int, int],
        mechanisms: Sequence[int],
        names: list[str],
    ) -> None:
        """Write the results of a block, then mark ``names`` as done.

        ``position``: index of the period and of the group size.
        """
        period, size = position
        users = slice(start, start + len(scored.n_groups))
        self.array("n_groups")[users, period, size] = scored.n_groups
        for i, mechanism in enumerate(mechanisms):
            statistics = dict(zip(STATISTICS, scored.numbers[:, :, i], strict=True))
            statistics["privacy_loss"] = np.maximum(2 * statistics["auc"] - 1, 0)
            for name, values in statistics.items():
                self.array(name)[users, period, size, mechanism] = values
        for name in names:
            self.mark_done(name)

    def finish(self) -> None:
        """Mark the screen as complete, and remove the counted groups."""
        super().finish()
        for name in storage.list_names(self.uri):
            if name.startswith("groups-"):
                storage.remove(f"{self.uri}/{name}")


def is_counted(screened: xr.Dataset) -> xr.DataArray:
    """Return in which periods each user of a screen counts in its statistics.

    Users without an event in a period have nothing to expose, and count only if the plan has
    ``unseen: include``. People who are simulated to complete a population never count.

    Parameters
    ----------
    screened
        Dataset of a screen, conforming to :data:`SCREEN`.

    Returns
    -------
    xr.DataArray
        bool, (user, period).
    """
    includes = json.loads(screened.attrs["plan"]).get("unseen") == "include"
    least = 0 if includes else 1
    n_known = json.loads(screened.attrs.get("cube", "{}")).get("n_known", np.inf)
    seen = screened["n_events"].transpose("user", "period") >= least
    counted: xr.DataArray = seen & (screened["user"] < n_known)
    return counted


def _create(uri: str, screen: Screen, cube: TraceCube) -> None:
    n_events = count_events(cube, tuple(span for _, span in screen.periods))[:-1]
    columns: dict[str, Sequence[Any]] = {
        "period": [name for name, _ in screen.periods],
        "group_size": screen.group_sizes,
        **names_of("mechanism", screen.mechanisms),
        **names_of("attack", screen.plan.attacks),
        "user": range(cube.n_users),
        "n_events": n_events.T,  # type: ignore[dict-item]
        "n_seen": (n_events[:, : cube.n_known] > 0).sum(axis=1).tolist(),
    }
    create_table(
        uri,
        SCREEN,
        columns,
        {"user": part_size(cube, screen.mechanisms), "attack": len(screen.plan.attacks)},
        {
            "format": SCREEN_FORMAT,
            "complete": False,
            "plan": json.dumps(screen.describe()),
            "plan_digest": screen.digest,
            "mechanisms": json.dumps(
                [
                    mechanism.model_dump(mode="json")
                    for mechanism in screen.mechanisms
                    if isinstance(mechanism, ConfigModel)
                ]
            ),
            "seed": screen.seed,
            "confidence": CONFIDENCE,
            **describe_origin(cube, null_roi=screen.null_roi),
        },
    )
