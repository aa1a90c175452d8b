"""Releases are found, listed once, and looked at again when they change; none bars another."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from conftest import write_cube
from loops import mostly_slow
from oracles.releases import dataset, touch, write

from clusterscale import storage
from clusterscale.errors import (
    ConfigError,
    DamagedError,
    FormatError,
    InputError,
    MissingError,
)
from clusterscale.reauditing import (
    Catalogue,
    Problem,
    ReleaseEntry,
    catalogue,
    expand,
    find_releases,
)
from clusterscale.reauditing.resolved_release import ResolvedRelease

LAPLACE = {"name": "laplace", "epsilon": 1.0}
VALUES = np.arange(8.0 * 6).reshape(8, 6)


def release(folder, name, values=VALUES, form="zarr3", mode="w-", **attributes):
    told = dataset(values)
    told.attrs = {"group_size": 5, "mechanism": LAPLACE, "first": 0} | attributes
    options = {"mode": mode} if form == "zarr3" else {}
    return write(told, folder, form, name=name, **options)


@pytest.fixture
def folder(tmp_path):
    for name in ("week-2", "week-1", "month"):
        release(tmp_path / "releases", name)
    return str(tmp_path / "releases")


@pytest.fixture
def opened(monkeypatch):
    """Addresses of releases that were opened."""
    seen, read = [], catalogue.read_table

    def watch(uri, *rest):
        seen.append(Path(uri).name)
        return read(uri, *rest)

    monkeypatch.setattr(catalogue, "read_table", watch)
    return seen


def look(folder, cube, tmp_path):
    entries = folder if isinstance(folder, tuple) else find_releases(folder)
    return Catalogue(entries, cube.uri, str(tmp_path / "listed.json")).scan()


def labels(entries):
    return [entry.label for entry in entries]


def test_a_folder_by_name(folder):
    for other in ("notes.txt", "week-3.zarr.partial-1", "week.csv", "listed.json"):
        (Path(folder) / other).write_text("other")
    for name in ("c.nc", "a.nc4", "b.netcdf"):
        (Path(folder) / name).write_bytes(b"")
    for way in (folder, f"{folder}/", f"file://{folder}"):
        found = find_releases(way)
        assert labels(found) == ["a", "b", "c", "month", "week-1", "week-2"]
        assert all(entry.counts.startswith(way.rstrip("/")) for entry in found)


def test_a_pattern_for_names(folder, monkeypatch):
    assert labels(find_releases(f"{folder}/week-*.zarr")) == ["week-1", "week-2"]
    assert labels(find_releases(f"{folder}/week-[2-9]*")) == ["week-2"]
    assert labels(find_releases(f"{folder}/*month*")) == ["month"]
    monkeypatch.chdir(folder)
    assert labels(find_releases("week-?.zarr")) == ["week-1", "week-2"]
    for wrong in (f"{folder}/WEEK*", f"{folder}/day", folder + "s", f"{folder}s/*"):
        with pytest.raises(MissingError, match="there are no releases"):
            find_releases(wrong)


def test_two_of_one_name(folder):
    """They would be taken for one that changed."""
    release(folder, "week-1", form="netcdf4", mechanism="exact")
    with pytest.raises(InputError, match=r"week-1\.nc and week-1\.zarr .*the same name"):
        find_releases(folder)


def test_releases_are_listed_in_order(folder, cube, tmp_path):
    found = look(folder, cube, tmp_path)
    assert [each.name for each in found] == ["month", "week-1", "week-2"]
    assert all(isinstance(each, ResolvedRelease) for each in found)


def test_what_did_not_change_is_not_opened_again(folder, cube, tmp_path, opened):
    first = look(folder, cube, tmp_path)
    assert sorted(opened) == ["month.zarr", "week-1.zarr", "week-2.zarr"]
    del opened[:]
    memory = (tmp_path / "listed.json").stat().st_mtime_ns
    assert look(folder, cube, tmp_path) == first
    assert opened == []
    assert (tmp_path / "listed.json").stat().st_mtime_ns == memory
    release(folder, "week-3")
    assert len(look(folder, cube, tmp_path)) == 4
    assert opened == ["week-3.zarr"]


def test_what_changed_is(folder, cube, tmp_path, opened):
    before = look(folder, cube, tmp_path)
    del opened[:]
    touch(f"{folder}/week-1.zarr", VALUES + 1)
    after = look(folder, cube, tmp_path)
    assert opened == ["week-1.zarr"]
    assert [one.content == other.content for one, other in zip(before, after, strict=True)] == [
        True, False, True
    ]  # fmt: skip
    del opened[:]
    os.utime(f"{folder}/week-2.zarr/zarr.json", (1, 1))
    assert look(folder, cube, tmp_path) == after
    assert opened == ["week-2.zarr"]


def test_what_is_said_of_it_changed(folder, cube, tmp_path, opened):
    uri = f"{folder}/week-1.zarr"
    for i, size in enumerate((5, 6, 6, 7)):
        (found,) = look((ReleaseEntry(counts=uri, group_size=size),), cube, tmp_path)
        assert found.group_size == size
        assert len(opened) == (1, 2, 2, 3)[i]


def test_another_cube(folder, cube, dense, tmp_path, opened):
    look(folder, cube, tmp_path)
    other = write_cube(str(tmp_path / "other"), dense[:, :7])
    del opened[:]
    found = look(folder, other, tmp_path)
    assert len(opened) == 3
    assert all(each.null_roi for each in found)


def test_a_cube_of_its_own(cube, dense, tmp_path):
    """Its ROIs and epochs are those that count, not those of the catalogue's cube."""
    other = write_cube(str(tmp_path / "other"), dense[:, :7])
    uri = release(tmp_path, "week", cube="/nowhere")
    entry = ReleaseEntry(counts=uri, cube=other.uri)
    work = Catalogue((entry,), cube.uri, str(tmp_path / "listed.json"))
    (found,) = work.scan()
    assert (found.null_roi, found.cube) == (True, other.uri)
    assert work.cube_of(found).fingerprint == other.fingerprint
    np.testing.assert_array_equal(work.read(found).values, VALUES)


