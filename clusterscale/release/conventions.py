"""Public conventions of tables: names of columns, codes, and the method that each fits."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from string import ascii_letters
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from clusterscale.contracts import NonEmptyUnique
from clusterscale.cube.calendar import Step
from clusterscale.errors import SourceError
from clusterscale.reading.decode import Zone
from clusterscale.reading.tables import Delimiter, TextLayout
from clusterscale.reading.values import HIDDEN, Codes, Spot
from clusterscale.release.content import RawRelease
from clusterscale.release.geojson import GeoJsonTable
from clusterscale.release.long import LongTable
from clusterscale.release.rows import Rows
from clusterscale.release.text import Absent, StepText
from clusterscale.release.wide import WideTable
from clusterscale.validation_messages import quote

_CONFIDENTIAL = tuple("ACDGMNOPRSTW")  # of CL_CONF_STATUS, all but F, free


class SdmxCsv(LongTable):
    """SDMX-CSV 1.0 or 2.0, as statistics offices exchange tables: of any method, in one file.

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


_BEGINS = {"": "-01", "-S1": "-01", "-S2": "-07"}  # month in which a year or half a year begins


class EurostatTsv(WideTable):
    r"""Eurostat's bulk tables, of any method: a composed key in the first column, then times.

    The line of names begins with parts such as ``freq,unit,geo\TIME_PERIOD``. A value that is not
    available, ``:``, is read as hidden. Flags follow after a space, as in ``1188 p``; those of
    confidential values are ``c``, ``C``, ``N`` and ``P``. One file has all series.

    Attributes
    ----------
    place
        Part of the key with the name of the place, e.g. ``geo``.
    where
        Parts of the key and their codes in the lines that are read, e.g. ``{unit: [NR]}``; all but
        the place must have one code.
    """

    name: Literal["eurostat_tsv"] = "eurostat_tsv"  # type: ignore[assignment]
    times: Literal["columns"] = "columns"
    place: str = "geo"
    where: Mapping[str, Codes] = {}
    # c until 2024, then those of CONF_STATUS; p is provisional.
    flags: Codes = tuple(re.sub("[cCNP]", "", ascii_letters))
    hidden_flags: Codes = tuple("cCNP")
    delimiter: Delimiter = "\t"

    def write(self, uri: str, release: RawRelease) -> None:
        """Raise InputError: these tables are only read."""
        super(WideTable, self).write(uri, release)

    def _lines(self, uri: str) -> list[list[str]]:
        """Return the lines, each with its place first; it is empty in lines that are not read."""
        head, *lines = super()._lines(uri)
        parts = head[0].partition("\\")[0].split(",")
        if self.place not in parts:
            raise SourceError(f"{uri}: {quote(head[0])} has no part {self.place}")
        first = dict[str, str]()
        absent = {(part, code) for part, some in self.where.items() for code in some}
        for number, line in enumerate(lines, 2 + self.skip):
            where, codes = f"{uri}: line {number}: {quote(line[0])}", line[0].split(",")
            if len(codes) != len(parts) or not all(codes):
                raise SourceError(f"{where} is not a code for each of {', '.join(parts)}")
            key = dict(zip(parts, codes, strict=True))
            absent -= set(key.items())
            line[0] = key.pop(self.place)
            if any(key.get(part, line[0]) not in codes for part, codes in self.where.items()):
                line[0] = ""
            elif key != (first := first or key):
                part = next(part for part in key if key[part] != first[part])
                raise SourceError(f"{where} has another {part} than {first[part]}: set `where`")
        for part, code in sorted(absent):
            raise SourceError(f"{uri}: no line has {quote(code)} in {part}")
        return [[time[:4] + _BEGINS.get(time[4:], time[4:]) for time in head], *lines]

    def _rows(self, names: list[str], seconds: Any, all_times: Any, values: Any, uri: str) -> Rows:
        read = [i for i, name in enumerate(names) if name]
        return super()._rows([names[i] for i in read], seconds, all_times, values[read], uri)


