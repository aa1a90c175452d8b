"""Ingest records into a cube: readers of formats, and the pipeline from records to a store."""

from clusterscale.ingest.build import IngestOptions, ingest
from clusterscale.ingest.clean import read_key
from clusterscale.ingest.geojson import GeoJson
from clusterscale.ingest.points import read_points
from clusterscale.ingest.readers import READERS, Cabspotting, Events, TripPairs, Trips
from clusterscale.ingest.records import Reader
from clusterscale.ingest.report import IngestReport

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