def test_attributes_that_name_places_need_an_answer_in_the_catalogue(cube, tmp_path):
    """Refused until the entry gives the same key; also where a look before it accepted them."""
    uri = release(tmp_path, "week", members="/nowhere/m.csv", cube=f"{cube.uri}/")

    def found(**said):
        return look((ReleaseEntry(counts=uri, **said),), cube, tmp_path)[0]

    for _ in range(2):
        problem = found()
        assert isinstance(problem.error, ConfigError)
        assert str(problem.error) == (
            f"week ({uri}): the release's own attributes name a `members` file; it is not opened. "
            "Set it in the catalogue as `members:`, or write `members: null` to audit the release "
            "without known members"
        )
        assert found(members=None).members is None
    members = tmp_path / "m.csv"
    members.write_text("user,inside\nu001,true\n")
    assert found(members=str(members)).members == str(members)
    release(tmp_path, "week", mode="w", cube="/nowhere")
    assert "name a cube; it is not opened" in str(found().error)
    assert found(cube=None).cube is None


def test_what_was_remembered_before_attributes_were_refused(folder, cube, tmp_path, opened):
    look(folder, cube, tmp_path)
    known = json.loads((tmp_path / "listed.json").read_text())
    for each in known.values():
        each["listed"]["members"] = "/nowhere/m.csv"
    (tmp_path / "listed.json").write_text(json.dumps(known))
    found = look(folder, cube, tmp_path)
    assert [each.members for each in found] == [None] * 3


def test_patterns_and_names_in_places(folder, cube, tmp_path):
    entry = ReleaseEntry(counts=f"{folder}/week-*.zarr", group_size=7, cube="{name}/{name}")
    with pytest.raises(ValueError, match="may match several"):
        ReleaseEntry(counts=f"{folder}/week-*.zarr", name="week")
    found = [each.with_uris("m/{name}.csv") for each in expand(entry)]
    assert labels(found) == ["week-1", "week-2"]
    assert [each.members for each in found] == ["m/week-1.csv", "m/week-2.csv"]
    assert [each.cube for each in found] == ["week-1/week-1", "week-2/week-2"]
    assert {each.group_size for each in found} == {7}
    assert expand(ReleaseEntry(counts=f"{folder}/day-*")) == ()
    none = ReleaseEntry(counts="a.zarr", members=None)
    assert none.with_uris("m/{name}.csv").members is None
    assert expand(none) == (none,)
    assert "members" not in ReleaseEntry(counts="a.zarr").with_uris(None).model_fields_set