class Camara(GeoJsonTable):
    """Answers of CAMARA's Population Density Data API, as JSON.

    Values are people per km², so that no threshold on counts can be tested on them. Cells of
    ``LOW_DENSITY`` are hidden, and those of ``NO_DATA`` not covered. Places are geohashes, whose
    lengths may differ. An answer has up to seven days.
    """

    name: Literal["camara"] = "camara"  # type: ignore[assignment]
    place: str = "geohash"
    time: str | None = "startTime"
    count: str | None = "pplDensity"
    step: StepText | None = "1h"
    hidden: Codes = ("LOW_DENSITY",)
    not_covered: Codes = ("NO_DATA",)

    accepts: ClassVar[str] = "JSON with timedPopulationDensityData"

    def write(self, uri: str, release: RawRelease) -> None:
        """Raise InputError: these tables are only read."""
        super(GeoJsonTable, self).write(uri, release)

    def _parse(self, content: bytes, uri: str) -> dict[str, Any]:
        """Return the cells of an answer as features; the type of data is in place of no value."""
        try:
            cells = [
                {**cell, "startTime": timed["startTime"], self.count: self._of(cell)}
                for timed in json.loads(content)["timedPopulationDensityData"]
                for cell in timed["cellPopulationDensityData"]
            ]
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
            raise SourceError(f"{uri} is no answer with population densities: {error}") from None
        return {"features": [{"properties": cell} for cell in cells]}

    def _of(self, cell: dict[str, Any]) -> object:
        value, kind = cell.get(str(self.count)), cell["dataType"]
        if (value is None) == (kind == "DENSITY_ESTIMATION"):
            raise ValueError(f"{quote(str(cell))}: only a DENSITY_ESTIMATION has a {self.count}")
        return kind if value is None else value


class Multimno(LongTable):
    """Present population of zones, as Eurostat's pipeline ``multimno`` writes it.

    It multiplies populations by factors, and then hides those below k: ``expand``, then
    ``threshold``; with ``factor: weights`` where devices were spread over squares in fractions. −1
    is hidden; if its ``anonymity_type`` is ``delete``, set ``absent: hidden``. Folders are
    ``dataset_id``, ``level``, ``year``, ``month`` and ``day``: choose a level with ``where``. Times
    without a zone are in UTC.
    """

    name: Literal["multimno"] = "multimno"  # type: ignore[assignment]
    place: str = "zone_id"
    time: str = "timestamp"
    count: str = "population"
    hidden: Codes = (*HIDDEN, "-1")
    timezone: Zone | None = "UTC"


class FlowDataFrame(LongTable):
    """Trips between tiles, a ``FlowDataFrame`` of scikit-mobility: all of them, in one file."""

    name: Literal["flow_data_frame"] = "flow_data_frame"  # type: ignore[assignment]
    origin: str | None = "origin"
    destination: str | None = "destination"
    time: str = "datetime"
    count: str = "flow"


class FlowKit(LongTable):
    """Trips between places, as FlowKit aggregates them.

    Values up to 15 have no row: ``{name: threshold, k: 16, shown: hidden}``. A result is one table
    without its day: set ``at`` or ``at_name``, or add a column ``date``. For presence in places set
    ``place: pcod``, and ``origin`` and ``destination`` to null.
    """

    name: Literal["flowkit"] = "flowkit"  # type: ignore[assignment]
    origin: str | None = "pcod_from"
    destination: str | None = "pcod_to"
    time: str = "date"
    count: str = "value"
    absent: Absent | None = "hidden"


class Mds(LongTable):
    """Rows of the Metrics API of the Mobility Data Specification, as CSV.

    A count below the k-value, 10, is −1, as is 0: declare ``{name: threshold, k: 10, shown:
    hidden}``. There is a file for each query.
    """

    name: Literal["mds"] = "mds"  # type: ignore[assignment]
    place: str = "geography_id"
    time: str = "interval_start"
    count: str = "trips.start_loc.count"
    hidden: Codes = (*HIDDEN, "-1")


