"""Comparisons and loadings that a page shows, their labels, and the first screen of traits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.report.section import fill, json_attribute, number, plural, quantity
from clusterscale.validation_messages import name_best

__all__ = ["CLOSE", "FEW", "GroupComparison", "comparisons", "findings", "views"]

FEW, CLOSE = 5, 0.02
"""With fewer people on a side, or closer mean AUCs, who is on which side is due to chance."""

_SOURCES = {"audit": "targets of the audit", "screen": "all users of the screen"}
_COMPARED = ("period", "prior", "group_size", "mechanism")
_SETTING = ("source", *(f"compared_{name}" for name in _COMPARED))
_VIEW = tuple(f"view_{name}" for name in _COMPARED)


@dataclass(frozen=True, slots=True)
class GroupComparison:
    """The most compared with the least exposed, by the strongest attack of a setting."""

    index: int
    label: str
    attack: str
    n: int
    auc_top: float
    auc_bottom: float

    @property
    def gap(self) -> float:
        """Difference of the mean AUCs; if it is small, the comparison explains nothing."""
        return self.auc_top - self.auc_bottom

    @property
    def doubts(self) -> bool:
        """Whether the comparison explains nothing: few people, or sides with similar AUCs."""
        return self.n < FEW or self.gap < CLOSE


def comparisons(traits: xr.Dataset) -> list[GroupComparison]:
    """Return a comparison per setting, by the strongest attack, labelled by what varies.

    Attacks that are equal to three digits are named together; the numbers are of the highest.
    Comparisons with the largest difference between sides come first.
    """
    columns = {name: traits[name].values for name in _SETTING}
    auc_sum = traits.auc_top.values + traits.auc_bottom.values
    settings: dict[tuple[object, ...], list[int]] = {}
    for i in range(traits.sizes["comparison"]):
        settings.setdefault(tuple(column[i] for column in columns.values()), []).append(i)
    attacks = traits.compared_attack.values
    strongest = {
        rows[int(np.nan_to_num(auc_sum[rows], nan=-1.0).argmax())]: name_best(
            attacks[rows], auc_sum[rows]
        )
        or str(attacks[rows[0]])
        for rows in settings.values()
    }
    strongest_comparisons = [
        GroupComparison(
            index=i,
            label=_label(columns, i),
            attack=attack,
            n=int(traits.n_compared.values[i]),
            auc_top=float(traits.auc_top.values[i]),
            auc_bottom=float(traits.auc_bottom.values[i]),
        )
        for i, attack in strongest.items()
    ]
    return sorted(strongest_comparisons, key=lambda pair: pair.doubts * 2 - pair.gap)


def views(traits: xr.Dataset) -> Iterator[tuple[int, str]]:
    """Yield the index and label of every setting with loadings."""
    columns = {name: traits[name].values for name in _VIEW}
    for i in range(traits.sizes["view"]):
        yield i, _label(columns, i)


def findings(traits: xr.Dataset) -> Markup:
    """Build the findings; they exist even without comparisons."""
    shown = comparisons(traits)
    leading = {}
    for source in dict.fromkeys(map(str, traits.source.values)):
        of_source = [pair for pair in shown if traits.source.values[pair.index] == source]
        leading[source] = _leading(traits, of_source[0])
    plan = json_attribute(traits, "plan").get("traits")
    share = plan.get("share") if isinstance(plan, dict) else None
    return fill(
        "traits.html.j2",
        share=f"{100 * share:g} %" if isinstance(share, float) else "",
        sources=_SOURCES,
        leading=leading,
        has_views=traits.sizes["view"] > 0,
        number=number,
        plural=plural,
        quantity=quantity,
    )


def _leading(traits: xr.Dataset, chosen: GroupComparison) -> Mapping[str, object]:
    """Return the three characteristics that separate best, as titles and numbers."""
    at = traits.isel(comparison=chosen.index)
    distance = np.abs(at.separation.values - 0.5)
    order = np.argsort(-np.nan_to_num(distance), kind="stable")[:3]
    traits_of = [
        {
            "title": str(at.characteristic_title.values[i]),
            "top": float(at.top_mean.values[i]),
            "bottom": float(at.bottom_mean.values[i]),
            "more": bool(at.separation.values[i] >= 0.5),
            "chance": float(max(at.separation.values[i], 1 - at.separation.values[i])),
        }
        for i in order
    ]
    return {"chosen": chosen, "traits": traits_of, "accuracy": float(at.forest_accuracy.item())}


def _label(columns: Mapping[str, object], index: int) -> str:
    """Return a label of a row from the columns with more than one value."""
    parts = []
    for name, values in columns.items():
        column = np.asarray(values)
        value = column[index]
        if len(set(column.tolist())) < 2 or value == "":
            continue
        if name == "source":
            parts.append(_SOURCES.get(str(value), str(value)))
        elif name.endswith("group_size"):
            parts.append(f"groups of {int(value):,}")
        else:
            parts.append(str(value))
    return " · ".join(parts)
