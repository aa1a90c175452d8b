#!/usr/bin/env python3
"""Simulate intervals of a mean of bounded values: coverage and width, beside three others.

    python tests/nightly/benchmarks/intervals.py [--samples 1000] [--aucs aucs.txt]

For each law and number of values: how often the 95 % interval holds the true mean, and its mean
width, for ``mean_interval`` (Gaffke), the betting interval of Waudby-Smith and Ramdas (hedged
capital, fixed n), Student's, and the studentised bootstrap. --aucs names a text file of AUCs, one
a line, that are resampled as a seventh law.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy import stats
from show import sum_up

from clusterscale.metrics import mean_interval

NUMBERS = (6, 9, 18, 60, 150)
RISK = 0.05


def mixture(rng, n, share, one, other):
    """Draw from one of two laws, each given by its mean and half its range."""
    first = rng.random(n) < share
    middle, reach = np.where(first, one[0], other[0]), np.where(first, one[1], other[1])
    return middle + reach * (2 * rng.random(n) - 1)


LAWS = {
    "beta(5, 2) on .5 to 1": (lambda rng, n: 0.5 + 0.5 * rng.beta(5, 2, n), 0.5 + 2.5 / 7),
    "5 of 6 near .98": (
        lambda rng, n: mixture(rng, n, 5 / 6, (0.98, 0.02), (0.6, 0.05)),
        5 / 6 * 0.98 + 0.1,
    ),
    "half near .95": (
        lambda rng, n: mixture(rng, n, 1 / 2, (0.95, 0.05), (0.5, 0.06)),
        0.725,
    ),
    "95 % are 1": (lambda rng, n: np.where(rng.random(n) < 0.95, 1.0, 0.5), 0.975),
    "two points": (lambda rng, n: np.where(rng.random(n) < 0.8, 0.5, 1.0), 0.6),
    "uniform": (lambda rng, n: rng.random(n), 0.5),
}


def betting(values):
    """Return the betting interval by a grid of means (their theorem 3, fixed n, c = 1/2)."""
    grid = np.linspace(0.0005, 0.9995, 1000)
    n, index = len(values), np.arange(1, len(values) + 1)
    centre = (0.5 + np.cumsum(values)) / (index + 1)
    variance = (0.25 + np.cumsum((values - centre) ** 2)) / (index + 1)
    bet = np.sqrt(2 * np.log(2 / RISK) / (n * np.append(0.25, variance[:-1])))
    away = values - grid[:, None]
    up = np.log1p(np.minimum(bet, 0.5 / grid[:, None]) * away).cumsum(axis=1)
    down = np.log1p(-np.minimum(bet, 0.5 / (1 - grid[:, None])) * away).cumsum(axis=1)
    held = grid[0.5 * np.exp(np.maximum(up, down).max(axis=1)) < 1 / RISK]
    return held[0] - 0.0005, held[-1] + 0.0005


def student(values):
    """Return Student's interval."""
    reach = stats.t.isf(RISK / 2, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return values.mean() - reach, values.mean() + reach


def bootstrap(values):
    """Return the studentised bootstrap interval, from 1,999 resamples, within the values."""
    n, rng = len(values), np.random.default_rng(0)
    if np.ptp(values) == 0:
        return values[0], values[0]
    resamples = values[rng.integers(n, size=(1999, n))]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = (resamples.mean(axis=1) - values.mean()) / resamples.std(axis=1, ddof=1)
    low, high = np.quantile(np.nan_to_num(ratios), [RISK / 2, 1 - RISK / 2], method="lower")
    spread = values.std(ddof=1)
    ends = values.mean() - high * spread, values.mean() - low * spread
    return tuple(np.clip(ends, values.min(), values.max()))


METHODS = {
    "mean_interval": (mean_interval, 1),
    "betting": (betting, 5),
    "student": (student, 1),
    "bootstrap": (bootstrap, 5),
}


def main():
    """Print one line a law and number of values."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--aucs", type=Path, help="text file, one AUC a line")
    options = parser.parse_args()
    laws = dict(LAWS)
    if options.aucs:
        given = np.loadtxt(options.aucs)
        laws[options.aucs.stem] = (lambda rng, n: rng.choice(given, n), given.mean())
    worst = 1.0
    print(f"{'coverage, width':26}{'n':>4}", *(f"{name:>18}" for name in METHODS))
    for name, (draw, truth) in laws.items():
        for n in NUMBERS:
            cells = []
            for interval, fewer in METHODS.values():
                rng = np.random.default_rng(n)
                samples = [draw(rng, n) for _ in range(options.samples // fewer)]
                low, high = np.array([interval(each) for each in samples]).T
                held = np.mean((low - 1e-12 <= truth) & (truth <= high + 1e-12))
                cells.append(f"{held:10.3f}, {np.mean(high - low):.3f}")
            worst = min(worst, float(cells[0].partition(",")[0]))
            print(f"{name:26}{n:4}", *(f"{cell:>18}" for cell in cells), flush=True)
    sum_up("intervals", f"least coverage of mean_interval {worst:.3f} ({1 - RISK:.2f} is stated)")


if __name__ == "__main__":
    main()
