"""The ledger of a series: what is noticed, what is refused, and what is left behind."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from oracles.publications import LAPLACE, plan, publish

from clusterscale import storage
from clusterscale.analyses.publish.release import describe_series
from clusterscale.analyses.publish.series import Series
from clusterscale.api import check
from clusterscale.errors import ConfigError, DamagedError, ExistsError, RefusedError
from clusterscale.reauditing import Catalogue, ReleaseEntry
from clusterscale.reauditing.resolved_release import ResolvedRelease
from clusterscale.release import TABLE_FORMATS, choose_format, read_table
from clusterscale.storage import files

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


@pytest.mark.parametrize(
    ("fields", "person"),
    [
        ({}, {"so far": (2, 2.0), "with this release": (3, 3.0), "a year": (5, 5.0)}),
        ({"per_year": None}, {"so far": (2, 2.0), "with this release": (3, 3.0)}),
    ],
)
def test_what_a_person_loses_in_all_releases_is_added_up(two, cube, fields, person):
    about = describe_series(plan(two, week=3, **({"per_year": 5} | fields)), cube)
    assert about["releases"] == {when: n for when, (n, _) in person.items()}
    assert about["person"] == {when: (epsilon, 0.0) for when, (_, epsilon) in person.items()}
    assert about["spent"] == (2.0, 3.0)
    assert "would spend ε 3 of 2" in about["refused"]
    assert about["budget"]["epsilon"] == 2.0
    assert about["days"] == cube.calendar.describe_span((0, 48)).split(" to ")
    assert about["all_days"] == {"days": 2, "releases": 3, "spent": 3.0, "exceeds": True}


@pytest.mark.parametrize(
    ("unit", "epsilon", "spent", "exceeds"),
    [("user", 2.0, 2.0, False), ("user", 1.5, 2.0, True), ("user_day", 1.0, 1.0, False)],
)
def test_all_days_of_a_cube_are_in_as_many_releases(cube, tmp_path, unit, epsilon, spent, exceeds):
    fields = {
        "mechanism": LAPLACE | {"unit": unit},
        "period": {"name": "one day", "first": 0, "epochs": 24},
        "budget": {"unit": unit, "epsilon": epsilon},
    }
    about = describe_series(plan(tmp_path, **fields), cube)
    assert about["spent"] == (0.0, 1.0)
    found = {"days": 2, "releases": 2, "spent": spent, "exceeds": exceeds}
    assert about["all_days"] == found


def test_a_person_is_there_on_all_days_with_all_events_that_count(cube, tmp_path):
    cap = {"name": "cap_contributions", "per_day": 3}
    for unit, steps, loss in (
        ("user_day", [cap], 2.0),
        ("event", [cap], 6.0),
        ("event", [], np.inf),
        ("none", [cap], np.inf),
    ):
        noise = {"name": "laplace", "epsilon": 1.0, "unit": unit, "discrete": True}
        ends = noise if unit != "none" else {"name": "threshold", "k": 2}
        fields = {
            "mechanism": {"name": "chain", "steps": [*steps, ends]},
            "budget": None if unit == "none" else {"unit": unit, "epsilon": 3.0},
            "series": f"{unit}-{len(steps)}",
        }
        publish(cube, plan(tmp_path, **fields), tmp_path / fields["series"])
        about = describe_series(plan(tmp_path, week=2, **fields), cube)
        assert about["person"]["so far"][0] == loss, (unit, steps)
        assert about["person"]["with this release"][0] == 2 * loss
        assert about["spent"] == (() if unit == "none" else (1.0, 2.0))
        assert (about["all_days"] is None) == (unit == "none")


def test_gaussian_releases_of_a_series_spend_less_than_their_sum(cube, tmp_path):
    """Three of (.5, 1e-5) fit into a budget of (1, 1e-5), by the law that their entries state."""
    noise = {"name": "gaussian", "epsilon": 0.5, "delta": 1e-5, "unit": "user", "discrete": True}
    budget = {"unit": "user", "epsilon": 1.0, "delta": 1e-5}
    fields = {"mechanism": noise | {"l2_sensitivity": 48**0.5}, "budget": budget}
    spent = []
    for week in (1, 2, 3):
        made = plan(tmp_path, week=week, **fields)
        spent.append(Series(made, "UTC").spent())
        publish(cube, made, tmp_path / f"run-{week}")
    entries = Series(made, "UTC").entries
    spent.append(Series(made, "UTC").spent())
    assert spent[:2] == [0.0, 0.5]
    assert 0.5 < spent[2] < spent[3] < 1.0
    assert entries[0].rho == pytest.approx((0.5 / np.sqrt(2 * np.log(2e5))) ** 2 / 2)
    assert all(entry.is_sealed for entry in entries)


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


def remove_newest(folder):
    shutil.rmtree(folder / "releases/places/places-0002.zarr")
    copies(folder)[1].unlink()


DAMAGE = {
    "an entry with less ε": lambda at: change(copies(at)[0], epsilon=0.1),
    "an entry that is no JSON": lambda at: copies(at)[0].write_bytes(b"{"),
    "entries in another order": swap,
    "a release that was removed": lambda at: shutil.rmtree(at / "releases/places/places-0001.zarr"),
    "the last release removed": lambda at: shutil.rmtree(at / "releases/places/places-0002.zarr"),
    "the last release and its entry removed": lambda at: remove_newest(at),
    "the series removed": lambda at: shutil.rmtree(at / "releases/places"),
    "the record of the last release changed": lambda at: change(
        at / "releases/places.newest.json", number=1
    ),
    "the rules removed": lambda at: (at / "releases/places/series.json").unlink(),
    "the rules changed": lambda at: change(at / "releases/places/series.json", format="csv"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_noticed(name, two):
    DAMAGE[name](two)
    with pytest.raises(DamagedError):
        open_series(two)


def test_a_run_that_recorded_a_later_release_misses_it(two, cube):
    remove_newest(two)
    (two / "releases/places.newest.json").unlink()
    assert open_series(two).spent() == 1.0, "nothing else shows that it was published"
    with pytest.raises(DamagedError, match="records that places-0002 was published"):
        publish(cube, plan(two, week=3), two / "run-2", force=True)
    assert not (two / "releases/places/places-0002.zarr").exists()


def test_a_run_may_publish_in_series_of_the_same_name_elsewhere(two, cube, tmp_path):
    publish(cube, plan(tmp_path / "other"), two / "run-2", force=True)
    assert [entry.number for entry in Series(plan(tmp_path / "other"), "UTC").entries] == [1]


def rewrite(path, old, new):
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))


def change_a_value(uri):
    release = read_table(uri)
    release.values[0, 0] += 1
    choose_format(uri).write(uri, release)


CHANGES = {
    **{f"a value in {form}": (form, change_a_value) for form in FORMATS},
    "a group size": (
        "csv",
        lambda uri: rewrite(Path(f"{uri}-metadata.json"), b'"group_size": 60', b'"group_size": 61'),
    ),
    "an epsilon": (
        "csv",
        lambda uri: rewrite(Path(f"{uri}-metadata.json"), b'"epsilon": 1.0', b'"epsilon": 0.5'),
    ),
    "no metadata": ("csv", lambda uri: Path(f"{uri}-metadata.json").unlink()),
    "no entry": ("zarr", lambda uri: zarr.open_group(uri).attrs.put({"group_size": 60})),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_release_is_read_by_nothing(name, cube, tmp_path):
    form, change_release = CHANGES[name]
    publish(cube, plan(tmp_path, format=form, group_size=60), tmp_path / "run")
    uri = str(tmp_path / f"releases/places/places-0001{FORMATS[form]}")
    catalogue = (ReleaseEntry(counts=uri),), cube.uri, str(tmp_path / "cache.json")
    (listed,) = Catalogue(*catalogue).scan()
    assert isinstance(listed, ResolvedRelease)
    change_release(uri)
    with pytest.raises(DamagedError):
        check([uri])
    (listed,) = Catalogue(*catalogue).scan()
    assert isinstance(listed.error, DamagedError)
    with pytest.raises(DamagedError):
        publish(cube, plan(tmp_path, format=form, week=2), tmp_path / "run-2")


def test_a_release_that_was_replaced_by_another_one_is_noticed(cube, tmp_path):
    """All of its digests are right, but the copy of its entry is that of the first one."""
    for name in ("one", "other"):
        publish(cube, plan(tmp_path / name, format="csv"), tmp_path / name / "run")
    one, other = (tmp_path / name / "releases/places" for name in ("one", "other"))
    for name in ("places-0001.csv", "places-0001.csv-metadata.json"):
        shutil.copy(other / name, one / name)
    with pytest.raises(DamagedError, match="is not what was published"):
        check([str(one / "places-0001.csv")])


def test_a_release_outside_the_folder_of_its_series_is_read(cube, tmp_path):
    publish(cube, plan(tmp_path, format="csv"), tmp_path / "run")
    for name in ("places-0001.csv", "places-0001.csv-metadata.json"):
        shutil.copy(tmp_path / "releases/places" / name, tmp_path / name)
    (found,) = check([str(tmp_path / "places-0001.csv")])
    assert found.verdict == "pass"
    (tmp_path / "week-2024.csv").write_text("place,time,count\nA,2024-01-01T00:00Z,5\n")
    (tmp_path / "series.json").write_text("{}")
    read_table(str(tmp_path / "week-2024.csv"), TABLE_FORMATS.create("long", step="1h"))


@pytest.mark.parametrize("form", ["zarr", "csv"])
def test_a_link_to_nothing_at_the_next_address_is_named(form, cube, tmp_path):
    made = plan(tmp_path, format=form)
    publish(cube, made, tmp_path / "run")
    link = tmp_path / f"releases/places/places-0002{FORMATS[form]}"
    link.symlink_to(tmp_path / "nothing")
    with pytest.raises(ExistsError, match=r"places-0002.* is a symbolic link to nothing: remove"):
        publish(cube, plan(tmp_path, format=form, week=2), tmp_path / "run-2")
    link.unlink()
    publish(cube, plan(tmp_path, format=form, week=2), tmp_path / "run-2")


OLD_CSV = """place,time,count
north,2010-03-01T00:00:00Z,7
north,2010-03-01T01:00:00Z,
south,2010-03-01T00:00:00Z,12
south,2010-03-01T01:00:00Z,9
"""
OLD_METADATA = {
    "group_size": 300,
    "population": 5000,
    "mechanism": {
        "title": "",
        "name": "chain",
        "steps": [
            {"title": "", "name": "cap_contributions", "per_day": 5},
            {
                "title": "",
                "clip": False,
                "integers": "none",
                "name": "laplace",
                "epsilon": 1.0,
                "sensitivity": 5.0,
                "unit": "user_day",
                "discrete": True,
            },
            {"title": "", "name": "threshold", "k": 5, "shown": "hidden"},
        ],
    },
    "start": "2010-03-01T00:00:00+00:00",
    "epochs": 2,
    "null_roi": False,
    "series": "stations",
    "ledger": {
        "number": 1,
        "period": "Monday",
        "start": 1267401600,
        "stop": 1267408800,
        "first_day": 733832,
        "last_day": 733832,
        "unit": "user_day",
        "epsilon": 1.0,
        "delta": 0.0,
        "hidden_below": 5,
        "hidden_as": "hidden",
        "content": "c5c42754341b6b0b644ffbebfad65b7a",
        "run": "c1b83434ed16f91dce97926a1251aad5",
        "rules": "92cea779a02e2ac6778682dd63ee4977",
        "previous": "",
        "seal": "4fabe5d9ed66b23b7545a08fdffe80dd",
    },
}


@pytest.mark.parametrize("is_changed", [False, True])
def test_releases_of_version_0_4_have_the_digest_that_they_had(is_changed, tmp_path):
    path = tmp_path / "stations-0001.csv"
    path.write_text(OLD_CSV.replace("12", "13") if is_changed else OLD_CSV)
    notes = {"notes": {"clusterscale": OLD_METADATA}}
    Path(f"{path}-metadata.json").write_text(json.dumps(notes))
    if is_changed:
        with pytest.raises(DamagedError, match="is not what was published"):
            read_table(str(path))
    else:
        assert read_table(str(path)).metadata.ledger.number == 1


def test_a_release_and_its_metadata_are_of_one_publisher(tmp_path, monkeypatch):
    """One is interrupted at each step, and another one takes its files for left over."""
    release, notes = f"{tmp_path}/a.csv", f"{tmp_path}/a.csv-metadata.json"
    original = files.put_new
    for step in range(3):
        steps = iter(range(9))

        def another(at=None):
            storage.remove(notes) if not storage.exists(release) else None
            return files.put_new_files({notes: b"other", release: b"other"}, last=release)

        def interrupted(uri, content, step=step, steps=steps):
            if content == b"mine" and next(steps) == step:
                another()
            return original(uri, content)

        monkeypatch.setattr(files, "put_new", interrupted)
        stored = files.put_new_files({notes: b"mine", release: b"mine"}, last=release)
        assert stored == (step == 2)
        assert storage.read(release) == storage.read(notes) == (b"mine" if stored else b"other")
        storage.remove(release)
        storage.remove(notes)


def test_metadata_of_a_publisher_that_went_on_are_put_back(cube, tmp_path, monkeypatch):
    """A publisher was taken for interrupted, and commits while its metadata are removed."""
    publish(cube, plan(tmp_path, format="csv"), tmp_path / "run")
    series = Series(plan(tmp_path, format="csv", week=2), "UTC")
    notes = tmp_path / "releases/places/places-0001.csv-metadata.json"
    content, answers = notes.read_bytes(), iter([False, True])
    monkeypatch.setattr(series, "_is_committed", lambda number: next(answers, True))
    monkeypatch.setattr(storage, "list_names", lambda uri: [notes.name])
    series.begin()
    assert notes.read_bytes() == content


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
