"""Space: which region a position is in, against slower rules."""

from __future__ import annotations

import pickle

import h3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each

from clusterscale.cube import Box, Grid, Hexagons, Points, Regions
from clusterscale.cube.regions import EARTH_RADIUS
from clusterscale.errors import InputError

CABS = "37.7282,-122.4528,37.8021,-122.3637"
NOWHERE = np.array([np.nan, np.inf, -np.inf, 0.0, 91.0, 1e300])


def haversine(lat, lon, lat2, lon2):
    """Metres, in the way of the textbook."""
    phi, phi2 = np.radians(lat), np.radians(lat2)
    half = np.sin((phi2 - phi) / 2) ** 2
    half += np.cos(phi) * np.cos(phi2) * np.sin(np.radians(lon2 - lon) / 2) ** 2
    return 2 * EARTH_RADIUS * np.arcsin(np.sqrt(np.minimum(half, 1)))


def scatter(n, south, west, north, east, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(south, north, n), rng.uniform(west, east, n)


def test_grid_edges():
    grid = Grid(Box(0, 0, 2, 3), 2, 3)
    lat = np.array([0.0, 0.0, 1.0, 1.999, 0.999, 2.0, 0.0, -1e-9, 1.0, np.nan])
    lon = np.array([0.0, 2.999, 1.0, 2.999, 0.0, 0.0, 3.0, 0.0, -1e-9, 1.0])
    assert grid.locate(lat, lon).tolist() == [0, 2, 4, 5, 0, -1, -1, -1, -1, -1]
    assert grid.regions.names == ("0-0", "0-1", "0-2", "1-0", "1-1", "1-2")
    assert grid.regions.lat.tolist() == [0.5, 0.5, 0.5, 1.5, 1.5, 1.5]
    assert grid.regions.lon.tolist() == [0.5, 1.5, 2.5, 0.5, 1.5, 2.5]
    assert grid.locate(NOWHERE, np.zeros(6)).tolist() == [-1, -1, -1, 0, -1, -1]


@given(
    n_lat=st.integers(1, 40),
    n_lon=st.integers(1, 40),
    south=st.floats(-80, 80),
    west=st.floats(-170, 170),
    height=st.floats(1e-3, 10),
    width=st.floats(1e-3, 10),
)
def test_grid_cells_hold_their_centres_and_tile_the_box(n_lat, n_lon, south, west, height, width):
    box = Box(south, west, south + height, west + width)
    grid = Grid(box, n_lat, n_lon)
    centres = grid.regions
    assert grid.locate(centres.lat, centres.lon).tolist() == list(range(n_lat * n_lon))
    last = np.array([np.nextafter(box.north, -np.inf)]), np.array([np.nextafter(box.east, -np.inf)])
    assert grid.locate(*last).tolist() == [n_lat * n_lon - 1]
    assert (grid.locate(*scatter(50, south, west, box.north, box.east)) >= 0).all()


@for_each("share", [1.0, 0.6, 0.1])
@for_each("box", [(-90, -180, 90, 180), (60, 179, 61, 180), (51.4, -0.2, 51.6, 0.1)])
def test_points_against_haversine(box, share):
    lat, lon = scatter(60, *box, seed=1)
    where = scatter(400, *box, seed=2)
    metres = haversine(where[0][:, None], where[1][:, None], lat, lon)
    cutoff = np.inf if share == 1 else float(np.quantile(metres.min(axis=1), share))
    points = Points(Regions(tuple(map(str, range(60))), lat, lon), cutoff)
    expected = np.where(metres.min(axis=1) <= cutoff, metres.argmin(axis=1), -1)
    assert points.locate(*where).tolist() == expected.tolist()


def test_points_cut_off_to_the_metre():
    points = Points(Regions(("here",), np.array([51.5]), np.array([0.0])), 100.0)
    degree = np.degrees(1 / EARTH_RADIUS)  # one metre
    lat = 51.5 + degree * np.array([0, 99.999, 100.001, -99.999, -100.001])
    assert points.locate(lat, np.zeros(5)).tolist() == [0, 0, -1, 0, -1]
    assert points.locate(NOWHERE, np.zeros(6)).tolist() == [-1] * 6
    assert Points(points.regions).locate(NOWHERE, np.zeros(6)).tolist() == [-1, -1, -1, 0, -1, -1]
    assert points.locate(np.empty(0), np.empty(0)).tolist() == []
    assert points.describe() == {"kind": "points", "n_points": 1, "cutoff_metres": 100.0}
    assert Points(points.regions).describe()["cutoff_metres"] is None


def test_points_across_the_date_line():
    points = Points(Regions(("west", "east"), np.zeros(2), np.array([179.9, -179.0])))
    assert points.locate(np.zeros(3), np.array([-179.8, 180.0, -179.3])).tolist() == [0, 0, 1]


@pytest.mark.parametrize("resolution", [6, 8])
def test_hexagons_against_h3(resolution):
    box = Box.parse(CABS)
    hexagons = Hexagons(box, resolution)
    regions = hexagons.regions
    assert box.contains(regions.lat, regions.lon).all()
    assert hexagons.locate(regions.lat, regions.lon).tolist() == list(range(len(regions)))
    lat, lon = scatter(300, 37.70, -122.48, 37.82, -122.34)
    index = {name: i for i, name in enumerate(regions.names)}
    cells = [h3.latlng_to_cell(*at, resolution) for at in zip(lat, lon, strict=True)]
    assert hexagons.locate(lat, lon).tolist() == [index.get(cell, -1) for cell in cells]
    assert hexagons.locate(NOWHERE, np.zeros(6)).tolist() == [-1] * 6
    beyond = regions.lon[:1] + 360  # H3 itself would wrap it around
    assert hexagons.locate(regions.lat[:1], beyond).tolist() == [-1]


@pytest.mark.parametrize("box", [(-60, -180, 60, 180), (-60, -100, 60, 100), (0, 170, 50, 180)])
def test_hexagons_of_a_wide_box(box):
    """H3 takes a polygon wider than half the globe for its complement."""
    everywhere = [c for base in h3.get_res0_cells() for c in h3.cell_to_children(base, 1)]
    lat, lon = np.array([h3.cell_to_latlng(cell) for cell in everywhere]).T
    inside = Box(*box).contains(lat, lon)
    found = Hexagons(Box(*box), 1).regions.names
    assert set(found) == {cell for cell, yes in zip(everywhere, inside, strict=True) if yes}
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    "locator",
    [
        Grid.parse(f"{CABS}/10x20"),
        Hexagons.parse(f"{CABS}/7"),
        Points(Regions(("a", "b"), np.array([37.75, 37.8]), np.array([-122.4, -122.4])), 2e3),
    ],
    ids=["grid", "h3", "points"],
)
def test_locators_travel(locator):
    lat, lon = scatter(100, 37.72, -122.46, 37.81, -122.36)
    again = pickle.loads(pickle.dumps(locator))
    assert again.locate(lat, lon).tolist() == locator.locate(lat, lon).tolist()
    assert again.regions.names == locator.regions.names
    assert again.describe() == locator.describe()
    assert len(set(locator.regions.names)) == len(locator.regions)


