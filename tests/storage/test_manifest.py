"""Tables that are damaged while they are written, or later: what is intact stays, no more."""

import json
import random
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterscale import storage
from clusterscale.errors import DamagedError
from clusterscale.schema import Variable
from clusterscale.storage import manifest
from clusterscale.storage.result_table import TableStore, create_table, open_table

VARIABLES = {
    "row": Variable(("row",), "iu", "1", "number"),
    "square": Variable(("row",), "f", "1", "square of the number"),
    "total": Variable(("row",), "f", "1", "sum of all squares up to there"),
}
N_PARTS, SIZE = 4, 3


def create(uri):
    columns = {"row": range(N_PARTS * SIZE)}
    about = {"format": "test", "complete": False}
    create_table(uri, VARIABLES, columns, {"row": SIZE}, about)


def fill(folder):
    """Write all parts that are not done, and return their names."""
    store = TableStore(str(folder), "test", create)
    left = [part for part in range(N_PARTS) if str(part) not in store.done()]
    for part in left:
        rows = slice(part * SIZE, (part + 1) * SIZE)
        store.array("square")[rows] = np.arange(rows.start, rows.stop) ** 2.0
        store.mark_done(str(part))
    store.array("total")[:] = np.cumsum(np.asarray(store.array("square")[:]))
    store.finish()
    return left


def values(folder):
    table = open_table(folder, "table", "test", VARIABLES)
    return [table[name].values.tolist() for name in VARIABLES]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound") / "table"
    assert fill(folder) == list(range(N_PARTS))
    return folder


def flip(path, rng):
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def swap(path, rng):
    others = [
        x for x in path.parent.iterdir() if x.is_file() and x.read_bytes() != path.read_bytes()
    ]
    other = rng.choice(others) if others else path.parent.parent / "zarr.json"
    one, two = path.read_bytes(), other.read_bytes()
    path.write_bytes(two)
    other.write_bytes(one)


DAMAGE = {
    "flip": flip,
    "lose": lambda path, rng: path.unlink(),
    "truncate": lambda path, rng: path.write_bytes(path.read_bytes()[:-1]),
    "empty": lambda path, rng: path.write_bytes(b""),
    "swap": swap,
    "stray": lambda path, rng: shutil.copy(path, path.with_name("stray")),
}


@given(st.sampled_from(sorted(DAMAGE)), st.integers(0, 10**6))
def test_any_damage_is_refused_and_then_repaired(tmp_path_factory, sound, kind, seed):
    folder, rng = tmp_path_factory.mktemp("damaged") / "table", random.Random(seed)
    shutil.copytree(sound, folder)
    files = sorted(path for path in (folder / "results.zarr").rglob("*") if path.is_file())
    DAMAGE[kind](rng.choice(files), rng)
    with pytest.raises(Exception, match=r"results\.zarr") as caught:
        values(folder)
    assert type(caught.value).__module__ == "clusterscale.errors"
    fill(folder)
    assert values(folder) == values(sound)
    manifest.check(f"{folder}/results.zarr")


def test_only_the_damaged_part_is_written_again(tmp_path, sound):
    shutil.copytree(sound, tmp_path / "table")
    (tmp_path / "table" / "results.zarr" / "square" / "c" / "2").unlink()
    with pytest.raises(DamagedError, match=r"results\.zarr/square/c/2 is missing; run the command"):
        values(tmp_path / "table")
    assert fill(tmp_path / "table") == [2]
    assert values(tmp_path / "table") == values(sound)


def test_metadata_is_restored_without_losing_a_part(tmp_path, sound):
    shutil.copytree(sound, tmp_path / "table")
    (tmp_path / "table" / "results.zarr" / "square" / "zarr.json").write_text("{")
    assert fill(tmp_path / "table") == []
    assert values(tmp_path / "table") == values(sound)


def test_a_mark_without_its_digests_counts_for_nothing(tmp_path, sound):
    shutil.copytree(sound, tmp_path / "table")
    (tmp_path / "table" / "done" / "1").write_bytes(b"")
    assert fill(tmp_path / "table") == [1]


def test_what_has_no_manifest_is_not_opened(tmp_path, sound):
    shutil.copytree(sound, tmp_path / "table")
    shutil.rmtree(tmp_path / "table" / "results.zarr" / "manifest")
    with pytest.raises(DamagedError, match=r"manifest/zarr\.json is missing"):
        values(tmp_path / "table")


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.none()))
def test_sealed_values_come_back(plain):
    plain.pop("digest", None)
    assert manifest.from_sealed(manifest.to_sealed(plain)) == plain


@given(st.binary(max_size=60))
def test_other_bytes_are_not_sealed_values(content):
    with pytest.raises(ValueError, match=r"."):
        manifest.from_sealed(content)


def test_a_file_that_changed_before_the_end_is_not_sealed(tmp_path):
    store = TableStore(str(tmp_path), "test", create)
    store.array("square")[:SIZE] = np.ones(SIZE)
    store.mark_done("0")
    storage.put(f"{tmp_path}/results.zarr/square/c/0", b"other")
    with pytest.raises(DamagedError, match="square/c/0 is not the file that was written"):
        store.finish()


def list_files(table, files):
    """Write a manifest of these files, with the digest of what it says."""
    path = table / manifest.MANIFEST
    group = json.loads(path.read_text())
    group["attributes"] = json.loads(manifest.to_sealed({"files": files}))
    path.write_text(json.dumps(group))


@pytest.mark.parametrize(
    "files",
    [
        {"../../kept": "0"},
        {"square/../../../kept": "0"},
        {"": "0"},
        {"/kept": "0"},
        {"a\0b": "0"},
        {"zarr.json": 3},
        ["zarr.json"],
        3,
        None,
    ],
)
def test_a_crafted_manifest_is_refused_and_removes_nothing_elsewhere(sound, tmp_path, files):
    folder = shutil.copytree(sound, tmp_path / "table")
    kept = tmp_path / "kept"
    kept.write_text("not of the table")
    list_files(folder / "results.zarr", files)
    with pytest.raises(DamagedError, match=r"manifest/zarr\.json is damaged"):
        values(folder)
    fill(folder)
    assert kept.read_text() == "not of the table"
    assert values(folder) == values(sound)


def test_a_crafted_part_removes_nothing_elsewhere(sound, tmp_path):
    folder = shutil.copytree(sound, tmp_path / "table")
    kept = tmp_path / "kept"
    kept.write_text("not of the table")
    storage.put(f"{folder}/done/0", manifest.to_sealed({"chunks": {"../../kept": "0"}}))
    assert fill(folder) == [0]
    assert kept.read_text() == "not of the table"
    assert values(folder) == values(sound)


def test_json_that_is_nested_too_deeply_is_damage(sound, tmp_path):
    deep = "[" * 100_000 + "]" * 100_000
    with pytest.raises(ValueError, match="nested too deeply"):
        manifest.from_sealed(deep.encode())
    folder = shutil.copytree(sound, tmp_path / "table")
    (folder / "results.zarr" / manifest.MANIFEST).write_text(deep)
    with pytest.raises(DamagedError, match="nested too deeply"):
        manifest.check(str(folder / "results.zarr"))
