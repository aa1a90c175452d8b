"""Check that a pool is large enough for the requested groups."""

from __future__ import annotations

from math import comb

from clusterscale.errors import PoolError

__all__ = ["check_pool", "largest_group"]


def largest_group(n_pool: int, n_groups: int) -> int:
    """Return the largest size for which a pool has enough distinct groups, 0 if there is none.

    Parameters
    ----------
    n_pool
        Users in the pool, including the target.
    n_groups
        Number of groups, half of them with the target.
    """
    return next((m for m in range(n_pool - 1, 0, -1) if _fits(n_pool, n_groups, m)), 0)


def check_pool(n_pool: int, *, size: int, n_groups: int, name: str) -> None:
    """Raise :class:`PoolError` if ``n_pool`` users cannot supply the groups."""
    if _fits(n_pool, n_groups, size):
        return
    largest = largest_group(n_pool, n_groups)
    room = f"the largest that fits is {largest}" if largest else "no group size fits"
    extent = "large" if size > largest else "small"
    raise PoolError(
        f"groups of {size} are too {extent}: the {name} pool has {n_pool} users including the "
        f"target, and {n_groups} distinct groups are needed; {room}"
    )


def _fits(n_pool: int, n_groups: int, size: int) -> bool:
    half = n_groups // 2
    return _distinct(n_pool - 1, size - 1, half) and _distinct(n_pool - 1, size, half)


def _distinct(n: int, k: int, wanted: int) -> bool:
    """Return whether ``n`` users form at least ``wanted`` distinct groups of ``k``."""
    if not 0 <= k <= n:
        return False
    if 0 < k < n and n >= wanted:  # n choose k is at least n
        return True
    return comb(n, k) >= wanted
