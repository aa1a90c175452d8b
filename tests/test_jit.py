"""Compiled functions: the same numbers, cached where that is possible."""

from __future__ import annotations

import subprocess
import sys

import numba
import numpy as np
import pytest

import clusterscale.jit as module
from clusterscale.jit import kernel


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


@pytest.fixture
def run(tmp_path):
    """Run code in a process of its own, with kernels whose cache is empty."""
    (tmp_path / "kernels.py").write_text(SORTING)

    def run(code):
        done = subprocess.run(
            [sys.executable, "-c", "import numpy as np\nfrom kernels import *\n" + code],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    return run


SORTING = """
from clusterscale.jit import kernel

import numpy as np

@kernel
def ordered(values):
    return np.sort(values)

@kernel
def order(values):
    return np.argsort(values)

@kernel
def nothing(value):
    return value
"""
NUMBERS = "import re; print(*re.findall(r'B[0-9]+v([0-9]+)B', {0}.inspect_llvm({0}.signatures[0])))"


@pytest.mark.slow
def test_machine_code_of_several_processes_in_one(run):
    """``run_quicksort1`` is the name of either's inner function, after three others in the second.

    numba would number both alike, and ``order`` return what ``ordered`` does, or crash.
    """
    values = "np.array([30, 10, 20], np.int32)"
    first = run(f"ordered({values}); {NUMBERS.format('ordered')}")
    second = run(
        "for kind in (np.int8, np.int16, np.int32): nothing(kind(0))\n"
        f"order({values}); {NUMBERS.format('order')}"
    )
    assert len(set(first)) > 5
    assert len(set(second)) > 5
    assert not set(first) & set(second)
    found = run(f"print(*ordered({values}), *order({values}), *ordered.stats.cache_hits.values())")
    assert found == ["10", "20", "30", "1", "2", "0", "1"]


def test_two_processes_that_compile_for_different_types_at_once(tmp_path, monkeypatch):
    """Both have read the index before either wrote it: neither may get the other's machine code."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    one, other = (kernel(total)._cache._cache_file for _ in range(2))
    save = one._save_data

    def save_late(name, data):
        with monkeypatch.context() as patch:
            patch.setattr(other, "_load_index", dict)
            other.save("other types", "for other types")
        save(name, data)

    monkeypatch.setattr(one, "_save_data", save_late)
    one.save("types", "for types")
    reader = kernel(total)._cache._cache_file
    assert reader.load("types") is None, "what is lost is compiled again"
    assert reader.load("other types") == "for other types"


def test_machine_code_of_another_version_of_the_package(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    kernel(total)._cache._cache_file.save("types", "of this version")
    assert kernel(total)._cache._cache_file.load("types") == "of this version"
    monkeypatch.setattr(module, "_version_of_all", lambda: "another")
    assert kernel(total)._cache._cache_file.load("types") is None


@pytest.mark.skipif(not numba.config.BOUNDSCHECK, reason="NUMBA_BOUNDSCHECK is not set")
def test_bounds_are_checked_where_that_is_asked_for():
    @kernel
    def third(values):
        return values[2]

    assert third(np.arange(3.0)) == 2
    with pytest.raises(IndexError, match="out of bounds"):
        third(np.arange(2.0))
