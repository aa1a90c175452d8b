"""Exact laws of a user's events after trace steps, by enumeration, and the ε that they allow.

Nothing here is computed as the package does it: a trace is a set of (place, epoch), an epoch is the
set of the local days that it is on, and every choice of every step is listed with its probability.
"""

import random
from itertools import combinations, product

import numpy as np
from scipy.optimize import linprog

from clusterscale.contracts import CellCoordinates

MOST_OUTCOMES, MOST_CELLS = 400, 12


def coordinates(epochs, n_rois):
    """Return the frame of the epochs: the days in which they begin and end."""
    days = np.array([min(days) for days in epochs])
    until = np.array([max(days) for days in epochs])
    return CellCoordinates(days, np.arange(float(n_rois)), np.zeros(n_rois), until)


def merged(n, step):
    """Return the merged number of each of n places or epochs, by order of first appearance."""
    if "factor" in step:
        return [i // step["factor"] for i in range(n)]
    first = {i: min(group) for group in step["groups"] for i in group}
    label = [first.get(i, i) for i in range(n)]
    return [sorted(set(label)).index(one) for one in label]


def follow(trace, epochs, steps, n_rois):
    """Return the probability of each set of cells after the steps, and the epochs after them."""
    law = {frozenset(trace): 1.0}
    for step in steps:
        if step["name"] == "coarsen_time":
            label = merged(len(epochs), step)
            epochs = [
                frozenset().union(
                    *(days for days, own in zip(epochs, label, strict=True) if own == i)
                )
                for i in range(max(label) + 1)
            ]
            after = {x: [(frozenset((r, label[t]) for r, t in x), 1.0)] for x in law}
        elif step["name"] == "coarsen_space":
            label = merged(n_rois, step)
            n_rois = max(label) + 1
            after = {x: [(frozenset((label[r], t) for r, t in x), 1.0)] for x in law}
        elif step["name"] == "sample_traces":
            after = {x: sampled(x, 1 - step["remove"]) for x in law}
        else:
            after = {x: capped(x, epochs, step["per_day"]) for x in law}
        mixed = {}
        for x, share in law.items():
            for y, chance in after[x]:
                mixed[y] = mixed.get(y, 0.0) + share * chance
        law = mixed
        if len(law) > MOST_OUTCOMES:
            raise OverflowError
    return law, epochs, n_rois


def sampled(events, keep):
    """Return all sets that may be left, and their probabilities."""
    return [
        (frozenset(kept), keep**n * (1 - keep) ** (len(events) - n))
        for n in range(len(events) + 1)
        for kept in combinations(events, n)
    ]


def capped(events, epochs, per_day):
    """Return all choices of so many events of each day in which epochs begin, equally likely."""
    by_day = {}
    for event in events:
        by_day.setdefault(min(epochs[event[1]]), []).append(event)
    choices = [list(combinations(day, min(per_day, len(day)))) for day in by_day.values()]
    if np.prod([float(len(choice)) for choice in choices]) > MOST_OUTCOMES:
        raise OverflowError
    every = [frozenset(e for day in kept for e in day) for kept in product(*choices)]
    return [(kept, 1 / len(every)) for kept in every]


def counted(cells, n_epochs, *, null_roi):
    """Return the cells in which somebody is counted, with those of idle epochs."""
    idle = {t for t in range(n_epochs)} - {t for _, t in cells} if null_roi else ()
    return cells | {("idle", t) for t in idle}


def neighbours(trace, epochs, unit):
    """Yield the trace without each unit; a day may leave events in epochs that others share."""
    if unit == "user":
        yield frozenset(), True
    elif unit == "event":
        for event in trace:
            yield trace - {event}, False
    else:
        for day in {day for _, t in trace for day in epochs[t]}:
            on = frozenset(e for e in trace if day in epochs[e[1]])
            yield trace - on, False
            shared = frozenset(e for e in on if len(epochs[e[1]]) > 1)
            if shared:
                yield trace - (on - shared), False


def exact_epsilon(inside, outside, scale):
    """Return ε of two-sided geometric or Laplace noise on counts of two laws of sets of cells.

    Beyond 0 and 1, each published value changes the densities of both laws by the same factor, and
    between them ratios are monotone, so the largest ratio is at a corner.
    """
    sets = [*inside, *outside]
    vary = sorted(frozenset().union(*sets) - frozenset.intersection(*map(frozenset, sets)), key=str)
    if not vary:
        return 0.0
    if len(vary) > MOST_CELLS:
        raise OverflowError
    corners = np.array(list(product((0, 1), repeat=len(vary))), float).reshape(-1, len(vary))
    logs = []
    for law in (inside, outside):
        points = np.array([[cell in x for cell in vary] for x in law], float)
        distance = np.abs(corners[:, None] - points[None]).sum(axis=2)
        logs.append(np.log(np.exp(-distance / scale) @ np.array([*law.values()])))
    return float(np.abs(logs[0] - logs[1]).max())


def unmatched(inside, outside, most):
    """Return the probability that no joint draw can pair with at most ``most`` changes."""
    pairs = [
        (i, k) for i, x in enumerate(inside) for k, y in enumerate(outside) if len(x ^ y) <= most
    ]
    if not pairs:
        return 1.0
    rows = np.zeros((len(inside) + len(outside), len(pairs)))
    for column, (i, k) in enumerate(pairs):
        rows[[i, len(inside) + k], column] = 1
    found = linprog(-np.ones(len(pairs)), rows, [*inside.values(), *outside.values()])
    return 1 + found.fun


def random_case(seed):
    """Return a trace, its epochs, the number of places, and a chain of one to three steps."""
    rng = random.Random(seed)
    n_rois, n_epochs = rng.choice([1, 2, 3]), rng.randint(4, 8)
    per_day = rng.randint(1, 4)
    shared = rng.random() < 0.25  # epochs that do not divide a day
    epochs = [
        frozenset(
            {t // per_day, (t + 1) // per_day} if shared and rng.random() < 0.5 else {t // per_day}
        )
        for t in range(n_epochs)
    ]
    cells = [(r, t) for r in range(n_rois) for t in range(n_epochs)]
    trace = frozenset(rng.sample(cells, rng.randint(1, min(6, len(cells)))))
    steps, left = [], (n_rois, n_epochs)
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(["coarsen_time", "cap_contributions", "sample_traces", "coarsen_space"])
        n = left[kind == "coarsen_time"]
        if kind.startswith("coarsen"):
            if n < 2:
                continue
            group = rng.sample(range(n), rng.randint(2, n))
            by_factor = kind == "coarsen_time" and rng.random() < 0.5
            step = {"factor": rng.randint(2, 5)} if by_factor else {"groups": [group]}
            n = max(merged(n, step)) + 1
            left = (left[0], n) if kind == "coarsen_time" else (n, left[1])
        else:
            step = (
                {"per_day": rng.randint(1, 3)}
                if kind[0] == "c"
                else {"remove": rng.choice([0.2, 0.5])}
            )
        steps.append({"name": kind} | step)
    return trace, epochs, n_rois, tuple(steps or [{"name": "cap_contributions", "per_day": 1}])
