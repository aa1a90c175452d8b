#!/usr/bin/env python3
"""Time what follows from levels of places together, the repair, and the averaging of noise.

    python tests/nightly/benchmarks/levels.py [--places 5_000] [--hours 168] [--k 5]

Each place has a mean count of its own (a gamma law of shape .6 and mean 6); ten places are a
district, and so on for four levels; counts below k are hidden. Prints, for

- ``levels``: these alone,
- ``totals``: and the total of each place over all hours,
- ``strata``: and two strata of each place and hour,

the processor seconds that bounds take, hidden cells, those that are determined, and those of which
it is not decided; then what else must be hidden, and how much of Laplace noise in all levels
averages out. --only names some of these, --no-repair and --no-noise leave out the rest.
"""

import argparse
import resource
import time

import numpy as np
from show import sum_up

from clusterscale.release.averaging import average_noise
from clusterscale.release.intervals import bound_counts
from clusterscale.release.relations import Relations
from clusterscale.release.repair import RepairProblem, find_repair


def make(n_places, n_hours, kind):
    """Return counts and relations."""
    rng = np.random.default_rng(1)
    leaf = rng.poisson(rng.gamma(0.6, 10, (n_places, 1)), (n_places, n_hours))
    counts, whole, parts, sizes = [leaf], [], [], []

    def relate(wholes, some):
        """Add relations whose parts are rows."""
        whole.append(wholes.ravel())
        parts.append(some.ravel())
        sizes.append(np.full(some.shape[0], some.shape[1]))

    first = 0
    for _ in range(3):
        level = counts[-1]
        n = -(-len(level) // 10)
        numbers = first + np.arange(level.size).reshape(level.shape)
        first += level.size
        upper = np.add.reduceat(level, np.arange(0, len(level), 10))
        for i in range(n):
            relate(first + i * n_hours + np.arange(n_hours), numbers[10 * i : 10 * i + 10].T)
        counts.append(upper)
    cells = np.arange(leaf.size).reshape(leaf.shape)
    flat = np.concatenate([level.ravel() for level in counts])
    if kind != "levels":
        relate(len(flat) + np.arange(n_places), cells)
        flat = np.concatenate([flat, leaf.sum(axis=1)])
    if kind == "strata":
        women = rng.binomial(leaf, 0.45)
        relate(cells, len(flat) + np.stack([cells.ravel(), leaf.size + cells.ravel()], axis=1))
        flat = np.concatenate([flat, women.ravel(), (leaf - women).ravel()])
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    joined = np.concatenate(whole), np.concatenate(parts)
    return flat, Relations(*joined, offsets, np.ones(len(joined[0]), bool))


def timed(title, function):
    """Print the seconds and the peak memory of a call, and return its result and seconds."""
    began, cpu = time.perf_counter(), time.process_time()
    result = function()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{title:16} {cpu:8.2f} s of processor {wall:8.2f} s {peak:8,.0f} MiB", flush=True)
    return result, cpu


def main():
    """Print the figures of each kind of publication."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--places", type=int, default=5_000)
    parser.add_argument("--hours", type=int, default=168)
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=["levels", "totals", "strata"])
    parser.add_argument("--no-repair", action="store_true")
    parser.add_argument("--no-noise", action="store_true")
    options = parser.parse_args()
    figures = []
    for kind in options.only:
        bound_counts(*[make(20, 2, kind)[0]] * 2, make(20, 2, kind)[1])  # compiles functions
        counts, relations = make(options.places, options.hours, kind)
        hidden = counts < options.k
        low, high = np.where(hidden, 0, counts), np.where(hidden, options.k - 1, counts)
        found, seconds = timed(kind, lambda one=(low, high, relations): bound_counts(*one))
        determined = int((hidden & (found.low == found.high)).sum())
        undecided = int((hidden & ~found.settled).sum())
        print(f"{len(counts):,} cells, {len(relations.whole):,} relations, {hidden.sum():,} hidden,"
              f" {determined:,} determined, {undecided:,} undecided")  # fmt: skip
        figures.append(f"{kind} {seconds:.2f} s")
        if not options.no_repair:
            problem = RepairProblem(
                low, high, relations, hidden, 0 * low, 0 * low + 1_000_000,
                np.maximum(counts, 1.0), ~hidden,
            )  # fmt: skip
            repair, seconds = timed("repair", lambda problem=problem: find_repair(problem))
            print(f"{len(repair.hide):,} more hidden, {len(repair.left):,} left")
            figures.append(f"repair {seconds:.1f} s")
        if kind == "levels" and not options.no_noise:
            noise = np.full(len(counts), 2**0.5)
            values = counts + np.random.default_rng(2).laplace(0, 1, len(counts))
            one = (values, noise, relations)
            (_, deviations), seconds = timed("averages", lambda one=one: average_noise(*one))
            ends = np.quantile(deviations / noise, [0, 1])
            print(f"deviations {ends[0]:.3f} to {ends[1]:.3f} of those of each cell's own noise")
    sum_up("levels", *figures)


if __name__ == "__main__":
    main()
