"""Compiled loops per user: sum the evidence of their events, and compare two sets of releases."""

from math import erfc, exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Ints, Singles
from clusterscale.jit import kernel


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
        Traces; users from ``first`` on, as many as ``total`` has rows. ``idle`` has no columns if
        there is no null ROI.
    rows
        Row of ``terms`` of each cell, −1 for cells without users.
    terms, total
        float32, shapes (row, column) and (user, column); ``total`` is overwritten.
    """
    n_columns = terms.shape[1]
    nowhere = len(rows) - idle.shape[1]
    for i in range(total.shape[0]):
        user, sums = first + i, total[i]
        sums[:] = 0
        for cell in cells[offsets[user] : offsets[user + 1]]:
            row = terms[rows[cell]]
            for column in range(n_columns):
                sums[column] += row[column]
        for epoch in range(idle.shape[1]):
            if idle[user, epoch]:
                row = terms[rows[nowhere + epoch]]
                for column in range(n_columns):
                    sums[column] += row[column]


@kernel
def rank_targets(
    sums: Singles,
    start: NDArray[np.float64],
    apart: NDArray[np.bool_],
    z: float,
    result: Singles,
) -> None:
    """Compare releases with and without every user, over the groups without the user as a member.

    Parameters
    ----------
    sums
        float32, shape (user, attack, side, group): evidence of the users' own cells.
    start
        float64, shape (attack, side, group): evidence of all cells for a user without events.
    apart
        bool, shape (user, group): whether the user is not a member of the group.
    z
        Standard errors from the AUC to either end of its interval.
    result
        float32, shape (4, user, attack), overwritten: AUC, the ends of its interval, the gap; NaN
        if fewer than two groups are left.
    """
    n_groups = apart.shape[1]
    # three arrays instead of rows of one, which the compiler would not vectorise
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
                result[:, user, attack] = np.nan
                continue
            auc, error = compare(inside[:n], outside[:n], won[:n])
            result[0, user, attack] = auc
            result[1, user, attack], result[2, user, attack] = interval(auc, error, n, z)
            result[3, user, attack] = gap(inside[:n], outside[:n])


@kernel
def compare(inside: Singles, outside: Singles, won: Singles) -> tuple[float, float]:
    """Compare one user's scores over pairs of groups, each released with and without the user.

    The AUC counts only pairs of different groups: the two releases of one group share members and
    noise, and would always differ in the right direction. Each group's mean success, as the one
    with the user against all others without and as the one without against all others with, gives
    the structural components of DeLong et al. (1988); added within a group (Obuchowski 1997,
    clustered data), their spread gives the standard error.

    Parameters
    ----------
    inside, outside
        float32, shape (group,): scores with the user and with the stand-in; at least two groups.
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

    On that scale the estimate is close to normal even near 0 and 1: simulated 95 % intervals
    contained the true AUC in 92 to 97 % of draws with 20 or more groups, for AUCs of .53 to .99.
    Without any spread (all pairs won, or all tied), n/2 disjoint pairs of groups all had the same
    outcome, so the probability of this outcome is at least tail^(2/n) (Clopper and Pearson 1934).
    """
    if error == 0.0 or auc <= 0.0 or auc >= 1.0:
        alike = (0.5 * erfc(z / sqrt(2.0))) ** (2.0 / (n - n % 2))
        return auc * alike, 1.0 - (1.0 - auc) * alike
    odds = log(auc / (1.0 - auc))
    reach = z * error / (auc * (1.0 - auc))
    return 1.0 / (1.0 + exp(reach - odds)), 1.0 / (1.0 + exp(-reach - odds))


@kernel
def gap(inside: Singles, outside: Singles) -> float:
    """Return the gap between mean scores with and without the user, in standard deviations.

    There are at least two groups.
    """
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
