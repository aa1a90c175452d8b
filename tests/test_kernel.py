"""Compiled functions: the same numbers, cached where that is possible."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
from numba.core.caching import IndexDataCacheFile

from clusterscale.kernel import kernel


def total(values):
    found = 0.0
    for value in values:
        found += value
    return found


def test_the_same_numbers_as_in_python():
    """Bit for bit: fast-math would be free to add in another order."""
    compiled = kernel(total)
    values = np.random.default_rng(0).normal(size=1000) * 10.0 ** (np.arange(1000) % 17)
    assert compiled(values) == total(values)
    assert compiled(np.array([1, 2], np.int32)) == 3


def test_options():
    compiled = kernel(total)
    assert compiled.targetoptions["nogil"] is True
    assert not compiled.targetoptions.get("fastmath")
    assert compiled._cache.cache_path  # kept on disk


def test_without_a_place_for_the_cache(monkeypatch):
    original = numba.njit

    def njit(*, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return original(**options)

    with monkeypatch.context() as patch:
        patch.setattr(numba, "njit", njit)
        compiled = kernel(total)
    assert compiled(np.arange(4.0)) == 6


def test_two_processes_that_compile_for_different_types_at_once(tmp_path):
    """Both have read the index before either wrote it: neither may get the other's machine code."""
    places = []
    for _ in range(2):
        code = (
            "import sys; from clusterscale.kernel import kernel\n"
            "from test_kernel import total\n"
            "files = kernel(total)._cache._cache_file\n"
            "print(files._data_name(1))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
        places.append(done.stdout)
    assert len(set(places)) == 2, "numba numbers the files of either process from 1 on"
    files = [IndexDataCacheFile(str(tmp_path), f"of-{i}", "stamp") for i in range(2)]
    for each, name in zip(files, places, strict=True):
        each._index_path = files[0]._index_path
        each._data_name_pattern = name.strip().replace(".1.nbc", ".{number:d}.nbc")
    index = files[0]._load_index()
    for each in files:  # as when both read it first
        each._load_index, kept = lambda: dict(index), each._load_index
        each.save(f"types of {each._data_name_pattern}", each._data_name_pattern)
        each._load_index = kept
    for each in files:
        found = files[0].load(f"types of {each._data_name_pattern}")
        assert found in (None, each._data_name_pattern), "what is lost is compiled again"
