"""Cubes of which only the sizes are known: what an analysis takes is predicted without traces."""

from uuid import uuid4

import numpy as np

from clusterscale.cube.calendar import Calendar
from clusterscale.cube.regions import Regions
from clusterscale.cube.store import TraceCube
from clusterscale.cube.writer import new_cube
from clusterscale.errors import InputError


class SizedCube(TraceCube):
    """A cube without traces, for predictions; nothing is written.

    Epochs are hours from a Monday on, and places are spread evenly over a degree. Every user has
    an event in every period.

    Parameters
    ----------
    users, places, epochs
        Sizes of the cube.
    events_per_user
        Mean number of events of a user, at most places × epochs.

    Raises
    ------
    InputError
        If a size is below 1, or no user can have so many events.
    """

    def __init__(self, *, users: int, places: int, epochs: int, events_per_user: float) -> None:
        for name, size in (("users", users), ("places", places), ("epochs", epochs)):
            if size < 1:
                raise InputError(f"{name}: {size} must be at least 1")
        if not 0 < events_per_user <= places * epochs:
            raise InputError(
                f"events per user: {events_per_user:g} must be above 0, and at most {places:,} "
                f"places × {epochs:,} epochs"
            )
        side = int(np.ceil(np.sqrt(places)))
        row, column = np.divmod(np.arange(places), side)
        names = tuple(f"place {i}" for i in range(places))
        regions = Regions(names, 50 + row / side, column / side)
        calendar = Calendar.parse("2024-01-01T00:00", "1h", epochs, "UTC")
        uri = f"memory://clusterscale-sizes-{uuid4().hex}"
        with new_cube(uri, regions, calendar, provenance={"source": "sizes"}) as writer:
            writer.append(["nobody"], np.zeros(1, np.int64), np.zeros(0, np.int64))
        super().__init__(uri)
        n_events = round(users * events_per_user)
        self.attributes = {**self.attributes, "n_users": users, "n_events": n_events}

    @classmethod
    def of_preset(cls, name: str, users: int | None = None) -> "SizedCube":
        """Return the sizes of a preset, with its own number of users by default."""
        from clusterscale.cube.synthetic import PRESETS  # here, because workers do not need them

        preset = PRESETS[name]
        return cls(
            users=users or preset.users,
            places=preset.rois,
            epochs=preset.epochs,
            events_per_user=preset.events,
        )
