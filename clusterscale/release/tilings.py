"""Epochs that are filled by shorter ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

Epoch = tuple[int, int]
"""Beginning and end."""
Epochs = frozenset[Epoch]


def tilings(epochs: Sequence[Epoch]) -> Iterator[tuple[int, list[int]]]:
    """Yield which epochs are filled by which shorter ones, of those that increase.

    The fewest shorter ones come first. Others follow where they do not begin at all of the times at
    which those of an earlier way begin: else each of these is filled itself, and says the same.
    """
    starting: dict[int, list[tuple[int, int]]] = {}
    for i, (begin, end) in enumerate(epochs):
        starting.setdefault(begin, []).append((end, i))
    for i, epoch in enumerate(epochs):
        used, accepted = {i}, list[set[int]]()
        while path := _fewest(epoch, starting, used):
            used.update(path)
            begins = {epochs[j][0] for j in path}
            if not any(earlier <= begins for earlier in accepted):
                accepted.append(begins)
                yield i, path


def _fewest(
    epoch: Epoch, starting: Mapping[int, Sequence[tuple[int, int]]], used: Collection[int]
) -> list[int]:
    """Return the fewest epochs that fill one, of those that are not used; none if they do not."""
    begin, stop = epoch
    reached, queue = {begin: (begin, -1)}, deque([begin])
    while queue and stop not in reached:
        now = queue.popleft()
        for end, i in starting.get(now, ()):
            if end <= stop and end not in reached and i not in used:
                reached[end] = now, i
                queue.append(end)
    path, now = list[int](), stop
    while now != begin and now in reached:
        now, i = reached[now]
        path.append(i)
    return path[::-1]


@lru_cache(1 << 10)
def join_times(one: Epochs, two: Epochs) -> tuple[Epochs, Epochs, Epochs]:
    """Return the epochs that both have or fill, and of these those that each only fills."""
    same = one & two
    if same == one == two:
        return same, frozenset(), frozenset()
    ones, twos = _filled(two - one, one), _filled(one - two, two)
    if not (same or ones or twos):  # such as 2 h and 3 h, which both fill 6 h
        ends = [{end for epoch in some for end in epoch} for some in (one, two)]
        both = sorted(ends[0] & ends[1])
        crossing = frozenset(pairwise(both))
        ones = twos = _filled(crossing, one) & _filled(crossing, two)
    return same | ones | twos, ones, twos


def _filled(epochs: Epochs, by: Epochs) -> Epochs:
    """Return which epochs several others fill."""
    starting: dict[int, list[tuple[int, int]]] = {}
    for i, (begin, end) in enumerate(by):
        starting.setdefault(begin, []).append((end, i))
    return frozenset(one for one in epochs if len(_fewest(one, starting, ())) > 1)
