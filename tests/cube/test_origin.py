"""What shape ROIs have: told by the cube, or seen from where they are."""

import numpy as np
import pytest

from clusterscale.cube import (
    Calendar,
    Geohash,
    Grid,
    Hexagons,
    Points,
    Regions,
    TraceCube,
    new_cube,
)
from clusterscale.cube.describe import describe_shapes
from clusterscale.cube.regions import Box
from clusterscale.cube.synthetic import synthesise

GRID = Grid(Box(37.0, -122.5, 37.4, -122.2), 4, 2)
HEXAGONS = Hexagons(Box(37.7, -122.5, 37.8, -122.4), 7)


def cube_of(tmp_path, regions, made=None):
    uri = str(tmp_path / "cube.zarr")
    calendar = Calendar.parse("2024-01-01", "1h", 24, "UTC")
    provenance = {"source": "x"} | ({"regions": made} if made else {})
    with new_cube(uri, regions, calendar, provenance=provenance) as writer:
        writer.append(["a"], np.array([1]), np.array([0]))
    return TraceCube(uri)


@pytest.mark.parametrize("says", [True, False])
def test_a_grid_has_a_width_and_a_height(tmp_path, says):
    made = GRID.describe() if says else None
    found = describe_shapes(cube_of(tmp_path, GRID.regions, made))
    assert found["kind"] == "grid"
    assert found["width"] == pytest.approx(0.15)
    assert found["height"] == pytest.approx(0.1)


@pytest.mark.parametrize("says", [True, False])
def test_hexagons_are_named_by_their_cell(tmp_path, says):
    made = HEXAGONS.describe() if says else None
    assert describe_shapes(cube_of(tmp_path, HEXAGONS.regions, made)) == {"kind": "h3"}


def test_geohashes_are_a_grid(tmp_path):
    cells = Geohash.parse("37.70,-122.401,37.71,-122.400/7")  # of one column
    found = describe_shapes(cube_of(tmp_path, cells.regions, cells.describe()))
    assert found == {"kind": "grid", "width": 360 / 2**18, "height": 180 / 2**17}


def test_points_stay_points_wherever_they_are(tmp_path):
    points = Points(GRID.regions)
    found = describe_shapes(cube_of(tmp_path, points.regions, points.describe()))
    assert found == {"kind": "points"}


@pytest.mark.parametrize(
    ("lat", "lon"),
    [
        ([1.0, 1, 2, 2, 3], [1.0, 2, 1, 2, 1]),  # a corner is missing
        ([1.0, 1, 2, 2], [1.0, 2, 1, 1]),  # one is there twice
        ([1.0, 1, 2, 2, 4, 4], [1.0, 2, 1, 2, 1, 2]),  # steps differ
        ([1.0, 1, 1], [1.0, 2, 3]),  # nothing tells how high
        ([np.nan] * 4, [np.nan] * 4),
    ],
)
def test_what_fills_no_grid_is_points(tmp_path, lat, lon):
    names = tuple(f"r{i}" for i in range(len(lat)))
    regions = Regions(names, np.array(lat), np.array(lon))
    assert describe_shapes(cube_of(tmp_path, regions)) == {"kind": "points"}


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "kind"), [("sfc", "grid"), ("tfl", "points")])
def test_synthetic_ones_are_seen(tmp_path, preset, kind):
    cube = synthesise(preset, tmp_path / "cube", users=3)
    assert describe_shapes(cube)["kind"] == kind
