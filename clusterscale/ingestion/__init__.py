"""Ingest records into a cube: readers of formats, and the pipeline from records to a store."""

from clusterscale.ingestion.build import IngestOptions, ingest
from clusterscale.ingestion.inputs import read_key, read_points
from clusterscale.ingestion.readers import READERS, Cabspotting, Events, GeoJson, TripPairs, Trips
from clusterscale.ingestion.records import Reader
from clusterscale.ingestion.report import IngestReport
from clusterscale.reading import decode, sources, tables
