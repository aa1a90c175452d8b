#!/usr/bin/env python3
"""How often the interval of one person's AUC holds the mean AUC, by prior and attack.

    PYTHONPATH=tests python tests/nightly/benchmarks/refits.py [--draws 200] [--only same_groups]

Groups, noise and the randomness of attacks are drawn anew each time. A row has the mean AUC of all
draws, its standard deviation, and for intervals of DeLong alone and those with the variance of
training: their coverage in per cent, their mean width, and the processor seconds of a draw with
all attacks of its case. Coverage of 95 % is measured as 92 % or less in 3.1 of 100 runs of 200.
"""

import argparse
from time import process_time

import numpy as np
from oracles.redraws import crowd, play_again
from show import sum_up
from threadpoolctl import threadpool_limits

EXACT, NOISE = ("exact", {}), ("laplace", {"epsilon": 1.0, "sensitivity": 1.0})
QUICK, SLOW = ("logistic", "nearest", "cells", "spectral"), ("forest", "perceptron")
CASES = {
    "same_groups, noise": ("same_groups", {"beta": 150}, 20, NOISE, QUICK),
    "same_groups, many": (
        "same_groups", {"beta": 600}, 40, EXACT, ("logistic", "nearest", "spectral"),
    ),
    "same_groups": ("same_groups", {"beta": 60}, 20, EXACT, SLOW),
    "different_groups, noise": ("different_groups", {"beta": 200}, 10, NOISE, QUICK),
    "different_groups": ("different_groups", {"beta": 80}, 20, EXACT, SLOW),
    "known_subset, noise": (
        "known_subset", {"alpha": 0.5, "training": 200, "challenges": 100}, 20, NOISE,
        (*QUICK, "projection"),
    ),
    "known_subset": (
        "known_subset", {"alpha": 0.5, "training": 80, "challenges": 60}, 60, EXACT, SLOW,
    ),
    "zero_knowledge, trained once": (
        "zero_knowledge",
        {"refit": "shared", "reference": 600, "training": 200, "challenges": 100},
        20, NOISE, (*QUICK, "projection"),
    ),
    "zero_knowledge, trained once, slow": (
        "zero_knowledge",
        {"refit": "shared", "reference": 600, "training": 80, "challenges": 60},
        60, EXACT, SLOW,
    ),
    "zero_knowledge": (
        "zero_knowledge", {"reference": 300, "training": 60, "challenges": 40}, 20, NOISE,
        ("logistic", "cells", "spectral", "projection"),
    ),
}  # fmt: skip


def read(outcomes):
    """Return AUCs and the ends of their intervals, each of shape (draw, attack)."""
    names = ("auc", "auc_low", "auc_high", "auc_degrees")
    return [np.array([[getattr(one, name) for one in row] for row in outcomes]) for name in names]


def coverage(auc, low, high):
    """Return in how many per cent of the draws the interval holds the mean AUC, for each attack."""
    mean = auc.mean(axis=0)
    return 100 * ((low <= mean + 1e-12) & (mean - 1e-12 <= high)).mean(axis=0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--only", default="", help="part of the name of a case")
    parser.add_argument("--attacks", nargs="+", help="only these")
    options = parser.parse_args()
    people, least, times = crowd(), 100.0, []
    print("| case | attack | mean AUC | sd | DeLong | with training | widths | seconds |")
    for name, (*case, attacks) in CASES.items():
        tried = [one for one in attacks if one in (options.attacks or attacks)]
        if options.only not in name or not tried:
            continue
        found = []
        for retrain in (False, True):
            list(play_again(people, (*case, tried), 1, -1, retrain=retrain))  # compiles
            started = process_time()
            found.append(
                read(list(play_again(people, (*case, tried), options.draws, retrain=retrain)))
            )
            times.append((process_time() - started) / options.draws)
        alone, both = ([*one[:3]] for one in found)
        np.testing.assert_array_equal(alone[0], both[0])
        columns = (
            coverage(*alone),
            coverage(*both),
            *((high - low).mean(axis=0) for _, low, high in (alone, both)),
        )
        for i, attack in enumerate(tried):
            mean, sd = both[0][:, i].mean(), both[0][:, i].std(ddof=1)
            plain, whole, narrow, wide = (column[i] for column in columns)
            least = min(least, whole)
            print(
                f"| {name} | {attack} | {mean:.3f} | {sd:.4f} | {plain:.1f} % | {whole:.1f} % | "
                f"{narrow:.3f} {wide:.3f} | {times[-2]:.2f} {times[-1]:.2f} |",
                flush=True,
            )
    sum_up(
        "refits", f"least coverage {least:.1f} % of {options.draws} draws, where 95 % are stated"
    )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
