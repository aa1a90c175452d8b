"""Names of columns in tables that are published by public conventions."""

from __future__ import annotations

from typing import Literal

from clusterscale.reading.decode import Zone
from clusterscale.reading.tables import Delimiter
from clusterscale.release.long import LongTable
from clusterscale.release.text import Codes
from clusterscale.release.values import HIDDEN


class SdmxCsv(LongTable):
    """SDMX-CSV 1.0 or 2.0, as statistics offices exchange tables.

    Statuses of confidential values are those of the code lists ``CL_OBS_STATUS`` and
    ``CL_CONF_STATUS``. Other dimensions must be constant, or be added with ``add_rows``.
    """

    name: Literal["sdmx_csv"] = "sdmx_csv"  # type: ignore[assignment]
    place: str = "REF_AREA"
    time: str = "TIME_PERIOD"
    count: str = "OBS_VALUE"
    status: str | None = "OBS_STATUS"


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