def test_describe():
    corners = [37.7282, -122.4528, 37.8021, -122.3637]
    assert Grid.parse(f"{CABS}/10x20").describe() == {
        "kind": "grid",
        "box": corners,
        "shape": [10, 20],
    }
    assert Hexagons.parse(f"{CABS}/8").describe() == {"kind": "h3", "box": corners, "resolution": 8}


GRID = "is not south,west,north,east/ROWSxCOLUMNS, e.g. 37.7282,-122.4528,37.8021,-122.3637/10x10"
H3 = "is not south,west,north,east/RESOLUTION, e.g. 37.7282,-122.4528,37.8021,-122.3637/8"
BOX = "is not south,west,north,east in degrees with south < north and west < east"
ONE, TWO = np.zeros(1), np.zeros(2)


@for_each(
    ("make", "message"),
    [
        (lambda: Grid.parse(CABS), f"grid {CABS!r} {GRID}"),
        (lambda: Grid.parse(f"{CABS}/10"), f"grid '{CABS}/10' {GRID}"),
        (lambda: Grid.parse("1,2,3/2x2"), "box '1,2,3' is not four numbers south,west,north,east"),
        (
            lambda: Grid.parse("a,2,3,4/2x2"),
            "box 'a,2,3,4' is not four numbers south,west,north,east",
        ),
        (lambda: Grid.parse(f"{CABS}/0x5"), "grid 0x5 has no cell"),
        (lambda: Grid.parse(f"{CABS}/5x-1"), "grid 5x-1 has no cell"),
        (lambda: Box.parse("3,2,1,4"), f"box 3.0,2.0,1.0,4.0 {BOX}"),
        (lambda: Box.parse("1,2,3,nan"), f"box 1.0,2.0,3.0,nan {BOX}"),
        (lambda: Box.parse("1,2,91,4"), f"box 1.0,2.0,91.0,4.0 {BOX}"),
        (lambda: Hexagons.parse(f"{CABS}/8.5"), f"h3 '{CABS}/8.5' {H3}"),
        (lambda: Hexagons.parse(CABS), f"h3 {CABS!r} {H3}"),
        (lambda: Hexagons.parse(f"{CABS}/16"), "h3 resolution 16 is not between 0 and 15"),
        (
            lambda: Hexagons.parse(f"{CABS}/2"),
            "no H3 cell of resolution 2 has its centre in the box: "
            "take a finer resolution or a larger box",
        ),
        (lambda: Regions((), ONE[:0], ONE[:0]), "there are no regions: give at least one"),
        (
            lambda: Regions(("a",), ONE, TWO),
            "1 names of regions, 1 latitudes, 2 longitudes: these must agree",
        ),
        (lambda: Regions(("a",), ONE, ONE + np.inf), "a region has an infinite position"),
        (lambda: Points(Regions(("a",), ONE, ONE), 0), "cut-off 0 m is not positive"),
        (lambda: Points(Regions(("a",), ONE, ONE), np.nan), "cut-off nan m is not positive"),
        (lambda: Points(Regions(("a", "a"), TWO, TWO)), "two points share a name"),
        (
            lambda: Points(Regions(("a", "b"), np.array([0, np.nan]), TWO)),
            "point 'b' has no position in degrees",
        ),
        (lambda: Points(Regions(("a",), ONE + 91, ONE)), "point 'a' has no position in degrees"),
    ],
)
def test_what_is_no_region(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == message


def test_the_null_roi_has_no_position():
    regions = Regions(("a",), ONE, ONE).with_null()
    assert regions.names == ("a", "null")
    assert np.isnan([regions.lat[-1], regions.lon[-1]]).all()
    assert len(regions) == 2
