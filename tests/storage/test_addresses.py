"""Every address passes one check before anything is opened."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from itertools import chain
from pathlib import Path

import fsspec
import numpy as np
import pytest
import zarr
from fsspec.implementations.local import LocalFileSystem
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each

pytest.importorskip("dask")  # readers of records

from clusterscale import storage
from clusterscale.config import load, load_releases
from clusterscale.cube import TraceCube
from clusterscale.errors import FormatError, InputError, MissingError, PackageError, SourceError
from clusterscale.ingestion import Events, GeoJson, read_points
from clusterscale.reauditing import find_releases
from clusterscale.release import read_table
from clusterscale.storage import address, read_file
from clusterscale.storage.address import VARIABLE, check_address
from clusterscale.storage.atomic import staged

SECRET = "k3y-of-a-user"
UNSAFE = [
    "http://127.0.0.1:9/cube",
    "https://host/cube",
    "ftp://host/cube",
    "github://owner:repo@main/cube",
    "reference://cube",
    "zip://cube",
    "data:text/plain,user",
    "data://text/plain,user",
    "local:///etc/passwd",
    "S3://bucket/cube",
    " s3://bucket/cube",
    "ht\ttp://host/cube",
    "/tmp/http://host/cube",
    "simplecache::s3://bucket/cube",
    "s3://bucket/cube::http://host",
    "/data/cube::memory.zarr",
    "file:///data/cube::memory.zarr",
    "/dev/zero",
    "/dev/stdin/",
    "/dev/../dev/random",
    "file:///dev/zero",
    "/proc/self/environ",
    "/proc/self/../self/maps",
    "/sys/kernel/uevent_seqnum",
    "file:///proc/version",
    "/proc",
    "a\0b",
]


def _open_staged(uri):
    with staged(uri, force=True):
        pytest.fail("nothing may be written")


def _stream(uri):
    with storage.open_file(uri):
        pytest.fail("nothing may be opened")


DOORS = {
    "connect": storage.connect,
    "open_store": storage.open_store,
    "open_group": storage.open_group,
    "open_dataset": storage.open_dataset,
    "create_group": storage.create_group,
    "exists": storage.exists,
    "read": storage.read,
    "put": lambda uri: storage.put(uri, b"x"),
    "put_new": lambda uri: storage.put_new(uri, b"x"),
    "open_file": _stream,
    "staged": _open_staged,
    "cube": TraceCube,
    "points": read_points,
    "release": read_table,
    "members": read_file,
    "config": load,
    "catalogue": load_releases,
}


@pytest.mark.parametrize("door", DOORS)
@for_each("uri", UNSAFE)
def test_no_door_opens_an_unsafe_address(door, uri, no_file_system):
    if uri == "/dev/stdin/":
        uri = "/dev/null"  # what standard input is depends on how the tests are run
    with pytest.raises(InputError):
        DOORS[door](uri)


@pytest.fixture
def no_file_system(monkeypatch):
    """Fail if fsspec is asked for a file system."""

    def refuse(*args, **options):
        pytest.fail(f"fsspec was asked to open {args}")

    monkeypatch.setattr(fsspec.core, "url_to_fs", refuse)
    monkeypatch.setattr(fsspec, "open", refuse)
    monkeypatch.setattr(zarr.storage.FsspecStore, "from_url", refuse)


def test_safe_addresses_pass(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    urls = ["s3://b/c", "s3a://b/c", "gs://b/c", "gcs://b/c", "az://b/c", "memory://c"]
    urls += ["abfs://box@account.dfs.core.windows.net/c", "abfss://b/c"]
    assert [check_address(url) for url in urls] == urls
    assert check_address("cube.zarr") == check_address(f"file://{tmp_path}/cube.zarr")
    assert check_address("cube.zarr") == f"{tmp_path}/cube.zarr"
    for name in ("a:b", "~", "a@b", "c*", "[x]", "data"):
        storage.put(name, name.encode())
        assert storage.read(name) == (tmp_path / name).read_bytes() == name.encode()
        assert storage.exists(name)
        with storage.open_file(name) as stream:
            assert stream.read() == name.encode()


def test_the_operator_may_allow_a_protocol(monkeypatch):
    with pytest.raises(InputError, match=f"{VARIABLE}=https,sftp"):
        check_address("https://host/cube")
    monkeypatch.setenv(VARIABLE, "https, sftp")
    assert check_address("https://host/cube") == "https://host/cube"
    assert check_address("sftp://host/cube") == "sftp://host/cube"
    for uri in ("http://host/cube", "zip://a::https://host/cube"):
        with pytest.raises(InputError, match="are not opened"):
            check_address(uri)


@given(
    st.one_of(
        st.text(max_size=30),
        st.builds(
            "{}{}{}".format,
            st.sampled_from(sorted(fsspec.available_protocols())),
            st.sampled_from(["://", "::", ":", ":/", ":///", "::file://"]),
            st.text("ab/.:@~?*{}", max_size=12),
        ),
    )
)
def test_no_other_protocol_reaches_fsspec(uri):
    """fsspec is asked only for file systems of allowed protocols, whatever the address is."""
    asked = []

    def record(protocol):
        asked.append(protocol)
        if protocol in (None, "", "file"):
            return LocalFileSystem
        raise ImportError("not needed here")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fsspec.core, "get_filesystem_class", record)
        for use in (storage.connect, storage.open_store, storage.open_file):
            with suppress(InputError, PackageError, ImportError):
                use(uri)
    assert {protocol or "file" for protocol in asked} <= set(address._ALLOWED)


@pytest.fixture
def special(tmp_path):
    """A FIFO, a socket, and links to a device and to a file of the kernel."""
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(tmp_path)  # the path of a socket is short
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
        (tmp_path / "device").symlink_to("/dev/zero")
        (tmp_path / "kernel").symlink_to("/proc/self/environ")
        yield tmp_path


@pytest.mark.timeout(60)  # opening a FIFO would wait for ever
@for_each("name", ["fifo", "socket", "device", "kernel"])
@for_each("door", DOORS)
def test_special_files_are_refused_without_opening_them(special, name, door):
    what = (
        "/proc or /sys"
        if name == "kernel"
        else f"is a .*{name.upper() if name == 'fifo' else name}"
    )
    with pytest.raises(InputError, match=what):
        DOORS[door](str(special / name))
    mode = (special / name).lstat().st_mode
    assert not stat.S_ISREG(mode)  # nothing has replaced it


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["fifo", "socket", "device", "kernel"])
@pytest.mark.parametrize("key", ["zarr.json", "values/zarr.json", "values/c/0"])
def test_special_files_within_a_store_are_refused(special, name, key):
    folder = special / "week.zarr"
    group = zarr.create_group(folder)
    group.create_array("values", data=np.ones(3))
    (folder / key).unlink()
    (folder / key).symlink_to(special / name)
    with pytest.raises((InputError, FormatError)):
        storage.open_group(str(folder))["values"][:]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["fifo", "device", "kernel"])
@pytest.mark.parametrize("ending", ["csv", "parquet", "geojson"])
def test_special_files_in_a_folder_of_records_are_refused(special, name, ending):
    folder = special / "records"
    folder.mkdir()
    (folder / f"day.{ending}").symlink_to(special / name)
    reader = GeoJson() if ending == "geojson" else Events()
    with pytest.raises(InputError, match=r"is a FIFO|is a device|/proc or /sys"):
        [*chain.from_iterable(reader.read(it) for it in reader.pieces(str(folder), 1 << 20))]


def test_a_release_in_a_folder_may_not_have_a_chained_name(tmp_path):
    (tmp_path / "simplecache::memory:x.nc").write_bytes(b"")
    (entry,) = find_releases(str(tmp_path))
    with pytest.raises(InputError, match="chained addresses"):
        read_table(entry.counts)


def test_files_are_not_read_beyond_the_limit(tmp_path, monkeypatch):
    storage.put("memory://limits/a.bin", b"12345")
    (tmp_path / "a.bin").write_bytes(b"12345")
    for uri in (str(tmp_path / "a.bin"), "memory://limits/a.bin"):
        assert storage.read(uri, most=5) == b"12345"
        with pytest.raises(FormatError, match=r"a\.bin has 5 bytes; at most 4 are read"):
            storage.read(uri, most=4)
    storage.remove("memory://limits")
    big = tmp_path / "big.nc"
    with big.open("wb") as stream:
        stream.truncate(address.LARGEST + 1)  # a hole, which uses no disk
    for door in ("read", "members", "release"):
        with pytest.raises(FormatError, match="2,147,483,649 bytes; at most 2,147,483,648 are"):
            DOORS[door](str(big))
    with pytest.raises(SourceError, match="the first line cannot be read"):  # read by pieces
        DOORS["points"](str(big))


def test_a_chunk_is_not_read_beyond_the_limit(tmp_path):
    group = zarr.create_group(tmp_path / "week.zarr")
    group.create_array("values", data=np.ones(3))
    with (tmp_path / "week.zarr/values/c/0").open("wb") as stream:
        stream.truncate(address.LARGEST + 1)
    with pytest.raises(FormatError, match="at most 2,147,483,648 are read"):
        storage.open_group(str(tmp_path / "week.zarr"))["values"][:]


@for_each("door", DOORS)
@for_each(
    "uri", ["s3://ann:{}@bucket/c", "s3://{}@bucket/c", "https://{}@host/c", "ftp://ann:{}@host/c"]
)
def test_credentials_are_refused_and_not_repeated(door, uri):
    with pytest.raises(InputError) as caught:
        DOORS[door](uri.format(SECRET))
    assert SECRET not in str(caught.value)


def test_missing_files_are_still_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        storage.read(str(tmp_path / "none"))
    with pytest.raises(MissingError):
        read_file(str(tmp_path / "none"))
    with pytest.raises(FormatError, match="is a folder, not a file"):
        read_file(str(tmp_path))
    assert not storage.exists(str(tmp_path / "none" / "below"))


@for_each("door", DOORS)
def test_paths_that_are_too_long_are_errors_of_input(door):
    with pytest.raises(InputError, match="is longer than a path can be here"):
        DOORS[door]("x" * 300)
