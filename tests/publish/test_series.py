"""The ledger of a series: what is noticed, what is refused, and what is left behind."""

import json
import shutil

import pytest
from oracles.publications import plan, publish

from clusterscale.errors import ConfigError, DamagedError, ExistsError, RefusedError
from clusterscale.publish.series import Series
from clusterscale.tables import read_table

FORMATS = {"zarr": ".zarr", "netcdf": ".nc", "parquet": ".parquet", "csv": ".csv"}


@pytest.fixture(scope="module")
def published(cube, tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    for week in (1, 2):
        publish(cube, plan(folder, week=week), folder / f"run-{week}")
    return folder


@pytest.fixture
def two(published, tmp_path):
    """A folder with two releases of a series; the budget is spent."""
    shutil.copytree(published, tmp_path / "two")
    return tmp_path / "two"


def open_series(folder, **fields):
    return Series(plan(folder, week=3, **fields), "UTC")


def test_entries_are_chained(two):
    one, other = open_series(two).entries
    assert (one.number, other.number) == (1, 2)
    assert other.previous == one.seal
    assert one.previous == ""
    assert one.is_sealed
    assert other.is_sealed
    assert open_series(two).spent() == 2.0


def test_a_third_release_exceeds_the_budget(two, cube):
    with pytest.raises(RefusedError, match=r"would spend ε 3 of 2 per user.*about 0 is left"):
        publish(cube, plan(two, week=3), two / "run-3")
    assert len(open_series(two).entries) == 2


def test_a_period_is_published_once(two, cube):
    with pytest.raises(ExistsError, match=r"places-0002\.zarr is the release of week-2"):
        publish(cube, plan(two, week=2), two / "another run")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"budget": {"unit": "user", "epsilon": 5.0}}, "publish.budget: .* was begun with"),
        ({"format": "csv"}, "publish.format: .* was begun with zarr, not csv"),
    ],
)
def test_rules_are_those_of_the_first_release(two, fields, words):
    with pytest.raises(ConfigError, match=words):
        open_series(two, **fields)


def test_another_time_zone_is_refused(two):
    with pytest.raises(ConfigError, match=r"cube: .* was begun with UTC, not Asia/Tokyo"):
        Series(plan(two, week=3), "Asia/Tokyo")


def change(path, **fields):
    content = json.loads(path.read_bytes())
    path.write_text(json.dumps(content | fields))


def copies(folder):
    return sorted((folder / "releases/places/ledger").glob("*.json"))


def swap(folder):
    one, other = (path.read_bytes() for path in copies(folder))
    copies(folder)[0].write_bytes(other)
    copies(folder)[1].write_bytes(one)


DAMAGE = {
    "an entry with less ε": lambda at: change(copies(at)[0], epsilon=0.1),
    "an entry that is no JSON": lambda at: copies(at)[0].write_bytes(b"{"),
    "entries in another order": swap,
    "a release that was removed": lambda at: shutil.rmtree(at / "releases/places/places-0001.zarr"),
    "the last release removed": lambda at: shutil.rmtree(at / "releases/places/places-0002.zarr"),
    "the rules removed": lambda at: (at / "releases/places/series.json").unlink(),
    "the rules changed": lambda at: change(at / "releases/places/series.json", format="csv"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_noticed(name, two):
    DAMAGE[name](two)
    with pytest.raises(DamagedError):
        open_series(two)


@pytest.mark.parametrize("form", FORMATS)
def test_a_changed_release_without_a_copy_of_its_entry_is_noticed(form, cube, tmp_path):
    publish(cube, plan(tmp_path, format=form), tmp_path / "run")
    series = Series(plan(tmp_path, format=form, week=2), "UTC")
    (copy,) = copies(tmp_path)
    copy.unlink()
    assert Series(plan(tmp_path, format=form, week=2), "UTC").entries == series.entries
    uri = series.address(1)
    release = read_table(uri)
    release.values[0, 0] += 1
    from clusterscale.tables import choose_format

    choose_format(uri).write(uri, release)
    with pytest.raises(DamagedError, match="its values or metadata were changed"):
        Series(plan(tmp_path, format=form, week=2), "UTC")


@pytest.mark.parametrize("form", FORMATS)
def test_what_an_interrupted_run_left_is_removed(form, cube, tmp_path):
    folder = tmp_path / "releases/places"
    (folder / ".places-0001.zarr.0a.partial/counts").mkdir(parents=True)
    (folder / ".places-0001.zarr.0a.partial/counts/0").write_text("secret")
    (folder / ".places-0001.csv.0a.partial").write_text("secret")
    if form == "zarr":  # as on an object store, where the metadata of the root are written last
        (folder / "places-0001.zarr/counts").mkdir(parents=True)
        (folder / "places-0001.zarr/counts/zarr.json").write_text("secret")
    if form == "csv":
        (folder / "places-0001.csv-metadata.json").write_text("secret")
    publish(cube, plan(tmp_path, format=form), tmp_path / "run")
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in files if path.read_bytes() == b"secret"]
    assert not [path for path in files if "partial" in str(path)]


def test_an_uncommitted_release_is_no_table(tmp_path):
    """On an object store, values come before the metadata that make them readable."""
    from clusterscale.errors import ClusterscaleError

    folder = tmp_path / "places-0001.zarr/counts"
    folder.mkdir(parents=True)
    (folder / "zarr.json").write_text("{}")
    with pytest.raises(ClusterscaleError):
        read_table(str(tmp_path / "places-0001.zarr"))


def test_a_missing_copy_is_written_by_the_next_run(cube, tmp_path):
    publish(cube, plan(tmp_path), tmp_path / "run-1")
    (copy,) = copies(tmp_path)
    copy.unlink()
    publish(cube, plan(tmp_path, week=2), tmp_path / "run-2")
    assert copies(tmp_path)[0] == copy
    assert len(copies(tmp_path)) == 2
    assert open_series(tmp_path).spent() == 2.0
