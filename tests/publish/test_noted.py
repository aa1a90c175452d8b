"""Releases are noted beside their cube: a copied folder, or another series, is no second budget."""

import shutil
from pathlib import Path

import pytest
from oracles.publications import LAPLACE, plan, publish

from clusterscale import storage
from clusterscale.analyses.publish import publication
from clusterscale.analyses.publish.analysis import PublishAnalysis
from clusterscale.analyses.publish.noted import NotedRelease
from clusterscale.analyses.publish.release import describe_series
from clusterscale.analyses.publish.series import Series
from clusterscale.errors import DamagedError, RefusedError, StoreError


def released(folder):
    return sorted(path.name for path in (folder / "releases").glob("*/*-0*.zarr"))


@pytest.fixture
def copied(cube, tmp_path):
    """Two folders of a series, with a budget of ε 2, of which each had one release of ε 1."""
    publish(cube, plan(tmp_path / "one"), tmp_path / "one/run")
    shutil.copytree(tmp_path / "one/releases", tmp_path / "two/releases")
    return tmp_path / "one", tmp_path / "two"


def test_a_copied_folder_of_releases_is_no_second_budget(copied, cube):
    one, two = copied
    publish(cube, plan(one, week=2), one / "run-2")
    with pytest.raises(RefusedError, match="would spend ε 3 of 2 per user"):
        publish(cube, plan(two, week=3), two / "run-2")
    with pytest.raises(RefusedError, match="would spend ε 3 of 2"):
        PublishAnalysis(plan(two, week=3)).explain(cube, 10**9, 1)
    assert released(two) == ["places-0001.zarr"]
    assert Series(plan(two, week=3), "UTC", cube=cube.uri).spent() == 2.0
    assert Series(plan(one, week=3), "UTC", cube=cube.uri).spent() == 2.0, "counted once"


@pytest.mark.slow
def test_of_two_copies_that_publish_at_once_one_sees_the_other(copied, cube, monkeypatch):
    """The other one's note appears after the budget was checked."""
    one, two = copied

    def publish_the_other(self, *given):
        monkeypatch.undo()
        publish(cube, plan(one, week=2), one / "run-2")
        return ""

    monkeypatch.setattr(publication.Publication, "_compare", publish_the_other)
    with pytest.raises(RefusedError, match="would spend ε 3 of 2"):
        publish(cube, plan(two, week=3), two / "run-2")
    assert released(two) == ["places-0001.zarr"]
    noted = [note.folder for note in NotedRelease.read_all(cube.uri)]
    assert noted == [f"{one}/releases/places"] * 2, "what is not published is not noted"


@pytest.mark.slow
def test_another_series_of_the_same_days_is_added_up_or_refused(cube, tmp_path):
    publish(cube, plan(tmp_path / "one"), tmp_path / "one/run")
    other = {"series": "stations", "mechanism": LAPLACE | {"epsilon": 0.5}}
    where = f"1 release elsewhere (places in {tmp_path}/one/releases/places)"
    lost = "a person who is in all loses up to ε 1.5, δ 0"
    refusing = plan(tmp_path / "two", **other, other_series="refuse")
    with pytest.raises(RefusedError) as refused:
        publish(cube, refusing, tmp_path / "two/run-2")
    assert where in str(refused.value)
    assert not released(tmp_path / "two")
    wanted = plan(tmp_path / "two", **other)
    assert wanted.digest == refusing.digest, "it decides nothing that is published"
    text = PublishAnalysis(wanted).explain(cube, 10**9, 1)["other series"]
    assert where in text
    assert lost in text
    assert describe_series(wanted, cube)["others"] == text
    release = publish(cube, wanted, tmp_path / "two/run")
    assert release.attrs["other_series"] == text
    assert release.attrs["spent"] == 0.5, "the budgets are apart"


@pytest.mark.slow
def test_other_days_of_other_series_are_other_units(cube, tmp_path):
    """A guarantee for a day is about its days alone; without one, nothing is bounded."""
    days = [{"name": f"day {i}", "first": 24 * i, "epochs": 24} for i in range(2)]
    bare = {"mechanism": {"name": "exact"}, "budget": None}
    publish(cube, plan(tmp_path / "one", **bare, period=days[0]), tmp_path / "one/run")
    steps = [
        {"name": "cap_contributions", "per_day": 2},
        {"name": "laplace", "epsilon": 1.0, "unit": "user_day", "discrete": True},
    ]
    other = {"mechanism": {"name": "chain", "steps": steps}, "series": "stations"}
    other["budget"] = {"unit": "user_day", "epsilon": 2.0}
    texts = [
        PublishAnalysis(plan(tmp_path, **other, period=day))
        .explain(cube, 10**9, 1)
        .get("other series", "")
        for day in days
    ]
    assert "a person who is in all loses any ε" in texts[0]
    assert texts[1] == ""


@pytest.mark.slow
def test_a_release_that_cannot_be_noted_is_not_published(cube, tmp_path, monkeypatch):
    original = storage.put_new

    def fail(uri, content):
        if ".published" not in uri:
            return original(uri, content)
        raise StoreError(f"{uri}: the store is read-only")

    monkeypatch.setattr("clusterscale.analyses.publish.noted.storage.put_new", fail)
    with pytest.raises(StoreError, match="read-only"):
        publish(cube, plan(tmp_path), tmp_path / "run")
    assert not released(tmp_path)


@pytest.mark.slow
def test_a_changed_note_is_damage(copied, cube):
    (note,) = Path(f"{cube.uri}.published").iterdir()
    note.write_bytes(note.read_bytes().replace(b'"epsilon": 1.0', b'"epsilon": 0.1', 1))
    with pytest.raises(DamagedError, match="is damaged"):
        publish(cube, plan(copied[1], week=3), copied[1] / "run-2")


@pytest.mark.slow
def test_a_note_is_what_was_published(copied, cube):
    (note,) = NotedRelease.read_all(cube.uri)
    entry = Series(plan(copied[0]), "UTC").entries[0]
    assert (note.entry, note.first, note.series) == (entry, entry.seal, "places")
    assert (note.epsilon, note.delta) == (1.0, 0.0)