@pytest.mark.parametrize("way", ["{}::memory.zarr", "reference://{}", "simplecache::file://{}"])
def test_addresses_that_lead_elsewhere(folder, cube, tmp_path, opened, way):
    """Such as the name of a file, in a folder that others write to, that fsspec takes for two."""
    (problem,) = look((ReleaseEntry(counts=way.format(f"{folder}/a")),), cube, tmp_path)
    assert isinstance(problem.error, InputError)
    what = "chained addresses (::)" if "::" in way else "addresses with the protocol 'reference'"
    assert f"{what} are not opened" in str(problem.error)
    assert opened == []


@mostly_slow("content", [b"", b"{", b"[1]", b"\xff", b"null", b'{"x": {}}'], n_quick=2)
def test_a_memory_that_is_damaged_is_made_again(folder, cube, tmp_path, opened, content):
    first = look(folder, cube, tmp_path)
    whole = (tmp_path / "listed.json").read_bytes()
    (tmp_path / "listed.json").write_bytes(content)
    assert look(folder, cube, tmp_path) == first
    assert len(opened) == 6
    assert (tmp_path / "listed.json").read_bytes() == whole
    (tmp_path / "listed.json").unlink()
    assert look(folder, cube, tmp_path) == first
    assert (tmp_path / "listed.json").read_bytes() == whole


@pytest.mark.parametrize("broken", [{}, {"listed": None}, 3, {"listed": {"name": "x"}}])
def test_what_another_version_remembered(folder, cube, tmp_path, broken):
    first = look(folder, cube, tmp_path)
    known = json.loads((tmp_path / "listed.json").read_text())
    (tmp_path / "listed.json").write_text(json.dumps(dict.fromkeys(known, broken)))
    assert look(folder, cube, tmp_path) == first


def test_what_is_bad_is_in_nobodys_way(folder, cube, tmp_path):
    release(folder, "a", np.full((8, 6), np.inf))
    release(folder, "b", group_size=1)
    release(folder, "c", first=None, start="monday")
    (Path(folder) / "d.nc").write_text("no file")
    release(folder, "e", members="nowhere.csv")
    release(folder, "f", cube=str(tmp_path / "nowhere"))
    (Path(folder) / "g.zarr").mkdir()
    for chunk in Path(release(folder, "h")).rglob("c/0/0"):
        chunk.write_bytes(b"torn")
    found = look(folder, cube, tmp_path)
    bad = {each.name: type(each.error) for each in found if isinstance(each, Problem)}
    assert bad == {
        "a": FormatError, "b": ConfigError, "c": ConfigError, "d": FormatError,
        "e": ConfigError, "f": ConfigError, "g": MissingError, "h": DamagedError,
    }  # fmt: skip
    assert [each.name for each in found if isinstance(each, ResolvedRelease)] == [
        "month", "week-1", "week-2"
    ]  # fmt: skip


def test_known_members_that_change(cube, tmp_path, opened):
    members = tmp_path / "members.csv"
    members.write_text("user,inside\nu001,true\n")
    entry = ReleaseEntry(counts=release(tmp_path, "week"), members=str(members))
    (first,) = look((entry,), cube, tmp_path)
    assert first.members == str(members)
    assert look((entry,), cube, tmp_path) == [first]
    assert len(opened) == 1
    members.write_text("user,inside\nu001,true\nu002,false\n")
    (second,) = look((entry,), cube, tmp_path)
    assert second.content != first.content
    members.unlink()
    (gone,) = look((entry,), cube, tmp_path)
    assert isinstance(gone.error, MissingError)


def test_values_are_those_that_were_listed(folder, cube, tmp_path):
    work = Catalogue(find_releases(folder), cube.uri, str(tmp_path / "listed.json"))
    listed = work.scan()[1]
    np.testing.assert_array_equal(work.read(listed).values, VALUES)
    touch(f"{folder}/week-1.zarr", VALUES + 1)
    with pytest.raises(MissingError, match=r"week-1 .* changed since it was listed"):
        work.read(listed)


def test_in_an_object_store(cube, tmp_path, opened):
    import fsspec

    uri = release(tmp_path, "week")
    memory = fsspec.filesystem("memory")
    memory.put(uri, "/releases/week.zarr", recursive=True)
    for _ in range(2):
        (found,) = look("memory://releases", cube, tmp_path)
        assert isinstance(found, ResolvedRelease), found
    assert len(opened) == 1
    storage.remove("memory://releases")
