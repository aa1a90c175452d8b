"""What formats of text share: how they state hidden values, times and epochs."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Strict

from clusterscale.cube.calendar import parse_step
from clusterscale.errors import InputError
from clusterscale.reading.decode import Zone
from clusterscale.release.content import RawRelease, TableFormat
from clusterscale.release.rows import Rows, TableLayout
from clusterscale.release.values import HIDDEN, Clock

TOTAL = "Total"


def _step(text: str) -> str:
    try:
        parse_step(text)
    except InputError as error:
        raise ValueError(str(error)) from None
    return text


Step = Annotated[str, AfterValidator(_step)]
Codes = Annotated[tuple[str, ...], Strict(False)]


class TextTable(TableFormat):
    """A format in which values and times may be text.

    Attributes
    ----------
    hidden
        Values that stand for a hidden one, e.g. ``['-1']``; "<5" and the like always do.
    timezone
        Time zone of times without one, e.g. ``Europe/Madrid``; by default they are refused.
    time_format
        Format of times as of Python's ``strptime``, e.g. ``'%d/%m/%Y %H:%M'``.
    slots
        Whether times are numbers of epochs.
    step
        Length of an epoch, e.g. ``1h``; by default the shortest time between two.
    """

    hidden: Codes = HIDDEN
    timezone: Zone | None = None
    time_format: str | None = None
    slots: bool = False
    step: Step | None = None

    @property
    def clock(self) -> Clock:
        """How times are stated."""
        return Clock(self.timezone, self.time_format, self.slots)

    def lay_out(self, rows: Rows, *, absent: str | None = None) -> TableLayout:
        """Return rows over places and epochs of the length that is set."""
        step = None if self.step is None else parse_step(self.step)
        return rows.lay_out(step=step, absent=absent)

    def names_of(self, release: RawRelease) -> tuple[list[str], list[Any]]:
        """Return the names of places, and the times as ISO text in UTC or as numbers of epochs.

        Raises
        ------
        InputError
            If the release has none.
        """
        if release.rois is None or release.epochs is None:
            raise InputError(
                f"{self.name}: the table needs the names of places and the times of epochs"
            )
        return list(release.rois), _stated(release.epochs)


def _stated(epochs: NDArray[Any]) -> list[Any]:
    if epochs.dtype.kind == "M":
        return [f"{time}Z" for time in np.datetime_as_string(epochs, unit="s")]
    return [int(number) for number in epochs]
