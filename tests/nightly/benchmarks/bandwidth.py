"""Counting and summarising against the speed at which memory is copied.

What must be moved: the events of the pool's users, read once, and the counts, written once; of
the statistics, the counts, read once, and what comes of them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from clock import least_in_turn
from show import at_least, print_table

from clusterscale.attacks.statistics import STATISTICS, _summarise, summarise
from clusterscale.contracts import Counts, Ints, Members, Traces
from clusterscale.groups import Pool
from clusterscale.groups.count import _count, _count_by_complement, _events, count_visits
from clusterscale.seeds import stream

__all__ = ["show_bandwidth"]

REPEATS = 9
GOAL = 25  # per cent
ONE = np.ones(1, np.int32)  # the weight of an event, for all users


@dataclass(frozen=True, slots=True)
class Piece:
    """A call to time, the bytes it must move, and those it moves if nothing is read only once."""

    name: str
    how: str
    call: Callable[[], object]
    n_cells: int
    needed: int
    repeated: int

    def row(self, seconds: float, copied: float) -> tuple[str, ...]:
        """Return the cells of a table, given the bytes a second of a plain copy."""
        return (
            self.name,
            self.how,
            f"{1000 * seconds:.1f}",
            f"{self.n_cells / seconds / 1e6:,.0f}",
            f"{self.needed / 1e6:,.0f}",
            f"{self.needed / seconds / 1e9:.2f}",
            f"{100 * self.needed / seconds / copied:.0f} %",
            f"{100 * self.repeated / seconds / copied:.0f} %",
        )


def show_bandwidth(traces: Traces, training: Members) -> None:
    """Time the kernels on the training groups, and on as many groups drawn from all users."""
    everybody = np.arange(traces.n_users)
    slices = Pool(traces, everybody, 0, training.shape[1], "benchmark").slices(
        len(training), rng=stream(0, "bandwidth")
    )
    drawn = np.concatenate([members for members, _ in slices])
    counts = count_visits(traces, drawn)
    pieces = [
        *_counting("training groups", traces, training, np.unique(training)),
        *_counting("groups of all users", traces, drawn, everybody),
        *_summarising(counts),
    ]
    other = np.ones_like(counts)
    calls = [lambda: np.copyto(other, counts), *(piece.call for piece in pieces)]
    copying, *seconds = least_in_turn(calls, REPEATS)
    _show(pieces, seconds, 2 * counts.nbytes / copying)


def _show(pieces: Sequence[Piece], seconds: Sequence[float], copied: float) -> None:
    print_table(
        f"Bandwidth; copying the counts moves {copied / 1e9:.1f} GB/s, read and written",
        ("", "", "ms", "M cells/s", "MB", "GB/s", "of a copy", "all events"),
        (piece.row(each, copied) for piece, each in zip(pieces, seconds, strict=True)),
        f"Least of {REPEATS} runs, in turn with the copy. Added: a group is the sum of members; "
        "left out: the pool less the others. Fresh: the public function, which allocates; warm: "
        "its kernel, into memory written before; where it adds to zeros, each group is zeroed as "
        "part of it. MB: what must be moved, every event read once. All events: share of a copy "
        "if the events of every member count as read in every group.",
    )
    for piece, each in zip(pieces, seconds, strict=True):
        share = 100 * piece.needed / each / copied
        at_least(f"{piece.name}, {piece.how}, of a copy's bandwidth", share, GOAL, " %")


def _counting(name: str, traces: Traces, members: Members, pool: Ints) -> Iterator[Piece]:
    """Yield the way to count that suits the pool, with and without allocation."""
    warm = np.zeros((len(members), traces.n_cells), np.int32)
    direct = 2 * members.shape[1] <= len(pool)
    kernel = _add(traces, members, warm) if direct else _leave_out(traces, members, pool, warm)

    def count_fresh() -> Counts:
        return count_visits(traces, members, pool=pool)

    kernel()
    if not np.array_equal(count_fresh().reshape(warm.shape), warm):
        raise AssertionError("the kernel was not called as count_visits calls it")
    way = "added" if direct else "left out"
    sizes = _event_bytes(traces)
    needed, repeated = (warm.nbytes + int(sizes[users].sum()) for users in (pool, members))
    yield Piece(name, f"{way}, fresh", count_fresh, warm.size, needed, repeated)
    yield Piece(name, f"{way}, warm", kernel, warm.size, needed, repeated)


def _event_bytes(traces: Traces) -> np.ndarray:
    """Return the bytes of each user's trace."""
    idle = 0 if traces.idle is None else traces.idle[0].nbytes
    return np.diff(traces.offsets) * traces.cells.itemsize + idle


def _add(traces: Traces, members: Members, warm: Counts) -> Callable[[], None]:
    events = _events(traces)

    def run() -> None:
        for i in range(len(members)):
            warm[i].fill(0)
            _count(events, ONE, members[i : i + 1], warm[i : i + 1])

    return run


def _leave_out(traces: Traces, members: Members, pool: Ints, warm: Counts) -> Callable[[], None]:
    events = _events(traces)
    inside = np.zeros(traces.n_users, np.bool_)
    everyone = np.zeros((1, traces.n_cells), np.int32)

    def run() -> None:
        everyone.fill(0)
        _count(events, ONE, pool[None, :], everyone)
        _count_by_complement(events, -ONE, members, pool, inside, everyone[0], warm)

    return run


def _summarising(counts: Counts) -> Iterator[Piece]:
    series = counts.reshape(-1, counts.shape[-1])
    found = np.zeros((len(series), len(STATISTICS)))
    moved = counts.nbytes + found.nbytes
    calls = {
        "fresh": lambda: summarise(counts),
        "warm": lambda: _summarise(series, True, np.int64(0), found),
    }
    for memory, call in calls.items():
        yield Piece("statistics", memory, call, counts.size, moved, moved)
