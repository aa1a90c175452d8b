"""Ingest records into a cube: readers of formats, and the pipeline from records to a store."""

from clusterscale.ingest.build import ingest
from clusterscale.ingest.cabspotting import Cabspotting
from clusterscale.ingest.events import Events
from clusterscale.ingest.geojson import GeoJson
from clusterscale.ingest.points import read_points
from clusterscale.ingest.pseudonyms import read_key
from clusterscale.ingest.readers import READERS
from clusterscale.ingest.records import Reader
from clusterscale.ingest.report import IngestReport
from clusterscale.ingest.trips import Trips

__all__ = [
    "READERS",
    "Cabspotting",
    "Events",
    "GeoJson",
    "IngestReport",
    "Reader",
    "Trips",
    "ingest",
    "read_key",
    "read_points",
]
