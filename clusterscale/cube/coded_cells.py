"""Regions that are cells of a public grid, named by their code: geohash, or that of INSPIRE."""

import re
from dataclasses import astuple, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.cube.regions import (
    Box,
    Floats,
    Index,
    Regions,
    check_number,
    on_earth,
    split_box,
)
from clusterscale.errors import InputError, PackageError

INSPIRE_SIZES = (100, 200, 250, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
"""Widths of cells in metres."""

_CODE = re.compile(
    r"(?:[A-Z]{2}_)?(?:CRS3035RES(?P<metres>\d{1,6})m|(?P<size>\d{1,3})(?P<unit>k?m))"
    r"N(?P<north>\d{1,7})E(?P<east>\d{1,7})",
    re.ASCII,
)


def inspire_code(code: str) -> str:
    """Return the code of an INSPIRE cell in its long form, without a country.

    The short code ``1kmN2689E4337`` is ``CRS3035RES1000mN2689000E4337000`` in long; ``code``
    may be either, and may follow a country and ``_``. Raises InputError if it is no such code.
    """
    if found := _CODE.fullmatch(code):
        north, east = int(found["north"]), int(found["east"])
        if found["metres"]:
            metres, unit = int(found["metres"]), 1
        else:
            metres = int(found["size"]) * (1000 if found["unit"] == "km" else 1)
            # Short codes leave out as many digits as the width has zeros at its end.
            unit = 10 ** (len(str(metres)) - len(str(metres).rstrip("0")))
        if metres in INSPIRE_SIZES and north * unit % metres == 0 == east * unit % metres:
            return inspire_name(metres, north * unit, east * unit)
    raise InputError(
        f"{code!r} is not the code of an INSPIRE cell, such as CRS3035RES1000mN2689000E4337000 or "
        "1kmN2689E4337"
    )


def inspire_name(metres: int, north: int, east: int) -> str:
    """Return the long code of a cell, by its width and its south-west corner in metres."""
    return f"CRS3035RES{metres}mN{north}E{east}"


def coarser_cells(code: str) -> list[str]:
    """Return the long codes of the larger cells that contain an INSPIRE cell, smallest first.

    Raises InputError if ``code`` is no such code.
    """
    found = _CODE.fullmatch(inspire_code(code))
    assert found is not None
    own, north, east = (int(found[part]) for part in ("metres", "north", "east"))
    return [
        inspire_name(metres, north - north % metres, east - east % metres)
        for metres in INSPIRE_SIZES
        if metres > own and metres % own == 0
    ]


_BASE32 = np.array(list("0123456789bcdefghjkmnpqrstuvwxyz"))
_EUROPE = Box(24.6, -33.0, 84.73, 44.83)  # of the area of use of EPSG:3035, where E and N are > 0


@dataclass(frozen=True, slots=True)
class _Cells:
    """The cells of an unbounded grid that cover a rectangle, row by row from the south-west.

    ``row`` and ``column`` number the first ones; cell (0, 0) has its south-west corner at (0, 0).
    """

    height: float
    width: float
    row: int
    column: int
    n_rows: int
    n_columns: int

    @classmethod
    def cover(
        cls, rectangle: tuple[float, float, float, float], height: float, width: float, what: str
    ) -> "_Cells":
        """Return the cells that cover ``(south, west, north, east)``; ``what`` is for errors."""
        south, west, north, east = (np.array([bound]) for bound in rectangle)
        row, column = int(_floor(south, height)[0]), int(_floor(west, width)[0])
        n_rows = -int(_floor(-north, height)[0]) - row
        n_columns = -int(_floor(-east, width)[0]) - column
        check_number(n_rows * n_columns, what)
        return cls(height, width, row, column, n_rows, n_columns)

    def numbers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the row and the column of each cell."""
        rows = np.arange(self.row, self.row + self.n_rows)
        columns = np.arange(self.column, self.column + self.n_columns)
        return np.repeat(rows, self.n_columns), np.tile(columns, self.n_rows)

    def centres(self) -> tuple[Floats, Floats]:
        """Return the centre (y, x) of each cell."""
        row, column = self.numbers()
        return np.multiply(row + 0.5, self.height), np.multiply(column + 0.5, self.width)

    def locate(self, y: Floats, x: Floats) -> Index:
        """Return the cell of each position, −1 outside all of them."""
        with np.errstate(invalid="ignore"):
            row, column = _floor(y, self.height) - self.row, _floor(x, self.width) - self.column
            inside = (row >= 0) & (row < self.n_rows) & (column >= 0) & (column < self.n_columns)
            index = np.where(inside, row * self.n_columns + column, -1)
        return np.asarray(index.astype(np.int32))


@dataclass(frozen=True, slots=True)
class Geohash:
    """The geohash cells of one precision that intersect a box.

    Attributes
    ----------
    box
        The box.
    precision
        Number of characters of a geohash, from 1 (coarse) to 9 (about 5 m).

    Raises
    ------
    InputError
        If the precision is out of range, or there are too many cells.
    """

    box: Box
    precision: int
    _cells: _Cells = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= self.precision <= 9:
            raise InputError(f"geohash precision {self.precision} is not between 1 and 9")
        height, width = geohash_degrees(self.precision)
        cells = _Cells.cover(astuple(self.box), height, width, "this box at this precision")
        object.__setattr__(self, "_cells", cells)

    @classmethod
    def parse(cls, text: str) -> "Geohash":
        """Read ``south,west,north,east/PRECISION``, e.g. ``48.81,2.22,48.91,2.42/6``.

        Raises InputError if the text has another format.
        """
        return cls(*split_box(text, "geohash", "PRECISION", "48.81,2.22,48.91,2.42/6"))

    @property
    def regions(self) -> Regions:
        """One region per cell, named by its geohash, positioned at its centre."""
        names = _encode(*self._cells.numbers(), self.precision)
        return Regions(tuple(names), *self._cells.centres())

    def locate(self, lat: Floats, lon: Floats) -> Index:
        """Return the geohash cell of each position, −1 if it is not one of the box."""
        y, x = (np.where(on_earth(lat, lon), axis, np.nan) for axis in (lat, lon))
        # The outermost cells include the pole and the antimeridian.
        return self._cells.locate(
            np.minimum(y, np.nextafter(90, 0)), np.minimum(x, np.nextafter(180, 0))
        )

    def describe(self) -> dict[str, Any]:
        """Return the box and the precision."""
        return {"kind": "geohash", "box": list(astuple(self.box)), "precision": self.precision}


@dataclass(frozen=True, slots=True)
class InspireGrid:
    """The cells of the European grid of INSPIRE (EPSG:3035) that cover a box.

    They are the smallest rectangle of whole cells around the box on the map of EPSG:3035. It needs
    ``pip install 'clusterscale[inspire]'``.

    Attributes
    ----------
    box
        The box, in Europe.
    metres
        Width of a cell: 100, 200, 250, 500, 1000, and so on to 100000.

    Raises
    ------
    InputError
        If there are no cells of this width, the box is not in Europe, or there are too many cells.
    PackageError
        If pyproj is not installed.

    References
    ----------
    Codes are those of Commission Implementing Regulation (EU) 2018/1799, article 3, without the
    country.
    """

    box: Box
    metres: int
    _cells: _Cells = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.metres not in INSPIRE_SIZES:
            sizes = ", ".join(map(str, INSPIRE_SIZES))
            raise InputError(f"inspire width {self.metres} m is not one of {sizes}")
        box, (south, west, north, east) = self.box, astuple(_EUROPE)
        if min(box.south - south, box.west - west, north - box.north, east - box.east) < 0:
            raise InputError(
                f"box {','.join(map(str, astuple(box)))} is not in the area of the European grid, "
                f"{','.join(map(str, astuple(_EUROPE)))}"
            )
        # Sides of the box are curves on the map: their bounds come from many points.
        west, south, east, north = _projection().transform_bounds(
            box.west, box.south, box.east, box.north, densify_pts=1000
        )
        cells = _Cells.cover(
            (south, west, north, east), self.metres, self.metres, "this box at this width"
        )
        object.__setattr__(self, "_cells", cells)

    @classmethod
    def parse(cls, text: str) -> "InspireGrid":
        """Read ``south,west,north,east/METRES``, e.g. ``48.81,2.22,48.91,2.42/1000``.

        Raises InputError if the text has another format.
        """
        return cls(*split_box(text, "inspire", "METRES", "48.81,2.22,48.91,2.42/1000"))

    @property
    def regions(self) -> Regions:
        """One region per cell, such as ``CRS3035RES1000mN2689000E4337000``, at its centre."""
        corners = np.stack(self._cells.numbers(), axis=1) * self.metres
        names = tuple(inspire_name(self.metres, *corner) for corner in corners.tolist())
        y, x = self._cells.centres()
        lon, lat = _project(x, y, "INVERSE")
        return Regions(names, lat, lon)

    def locate(self, lat: Floats, lon: Floats) -> Index:
        """Return the cell of each position, −1 if it is not one of those that cover the box."""
        known = on_earth(lat, lon)
        index = np.full(lat.shape, -1, np.int32)
        x, y = _project(lon[known], lat[known], "FORWARD")
        index[known] = self._cells.locate(y, x)
        return index

    def describe(self) -> dict[str, Any]:
        """Return the box and the width of a cell."""
        return {"kind": "inspire", "box": list(astuple(self.box)), "metres": self.metres}


def geohash_degrees(precision: int) -> tuple[float, float]:
    """Return the height and the width in degrees of geohash cells."""
    n_bits = 5 * precision // 2
    return 180 / 2**n_bits, 360 / 2 ** (5 * precision - n_bits)


def _floor(values: Floats, step: float) -> Floats:
    """Return ``values / step`` rounded down, exactly where multiples of ``step`` are exact."""
    floor = np.floor(values / step)
    return floor - (floor * step > values)  # the quotient may round up to a whole number


def _encode(row: NDArray[np.int64], column: NDArray[np.int64], precision: int) -> list[str]:
    """Return the geohashes of cells, numbered from the equator and the meridian of Greenwich."""
    n_bits = 5 * precision
    row, column = row + 2 ** (n_bits // 2 - 1), column + 2 ** (n_bits - n_bits // 2 - 1)
    code = np.zeros(row.shape, np.int64)
    for bit in range(n_bits):  # from the last one; the first one is of the longitude
        axis = row if (n_bits - bit) % 2 == 0 else column
        code |= (axis >> bit // 2 & 1) << bit
    digits = code[:, None] >> np.arange(n_bits - 5, -1, -5) & 31
    return [str(name) for name in _BASE32[digits].view(f"U{precision}")[:, 0].tolist()]


def _project(x: Floats, y: Floats, direction: str) -> tuple[Floats, Floats]:
    """Return projected positions; the first is repeated, since pyproj takes one for a number."""
    one, other = (np.append(values, values[:1]) for values in (x, y))
    one, other = _projection().transform(one, other, direction=direction)
    return one[: len(x)], other[: len(x)]


@lru_cache(maxsize=1)
def _projection() -> Any:
    """Return the projection of (lon, lat) to (easting, northing)."""
    try:
        from pyproj import Transformer
    except ImportError:
        raise PackageError(
            "INSPIRE cells are computed by pyproj: pip install 'clusterscale[inspire]'"
        ) from None
    return Transformer.from_crs("EPSG:4326", "EPSG:3035", always_xy=True)
