"""Named points out of a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("dask")

from clusterscale.errors import MissingError, SourceError
from clusterscale.ingestion import read_points

pytestmark = pytest.mark.dask


def test_points_keep_their_order_names_and_positions(tmp_path: Path) -> None:
    path = tmp_path / "stations.csv"
    path.write_text('\ufefflon, zone,lat,name\n-0.09,1,51.51,"Bank, City"\n-0.11,2,51.53, Angel\n')
    points = read_points(str(path), 500.0)
    assert points.regions.names == ("Bank, City", "Angel")
    assert points.regions.lat.tolist() == [51.51, 51.53]
    assert points.regions.lon.tolist() == [-0.09, -0.11]
    near, far = np.array([51.511, 52.0]), np.array([-0.09, 0.0])
    assert points.locate(near, far).tolist() == [0, -1]
    assert read_points(str(path)).locate(near, far).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "PATH has no column name: its columns are none"),
        ("name,latitude,lon\n", "PATH has no column lat: its columns are name, latitude, lon"),
        ("name,lat,lon\n", "PATH contains no points"),
        (
            "name,lat,lon\na,1,1\nb,x,1\n",
            "PATH, line 3: lat is not a number within ±90",
        ),
        ("name,lat,lon\na,1,181\n", "PATH, line 2: lon is not a number within ±180"),
        ("name,lat,lon\na,1\n", "PATH, line 2: lon is not a number within ±180"),
        ("name,lat,lon\na,nan,1\n", "PATH, line 2: lat is not a number within ±90"),
        ("name,lat,lon\n ,1,1\n", "PATH, line 2: the point has no name"),
        (
            "name,lat,lon\na,1,1\na,2,2\n",
            "PATH, line 3: an earlier point has the same name",
        ),
    ],
)
def test_wrong_points_are_named(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text(text)
    with pytest.raises(SourceError) as caught:
        read_points(str(path))
    said, accepted = str(caught.value).replace(str(path), "PATH").split("\n")
    assert said == message
    assert accepted.startswith("points are read from text in UTF-8")
    assert "name, lat and lon" in accepted


def test_points_that_are_no_text_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    with pytest.raises(MissingError):
        read_points(str(path))
    path.write_bytes(b"name,lat,lon\n\xff\xfe,1,1\n")
    with pytest.raises(SourceError, match=r"points\.csv is not UTF-8 text\n"):
        read_points(str(path))
