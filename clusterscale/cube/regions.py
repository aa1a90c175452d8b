"""Regions: grids, named points and the hexagons of H3, with the lookup of positions.

A cube stores :class:`Regions`. The ways to create them (:class:`Grid`, :class:`Points`,
:class:`Hexagons`, :class:`~clusterscale.cube.Geohash`, :class:`~clusterscale.cube.InspireGrid`)
also return the region of a position.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field
from itertools import pairwise
from typing import Any, Protocol

import h3
import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.errors import InputError

Floats = NDArray[np.float64]
Index = NDArray[np.int32]

EARTH_RADIUS = 6_371_008.8  # metres, mean radius (IUGG)
_MOST = 10_000_000
NULL_ROI = "null"


@dataclass(frozen=True, slots=True, eq=False)
class Regions:
    """Regions of interest.

    Attributes
    ----------
    names
        Names, shape (roi,).
    lat, lon
        Centres in degrees (WGS 84), float64, shape (roi,); NaN where not known.

    Raises
    ------
    InputError
        If there is no region, names and positions differ in number, or a position is infinite.
    """

    names: tuple[str, ...]
    lat: Floats
    lon: Floats

    def __post_init__(self) -> None:
        n_names, n_lat, n_lon = len(self.names), np.size(self.lat), np.size(self.lon)
        if not n_names == n_lat == n_lon:
            raise InputError(
                f"{n_names} names of regions, {n_lat} latitudes, {n_lon} longitudes: "
                "these must agree"
            )
        if not self.names:
            raise InputError("there are no regions: give at least one")
        if np.isinf(self.lat).any() or np.isinf(self.lon).any():
            raise InputError("a region has an infinite position")

    def __len__(self) -> int:
        return len(self.names)

    def by_category(self, column: str, categories: Sequence[str]) -> "Regions":
        """Return a region for each category of each region, such as ``A (sex F)``."""
        check_number(len(self) * len(categories), f"every category of {column} in every region")
        names = tuple(f"{name} ({column} {of})" for name in self.names for of in categories)
        return Regions(names, *(np.repeat(at, len(categories)) for at in (self.lat, self.lon)))

    def with_null(self) -> "Regions":
        """Return the regions with the null ROI as the last one; its position is NaN."""
        return Regions(
            (*self.names, NULL_ROI), np.append(self.lat, np.nan), np.append(self.lon, np.nan)
        )


class Locator(Protocol):
    """A rule that assigns positions to regions."""

    @property
    def regions(self) -> Regions:
        """The regions, in the order of their index."""

    def locate(self, lat: Floats, lon: Floats) -> Index:
        """Return the region of each position, −1 outside all of them."""

    def describe(self) -> dict[str, Any]:
        """Return how the regions were made, as JSON-serialisable values."""


@dataclass(frozen=True, slots=True)
class Box:
    """A bounding box.

    Attributes
    ----------
    south, west, north, east
        Degrees (WGS 84), with south < north and west < east.

    Raises
    ------
    InputError
        If a bound is out of range, or the box is empty.
    """

    south: float
    west: float
    north: float
    east: float

    def __post_init__(self) -> None:
        if not (-90 <= self.south < self.north <= 90 and -180 <= self.west < self.east <= 180):
            raise InputError(
                f"box {self.south},{self.west},{self.north},{self.east} is not "
                "south,west,north,east in degrees with south < north and west < east"
            )

    @classmethod
    def parse(cls, text: str) -> "Box":
        """Read ``south,west,north,east``.

        Raises InputError if these are not four numbers, or the box is empty.
        """
        try:
            south, west, north, east = (float(part) for part in text.split(","))
        except ValueError:
            raise InputError(f"box {text!r} is not four numbers south,west,north,east") from None
        return cls(south, west, north, east)

    def contains(self, lat: Floats, lon: Floats) -> NDArray[np.bool_]:
        """Return which positions are inside; the upper edges are outside."""
        with np.errstate(invalid="ignore"):
            vertical = (lat >= self.south) & (lat < self.north)
            horizontal = (lon >= self.west) & (lon < self.east)
        return np.asarray(vertical & horizontal)


@dataclass(frozen=True, slots=True)
class Grid:
    """A uniform grid of cells over a box, row by row from the south-west.

    Attributes
    ----------
    box
        The box.
    n_lat, n_lon
        Numbers of rows and columns.

    Raises
    ------
    InputError
        If there is no cell, or there are too many.
    """

    box: Box
    n_lat: int
    n_lon: int

    def __post_init__(self) -> None:
        if self.n_lat < 1 or self.n_lon < 1:
            raise InputError(f"grid {self.n_lat}x{self.n_lon} has no cell")
        check_number(self.n_lat * self.n_lon, "this grid")

    @classmethod
    def parse(cls, text: str) -> "Grid":
        """Read ``south,west,north,east/ROWSxCOLUMNS``, e.g. ``37.7,-122.5,37.8,-122.3/10x10``.

        Raises InputError if the text has another format.
        """
        box, _, shape = text.partition("/")
        try:
            n_lat, n_lon = (int(part) for part in shape.lower().split("x"))
        except ValueError:
            raise InputError(
                f"grid {text!r} is not south,west,north,east/ROWSxCOLUMNS, "
                "e.g. 37.7282,-122.4528,37.8021,-122.3637/10x10"
            ) from None
        return cls(Box.parse(box), n_lat, n_lon)

    @property
    def regions(self) -> Regions:
        """One region per cell, named ``row-column``, positioned at its centre."""
        box = self.box
        lat = box.south + (np.arange(self.n_lat) + 0.5) * (box.north - box.south) / self.n_lat
        lon = box.west + (np.arange(self.n_lon) + 0.5) * (box.east - box.west) / self.n_lon
        names = tuple(f"{i}-{j}" for i in range(self.n_lat) for j in range(self.n_lon))
        return Regions(names, np.repeat(lat, self.n_lon), np.tile(lon, self.n_lat))

    def locate(self, lat: Floats, lon: Floats) -> Index:
        """Return the cell of each position, −1 outside the box."""
        box = self.box
        inside = box.contains(lat, lon)
        with np.errstate(invalid="ignore"):
            row = np.floor((lat - box.south) / (box.north - box.south) * self.n_lat)
            column = np.floor((lon - box.west) / (box.east - box.west) * self.n_lon)
        # Rounding can lift a position just below an upper edge onto it.
        row = np.minimum(np.where(inside, row, 0), self.n_lat - 1)
        column = np.minimum(np.where(inside, column, 0), self.n_lon - 1)
        return np.where(inside, row * self.n_lon + column, -1).astype(np.int32)

    def describe(self) -> dict[str, Any]:
        """Return the box and the shape."""
        shape = [self.n_lat, self.n_lon]
        return {"kind": "grid", "box": list(astuple(self.box)), "shape": shape}


def check_number(n: int, what: str) -> None:
    """Raise InputError if ``n`` regions are more than a cube can have."""
    if n > _MOST:
        raise InputError(f"{what} has more than {_MOST:,} regions, the most that a cube can have")


def split_box(text: str, kind: str, number: str, example: str) -> tuple[Box, int]:
    """Read ``south,west,north,east/NUMBER``; the other words are for errors."""
    box, _, size = text.partition("/")
    if not size.strip().isdecimal():
        raise InputError(f"{kind} {text!r} is not south,west,north,east/{number}, e.g. {example}")
    return Box.parse(box), int(size)


def on_earth(lat: Floats, lon: Floats) -> NDArray[np.bool_]:
    """Return which positions are latitudes and longitudes in degrees."""
    with np.errstate(invalid="ignore"):
        return np.asarray((np.abs(lat) <= 90) & (np.abs(lon) <= 180))


@dataclass(frozen=True, slots=True)
class Points:
    """Named points; a position belongs to the nearest one.

    Attributes
    ----------
    regions
        The points.
    cutoff
        Maximum distance in metres from a position to its point.

    Raises
    ------
    InputError
        If a point has no position, two share a name, or the cut-off is not positive.
    """

    regions: Regions
    cutoff: float = np.inf
    _tree: scipy.spatial.cKDTree = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        known = on_earth(self.regions.lat, self.regions.lon)
        if not known.all():
            name = self.regions.names[int(np.argmin(known))]
            raise InputError(f"point {name!r} has no position in degrees")
        if not self.cutoff > 0:
            raise InputError(f"cut-off {self.cutoff} m is not positive")
        if len(set(self.regions.names)) != len(self.regions):
            raise InputError("two points share a name")
        object.__setattr__(
            self, "_tree", scipy.spatial.cKDTree(_unit(self.regions.lat, self.regions.lon))
        )

    def locate(self, lat: Floats, lon: Floats) -> Index:
        """Return the nearest point of each position, −1 beyond the cut-off."""
        known = on_earth(lat, lon)
        nearest = np.full(lat.shape, -1, np.int32)
        chord, index = self._tree.query(_unit(lat[known], lon[known]))
        metres = 2 * EARTH_RADIUS * np.arcsin(np.minimum(chord / 2, 1))
        nearest[known] = np.where(metres <= self.cutoff, index, -1)
        return nearest

    def describe(self) -> dict[str, Any]:
        """Return the number of points and the cut-off, None if there is none."""
        cutoff = self.cutoff if np.isfinite(self.cutoff) else None
        return {"kind": "points", "n_points": len(self.regions), "cutoff_metres": cutoff}


@dataclass(frozen=True, slots=True)
class Hexagons:
    """The H3 cells of one resolution whose centres are in a box.

    Attributes
    ----------
    box
        The box.
    resolution
        Resolution of H3, from 0 (coarse) to 15.

    Raises
    ------
    InputError
        If the resolution is out of range, or there are no cells or too many.
    """

    box: Box
    resolution: int
    _index: dict[int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.resolution <= 15:
            raise InputError(f"h3 resolution {self.resolution} is not between 0 and 15")
        box, size = np.radians(astuple(self.box)), h3.average_hexagon_area(self.resolution, "m^2")
        area = EARTH_RADIUS**2 * (box[3] - box[1]) * (np.sin(box[2]) - np.sin(box[0]))
        check_number(int(area / size), "this box at this resolution")
        cells = sorted({h3.str_to_int(cell) for cell in _hexagons_in(self.box, self.resolution)})
        if not cells:
            raise InputError(
                f"no H3 cell of resolution {self.resolution} has its centre in the box: "
                "take a finer resolution or a larger box"
            )
        object.__setattr__(self, "_index", {cell: i for i, cell in enumerate(cells)})

    @classmethod
    def parse(cls, text: str) -> "Hexagons":
        """Read ``south,west,north,east/RESOLUTION``, e.g. ``37.7,-122.5,37.8,-122.3/8``.

        Raises InputError if the text has another format.
        """
        example = "37.7282,-122.4528,37.8021,-122.3637/8"
        return cls(*split_box(text, "h3", "RESOLUTION", example))

    @property
    def regions(self) -> Regions:
        """One region per cell, named by its H3 index."""
        names = tuple(h3.int_to_str(cell) for cell in self._index)
        lat, lon = np.array([h3.cell_to_latlng(name) for name in names]).T
        return Regions(names, lat, lon)

    def locate(self, lat: Floats, lon: Floats) -> Index:
        """Return the H3 cell of each position, −1 if it is not one of the box."""
        index = np.full(lat.shape, -1, np.int32)
        for i in np.flatnonzero(on_earth(lat, lon)):
            cell = h3.str_to_int(h3.latlng_to_cell(lat[i], lon[i], self.resolution))
            index[i] = self._index.get(cell, -1)
        return index

    def describe(self) -> dict[str, Any]:
        """Return the box and the resolution."""
        return {"kind": "h3", "box": list(astuple(self.box)), "resolution": self.resolution}


def _hexagons_in(box: Box, resolution: int) -> Iterator[str]:
    # H3 interprets a polygon wider than half the globe as its complement.
    edges = np.linspace(box.west, box.east, 1 + math.ceil((box.east - box.west) / 90))
    for west, east in pairwise(edges.tolist()):
        corners = [(box.south, west), (box.south, east), (box.north, east), (box.north, west)]
        yield from h3.h3shape_to_cells(h3.LatLngPoly(corners), resolution)


def _unit(lat: Floats, lon: Floats) -> Floats:
    phi, lam = np.radians(lat), np.radians(lon)
    return np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)], axis=-1)
