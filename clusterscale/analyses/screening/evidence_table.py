"""Evidence of each group for the membership of any user, as a table by cell.

Let B be the counts of a group without its stand-in, and R the mechanism. A user who joins adds one
to B in the cells of their trace and changes nothing else; a mechanism that treats cells
independently publishes R(B + 1) there and R(B) elsewhere. The evidence of a release with the user
is then

    Σ over all cells of away(R(B))  +  Σ over the user's cells of here(R(B + 1)) − away(R(B))

and that of a release with the stand-in v instead

    Σ over all cells of away(R(B + v))  +  Σ over the user's cells of (here − away)(R(B + v)).

Both second sums are over the user's own cells only: with a table of their terms, one row per cell,
the cost of scoring a user is proportional to the user's events.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.analyses.screening.base_groups import BaseGroups
from clusterscale.contracts import NO_NOISE, CellScore, Counts, Mechanism, Values, release_counts
from clusterscale.mechanisms.noise import AdditiveNoise
from clusterscale.seeds import stream

Singles = NDArray[np.float32]

_CELLS = 1024  # cells per step: with 200 groups they are 1.6 MB, which stays in cache
LOG_ZERO = -1e4  # replaces −∞: less than all other evidence, but finite


@dataclass(frozen=True, slots=True, eq=False)
class PublishedGroups:
    """Releases of some groups in the cells that any user visits, float, shape (group, row).

    ``absent``: of all members except the stand-in; ``present``: with one more visit in every cell;
    ``stand_in``: of all members. All three share as much noise as possible, so that the two
    releases for a user differ in little but the user.
    """

    absent: NDArray[np.floating[Any]]
    present: NDArray[np.floating[Any]]
    stand_in: NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class EvidenceTable:
    """Terms of the sums above.

    Attributes
    ----------
    terms
        float32, shape (row, attack, side, group): one row per cell that any user visits; side 0
        with the user, 1 with the stand-in. Each row and attack is shifted by a constant, which
        does not affect comparisons, so that sums stay exact.
    start
        float64, shape (attack, side, group): the sums over all cells.
    shift
        float64, shape (row, attack): those constants.
    """

    terms: Singles
    start: Values
    shift: Values


def table_bytes(n_rows: int, n_groups: int, n_attacks: int) -> int:
    """Return the memory of computing a table of visited cells, in bytes."""
    return 4 * n_groups * n_rows * (2 * n_attacks + 6)


def publish(
    base: BaseGroups,
    mechanism: Mechanism,
    groups: range,
    *,
    key: str,
    weight: float,
    dtype: type[np.floating[Any]],
) -> PublishedGroups:
    """Return releases of groups; each group has its own noise stream.

    ``mechanism`` is bound; ``key`` is the id of the unbound one; ``weight`` is that of the user who
    is present. ``present`` is meaningless if one count affects more than its cell. Values are of
    ``dtype``: single precision would make a rounded value one that is never published.
    """
    shape = (len(groups), len(base.cells))
    releases = PublishedGroups(*(np.empty(shape, dtype) for _ in range(3)))
    for of_group in base.counts(groups):
        group, counts, stand_in, sums, _ = of_group
        path, i = (base, mechanism, key, group), group - groups.start
        if (noise := _noise(*path)) is not None:  # drawn once for all three
            for name, some in (("absent", 0), ("present", 1), ("stand_in", stand_in)):
                values = noise + (counts + some)
                mechanism.finish(values, base.setting.group_size)  # type: ignore[attr-defined]
                getattr(releases, name)[i] = values
            continue
        releases.absent[i] = _release(*path, "nobody", counts, sums)
        releases.present[i] = _release(*path, "present", counts, sums, more=1, weight=weight)
        releases.stand_in[i] = _release(*path, "stand-in", *of_group.of_all)
    return releases


@lru_cache(maxsize=1)  # users of other weights come next
def moments(
    base: BaseGroups, mechanism: Mechanism, groups: range, *, key: str
) -> tuple[Values, Values]:
    """Return mean and variance of the releases of all members, float64, shape (row,).

    The parameters are those of :func:`publish`.
    """
    total, squares = np.zeros(len(base.cells)), np.zeros(len(base.cells))
    for of_group in base.counts(groups):
        path = base, mechanism, key, of_group.group, "stand-in"
        values = _release(*path, *of_group.of_all).astype(np.float32)
        total += values
        squares += np.square(values, dtype=np.float64)
    mean = total / len(groups)
    return mean, np.maximum(squares / len(groups) - mean**2, 0.0)


def _noise(base: BaseGroups, mechanism: Mechanism, key: str, group: int) -> Values | None:
    """Return the noise of a group's releases, shape (row,); None if it is not only added."""
    if not isinstance(mechanism, AdditiveNoise) or not mechanism.noise_is_count_independent:
        return None
    rng = stream(base.source.seed, "screen noise", *base.setting.path, key, group)
    return mechanism.noise_at(base.cells, base.n_cells, rng=rng)


def _release(
    base: BaseGroups,
    mechanism: Mechanism,
    key: str,
    group: int,
    use: str,
    counts: Counts,
    sums: Values | None,
    more: int = 0,
    weight: float = 0.0,
) -> Values:
    """Return one release of one group with ``more`` visits in every cell, shape (row,).

    ``weight`` is added to the ``sums`` of weights in every cell.
    """
    if mechanism.noise == NO_NOISE:
        return (counts + more).astype(np.float64)
    path = ("screen noise", *base.setting.path, key, group)
    rng = stream(base.source.seed, *path, *(() if mechanism.noise_is_count_independent else (use,)))
    values = base.everywhere(counts) + more
    shape, size = (1, *base.shape), base.setting.group_size
    weighed = None if sums is None else (base.everywhere(sums) + weight).reshape(shape)
    released = release_counts(mechanism, values.reshape(shape), weighed, group_size=size, rng=rng)
    return released.ravel()[base.cells]


def tabulate(
    published: PublishedGroups,
    rules: list[CellScore],
    base: BaseGroups,
    weights: tuple[float, float],
) -> EvidenceTable:
    """Return the evidence of releases in the visited cells, by the rule of every attack.

    ``weights`` are that of the user, and the mean of the others; 1 if users have none.
    """
    n_groups, n_rows = len(published.absent), len(base.cells)
    size, (weight, mean_weight) = base.setting.group_size, weights
    usual = np.rint((size - 1) * base.mean_trace)[None, :] * mean_weight
    terms = np.empty((n_rows, len(rules), 2, n_groups), np.float32)
    start, shift = np.zeros((len(rules), 2, n_groups)), np.empty((n_rows, len(rules)))
    for first in range(0, n_rows, _CELLS):
        some = np.arange(first, min(first + _CELLS, n_rows))
        absent, present, stand_in = (
            values[:, some].astype(np.float64)
            for values in (published.absent, published.present, published.stand_in)
        )
        off = np.concatenate([absent, stand_in, usual[:, some]])
        on = np.concatenate([present, stand_in, usual[:, some] + weight])
        for attack, rule in enumerate(rules):
            away = np.clip(rule.cell_evidence(off, some, here=False), LOG_ZERO, -LOG_ZERO)
            change = np.clip(rule.cell_evidence(on, some, here=True), LOG_ZERO, -LOG_ZERO) - away
            shift[first : first + len(some), attack] = change[-1]
            change -= change[-1]  # that of the expected value, which does not depend on the groups
            start[attack] += away[:-1].sum(axis=1).reshape(2, n_groups)
            terms[first : first + len(some), attack] = change[:-1].T.reshape(-1, 2, n_groups)
    return EvidenceTable(terms, start, shift)
