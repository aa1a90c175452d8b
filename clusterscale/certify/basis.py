"""Why no adversary can do better: what a mechanism states, for what one person changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from clusterscale.certify.laws import loss_of_change, loss_of_noise, losses_of_counts
from clusterscale.certify.loss import CellLoss, bounded_loss
from clusterscale.contracts import Bounds, Mechanism
from clusterscale.mechanisms.accounting import ApproximateLoss
from clusterscale.mechanisms.law import FiniteDistribution, OutputDistribution

__all__ = ["Basis", "Visits", "bases"]

_MOST_COUNTS = 1 << 17  # counts whose distributions are compared one by one
_EXACT = "each changed count is published with independent noise of a known distribution"
_POSTPROCESSED = "the noise on each changed count; what follows it can only lower the ceiling"
_WORST = "each changed count is one of those that reveal most"


@dataclass(frozen=True, slots=True)
class Visits:
    """What one person changes in a release.

    Attributes
    ----------
    cells
        Number of counts that change by 1.
    rois
        Number of ROIs in which they are; None: unknown, at most ``cells``.
    series
        Largest number of them in one ROI; None: unknown, at most ``cells``.
    """

    cells: int
    rois: int | None = None
    series: int | None = None

    @property
    def bounds(self) -> Bounds:
        """The same as limits of a mechanism's sensitivity."""
        rois = self.cells if self.rois is None else self.rois
        series = self.cells if self.series is None else self.series
        return Bounds(1, self.cells, self.cells, series, rois, False)


@dataclass(frozen=True, slots=True)
class Basis:
    """One reason why an adversary cannot do better.

    Attributes
    ----------
    loss, by
        Privacy loss of a part, and what the parts are: changed ``cells``, visited ``rois``, or the
        ``person`` as a whole.
    tight
        Whether some adversary reaches the bound.
    reason
        Why it holds, as a clause.
    replaces
        Whether it is about replacing a part by another, not about adding or removing it.
    """

    loss: CellLoss
    by: Literal["cells", "rois", "person"]
    tight: bool
    reason: str
    replaces: bool = False

    def parts(self, visits: Visits) -> int:
        """Return the number of parts that a person changes."""
        if not visits.cells:
            return 0
        return {"cells": visits.cells, "rois": visits.bounds.rois, "person": 1}[self.by]


def bases(mechanism: Mechanism, group_size: int, visits: Visits) -> Iterator[Basis]:
    """Yield the reasons that a mechanism gives why nobody can do better, up to one that is tight.

    Parameters
    ----------
    mechanism
        A bound mechanism.
    group_size
        Members of a group.
    visits
        What the person changes.
    """
    if mechanism.uses_weights:
        return
    if (basis := _of_cells(mechanism, group_size)) is not None:
        yield basis
        if basis.tight:
            return
    stated, units = mechanism.guarantee, {"user": "person", "roi_series": "rois"}
    by = units.get(stated.unit, "cells")
    needed = 1.0 if by == "cells" else mechanism.required_sensitivity(visits.bounds)
    covered = not needed > stated.sensitivity * (1 + 1e-9)
    if stated.unit != "none" and np.isfinite(stated.epsilon) and stated.delta < 1 and covered:
        loss = bounded_loss(stated.epsilon, stated.delta)
        replaces = stated.neighbours == "replace"
        reason = f"its guarantee: {stated.reason}"
        yield Basis(loss, by, False, reason, replaces)  # type: ignore[arg-type]
    known = mechanism.user_privacy_loss(visits.bounds)
    if isinstance(known, ApproximateLoss) and mechanism.noise_scope == "series":
        loss = bounded_loss(known.epsilon, known.delta)
        yield Basis(loss, "rois", False, "its privacy loss for each place that the person visits")


def _of_cells(mechanism: Mechanism, group_size: int) -> Basis | None:
    """Return the basis from the distribution of each published count; None if that is unknown."""
    law, reason = mechanism.law(group_size), _POSTPROCESSED
    loss: CellLoss | None
    if (stated := mechanism.cell_change(group_size)) is not None:
        loss, tight = loss_of_change(stated), stated.tight
    elif isinstance(law, FiniteDistribution) and group_size <= _MOST_COUNTS:
        loss, reason = losses_of_counts(law, group_size), _WORST
        tight = loss.tight
    else:
        noise = law.noise if isinstance(law, OutputDistribution) else mechanism.noise
        loss = None if noise is None else loss_of_noise(noise)
        tight = law is not None and not law.revised
    if loss is None:
        return None
    tight = tight and mechanism.noise_scope == "cell"
    return Basis(loss, "cells", tight, _EXACT if tight else reason)
