"""Regions that are points, or the hexagons of H3, with the lookup of positions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import astuple, dataclass, field
from itertools import pairwise
from typing import Any

import h3
import numpy as np
import scipy

from clusterscale.cube.regions import (
    EARTH_RADIUS,
    Box,
    Floats,
    Index,
    Regions,
    check_number,
    on_earth,
    split_box,
)
from clusterscale.errors import InputError


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
    def parse(cls, text: str) -> Hexagons:
        """Read ``south,west,north,east/RESOLUTION``, e.g. ``37.7,-122.5,37.8,-122.3/8``.

        Raises
        ------
        InputError
            If the text has another format.
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
        box = self.box
        corners = [box.south, box.west, box.north, box.east]
        return {"kind": "h3", "box": corners, "resolution": self.resolution}


def _hexagons_in(box: Box, resolution: int) -> Iterator[str]:
    # H3 interprets a polygon wider than half the globe as its complement.
    edges = np.linspace(box.west, box.east, 1 + math.ceil((box.east - box.west) / 90))
    for west, east in pairwise(edges.tolist()):
        corners = [(box.south, west), (box.south, east), (box.north, east), (box.north, west)]
        yield from h3.h3shape_to_cells(h3.LatLngPoly(corners), resolution)


def _unit(lat: Floats, lon: Floats) -> Floats:
    phi, lam = np.radians(lat), np.radians(lon)
    return np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)], axis=-1)
