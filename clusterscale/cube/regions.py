"""Regions of interest (ROIs): names, positions, and lookup of positions.

A cube stores :class:`Regions`. The ways to create them (:class:`Grid`,
:class:`~clusterscale.cube.Points`, :class:`~clusterscale.cube.Hexagons`,
:class:`~clusterscale.cube.Geohash`, :class:`~clusterscale.cube.InspireGrid`) also return the region
of a position.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
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

    def with_null(self) -> Regions:
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
    def parse(cls, text: str) -> Box:
        """Read ``south,west,north,east``.

        Raises
        ------
        InputError
            If these are not four numbers, or the box is empty.
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
    def parse(cls, text: str) -> Grid:
        """Read ``south,west,north,east/ROWSxCOLUMNS``, e.g. ``37.7,-122.5,37.8,-122.3/10x10``.

        Raises
        ------
        InputError
            If the text has another format.
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
        box = self.box
        corners = [box.south, box.west, box.north, box.east]
        return {"kind": "grid", "box": corners, "shape": [self.n_lat, self.n_lon]}


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
