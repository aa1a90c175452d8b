"""Combine values pairwise, always in the same order."""

from collections.abc import Callable
from typing import TypeVar

__all__ = ["combine_pairwise"]

R = TypeVar("R")


def combine_pairwise(values: list[R], combine: Callable[[R, R], R]) -> R:
    """Reduce ``values`` as a balanced tree, in about log2(n) rounds.

    Raises
    ------
    ValueError
        If there is nothing to combine.
    """
    if not values:
        raise ValueError("there is nothing to combine")
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        rest = values[-1:] if len(values) % 2 else []
        values = [combine(left, right) for left, right in pairs] + rest
    return values[0]
