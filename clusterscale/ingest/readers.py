"""Registry of readers."""

from __future__ import annotations

from clusterscale.ingest.cabspotting import Cabspotting
from clusterscale.ingest.events import Events
from clusterscale.ingest.geojson import GeoJson
from clusterscale.ingest.records import Reader
from clusterscale.ingest.trips import Trips
from clusterscale.registry import Registry

__all__ = ["READERS"]

READERS: Registry[Reader] = Registry("reader", Events, Cabspotting, Trips, GeoJson)
