"""Named points out of a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("dask")

from clusterscale.errors import MissingError, SourceError
from clusterscale.ingestion import Events, read_points

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


WITHIN = "is not a number within ±90: write degrees, as in 51.5308 or -0.1238"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "PATH is empty: the first line should name the columns"),
        (
            "name;lat;lon\na;1;1\n",
            "PATH has no column name: its columns are name, lat, lon, if ';' separates them: set "
            "the reader's `delimiter`",
        ),
        ("name,latitude,lon\n", "PATH has no column lat: its columns are name, latitude, lon"),
        ("name,lat,lon\n", "PATH contains no points"),
        (
            "name,lat,lon\na,1,1\nb,x,1\n",
            f"PATH: line 3, column lat: 'x' {WITHIN}",
        ),
        ('name,lat,lon\na,"1,5",2\n', f"PATH: line 2, column lat: '1,5' {WITHIN}"),
        (
            "name,lat,lon\na,1,181\n",
            f"PATH: line 2, column lon: '181' {WITHIN.replace('90', '180')}",
        ),
        ("name,lat,lon\na,1\n", "PATH: 1 lines are not rows; the first has 2 fields, not 3"),
        ("name,lat,lon\na,nan,1\n", f"PATH: line 2, column lat: 'nan' {WITHIN}"),
        ("name,lat,lon\n\n ,1,1\n", "PATH: line 3, column name: the name is missing"),
        (
            "name,lat,lon\na,1,1\na,2,2\n",
            "PATH: line 3, column name: an earlier point has the same name",
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
    assert accepted.startswith("points are Parquet (.parquet, .parq, .pq) or text in UTF-8")
    assert "name, lat, lon" in accepted
    assert accepted.endswith("another delimiter, encoding or column is set by `reader`")


def test_points_that_are_no_text_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    with pytest.raises(MissingError):
        read_points(str(path))
    path.write_bytes(b"name,lat,lon\n\xff\xfe,1,1\n")
    with pytest.raises(SourceError, match="line 2, column name: the name is not UTF-8 text: set"):
        read_points(str(path))


def test_points_are_laid_out_as_records_are(tmp_path: Path) -> None:
    path = tmp_path / "paradas.txt"
    lines = "Paradas\nparada;latitud;longitud\nPeñón;40.4;-3.7\nCañas;40.5;-3.8\n"
    path.write_text(lines, encoding="latin-1")
    columns = {"roi": "parada", "lat": "latitud", "lon": "longitud"}
    reader = Events(**columns, delimiter=";", encoding="latin-1", skip=1)
    points = read_points(str(path), None, reader)
    assert points.regions.names == ("Peñón", "Cañas")
    assert points.regions.lat.tolist() == [40.4, 40.5]
    path.write_text(lines + "Peñón;1;1\n", encoding="latin-1")
    with pytest.raises(SourceError, match="line 5, column parada: an earlier"):
        read_points(str(path), None, reader)
    # a comma that cannot separate columns is a decimal one
    path.write_text(lines.replace(".", ","), encoding="latin-1")
    assert read_points(str(path), None, reader).regions.lon.tolist() == [-3.7, -3.8]
    for value in ("4,440,13", "1.234,5", "4,", ","):
        path.write_text(lines.replace("40.4", value), encoding="latin-1")
        with pytest.raises(SourceError, match=f"line 3, column latitud: '{value}' is not a number"):
            read_points(str(path), None, reader)
    table = pa.table({"name": ["Peñón"], "lat": [40.4], "lon": [-3.7]})
    pq.write_table(table, tmp_path / "a.parquet")
    assert read_points(str(tmp_path / "a.parquet")).regions.names == ("Peñón",)
