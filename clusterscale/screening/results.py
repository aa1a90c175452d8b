"""Stored results of a screen: one row per user."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clusterscale import storage
from clusterscale.contracts import ConfigModel, names_of
from clusterscale.cube import TraceCube
from clusterscale.cube.provenance import describe_origin
from clusterscale.cube.summary import count_events
from clusterscale.schema import SCREEN, SCREEN_FORMAT
from clusterscale.screening.budget import part_size
from clusterscale.screening.plan import Screen
from clusterscale.screening.scoring import CONFIDENCE, STATISTICS, Scored
from clusterscale.storage.result_table import TableStore, create_table, open_table

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ScreenStore", "is_counted", "open_screen"]

Place = tuple[int, int]  # index of period and of group size


class ScreenStore(TableStore):
    """Writes a screen block by block; ``groups-….zarr`` holds counted groups."""

    def __init__(self, uri: str, screen: Screen, cube: TraceCube) -> None:
        super().__init__(uri, SCREEN_FORMAT, partial(_create, screen=screen, cube=cube))

    def groups(self, index: int) -> str:
        """Return the URI of the counted groups of a setting."""
        return f"{self.uri}/groups-{index}.zarr"

    def add(
        self, scored: Scored, start: int, place: Place, mechanisms: Sequence[int], names: list[str]
    ) -> None:
        """Write the results of a block, then mark ``names`` as done."""
        period, size = place
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


def open_screen(uri: str | Path) -> xr.Dataset:
    """Open the results of a finished screen lazily.

    Parameters
    ----------
    uri
        Folder of the run, of its screen, or the store itself.

    Raises
    ------
    MissingError
        If there is none, or it has not finished.
    FormatError
        If the store does not contain the results of a screen.
    """
    return open_table(uri, "screen", SCREEN_FORMAT, SCREEN)


def is_counted(screened: xr.Dataset) -> xr.DataArray:
    """Return in which periods each user of a screen counts in its statistics.

    Users without an event in a period have nothing to expose, and count only if the plan has
    ``unseen: include``.

    Returns
    -------
    xr.DataArray
        bool, (user, period).
    """
    includes = json.loads(screened.attrs["plan"]).get("unseen") == "include"
    least = 0 if includes else 1
    return screened["n_events"].transpose("user", "period") >= least


def _create(uri: str, screen: Screen, cube: TraceCube) -> None:
    n_events = count_events(cube, tuple(span for _, span in screen.periods))[:-1]
    columns: dict[str, Sequence[Any]] = {
        "period": [name for name, _ in screen.periods],
        "group_size": screen.group_sizes,
        **names_of("mechanism", screen.mechanisms),
        **names_of("attack", screen.plan.attacks),
        "user": range(cube.n_users),
        "n_events": n_events.T,  # type: ignore[dict-item]
        "n_seen": (n_events > 0).sum(axis=1).tolist(),
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
