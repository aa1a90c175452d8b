"""Evidence for mechanisms in which one count changes the whole series of its ROI.

Transforms and ranges of a series cannot be tabulated by cell. But a user visits few ROIs, and only
the series of these ROIs are published again for each user, by the mechanism itself, with noise from
the user's own stream.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import CellScore, Counts, Ints, Mechanism
from clusterscale.screening.base_groups import Base
from clusterscale.screening.evidence_table import EvidenceTable, PublishedGroups
from clusterscale.seeds import stream

__all__ = ["SeriesEvidence", "inside_by_series", "weigh_series"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SeriesEvidence:
    """Evidence of the series of groups without their stand-in.

    ``counts``: int32, shape (group, roi, epoch); ``away``: float64, shape (attack, group, roi),
    evidence of their published series for a user without events.
    """

    counts: Counts
    away: Floats


def weigh_series(
    base: Base, published: PublishedGroups, rules: list[CellScore], groups: range
) -> SeriesEvidence:
    """Return the evidence of each published series by every attack's rule, in visited cells."""
    counts, _ = base.counts(groups)
    n_rois, n_epochs = base.shape
    away = np.zeros((len(rules), len(groups), n_rois))
    cells = base.cells
    for roi in np.unique(cells // n_epochs):
        some = cells[cells // n_epochs == roi]
        values = published.nobody[:, some].astype(np.float64)
        for attack, rule in enumerate(rules):
            away[attack, :, roi] = rule.total(values, some, np.zeros(len(some), np.bool_))
    return SeriesEvidence(counts.reshape(len(groups), n_rois, n_epochs), away)


def inside_by_series(
    base: Base,
    mechanism: Mechanism,
    key: str,
    rules: list[CellScore],
    table: EvidenceTable,
    series: SeriesEvidence,
    cells: Ints,
    user: int,
) -> Floats:
    """Return the change of the evidence when one user joins, shape (attack, group).

    Parameters
    ----------
    mechanism, key
        As for :func:`~clusterscale.screening.evidence_table.publish`.
    cells
        Sorted flat cells of the user, including those of the null ROI.
    user
        Index in the cube, which is part of the path of the noise stream.
    """
    n_epochs = base.shape[1]
    rois = np.unique(cells // n_epochs)
    touched = (rois[:, None] * n_epochs + np.arange(n_epochs)).ravel()
    own = np.searchsorted(touched, cells)
    counts = series.counts[:, rois].copy()
    counts.reshape(len(counts), -1)[:, own] += 1
    path = ("screen noise", *base.setting.path, key, "user", user)
    size = base.setting.group_size
    values = mechanism.release(counts, group_size=size, rng=stream(base.source.seed, *path))
    released, here = values.reshape(len(values), -1), np.zeros(len(touched), np.bool_)
    here[own] = True
    known = base.rows[touched] >= 0
    if not known.all():
        released, touched, here = released[:, known], touched[known], here[known]
    change: Floats = -series.away[:, :, rois].sum(axis=2)
    for attack, rule in enumerate(rules):
        change[attack] += rule.total(released, touched, here)
    shift: Floats = table.shift[base.rows[cells]].sum(axis=0)
    return change - shift[:, None]
