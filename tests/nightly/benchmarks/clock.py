"""How long a call takes; warnings are silenced, as nobody is to be charged for printing them."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import TypeVar

import numpy as np

__all__ = ["Stopwatch", "least_in_turn", "least_of", "median_of"]

R = TypeVar("R")


class Stopwatch:
    """Adds up seconds by name of a phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        with warnings.catch_warnings(action="ignore"):
            started = perf_counter()
            yield
            taken = perf_counter() - started
        self.seconds[name] = self.seconds.get(name, 0.0) + taken

    def of(self, name: str, call: Callable[[], R]) -> R:
        """Time one call as a phase, or as one more part of it."""
        with self.phase(name):
            return call()


def median_of(call: Callable[[], object], repeats: int = 3) -> float:
    """Return the median of some calls' seconds, after one that warms up."""
    call()
    return float(np.median([_time(call) for _ in range(repeats)]))


def least_of(call: Callable[[], object], repeats: int) -> float:
    """Return the least of some calls' seconds, after one that warms up."""
    return least_in_turn([call], repeats)[0]


def least_in_turn(calls: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """Return each call's least seconds; what disturbs the machine for a while meets all alike."""
    for call in calls:
        call()
    return np.min([[_time(call) for call in calls] for _ in range(repeats)], axis=0).tolist()


def _time(call: Callable[[], object]) -> float:
    started = perf_counter()
    call()
    return perf_counter() - started