class Mitma(LongTable):
    """Trips between districts of Spain, as its ministry of transport publishes them since 2022.

    Trips are expanded by ``weights``, and no code hides any; there is a file a day. Rows of one
    origin, destination and hour are added: they are split by distance, activities, home, income,
    age and sex. A threshold is checked on the rows, too; the sums are never found consistent.
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

    Arrays are texts as of JSON, or lists of Parquet; a file has a week or a month. The first value
    is that of ``date_range_start``, each other one a ``step`` later. They are ``exact`` visits of a
    panel, and none is hidden: counts of devices from 2 to 4 are shown as 4, and those below 2 left
    out, only in other columns.
    """

    name: Literal["safegraph"] = "safegraph"  # type: ignore[assignment]
    place: str = "placekey"
    time: str = "date_range_start"
    count: str = "visits_by_each_hour"
    step: StepText | None = "1h"

    @property
    def layout(self) -> TextLayout:
        """How lines are laid out; values may be lists."""
        return replace(super().layout, lists=(self.count,))

    def write(self, uri: str, release: RawRelease) -> None:
        """Raise InputError: these tables are only read."""
        super(LongTable, self).write(uri, release)

    def _select(self, raw: dict[str, Any], spot: Spot) -> tuple[dict[str, Any], Spot]:
        """Return a row for each value of an array."""
        raw, spot = super()._select(raw, spot)
        arrays = [_parse_array(array) for array in raw[self.count].to_pylist()]
        spot.refuse(np.array([not array for array in arrays], np.bool_), self.count, _NO_ARRAY)
        lengths = np.array([len(array or ()) for array in arrays])
        rows = np.repeat(np.arange(len(arrays)), lengths)
        number = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        first = self.clock.decode(self.time, raw[self.time], None, spot=spot)
        each = {name: column.take(pa.array(rows)) for name, column in raw.items()}
        each[self.time] = pa.array(first[rows] + number * Step.parse(str(self.step)).seconds)
        each[self.count] = pa.array([value for array in arrays for value in array or ()])
        return each, replace(spot, kept=rows if spot.kept is None else spot.kept[rows])


_NO_ARRAY = "the value is not an array of numbers, as in [0,0,4,5]"


def _parse_array(array: Any) -> list[float] | None:
    """Return the numbers of a list, or of an array as of JSON; None if it is none."""
    try:
        array = array if isinstance(array, list) else json.loads(array or "")
        fits = isinstance(array, list) and {type(value) for value in array} <= {int, float}
        return list(map(float, array)) if fits and all(map(math.isfinite, array)) else None
    except (ValueError, RecursionError, OverflowError):
        return None


class MetaPopulation(LongTable):
    r"""People in tiles by eight hours, as Meta's Data for Good publishes them.

    Fewer than 10 people are ``\N`` or have no row; then values are smoothed to fractions, so that
    ``expand`` with ``factor: weights`` follows the ``threshold``. Places are quadkeys. There is a
    file for each time, which is in UTC.
    """

    name: Literal["meta_population"] = "meta_population"  # type: ignore[assignment]
    place: str = "quadkey"
    time: str = "date_time"
    count: str = "n_crisis"
    absent: Absent | None = "hidden"
    hidden: Codes = (*HIDDEN, "\\N")
    time_format: str | None = "%Y-%m-%d %H%M"
    timezone: Zone | None = "UTC"
    step: StepText | None = "8h"


class GtfsRide(LongTable):
    """Boardings at stops a day: ``board_alight.txt`` of GTFS-ride.

    It fits ``exact``. Rows of a stop and a day, which are those of trips, are added. Where one has
    no boardings, they were not counted: the sum is not covered. One file has all days, and
    ``timezone`` is that of the agency.
    """

    name: Literal["gtfs_ride"] = "gtfs_ride"  # type: ignore[assignment]
    place: str = "stop_id"
    time: str = "service_date"
    count: str = "boardings"
    not_covered: Codes = ("",)
    where: Mapping[str, Codes] = {"record_use": ("0",)}
    add_rows: bool = True
    time_format: str | None = "%Y%m%d"
    step: StepText | None = "1d"


class CallGrid(LongTable):
    """Activity of phones in squares of a grid, as the Telecom Italia Big Data Challenge has it.

    A file a day, without a line of names: square, milliseconds, country, ``sms_in``, ``sms_out``,
    ``call_in``, ``call_out`` and ``internet``, which ``count`` selects. Rows of one square and time
    are those of countries, and are added; where nothing was counted, values are empty or rows
    absent. Nothing is hidden. Values are in proportion to numbers of records, not of people, so
    that no threshold on people can be tested.
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
