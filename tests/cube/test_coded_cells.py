"""Cells named by geohash or by INSPIRE: against published codes, slower rules, and pyproj."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each, mostly_slow

from clusterscale.cube import Box, Geohash, InspireGrid, coded_cells
from clusterscale.cube.coded_cells import geohash_degrees, inspire_code
from clusterscale.errors import InputError, PackageError

PARIS = "48.81,2.22,48.91,2.42"
NOWHERE = np.array([np.nan, np.inf, -np.inf, 91.0, 1e300])
ALPHABET = "0123456789bcdefghjkmnpqrstuvwxyz"


def bisect(lat, lon, precision):
    """Return a geohash, in the way of the textbook: halve, and note which half."""
    bounds, bits = [[-180.0, 180.0], [-90.0, 90.0]], ""
    for bit in range(5 * precision):
        axis = bounds[bit % 2]
        middle = sum(axis) / 2
        upper = (lon, lat)[bit % 2] >= middle
        axis[1 - upper] = middle
        bits += str(int(upper))
    return "".join(ALPHABET[int(bits[i : i + 5], 2)] for i in range(0, len(bits), 5))


def names_of(locator, lat, lon):
    names = (*locator.regions.names, None)
    return [names[i] for i in locator.locate(np.atleast_1d(lat), np.atleast_1d(lon))]


def around(lat, lon, size):
    return Box(lat - size, lon - size, min(lat + size, 90), lon + size)


@for_each(
    ("lat", "lon", "code"),
    [  # of Wikipedia, and of the libraries pygeohash and latlon-geohash
        (57.64911, 10.40744, "u4pruydqq"),
        (48.8583, 2.2945, "u09tunqu1"),
        (42.6, -5.6, "ezs42e44y"),
        (-25.382708, -49.265506, "6gkzwgjzn"),
        (0.0, 0.0, "s00000000"),
    ],
)
def test_published_geohashes(lat, lon, code):
    for precision in range(1, 10):
        box = around(lat, lon, geohash_degrees(precision)[0])
        assert names_of(Geohash(box, precision), lat, lon) == [code[:precision]]


LAT, LON = st.floats(-89.9, 89.9), st.floats(-179.9, 179.9)


@given(lat=LAT, lon=LON, precision=st.integers(1, 9), share=st.floats(0.01, 3))
def test_geohashes_hold_their_centres_and_cover_the_box(lat, lon, precision, share):
    size = min(geohash_degrees(precision)[0] * share, 0.1 if precision > 2 else 90)
    box = Box(lat, lon, min(lat + size, 90), min(lon + size, 180))
    cells = Geohash(box, precision)
    centres = cells.regions
    assert cells.locate(centres.lat, centres.lon).tolist() == list(range(len(centres)))
    expected = [bisect(*at, precision) for at in zip(centres.lat, centres.lon, strict=True)]
    assert list(centres.names) == expected
    last = np.nextafter(box.north, -90), np.nextafter(box.east, -180)
    for at in ((lat, lon), last, (lat, last[1])):
        assert names_of(cells, *at) == [bisect(*at, precision)]
    height, width = geohash_degrees(precision)  # none is beyond the box
    assert (np.abs(centres.lat - (lat + box.north) / 2) < height / 2 + size / 2 + 1e-9).all()
    assert (np.abs(centres.lon - (lon + box.east) / 2) < width / 2 + size / 2 + 1e-9).all()


def test_geohashes_at_edges_and_nowhere():
    world = Geohash(Box(-90, -180, 90, 180), 3)
    assert len(set(world.regions.names)) == 32**3
    lat, lon = np.array([90, -90, 0, 0, -1e-300]), np.array([180, -180, 0, -1e-300, 0])
    assert names_of(world, lat, lon) == ["zzz", "000", "s00", "ebp", "kpb"]
    assert names_of(world, NOWHERE, np.zeros(5)) == names_of(world, np.zeros(5), 2 * NOWHERE)
    assert world.locate(NOWHERE, np.zeros(5)).tolist() == [-1] * 5
    paris = Geohash.parse(f"{PARIS}/5")
    assert paris.locate(np.array([48.7, 48.86]), np.array([2.3, 2.5])).tolist() == [-1, -1]
    assert paris.describe() == {"kind": "geohash", "box": [48.81, 2.22, 48.91, 2.42]} | {
        "precision": 5
    }


def test_published_codes_of_inspire():
    pytest.importorskip("pyproj")
    # The projection's centre, 52° N 10° E, is at N 3210000 E 4321000 by definition.
    cells = InspireGrid(around(52.0001, 10.0001, 0.01), 1000)
    assert names_of(cells, 52.0001, 10.0001) == ["CRS3035RES1000mN3210000E4321000"]
    assert names_of(cells, 51.9999, 9.9999) == ["CRS3035RES1000mN3209000E4320000"]
    assert cells.describe()["metres"] == 1000


@mostly_slow("metres", [100, 250, 1000, 5000, 100_000])
@mostly_slow(
    "box", ["48.81,2.22,48.91,2.42", "38.6,-9.3,38.8,-9", "67.7,20.1,67.9,20.4"], n_quick=6
)
def test_inspire_cells_against_pyproj(metres, box):
    pyproj = pytest.importorskip("pyproj")
    cells = InspireGrid.parse(f"{box}/{metres}")
    centres = cells.regions
    assert cells.locate(centres.lat, centres.lon).tolist() == list(range(len(centres)))
    project = pyproj.Proj(  # the definition of EPSG:3035, without its database
        "+proj=laea +lat_0=52 +lon_0=10 +x_0=4321000 +y_0=3210000 +ellps=GRS80"
    )
    rng, corners = np.random.default_rng(0), cells.box
    lat = rng.uniform(corners.south, corners.north, 300)
    lon = rng.uniform(corners.west, corners.east, 300)
    x, y = (np.floor(np.array(axis) / metres).astype(int) * metres for axis in project(lon, lat))
    expected = [f"CRS3035RES{metres}mN{north}E{east}" for north, east in zip(y, x, strict=True)]
    assert names_of(cells, lat, lon) == expected
    assert cells.locate(NOWHERE, np.full(5, 10.0)).tolist() == [-1] * 5
    assert cells.locate(np.array([-38.0, 90.0]), np.array([-170.0, 0])).tolist() == [-1] * 2
    assert cells.locate(np.empty(0), np.empty(0)).tolist() == []


@given(lat=st.floats(30, 70), lon=st.floats(-20, 40), size=st.floats(1e-4, 1), data=st.data())
def test_inspire_cells_cover_the_box_and_hold_their_centres(lat, lon, size, data):
    pytest.importorskip("pyproj")
    metres = data.draw(st.sampled_from([1000, 2000, 10_000, 50_000]))
    cells = InspireGrid(Box(lat, lon, lat + size, lon + size), metres)
    centres = cells.regions
    assert cells.locate(centres.lat, centres.lon).tolist() == list(range(len(centres)))
    assert len(set(centres.names)) == len(centres)
    side = np.linspace(0, size, 13)[:-1]
    y, x = (axis.ravel() for axis in np.meshgrid(lat + side, lon + side))
    assert (cells.locate(y, x) >= 0).all()


@pytest.mark.parametrize("locator", [f"{PARIS}/6", f"{PARIS}/1000"])
def test_locators_travel(locator):
    pytest.importorskip("pyproj")
    made = Geohash.parse(locator) if locator.endswith("/6") else InspireGrid.parse(locator)
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert again.regions.names == made.regions.names


@for_each(
    ("code", "expected"),
    [
        ("1kmN2689E4337", "CRS3035RES1000mN2689000E4337000"),
        ("CRS3035RES1000mN2689000E4337000", "CRS3035RES1000mN2689000E4337000"),
        ("NL_CRS3035RES1000mN3150000E3858000", "CRS3035RES1000mN3150000E3858000"),  # of CBS
        ("100mN18961E15209", "CRS3035RES100mN1896100E1520900"),  # of multimno
        ("10kmN268E433", "CRS3035RES10000mN2680000E4330000"),
        ("5kmN2685E4335", "CRS3035RES5000mN2685000E4335000"),
        ("250mN268925E433750", "CRS3035RES250mN2689250E4337500"),
        ("100kmN26E43", "CRS3035RES100000mN2600000E4300000"),
    ],
)
def test_codes_in_the_long_form(code, expected):
    assert inspire_code(code) == expected


@for_each(
    "code",
    ["", "u09tv", "1kmE4337N2689", "1kmN2689", "3kmN2689E4337", "5kmN2689E4337", "١kmN1E1",
     "CRS3035RES1000mN2689E4337", "CRS25832RES1000mN2689000E4337000", " 1kmN2689E4337"],
)  # fmt: skip
def test_what_is_no_code(code):
    with pytest.raises(InputError) as caught:
        inspire_code(code)
    assert str(caught.value) == (
        f"{code!r} is not the code of an INSPIRE cell, such as CRS3035RES1000mN2689000E4337000 or "
        "1kmN2689E4337"
    )


AREA = "is not in the area of the European grid, 24.6,-33.0,84.73,44.83"


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (Geohash.parse, PARIS, f"geohash {PARIS!r} is not south,west,north,east/PRECISION, e.g. "
         "48.81,2.22,48.91,2.42/6"),
        (Geohash.parse, f"{PARIS}/x", f"geohash '{PARIS}/x' is not south,west,north,east/PRECISION"
         ", e.g. 48.81,2.22,48.91,2.42/6"),
        (Geohash.parse, f"{PARIS}/0", "geohash precision 0 is not between 1 and 9"),
        (Geohash.parse, f"{PARIS}/10", "geohash precision 10 is not between 1 and 9"),
        (Geohash.parse, "1,2,3/4", "box '1,2,3' is not four numbers south,west,north,east"),
        (Geohash.parse, "-90,-180,90,180/9", "this box at this precision has more than 10,000,000 "
         "regions, the most that a cube can have"),
        (InspireGrid.parse, f"{PARIS}/1km", f"inspire '{PARIS}/1km' is not "
         "south,west,north,east/METRES, e.g. 48.81,2.22,48.91,2.42/1000"),
        (InspireGrid.parse, f"{PARIS}/300", "inspire width 300 m is not one of 100, 200, 250, 500, "
         "1000, 2000, 5000, 10000, 20000, 50000, 100000"),
        (InspireGrid.parse, "40,-75,41,-74/1000", f"box 40.0,-75.0,41.0,-74.0 {AREA}"),
        (InspireGrid.parse, "30,10,85,11/1000", f"box 30.0,10.0,85.0,11.0 {AREA}"),
        (InspireGrid.parse, "30,-33,84,44/100", "this box at this width has more than 10,000,000 "
         "regions, the most that a cube can have"),
    ],
)  # fmt: skip
def test_what_is_no_cell(parse, text, message):
    if parse == InspireGrid.parse:
        pytest.importorskip("pyproj")
    with pytest.raises(InputError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_without_pyproj_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyproj", None)
    coded_cells._projection.cache_clear()
    with pytest.raises(PackageError) as caught:
        InspireGrid.parse(f"{PARIS}/1000")
    assert str(caught.value).endswith("pip install 'clusterscale[inspire]'")
