"""Compiled functions: the same numbers, cached where that is possible."""

from __future__ import annotations

import numba
import numpy as np

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
