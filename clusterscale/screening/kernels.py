"""The two loops that every user costs: gather the evidence of their events, compare two worlds."""

from __future__ import annotations

from math import erfc, exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Ints
from clusterscale.kernel import kernel

__all__ = ["compare", "gap", "gather", "interval", "judge"]

Singles = NDArray[np.float32]


@kernel
def gather(
    offsets: Ints,
    cells: Ints,
    idle: NDArray[np.bool_],
    rows: NDArray[np.int32],
    terms: Singles,
    first: int,
    total: Singles,
) -> None:
    """Sum the rows of each user's cells.

    Parameters
    ----------
    offsets, cells, idle
        Traces; users from ``first`` on, as many as ``total`` has rows. ``idle`` has no column
        where there is no null ROI.
    rows
        Row of ``terms`` of each cell.
    terms
        float32, shape (row, column).
    total
        float32, shape (user, column): overwritten.
    """
    n_columns = terms.shape[1]
    nowhere = len(rows) - idle.shape[1]
    for i in range(total.shape[0]):
        user, found = first + i, total[i]
        found[:] = 0
        for cell in cells[offsets[user] : offsets[user + 1]]:
            row = terms[rows[cell]]
            for column in range(n_columns):
                found[column] += row[column]
        for epoch in range(idle.shape[1]):
            if idle[user, epoch]:
                row = terms[rows[nowhere + epoch]]
                for column in range(n_columns):
                    found[column] += row[column]


@kernel
def judge(
    sums: Singles, start: NDArray[np.float64], apart: NDArray[np.bool_], z: float, found: Singles
) -> None:
    """Compare the two worlds of every user over the groups that the user is not a member of.

    Parameters
    ----------
    sums
        float32, shape (user, attack, side, group): evidence of the users' own cells.
    start
        float64, shape (attack, side, group): that of all cells, for somebody who was nowhere.
    apart
        bool, shape (user, group).
    z
        Standard errors from the AUC to either end of its interval.
    found
        float32, shape (4, user, attack), overwritten: AUC, the ends of its interval, the gap; not
        a number where fewer than two groups are left.
    """
    n_groups = apart.shape[1]
    # three arrays and not the rows of one, which the compiler would not run in parallel lanes
    inside, outside = np.empty(n_groups, np.float32), np.empty(n_groups, np.float32)
    won = np.empty(n_groups, np.float32)
    for user in range(sums.shape[0]):
        for attack in range(sums.shape[1]):
            n = 0
            for group in range(n_groups):
                if apart[user, group]:
                    inside[n] = start[attack, 0, group] + sums[user, attack, 0, group]
                    outside[n] = start[attack, 1, group] + sums[user, attack, 1, group]
                    n += 1
            if n < 2:
                found[:, user, attack] = np.nan
                continue
            auc, error = compare(inside[:n], outside[:n], won[:n])
            found[0, user, attack] = auc
            found[1, user, attack], found[2, user, attack] = interval(auc, error, n, z)
            found[3, user, attack] = gap(inside[:n], outside[:n])


@kernel
def compare(inside: Singles, outside: Singles, won: Singles) -> tuple[float, float]:
    """Compare one user's scores over pairs of groups of which each is seen in both worlds.

    The AUC counts pairs of different groups only: the two worlds of one group share members and
    noise, and would always differ the right way. Each group's mean success, as the one with the
    user against all others without and as the one without against all others with, makes the
    structural components of DeLong et al. (1988); added within a group (Obuchowski 1997, clustered
    data), their spread gives the standard error.

    Parameters
    ----------
    inside, outside
        float32, shape (group,): scores with the user and with the stand-in; two groups at least.
    won
        float32, shape (group,), scratch.

    Returns
    -------
    tuple of float
        AUC and its standard error.
    """
    n = len(inside)
    total = 0.0
    for i in range(n):
        won[i] = 0
    for i in range(n):
        mine = np.int32(0)
        score = inside[i]
        for j in range(n):
            mine += np.int32(score > outside[j]) + np.int32(score >= outside[j])
        mine -= np.int32(score > outside[i]) + np.int32(score >= outside[i])
        won[i] += mine
        total += mine
    for i in range(n):
        mine = np.int32(0)
        score = outside[i]
        for j in range(n):
            mine += np.int32(inside[j] > score) + np.int32(inside[j] >= score)
        mine -= np.int32(inside[i] > score) + np.int32(inside[i] >= score)
        won[i] += mine
    auc = total / (2.0 * n * (n - 1))
    spread = 0.0
    for i in range(n):
        spread += (won[i] / (2.0 * (n - 1)) - 2.0 * auc) ** 2
    error = np.sqrt(spread / (n - 1) / n)
    return auc, error


@kernel
def interval(auc: float, error: float, n: int, z: float) -> tuple[float, float]:
    """Return the ends of an interval of the AUC, ``z`` standard errors away in log-odds.

    On that scale the estimate is close to normal up to the ends: simulated intervals of 95 % held
    the true AUC in 92 to 97 % of draws from 20 groups up, for AUCs of .53 to .99. Where there is no
    spread to judge by (a clean sweep, nothing but ties), n/2 disjoint pairs of groups all came out
    alike, so the chance that one does is at least tail^(2/n) (Clopper and Pearson 1934).
    """
    if error == 0.0 or auc <= 0.0 or auc >= 1.0:
        alike = (0.5 * erfc(z / sqrt(2.0))) ** (2.0 / (n - n % 2))
        return auc * alike, 1.0 - (1.0 - auc) * alike
    odds = log(auc / (1.0 - auc))
    reach = z * error / (auc * (1.0 - auc))
    return 1.0 / (1.0 + exp(reach - odds)), 1.0 / (1.0 + exp(-reach - odds))


@kernel
def gap(inside: Singles, outside: Singles) -> float:
    """Return the gap between the means of two worlds in standard deviations of a score."""
    n = len(inside)
    mean_in, mean_out = 0.0, 0.0
    for i in range(n):
        mean_in += inside[i]
        mean_out += outside[i]
    mean_in, mean_out = mean_in / n, mean_out / n
    spread = 0.0
    for i in range(n):
        spread += (inside[i] - mean_in) ** 2 + (outside[i] - mean_out) ** 2
    difference = mean_in - mean_out
    if spread == 0.0:
        return np.inf * np.sign(difference) if difference != 0.0 else 0.0
    return difference / sqrt(spread / (2 * n - 2))
