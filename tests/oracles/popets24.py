"""Algorithms of the zero-knowledge attack as its paper writes them, slowly and line by line."""

import math
from collections import Counter, defaultdict
from itertools import combinations_with_replacement, pairwise

NEIGHBOURHOOD = 10


def near_of(graph):
    """Neighbours of each ROI as sets."""
    return [set(map(int, graph.neighbours[a:b])) for a, b in pairwise(graph.offsets)]


def border_of(inside, near):
    """ROIs next to those inside, in order."""
    return sorted(set().union(*(near[roi] for roi in inside)) - set(inside))


def make_up(space, time, mean, near, rng, *, origin_by=None):
    """One trace of algorithm 1, as a set of cells; ``rng`` is a ``random.Random``."""
    rois = range(len(space))
    inside = rng.choices(rois, space if origin_by is None else origin_by)
    while len(inside) < NEIGHBOURHOOD and (border := border_of(inside, near)):
        inside.append(rng.choice(border))
    n_visits = max(1, round(rng.expovariate(1 / mean)))
    where = rng.choices(inside, [space[roi] for roi in inside], k=n_visits)
    when = rng.choices(range(len(time)), time, k=n_visits)
    return set(zip(where, when, strict=True))


def neighbourhoods(space, near, *, by_edge=False):
    """The exact law of the set of ROIs that a user can visit, by all ways that it can grow."""
    law = {frozenset([roi]): share for roi, share in enumerate(space) if share}
    for _ in range(NEIGHBOURHOOD - 1):
        grown = defaultdict(float)
        for inside, share in law.items():
            border = border_of(inside, near)
            weight = [len(near[roi] & inside) if by_edge else 1 for roi in border]
            for roi, part in zip(border, weight, strict=True):
                grown[inside | {roi}] += share * part / sum(weight)
            if not border:
                grown[inside] += share
        law = grown
    return law


def pairs_of_visits(space, law):
    """How likely two visits of one user are to be in each pair of ROIs, in either order."""
    expected = Counter()
    for inside, share in law.items():
        total = sum(space[roi] for roi in inside)
        for a, b in combinations_with_replacement(sorted(inside), 2):
            expected[a, b] += share * space[a] * space[b] / total**2 * (1 + (a != b))
    return expected


def compressed(shares):
    """Equations 7 and 8: log(1 + γx) with γ the largest 1/x, as shares again."""
    gamma = max(1 / x for x in shares if x > 0)
    values = [math.log(1 + gamma * x) for x in shares]
    return [value / sum(values) for value in values]


def powered(shares, wanted):
    """Algorithm 4: raise p from 1 by .01 until the variance of x^p, as shares, is reached."""
    n, steps = len(shares), 0
    while True:
        values = [x ** (1 + steps / 100) for x in shares]
        found = [value / sum(values) for value in values]
        if sum((x - 1 / n) ** 2 for x in found) / n >= wanted:
            return found, steps
        steps += 1
