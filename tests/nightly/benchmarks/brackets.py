"""False alarms and power of the comparison of measured AUCs with ceilings, by law of scores.

``python tests/nightly/benchmarks/brackets.py [--audits 2000] [--pairs 10 50 100]``

Honest audits: attacks reach the ceiling exactly, for everyone. A row is a law and a number of
challenges; columns are audits of one person, of 24 people and of 24 people by 3 attacks that agree.
Then the power: Laplace noise of half and of a quarter of the stated scale. Each number stands
beside that of the rule of version 0.4, which took AUCs, or their odds, to be normal.
"""

import argparse

import numpy as np
import scipy
from show import sum_up

from clusterscale.analyses import certify
from clusterscale.analyses.certify.comparison import ERROR_RATE, bracket
from clusterscale.mechanisms import create
from clusterscale.metrics import auc_tail

EPSILON = 0.3
SHAPES = ((1, 1), (24, 1), (24, 3))
N_CELLS = (3, 20, 80)


def laplace(n_cells, scale=1.0):
    def play(rng, shape):
        noise = rng.laplace(0, scale / EPSILON, (2, *shape, n_cells))
        noise[1] += 1
        return (np.abs(noise) - np.abs(noise - 1)).sum(axis=-1)

    noisy = create("laplace", epsilon=EPSILON, unit="event")
    return certify.ceiling(noisy, n_changed=n_cells, group_size=9).auc, play


def normal(area):
    gap = scipy.special.ndtri(area) * 2**0.5
    return (
        area,
        lambda rng, shape: (
            rng.normal(0, 1, (2, *shape)) + np.reshape([0, gap], (2, *[1] * len(shape)))
        ),
    )


def exponential(area):
    def play(rng, shape):
        scores = rng.exponential(1, (2, *shape))
        scores[1] *= area / (1 - area)
        return scores

    return area, play


def sometimes_certain(share):
    """A release shows the target for sure with probability ``share``, or else nothing."""

    def play(rng, shape):
        return np.stack([np.zeros(shape), rng.random(shape) < share])

    return 0.5 + share / 2, play


def sometimes_cleared(share):
    def play(rng, shape):
        return np.stack([-1.0 * (rng.random(shape) < share), np.zeros(shape)])

    return 0.5 + share / 2, play


def missed(share, area):
    """A group with the target is rarely taken for the surest without; else normal scores."""
    _, usual = normal(area)

    def play(rng, shape):
        scores = usual(rng, shape)
        scores[1][rng.random(shape) < share] = -9
        return scores

    return (1 - share) * area, play


def worst(area):
    """Scores inside are equal, those outside are below or above: the largest variance."""

    def play(rng, shape):
        return np.stack([np.where(rng.random(shape) < area, -1.0, 1.0), np.zeros(shape)])

    return area, play


def answers(p):
    def play(rng, shape):
        return np.stack([rng.random(shape) > p, rng.random(shape) < p]) * 1.0

    return p, play


LAWS = {
    "Laplace, 20 cells": laplace(20),
    "normal, AUC .5": normal(0.5),
    "normal, AUC .95": normal(0.95),
    "exponential, AUC .8": exponential(0.8),
    "missed in 3 %, else AUC .99": missed(0.03, 0.99),
    "missed in 10 %, else AUC .8": missed(0.1, 0.8),
    "shown in 2 %": sometimes_certain(0.02),
    "shown in 10 %": sometimes_certain(0.1),
    "shown in 60 %": sometimes_certain(0.6),
    "cleared in 10 %": sometimes_cleared(0.1),
    "two-point, AUC .7": worst(0.7),
    "two-point, AUC .97": worst(0.97),
    "one answer, p .9": answers(0.9),
}


def measure(play, rng, n, n_pairs):
    """Return AUCs of ``n`` people and the low ends of their intervals (DeLong, odds)."""
    scores = play(rng, (n, n_pairs))
    ranks = scipy.stats.rankdata(np.concatenate(scores, axis=1), axis=1)
    parts = ranks[:, :n_pairs], ranks[:, n_pairs:]
    below, won = ((r - scipy.stats.rankdata(r, axis=1)) / n_pairs for r in parts)
    auc = won.mean(axis=1)
    error = np.sqrt((won.var(axis=1, ddof=1) + below.var(axis=1, ddof=1)) / n_pairs)
    with np.errstate(divide="ignore", invalid="ignore"):
        low = scipy.special.expit(scipy.special.logit(auc) - 1.96 * error / (auc * (1 - auc)))
    return auc, np.where(error > 0, low, auc * 0.025 ** (1 / n_pairs))


