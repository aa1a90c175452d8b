"""Ingest records into a cube: readers of formats, and the pipeline from records to a store."""

from clusterscale.ingestion.build import IngestOptions, ingest
from clusterscale.ingestion.clean import read_key
from clusterscale.ingestion.geojson import GeoJson
from clusterscale.ingestion.points import read_points
from clusterscale.ingestion.readers import READERS, Cabspotting, Events, TripPairs, Trips
from clusterscale.ingestion.records import Reader
from clusterscale.ingestion.report import IngestReport

__all__ = [
    "READERS",
    "Cabspotting",
    "Events",
    "GeoJson",
    "IngestOptions",
    "IngestReport",
    "Reader",
    "TripPairs",
    "Trips",
    "ingest",
    "read_key",
    "read_points",
]
