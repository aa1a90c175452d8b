"""Published tables: the formats in which operators and statistics offices publish aggregates.

================ ==========================================================================
arrays           Zarr group or NetCDF file over (roi, epoch)
long             CSV or Parquet with a row per place and time, or per origin, destination, time
wide             CSV with places in rows and times in columns, or the reverse
geojson          zones with a value per time
sdmx_csv         SDMX-CSV of statistics offices
multimno         Eurostat's pipeline for data of mobile networks
flow_data_frame  ``FlowDataFrame`` of scikit-mobility
flowkit          aggregates of FlowKit
mds              Metrics of the Mobility Data Specification
mitma            trips between districts of Spain
safegraph        visits of places, an array of hours in each row
call_grid        calls, messages and Internet of the Telecom Italia Big Data Challenge
================ ==========================================================================

:func:`read_table` reads a table over (roi, epoch), whatever its format; hidden cells are NaN, and
are read as 0 only where a format declares that empty means 0. What does not fit is an error that
names file, row and column.
"""

from clusterscale.release.content import (
    TABLE_FORMATS,
    PublishedTotals,
    RawRelease,
    TableFormat,
)
from clusterscale.release.entry import ENDINGS, choose_format, read_table
from clusterscale.release.metadata import (
    RULES,
    URI_FIELDS,
    DeclaredMechanism,
    LedgerEntry,
    ReleaseMetadata,
    entry_address,
)

__all__ = [
    "ENDINGS",
    "RULES",
    "TABLE_FORMATS",
    "URI_FIELDS",
    "DeclaredMechanism",
    "LedgerEntry",
    "PublishedTotals",
    "RawRelease",
    "ReleaseMetadata",
    "TableFormat",
    "choose_format",
    "entry_address",
    "read_table",
]
