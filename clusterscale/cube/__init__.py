"""Stored traces: each user's events (region and epoch), sorted."""

from clusterscale.cube.bounds import measure_bounds
from clusterscale.cube.calendar import Calendar
from clusterscale.cube.coded_cells import Geohash, InspireGrid
from clusterscale.cube.regions import Box, Grid, Hexagons, Locator, Points, Regions
from clusterscale.cube.store import TraceCube
from clusterscale.cube.transforms import pick, with_null_roi
from clusterscale.cube.writer import new_cube
