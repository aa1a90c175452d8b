"""The picture at the top of a report: the exposure of each mechanism against its utility loss."""

from collections.abc import Mapping, Sequence
from math import inf, isfinite
from types import MappingProxyType
from typing import Any

import numpy as np
from markupsafe import Markup

from clusterscale.metrics import EXPOSED_AUC
from clusterscale.reporting import figures
from clusterscale.reporting import section as html
from clusterscale.reporting.audit.gains import best_defence, mean_loss
from clusterscale.reporting.audit.model import AuditReport

_TOP, _BOTTOM = 1.0, 0.45  # AUCs at the ends of the vertical axis
_LINE = 16  # pixels


def build_headline(
    audit: AuditReport,
    chosen: str = "",
    limits: Mapping[str, float] = MappingProxyType({}),
    height: int = 280,
) -> Markup:
    """Draw the worst mean AUCs against utility loss, with one mechanism marked, limits as lines.

    ``limits`` are AUCs by name. Without a ``chosen`` mechanism, the best defence is marked. There
    is a sentence in place of the picture where utility was not measured. ``height`` is in pixels,
    more where many names need it.
    """
    defences, points, aucs = audit.defences, list[dict[str, Any]](), list[float]()
    if not defences.any or not audit.findings:
        return Markup()
    best = None if chosen else best_defence(defences)
    marked = best.mechanism if best else chosen
    for i, (name, finding) in enumerate(audit.worst.items()):
        loss = 0.0 if name == defences.raw_counts else mean_loss(defences, name)
        if isfinite(loss) and isfinite(finding.mean):
            look = {"name": name, "empty": defences.emptiest(name), "style": figures.style_of(i)}
            points.append(look | {"finding": finding, "loss": loss})
            aucs.append(finding.mean)
    drawn = [point["name"] for point in points]
    height = max(height, _LINE * len(points))
    lines = {"guessing": 0.5, f"exposed above {EXPOSED_AUC:g}": EXPOSED_AUC, **limits}
    return html.fill(
        "headline.html.j2",
        points=_placed(points, aucs, height),
        has_utility=any(name != defences.raw_counts for name in drawn),
        lines=_placed([{"name": name} for name in lines], list(lines.values()), height),
        ticks=[(f"{value:.1f}", _down(value, height)) for value in np.arange(0.5, 1.05, 0.1)],
        down=_down,
        height=height,
        unknown=[name for name in audit.worst if name not in drawn],
        marked=marked,
        why="highest mean privacy gain" if best else "chosen",
        legend=figures.marks(list(audit.worst), line=""),
    )


def _down(auc: float, height: int) -> float:
    """Return the pixels of an AUC below the top of the picture."""
    return round((_TOP - min(max(auc, _BOTTOM), _TOP)) / (_TOP - _BOTTOM) * height, 1)


def _placed(
    items: Sequence[dict[str, Any]], values: Sequence[float], height: int
) -> list[dict[str, Any]]:
    """Return items with the pixels of their values, and of their names, which do not overlap."""
    wanted = [_down(value, height) for value in values]
    placed, order, at = np.zeros(len(wanted)), np.argsort(wanted, kind="stable"), -inf
    for i in order:
        at = placed[i] = max(wanted[i], at + _LINE)
    at = height + _LINE
    for i in order[::-1]:
        at = placed[i] = min(placed[i], at - _LINE)
    columns = zip(items, wanted, placed.tolist(), strict=True)
    return [{**item, "y": y, "name_y": round(name_y, 1)} for item, y, name_y in columns]
