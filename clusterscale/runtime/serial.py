"""Run everything here, one item after the other: for development and as the reference."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from clusterscale.contracts import Finished
from clusterscale.runtime.tree import combine_pairwise

__all__ = ["SerialExecutor"]

T = TypeVar("T")
R = TypeVar("R")


class SerialExecutor:
    """An executor without a cluster."""

    n_workers = 1
    dashboard: str | None = None

    def map_unordered(
        self, function: Callable[[T], R], items: Iterable[T]
    ) -> Iterator[Finished[T, R]]:
        """Yield each item with its value, or with the exception it ended in."""
        for item in items:
            try:
                yield Finished(item, function(item))
            except Exception as error:
                yield Finished(item, error=error)

    def reduce(
        self, function: Callable[[T], R], items: Iterable[T], combine: Callable[[R, R], R]
    ) -> R:
        """Combine the values of all items as a balanced tree.

        Raises
        ------
        ValueError
            If there are no items.
        """
        return combine_pairwise([function(item) for item in items], combine)
