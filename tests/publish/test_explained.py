"""A published file says what it contains, without other sources."""

import json
from datetime import datetime
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

import pyarrow.parquet as pq
import pytest
import xarray as xr
from oracles.publications import BUDGET, LAPLACE, plan, publish
from publish.test_run import HIDING, uri_of

from clusterscale.mechanisms import MECHANISMS
from clusterscale.mechanisms.base import Margin, PostProcessing
from clusterscale.release import read_table

NOISY = {"name": "chain", "steps": [{**LAPLACE, "epsilon": 20.0}, HIDING]}


@pytest.fixture(scope="module")
def published(cube, tmp_path_factory):
    """Return the address of a noisy release in each format."""

    def made(form):
        folder = tmp_path_factory.mktemp(form)
        settings = plan(
            folder, mechanism=NOISY, format=form, group_size=60, budget=BUDGET | {"epsilon": 20.0}
        )
        publish(cube, settings, folder / "run")
        return uri_of(folder, form)

    return made


def test_a_csv_file_is_described_by_column(published):
    uri = published("csv")
    notes = json.loads(Path(f"{uri}-metadata.json").read_text())
    columns = {column["name"]: column for column in notes["tableSchema"]["columns"]}
    header, *rows = (line.split(",") for line in Path(uri).read_text().splitlines())
    assert header == list(columns) == ["place", "time", "count", "flag", "lat", "lon"]
    assert columns["time"]["datatype"] == "dateTimeStamp"
    assert (columns["count"]["datatype"], columns["count"]["null"]) == ("integer", "")
    about = columns["count"]["dc:description"]
    assert "empty: hidden, because the value is below 5, or 0" in about
    accuracy = notes["notes"]["clusterscale"]["accuracy"]
    assert f"is within {accuracy['margin']:g} of the number that was counted" in about
    shown = [(int(value), flag) for _, _, value, flag, *_ in rows if value]
    assert all((flag == "u") == (value <= accuracy["margin"]) for value, flag in shown)
    assert {flag for _, flag in shown} == {"", "u"}
    page = Path(f"{uri}-README.md").read_text()
    assert all(f"**{name}**" in page for name in columns)
    assert "stated as 60" in page
    assert "ε 20 per user" in page


def test_times_are_those_of_the_cubes_zone(cube, tmp_path):
    settings = plan(tmp_path, mechanism={"name": "exact"}, budget=None, format="csv")
    publish(cube, settings, tmp_path / "run")
    stated = datetime.fromisoformat(
        Path(uri_of(tmp_path, "csv")).read_text().splitlines()[1].split(",")[1]
    )
    (seconds,) = cube.calendar.begins(0, 1)
    assert stated == datetime.fromtimestamp(seconds, ZoneInfo(cube.calendar.timezone))
    assert stated.utcoffset() == ZoneInfo(cube.calendar.timezone).utcoffset(stated)


def test_parquet_has_times_and_whole_numbers(published):
    schema = pq.read_schema(published("parquet"))
    assert str(schema.field("count").type) == "int64"
    assert str(schema.field("time").type).startswith("timestamp[")


@pytest.mark.parametrize("form", ["netcdf", "zarr"])
def test_arrays_have_attributes_and_flags(form, published):
    uri = published(form)
    opened = xr.open_dataset(uri) if form == "netcdf" else xr.open_zarr(uri)
    with opened as release:
        assert release.attrs["Conventions"].startswith("CF-")
        assert "below 5" in release.attrs["comment"]
        assert release.counts.attrs["ancillary_variables"] == "flag"
        margin = read_table(uri).metadata.accuracy.margin
        assert (release.flag.values == (release.counts.values <= margin)).all()


def test_no_population_is_invented(cube, tmp_path):
    settings = plan(tmp_path, mechanism={"name": "exact"}, budget=None)
    publish(cube, settings, tmp_path / "run")
    metadata = read_table(uri_of(tmp_path)).metadata
    assert (metadata.group_size, metadata.population) == (cube.n_users, None)


LAPLACE_EVENT = {"name": "laplace", "unit": "event", "sensitivity": 1.0, "discrete": True}


class Boasts(PostProcessing):
    """A step of another package, which says that all values are exact."""

    name: Literal["boasts"] = "boasts"

    def widen(self, margin):
        return Margin()

    def revise(self, values):
        """Change nothing."""


@pytest.fixture
def boasts():
    MECHANISMS.add(Boasts)
    yield
    MECHANISMS.discard(Boasts)


@pytest.mark.parametrize(
    ("steps", "said", "not_said"),
    [
        # All zeros of unpopular places are hidden, by no threshold.
        ([{"name": "suppress_unpopular", "fraction": 0.5}], "is not stated", "no value is hidden"),
        ([{"name": "top_code", "at": 3}], "is not stated", "the number that was counted."),
        # 0 is shown for small counts, so not every value that is shown is exact.
        ([{"name": "threshold", "k": 5}], "a value above 0 that is shown is the number", "empty"),
        ([{"name": "threshold", "k": 5, "shown": "label"}], "0: nobody", "is not stated"),
        (
            [LAPLACE_EVENT | {"epsilon": 2.0}, {"name": "threshold", "k": 5, "shown": "label"}],
            "above 0 and below 5",
            "0: nobody",
        ),
        # The 97.5 % quantile of this noise is 0, which does not make values exact.
        ([LAPLACE_EVENT | {"epsilon": 10.0}], "with a probability of 99.9 %", "is the number"),
        ([LAPLACE_EVENT | {"epsilon": 2.0, "clip": True}], "sums of many values are", "is the n"),
        (
            [HIDING, {"name": "expand", "factor": 5.13}],
            "the value before the last steps is below 5",
            "no value is hidden",
        ),
        ([{"name": "cap_contributions", "per_day": 3}], "is not in the margin", "lasts"),
        ([{"name": "boasts"}], "is not stated", "no value is hidden"),
    ],
)
@pytest.mark.usefixtures("boasts")
def test_a_page_reassures_nobody_by_mistake(steps, said, not_said, cube, tmp_path):
    noisy = any("epsilon" in step for step in steps)
    budget = {"unit": "event", "epsilon": 20.0} if noisy else None
    mechanism = {"name": "chain", "steps": steps}
    settings = plan(tmp_path, mechanism=mechanism, budget=budget, format="csv", group_size=60)
    publish(cube, settings, tmp_path / "run")
    page = Path(f"{uri_of(tmp_path, 'csv')}-README.md").read_text()
    assert said in page
    assert not_said not in page