def normal_rule(auc, low, ceiling):
    """Return the p-values of version 0.4."""
    above, sure = auc > ceiling + 1e-6, auc >= 1
    pairs = np.log(0.025) / np.log(np.clip(low, 1e-9, 1 - 1e-9))
    both = []
    for scale in (lambda x: x, scipy.special.logit):
        middle, bottom, top = (
            scale(np.clip(one, 1e-9, 1 - 1e-9)) for one in (auc, low, np.full_like(auc, ceiling))
        )
        both.append(scipy.special.ndtr((top - middle) * 1.96 / np.maximum(middle - bottom, 1e-12)))
    return np.where(above, np.where(sure, ceiling**pairs, np.maximum(*both)), 1.0)


def alarms(law, n_audits, n_pairs, shape, rng):
    """Return how many audits are called exceeded, by this version and by 0.4."""
    ceiling, play = law
    n_people, n_attacks = shape
    auc, low = np.reshape(measure(play, rng, n_audits * n_people, n_pairs), (2, n_audits, n_people))
    n = n_people * n_attacks
    old = normal_rule(auc, low, ceiling).min(axis=1) * n < ERROR_RATE
    # the numbers of bracket() for many audits at once
    p = auc_tail(auc, n_pairs, ceiling).min(axis=1) * n
    if n_people > 1:
        pooled = auc_tail(auc.mean(axis=1), n_people * n_pairs, ceiling) * n_attacks
        p = 2 * np.minimum(p, pooled)
    for one, expected in zip(auc[:20], p, strict=False):
        same = np.full(shape, n_pairs), np.full(n_people, ceiling)
        found = bracket(np.repeat(one[:, None], n_attacks, 1), *same)
        assert np.isclose(found.smallest_p, min(expected, 1), rtol=1e-6)
    return int((p < ERROR_RATE).sum()), int(old.sum())


def rate(hits, n):
    high = scipy.stats.beta.ppf(0.975, hits + 1, n - hits)
    low = scipy.stats.beta.ppf(0.025, hits, n - hits + 1) if hits else 0.0
    return f"{hits} ({1e3 * low:.2f}–{1e3 * high:.2f} ‰)"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--audits", type=int, default=2000)
    parser.add_argument("--pairs", type=int, nargs="+", default=[10, 50, 100])
    options = parser.parse_args()
    rng = np.random.default_rng(20)
    print("| honest law | pairs |", *(f"{p} × {a}: now | 0.4 |" for p, a in SHAPES))
    print("|---|" + "---|" * (1 + 2 * len(SHAPES)))
    total = np.zeros((len(SHAPES), 2), int)
    n_total = np.zeros(len(SHAPES), int)
    for name, law in LAWS.items():
        for n_pairs in options.pairs:
            line = [name, str(n_pairs)]
            for i, shape in enumerate(SHAPES):
                n = options.audits * (10 if shape == (1, 1) else 1)
                found = alarms(law, n, n_pairs, shape, rng)
                total[i] += found
                n_total[i] += n
                line += [rate(hits, n) for hits in found]
            print("|", " | ".join(line), "|", flush=True)
    both = [rate(hits, n) for row, n in zip(total, n_total, strict=True) for hits in row]
    print("| all laws |  |", " | ".join(both), "|", n_total)
    rates = [
        f"{now / n:.2%} ({before / n:.2%} by 0.4)"
        for (now, before), n in zip(total, n_total, strict=True)
    ]
    print("\n| faulty noise | cells | pairs |", *(f"{p} × {a}: now | 0.4 |" for p, a in SHAPES))
    print("|---|---|" + "---|" * (1 + 2 * len(SHAPES)))
    for share in (0.5, 0.25):
        for n_cells in N_CELLS:
            stated, played = laplace(n_cells)[0], laplace(n_cells, share)[1]
            for n_pairs in options.pairs:
                line = [f"{share:g}", str(n_cells), str(n_pairs)]
                for shape in SHAPES:
                    found = alarms((stated, played), 200, n_pairs, shape, rng)
                    line += [f"{hits / 200:.0%}" for hits in found]
                print("|", " | ".join(line), "|", flush=True)
    sum_up(
        "brackets",
        "false alarms of "
        + ", ".join(
            f"{people} × {attacks}: {each}"
            for (people, attacks), each in zip(SHAPES, rates, strict=True)
        ),
    )


if __name__ == "__main__":
    main()
