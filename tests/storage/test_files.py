"""Files appear whole or not at all; a full disk is called full and costs nothing that was there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import fsspec
import numpy as np
import pytest
from cube import crowd
from fsspec.implementations.local import LocalFileSystem
from oracles.disks import small_disk

from clusterscale import storage
from clusterscale.cube import TraceCube
from clusterscale.errors import MissingError, StoreError

FULL = " is full; finished work is kept; free some space and run the same command again"
MANY = crowd.draw(2000, 40, 40, share=0.5)  # more than a megabyte, however it is packed


@pytest.fixture
def tiny(tmp_path):
    """A disk of one megabyte."""
    with small_disk(tmp_path / "tiny", 1) as folder:
        yield folder


class Elsewhere(LocalFileSystem):
    """A file system that is neither local to us nor an object store."""

    protocol = "elsewhere"
    fails = False

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(str(path).removeprefix("elsewhere://"))

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        super().pipe_file(path, value[: len(value) // 2] if self.fails else value)
        if self.fails:
            raise OSError(28, "No space left on device")


@pytest.fixture(scope="module")
def elsewhere():
    fsspec.register_implementation("elsewhere", Elsewhere, clobber=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLUSTERSCALE_PROTOCOLS", "elsewhere")
        yield "elsewhere://"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("scheme", ["", "file://", "elsewhere://"])
def test_a_file_comes_back_and_is_replaced(tmp_path, elsewhere, scheme):
    uri = f"{scheme}{tmp_path}/deep/er/page.html"
    with pytest.raises(FileNotFoundError):
        storage.read(uri)
    for content in (b"one", b"", b"three" * 1000):
        storage.put(uri, content)
        assert storage.read(uri) == content
    assert storage.list_names(f"{scheme}{tmp_path}/deep/er") == ["page.html"]
    assert storage.list_names(f"{scheme}{tmp_path}/nowhere") == []


def test_objects_in_memory():
    storage.put("memory://a/b/page.html", b"one")
    assert storage.list_names("memory://a/b") == ["page.html"]
    storage.remove("memory://a")
    assert not storage.exists("memory://a/b/page.html")


def test_a_file_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    seen = []
    flush, replace = os.fsync, type(tmp_path).replace
    monkeypatch.setattr(os, "fsync", lambda fd: (seen.append("flush"), flush(fd)))
    monkeypatch.setattr(
        type(tmp_path), "replace", lambda *paths: (seen.append("name"), replace(*paths))
    )
    storage.put(str(tmp_path / "page.html"), b"one")
    assert seen == ["flush", "name", "flush"]  # of the file, then of its folder


def test_a_writer_killed_before_the_file_is_whole(tmp_path):
    """What was there stays, and what is half there has another name."""
    path = tmp_path / "page.html"
    path.write_bytes(b"old")
    code = (
        "import os, signal, sys\n"
        "from clusterscale import storage\n"
        "os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)\n"
        "storage.put(sys.argv[1], b'new' * 10**6)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    (left,) = (name for name in names(tmp_path) if name != "page.html")
    assert left.endswith(".partial")


def test_a_full_disk_keeps_the_old_file(tiny):
    path = tiny / "page.html"
    storage.put(str(path), b"old")
    with pytest.raises(StoreError) as caught:
        storage.put(str(path), b"new" * 10**6)
    assert str(caught.value) == f"{path}{FULL}"
    assert path.read_bytes() == b"old"
    assert names(tiny) == ["page.html"]
    storage.put(str(path), b"new")
    assert path.read_bytes() == b"new"


def test_a_full_disk_keeps_the_old_cube(tiny):
    few = crowd.draw(4, 3, 5)
    crowd.write(tiny / "cube", few)
    for uri, force in ((tiny / "cube", True), (tiny / "other", False)):
        with pytest.raises(StoreError) as caught:
            crowd.write(uri, MANY, force=force)
        assert str(caught.value).endswith(FULL)
        assert str(caught.value).startswith(f"{uri}.partial-")
    np.testing.assert_array_equal(crowd.densify(TraceCube(tiny / "cube").traces()), few)
    with pytest.raises(MissingError):
        TraceCube(tiny / "other")
    assert names(tiny) == ["cube"]
    assert crowd.write(tiny / "other", few).n_users == 4


def test_a_quota_elsewhere_leaves_no_half(tmp_path, elsewhere, monkeypatch):
    uri = f"elsewhere://{tmp_path}/page.html"
    storage.put(uri, b"old")
    monkeypatch.setattr(Elsewhere, "fails", True)
    with pytest.raises(StoreError) as caught:
        storage.put(uri, b"new")
    assert str(caught.value) == f"{uri}{FULL}"
    assert names(tmp_path) == ["page.html"]
    assert (tmp_path / "page.html").read_bytes() == b"old"
