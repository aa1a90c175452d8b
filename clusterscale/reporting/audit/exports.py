"""Figures of an audit, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from clusterscale import schema
from clusterscale.reporting import figures
from clusterscale.reporting.audit.gains import tradeoff_figures
from clusterscale.reporting.audit.model import AuditReport
from clusterscale.reporting.audit.targets import auc_figures, loss_figure

if TYPE_CHECKING:
    import xarray as xr


def draw_auc(results: xr.Dataset) -> figures.Figures:
    """Return the distribution of AUC over targets, by setting and group size."""
    audit = _read(results)
    shown = (index for index, _ in audit.cases.shown())
    return figures.Figures(figure for index in shown for figure in auc_figures(audit.cases, index))


def draw_loss(results: xr.Dataset) -> figures.Figures:
    """Return the privacy loss of targets, by setting."""
    audit = _read(results)
    return figures.Figures(loss_figure(audit.cases, index) for index, _ in audit.cases.shown())


def draw_tradeoff(results: xr.Dataset) -> figures.Figures:
    """Return privacy gain against utility loss; empty if either is not known."""
    audit = _read(results)
    defences = audit.defences
    if not defences.gains_known or not np.isfinite(defences.loss).any():
        return figures.Figures()
    return figures.Figures(tradeoff_figures(audit))


def _read(results: xr.Dataset) -> AuditReport:
    return AuditReport.of(schema.with_labels(schema.validate(results), suffix="title"))
