"""How often a group minus d people is found, unknown or consistent, and honest pairs are accused.

Run ``python tests/nightly/benchmarks/differencing.py [PAIRS] [HONEST]``; by default 10 pairs of
each kind, and 1,000 honest pairs of disjoint groups whose sizes differ by 0 to 5.
"""

import sys
from collections import Counter

import numpy as np
from show import sum_up

from clusterscale.mechanisms import create as mechanism
from clusterscale.release.checks import PublishedTable, create, run_checks

MECHANISMS = {"exact": mechanism("exact")} | {
    f"threshold {k}": mechanism("threshold", k=k, shown="hidden") for k in (5, 15)
}
CHECK = [create("differencing")]


def draw_visits(rng, n, shape=(12, 48)):
    """Return the visits of people who keep to a few places, bool, shape (user, roi, epoch)."""
    places = rng.dirichlet(np.full(shape[0], 0.5), n)
    chosen = (rng.random((n, shape[1], 1)) > places.cumsum(axis=1)[:, None, :-1]).sum(axis=2)
    awake = rng.random((n, shape[1])) < rng.beta(1, 4, (n, 1))
    return (chosen[:, None] == np.arange(shape[0])[:, None]) & awake[:, None]


def level(visits, first, second, declared, method):
    """Return the level of a pair of groups."""
    tables = []
    for name, people in (("whole", first), ("part", second)):
        counts = visits[people].sum(axis=0).astype(np.int32)
        values = method.release(counts, group_size=len(people), rng=np.random.default_rng(1))
        unknown = np.full(counts.shape, -1, np.int32)
        subset_of = ("whole",) if declared and name == "part" else ()
        tables.append(
            PublishedTable(name, values, len(people), method, 0, unknown, subset_of=subset_of)
        )
    (found,) = run_checks(tables[0], tables[1:], CHECK, seed=1)
    return found.level


def main(pairs=10, honest=1000):
    """Print the counts."""
    rng, n_consistent, n_accused = np.random.default_rng(1), 0, 0
    for label, method in MECHANISMS.items():
        for d in (1, 2, 5):
            for declared in (False, True):
                found = Counter(
                    level(draw_visits(rng, n), np.arange(n), np.arange(n - d), declared, method)
                    for n in (50, 100, 300, 900)
                    for _ in range(pairs)
                )
                print(f"{label}, d {d}, declared {declared}: {dict(found)}", flush=True)
                n_consistent += found["consistent"]
        accused = Counter()
        for _ in range(honest):
            n = int(rng.integers(50, 300))
            order, m = rng.permutation(n), n // 2
            other = order[m : m + m - int(rng.choice([0, 1, 2, 5]))]
            accused[level(draw_visits(rng, n), order[:m], other, False, method)] += 1
        print(f"{label}, {honest} honest pairs: {dict(accused)}", flush=True)
        n_accused += accused["inconsistent"]
    sum_up(
        "differencing",
        f"{n_consistent} of a group and its subset are consistent",
        f"{n_accused} honest pairs are inconsistent",
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
