"""Digests of code of other packages: a change is noticed, and what cannot be read is unknown."""

import importlib
import sys
from zipfile import ZipFile

import pytest

from clusterscale.study import foreign_code
from clusterscale.study.foreign_code import changed_code, code_of, digest_of_files
from clusterscale.study.identity import has_code

PLUGIN = """
from typing import Literal
from clusterscale.contracts import Mechanism

class Noise(Mechanism):
    "Noise of a helper."

    name: Literal["noise"] = "noise"

    def release(self, counts, *, group_size, rng):
        from noisy_helper import SCALE
        return counts + SCALE
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return a function that writes the helper, imports the plug-in and returns its class."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "helper.zip")
    (tmp_path / "noisy_noise.py").write_text(PLUGIN)

    def write(put, scale):
        put(tmp_path, f"SCALE = {scale}")
        for name in [name for name in sys.modules if name.startswith("noisy_")]:
            monkeypatch.delitem(sys.modules, name)
        sys.path_importer_cache.clear()
        importlib.invalidate_caches()
        for known in (foreign_code._owners, foreign_code._known):
            known.cache_clear()
        return importlib.import_module("noisy_noise").Noise

    yield write
    for name in [name for name in sys.modules if name.startswith("noisy_")]:
        del sys.modules[name]
    foreign_code._owners.cache_clear()


def in_a_folder(folder, text):
    (folder / "noisy_helper" / "inner").mkdir(parents=True, exist_ok=True)
    (folder / "noisy_helper" / "__init__.py").write_text("from noisy_helper.inner import SCALE")
    (folder / "noisy_helper" / "inner" / "__init__.py").write_text(text)


def in_a_zip(folder, text):
    with ZipFile(folder / "helper.zip", "w") as archive:
        archive.writestr("noisy_helper.py", text)


def in_a_zipped_package(folder, text):
    with ZipFile(folder / "helper.zip", "w") as archive:
        archive.writestr("noisy_helper/__init__.py", text)


def in_an_installed_zip(folder, text):
    in_a_zip(folder, text)
    with ZipFile(folder / "helper.zip", "a") as archive:
        archive.writestr("noisy_helper-1.dist-info/METADATA", "Name: noisy_helper\nVersion: 1\n")
        archive.writestr("noisy_helper-1.dist-info/RECORD", "noisy_helper.py,,\n")
        archive.writestr("noisy_helper-1.dist-info/top_level.txt", "noisy_helper\n")


def behind_a_link(folder, text):
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    (elsewhere / "__init__.py").write_text(text)
    if not (folder / "noisy_helper").exists():
        (folder / "noisy_helper").mkdir()
        (folder / "noisy_helper" / "inner").symlink_to(elsewhere)
        (folder / "noisy_helper" / "__init__.py").write_text("from noisy_helper.inner import SCALE")


def without_a_list_of_files(folder, text):
    (folder / "noisy_helper.py").write_text(text)
    about = folder / "noisy_helper-1.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: noisy_helper\nVersion: 1\n")
    (about / "top_level.txt").write_text("noisy_helper\n")


@pytest.mark.parametrize("put", [in_a_folder, without_a_list_of_files])
def test_a_changed_helper_changes_the_digest(put, write):
    first, second = (code_of(write(put, scale))["noisy_noise:Noise"] for scale in (1, 2))
    assert first["digest"]
    assert second["digest"]
    assert first != second


@pytest.mark.parametrize("put", [in_a_zip, in_a_zipped_package, in_an_installed_zip, behind_a_link])
def test_a_helper_whose_files_cannot_be_listed_is_unknown(put, write, tmp_path, monkeypatch):
    found = code_of(write(put, 1))
    assert found["noisy_noise:Noise"]["digest"] == ""
    assert changed_code(found) == ["noisy_noise:Noise"]
    monkeypatch.setattr("clusterscale.study.identity.code_in", lambda *_: found)
    assert not has_code(str(tmp_path), "screen", write(put, 1))


def test_a_folder_that_cannot_be_listed_is_unknown(write, monkeypatch):
    noise = write(in_a_folder, 1)
    known, listed = digest_of_files("noisy_noise"), foreign_code.os.walk

    def walk(top, *, onerror):
        onerror(PermissionError(top))
        yield from listed(top)

    monkeypatch.setattr(foreign_code.os, "walk", walk)
    assert known
    assert code_of(noise)["noisy_noise:Noise"]["digest"] == ""


def test_a_module_that_was_made_in_memory_is_unknown(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "noisy_helper", type(sys)("noisy_helper"))
    assert digest_of_files("noisy_helper") == ""
