"""A published file says what it contains, without other sources."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow.parquet as pq
import pytest
import xarray as xr
from markdown_it import MarkdownIt
from oracles.publications import BUDGET, LAPLACE, plan, publish
from publish.test_run import FORMATS, HIDING, uri_of

from clusterscale.mechanisms import MECHANISMS
from clusterscale.mechanisms.base import Margin, PostProcessing
from clusterscale.release import RawRelease, read_table
from clusterscale.release.explanation import _factor, explain_release

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


def test_the_exact_number_of_people_is_not_published_beside_a_rounded_one(cube, tmp_path):
    rounded = plan(tmp_path, mechanism={"name": "exact"}, budget=None, group_size=cube.n_users - 1)
    publish(cube, rounded, tmp_path / "run")
    metadata = read_table(uri_of(tmp_path)).metadata
    assert (metadata.group_size, metadata.population) == (cube.n_users - 1, None)


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
            [LAPLACE_EVENT | {"epsilon": 2.0, "clip": True}],
            "if all of them are far above 0",
            "hidden,",
        ),
        # What is shown of noisy values, or rounded, is no longer independent noise around counts.
        ([LAPLACE_EVENT | {"epsilon": 1.0}, HIDING], "by chance in at most", "sum of"),
        (
            [LAPLACE_EVENT | {"epsilon": 1.0}, {"name": "round_to_base", "base": 5}],
            "by chance in at most",
            "sum of",
        ),
        # Rounding is no chance: where nobody was, no value is above its margin.
        ([{"name": "round_to_base", "base": 5}], "the value is above its margin.", "by chance"),
        ([{"name": "threshold", "k": 5}], "no value has this flag", "sum of"),
        (
            [HIDING, {"name": "expand", "factor": 5.13}],
            "the value before the last steps is below 5",
            "no value is hidden",
        ),
        # What is published is a multiple of what was counted.
        (
            [HIDING, {"name": "expand", "factor": 5}],
            "a value that is shown is 5 times the number that was counted",
            "is the number",
        ),
        # Zeros are also those of the first step, or of rounding; every step may hide cells.
        (
            [
                {"name": "suppress_small", "below": 3},
                {"name": "threshold", "k": 5, "shown": "label"},
            ],
            "a value above 0 that is shown is the number",
            "0: nobody",
        ),
        (
            [{"name": "threshold", "k": 2, "shown": "label"}, {"name": "round_to_base", "base": 5}],
            "the value before the last steps is above 0 and below 2",
            "0: nobody",
        ),
        (
            [{"name": "threshold", "k": 5, "shown": "hidden"}, {"name": "threshold", "k": 2}],
            "empty: hidden, because the value before the last steps is below 5",
            "0: nobody",
        ),
        # A cap merges no epochs, and is not in the margin.
        (
            [{"name": "cap_contributions", "per_day": 3}],
            "at most 3 events per user and day; what this leaves out or merges is not in the mar",
            "sum of",
        ),
        ([{"name": "cap_contributions", "per_day": 3}], "which lasts 1 hour", "people who"),
        ([{"name": "coarsen_time", "factor": 2}], "is not in the margin", "lasts"),
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


NOISY_CELLS = [LAPLACE_EVENT | {"epsilon": 0.5}, {"name": "expand", "factor": 2.0}]


def test_a_page_has_the_rule_for_sums_and_the_number_of_empty_cells_that_look_visited(
    cube, tmp_path
):
    mechanism = {"name": "chain", "steps": NOISY_CELLS}
    budget = {"unit": "event", "epsilon": 20.0}
    settings = plan(tmp_path, mechanism=mechanism, budget=budget, format="csv")
    publish(cube, settings, tmp_path / "run")
    page = Path(f"{uri_of(tmp_path, 'csv')}-README.md").read_text()
    accuracy = read_table(uri_of(tmp_path, "csv")).metadata.accuracy
    chain = MECHANISMS.create("chain", steps=NOISY_CELLS)
    empty = np.zeros((1000, 400), np.int64)
    drawn = chain.release(empty, group_size=60, rng=np.random.default_rng(1))
    (stated,) = re.findall(r"√n times that, such as ([\d.]+) for 100 values \(", page)
    sums = drawn.reshape(-1, 100).sum(axis=1)
    assert float(stated) == pytest.approx(sums.std(), rel=0.05)
    (within,) = re.findall(r"95 % of such sums are within about ([\d.]+)\)", page)
    assert (np.abs(sums) <= float(within)).mean() == pytest.approx(0.95, abs=0.01)
    ((share, n, n_values),) = re.findall(
        r"by chance in about ([\d.]+) of 100 cells \(about ([\d.]+) of the (\d+) of this file", page
    )
    assert int(n_values) == 8 * 48
    assert float(share) == pytest.approx(100 * (drawn > accuracy.margin).mean(), rel=0.1)
    assert float(n) == pytest.approx((1 - accuracy.share) / 2 * 8 * 48, rel=0.05)


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_a_page_says_how_much_clipped_noise_adds_where_nobody_was(name, cube, tmp_path):
    pytest.importorskip("opendp")
    noise = {"name": name, "unit": "event", "epsilon": 0.11, "discrete": True, "clip": True}
    more = {"l2_sensitivity": 1.0, "delta": 1e-5} if name == "gaussian" else {"sensitivity": 1.0}
    noise |= more
    mechanism = {"name": "chain", "steps": [{"name": "cap_contributions", "per_day": 2}, noise]}
    budget = {"unit": "event", "epsilon": 20.0, "delta": 1e-3}
    settings = plan(tmp_path, mechanism=mechanism, budget=budget, format="csv")
    publish(cube, settings, tmp_path / "run")
    page = Path(f"{uri_of(tmp_path, 'csv')}-README.md").read_text()
    (excess,) = re.findall(r"where nobody was counted, a value is ([\d.]+) on average", page)
    clipped = MECHANISMS.create("chain", steps=[noise])
    empty = np.zeros((100, 400), np.int64)
    drawn = clipped.release(empty, group_size=10**6, rng=np.random.default_rng(1))
    assert drawn.mean() == pytest.approx(float(excess), rel=0.04)
    assert "as likely with one event as without it" in page
    factor = "at most 1.25 times" if name == "laplace" else "plus a probability of at most"
    assert factor in page, "a cap makes an event change two"


@pytest.mark.parametrize(
    ("epsilon", "factor"), [(0.0, "1.00"), (0.11, "1.12"), (5.0, "149"), (14.0, ""), (1e6, "")]
)
def test_a_factor_is_rounded_up_and_not_stated_where_it_promises_nothing(epsilon, factor):
    assert _factor(epsilon) == factor


READERS_WORDS = {"counted": "cards", "licence": "CC-BY-4.0", "contact_point": "data@example.org"}


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_counted_licence_and_contact_are_written(form, cube, tmp_path):
    settings = plan(
        tmp_path, mechanism={**NOISY, "title": "as audited"}, format=form,
        budget=BUDGET | {"epsilon": 20.0},
        group_size=60, among=120, **READERS_WORDS,
    )  # fmt: skip
    publish(cube, settings, tmp_path / "run")
    uri = uri_of(tmp_path, form)
    read = read_table(uri)
    assert {key: getattr(read.metadata, key) for key in READERS_WORDS} == READERS_WORDS
    name = uri.rpartition("/")[2]
    if form == "zarr":
        page = xr.open_zarr(uri).attrs["comment"]
        assert f"take the folder `{name}`," in page
    else:
        page = Path(f"{uri}-README.md").read_text()
        listed = set(re.findall(r"`([^`]+)`", page.partition("To hand it out")[2]))
        made = {path.name for path in Path(uri).parent.iterdir() if path.name.startswith(name)}
        assert listed == made
    assert "how many cards were counted, each once in an epoch" in page
    assert "The number of cards counted is stated as 60, of 120 who might have been." in page
    assert "published as: as audited (discrete Laplace noise, ε 20 per user" in page
    assert "Licence: CC-BY-4.0." in page
    assert "Questions: data@example.org." in page
    if form in ("zarr", "netcdf"):
        opened = xr.open_dataset(uri) if form == "netcdf" else xr.open_zarr(uri)
        with opened as release:
            assert release.attrs["license"] == "CC-BY-4.0"
            assert release.attrs["contact_point"] == "data@example.org"
    if form == "csv":
        about = json.loads(Path(f"{uri}-metadata.json").read_text())
        assert about["dc:license"] == "CC-BY-4.0"
        assert about["dcat:contactPoint"] == "data@example.org"


HOSTILE = "<script>x</script> [a](javascript:x)\n\n# b\n\u202ec &#x202e;"


def test_texts_of_a_publisher_are_data_in_the_page(cube, tmp_path):
    line = HOSTILE.replace("\n", " ")  # a plan refuses further lines
    texts = dict.fromkeys(READERS_WORDS, line)
    mechanism = {**NOISY, "title": HOSTILE}
    settings = plan(tmp_path, mechanism=mechanism, budget=BUDGET | {"epsilon": 20.0}, format="csv",
                    group_size=60, **texts)  # fmt: skip
    publish(cube, settings, tmp_path / "run")
    uri = uri_of(tmp_path, "csv")
    assert read_table(uri).metadata.licence == line
    page = Path(f"{uri}-README.md").read_text()
    assert page.count("script>") >= 4
    html = MarkdownIt("commonmark").render(page)
    assert not re.search(r"<script|<a |\u202e", html)
    assert html.count("<h1>") == 1
    about = json.loads(Path(f"{uri}-metadata.json").read_text())
    words = [column["dc:description"] for column in about["tableSchema"]["columns"][:4]]
    assert not re.search(r"[\n\u202e]", "".join(words))


@pytest.mark.parametrize("changes", [True, False])
def test_a_page_says_how_times_are_read_over_a_change_of_clocks(changes):
    start = np.datetime64("2026-10-25T00:00" if changes else "2026-10-26T00:00", "s")
    epochs = start + np.arange(3) * np.timedelta64(3600, "s")
    release = RawRelease(np.zeros((1, 3)), ("a",), epochs, timezone="Europe/Madrid")
    assert ("utc=True" in explain_release("a.csv", release)) == changes
    assert "utc=True" not in explain_release("a.parquet", release)


def test_a_licence_in_a_file_of_others_may_be_anything(tmp_path):
    table = xr.Dataset({"counts": (("roi", "epoch"), np.zeros((1, 2)))})
    table.attrs |= {"licence": '{"id": 1}', "contact_point": "x" * 300, "counted": 7}
    table.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    assert read_table(str(tmp_path / "a.nc")).metadata.contact_point == "x" * 300
