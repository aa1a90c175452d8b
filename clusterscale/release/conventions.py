"""Public conventions of tables with one row per place and time."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa

from clusterscale.contracts import NonEmptyUnique
from clusterscale.cube.calendar import Step
from clusterscale.reading.decode import Zone
from clusterscale.reading.tables import Delimiter
from clusterscale.reading.values import HIDDEN, Spot, text_of
from clusterscale.release.content import RawRelease
from clusterscale.release.long import LongTable
from clusterscale.release.text import Absent, Codes, StepText

_CONFIDENTIAL = tuple("ACDGMNOPRSTW")  # of CL_CONF_STATUS, all but F, free


class SdmxCsv(LongTable):
    """SDMX-CSV 1.0 or 2.0, as statistics offices exchange tables.

    An ``OBS_STATUS`` of ``Q`` hides a value, and any ``CONF_STATUS`` but ``F``, for free, as in the
    code lists ``CL_OBS_STATUS`` and ``CL_CONF_STATUS``. Other dimensions must be constant, be
    chosen with ``where``, or added with ``add_rows``.

    Attributes
    ----------
    confidentiality
        Column that says whether a value is confidential, e.g. ``CONF_STATUS``.
    """

    name: Literal["sdmx_csv"] = "sdmx_csv"  # type: ignore[assignment]
    place: str = "REF_AREA"
    time: str = "TIME_PERIOD"
    count: str = "OBS_VALUE"
    status: str | None = "OBS_STATUS"
    hidden_status: Codes = ("Q",)
    confidentiality: str | None = None

    def _statuses(self) -> dict[str, Codes]:
        """Return the columns with statuses of values, and the statuses of hidden ones in each."""
        stated = super()._statuses()
        if self.confidentiality is not None:
            stated[self.confidentiality] = _CONFIDENTIAL
        return stated


class Multimno(LongTable):
    """Present population of zones, as Eurostat's pipeline ``multimno`` writes it."""

    name: Literal["multimno"] = "multimno"  # type: ignore[assignment]
    place: str = "zone_id"
    time: str = "timestamp"
    count: str = "population"


class FlowDataFrame(LongTable):
    """Trips between tiles, a ``FlowDataFrame`` of scikit-mobility."""

    name: Literal["flow_data_frame"] = "flow_data_frame"  # type: ignore[assignment]
    origin: str | None = "origin"
    destination: str | None = "destination"
    time: str = "datetime"
    count: str = "flow"


class FlowKit(LongTable):
    """Trips between places, as FlowKit aggregates them.

    For presence in places set ``place: pcod``, and ``origin`` and ``destination`` to null.
    """

    name: Literal["flowkit"] = "flowkit"  # type: ignore[assignment]
    origin: str | None = "pcod_from"
    destination: str | None = "pcod_to"
    time: str = "date"
    count: str = "value"


class Mds(LongTable):
    """Rows of the Metrics API of the Mobility Data Specification, as CSV.

    A count below the k-value, 10, is −1, as is 0: declare ``{name: threshold, k: 10, shown:
    hidden}``.
    """

    name: Literal["mds"] = "mds"  # type: ignore[assignment]
    place: str = "geography_id"
    time: str = "start_time"
    count: str = "trips.start_loc.count"
    hidden: Codes = (*HIDDEN, "-1")


class Mitma(LongTable):
    """Trips between districts of Spain, as its ministry of transport publishes them since 2022.

    Rows of one origin, destination and hour are added: they are split by distance, activities,
    home, income, age and sex. A threshold is checked on the rows, too; the sums are never found
    consistent.
    """

    name: Literal["mitma"] = "mitma"  # type: ignore[assignment]
    origin: str | None = "origen"
    destination: str | None = "destino"
    time: str = "fecha"
    hour: str | None = "periodo"
    count: str = "viajes"
    add_rows: bool = True
    time_format: str | None = "%Y%m%d"
    timezone: Zone | None = "Europe/Madrid"
    delimiter: Delimiter = "|"


class SafeGraph(LongTable):
    """Visits of places by hour, an array in each row, as SafeGraph's patterns have them.

    The first value is that of ``date_range_start``, each other one a ``step`` later. Counts of
    devices from 2 to 4 are shown as 4, and those below 2 left out, only in other columns.
    """

    name: Literal["safegraph"] = "safegraph"  # type: ignore[assignment]
    place: str = "placekey"
    time: str = "date_range_start"
    count: str = "visits_by_each_hour"
    step: StepText | None = "1h"

    def _select(self, raw: dict[str, Any], spot: Spot) -> tuple[dict[str, Any], Spot]:
        """Return a row for each value of an array."""
        raw, spot = super()._select(raw, spot)
        arrays = [_parse_array(text) for text in text_of(raw[self.count]).to_pylist()]
        spot.refuse(np.array([not array for array in arrays], np.bool_), self.count, _NO_ARRAY)
        lengths = np.array([len(array or ()) for array in arrays])
        rows = np.repeat(np.arange(len(arrays)), lengths)
        number = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        first = self.clock.decode(self.time, raw[self.time], None, spot=spot)
        each = {name: column.take(pa.array(rows)) for name, column in raw.items()}
        each[self.time] = pa.array(first[rows] + number * Step.parse(str(self.step)).seconds)
        each[self.count] = pa.array([value for array in arrays for value in array or ()])
        return each, replace(spot, kept=rows if spot.kept is None else spot.kept[rows])

    def write(self, uri: str, release: RawRelease) -> None:
        """Raise InputError: these tables are only read."""
        super(LongTable, self).write(uri, release)


_NO_ARRAY = "the value is not an array of numbers, as in [0,0,4,5]"


def _parse_array(text: str | None) -> list[float] | None:
    """Return the numbers of an array as of JSON; None if it is none."""
    try:
        array = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    if not isinstance(array, list) or any(type(value) not in (int, float) for value in array):
        return None
    return [float(value) for value in array] if all(map(math.isfinite, array)) else None


class CallGrid(LongTable):
    """Activity of phones in squares of a grid, as the Telecom Italia Big Data Challenge has it.

    A file a day, without a line of names: square, milliseconds, country, ``sms_in``, ``sms_out``,
    ``call_in``, ``call_out`` and ``internet``, which ``count`` selects. Rows of one square and time
    are those of countries, and are added; where nothing was counted, values are empty or rows
    absent. Values are in proportion to numbers of records, not numbers of people.
    """

    name: Literal["call_grid"] = "call_grid"  # type: ignore[assignment]
    place: str = "square"
    time: str = "milliseconds"
    count: str = "internet"
    absent: Absent | None = "zero"
    empty: Literal["hidden", "zero"] = "zero"
    add_rows: bool = True
    delimiter: Delimiter = "\t"
    header: Annotated[tuple[str, ...], *NonEmptyUnique] | None = (
        *("square", "milliseconds", "country"),
        *("sms_in", "sms_out", "call_in", "call_out", "internet"),
    )
    milliseconds: bool = True
