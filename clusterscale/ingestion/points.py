"""Read named points, such as stations or antennas, from a file."""

from __future__ import annotations

import csv
import io

import numpy as np

from clusterscale import storage
from clusterscale.cube.locators import Points
from clusterscale.cube.regions import Regions
from clusterscale.errors import MissingError, SourceError
from clusterscale.ingestion.records import LIMITS

_ACCEPTS = (
    "points are read from text in UTF-8, comma-separated, whose first line names the columns name, "
    "lat and lon; positions in decimal degrees"
)


def read_points(path: str, cutoff: float | None = None) -> Points:
    """Read points from a CSV file with the columns ``name``, ``lat`` and ``lon`` (degrees).

    Parameters
    ----------
    path
        Local path or fsspec URL.
    cutoff
        Maximum distance in metres from a position to its point; None for no limit.

    Returns
    -------
    Points
        In the order of the file.

    Raises
    ------
    MissingError
        If there is no such file.
    SourceError
        If a column is missing or a line is invalid; names the line, column and value.
    InputError
        If the cut-off is not positive.
    """
    if not storage.exists(path):
        raise MissingError(f"{path}: there is no such file of points")
    try:
        return Points(_read(path), np.inf if cutoff is None else cutoff)
    except SourceError as error:
        raise SourceError(f"{error}\n{_ACCEPTS}") from None


def _read(path: str) -> Regions:
    raw = storage.read(path)
    try:
        reader = csv.DictReader(io.StringIO(raw.decode("utf-8-sig"), newline=""))
    except UnicodeDecodeError:
        raise SourceError(f"{path} is not UTF-8 text") from None
    reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
    for name in ("name", "lat", "lon"):
        if name not in reader.fieldnames:
            has = ", ".join(reader.fieldnames) or "none"
            raise SourceError(f"{path} has no column {name}: its columns are {has}")
    points: dict[str, tuple[float, float]] = {}
    for row in reader:
        line = f"{path}, line {reader.line_num}"
        name = (row["name"] or "").strip()
        if not name:
            raise SourceError(f"{line}: the point has no name")
        if name in points:
            raise SourceError(f"{line}: an earlier point has the same name")
        points[name] = (_degrees(row["lat"], "lat", line), _degrees(row["lon"], "lon", line))
    if not points:
        raise SourceError(f"{path} contains no points")
    lat, lon = np.array(list(points.values())).T
    return Regions(tuple(points), lat.copy(), lon.copy())


def _degrees(text: str | None, column: str, line: str) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = np.nan
    if not abs(value) <= LIMITS[column]:
        limit = f"±{LIMITS[column]:.0f}"
        raise SourceError(f"{line}: {column} is not a number within {limit}")
    return value
