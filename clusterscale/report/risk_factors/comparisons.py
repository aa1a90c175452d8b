"""Which comparisons and loadings a page shows, how they are named, and what they say first."""

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
"""With fewer people on a side, or mean AUCs that are closer, who is on which side is luck."""

_SOURCES = {"audit": "targets of the audit", "screen": "everyone, as screened"}
_COMPARED = ("period", "prior", "group_size", "mechanism")
_SETTING = ("source", *(f"compared_{name}" for name in _COMPARED))
_VIEW = tuple(f"view_{name}" for name in _COMPARED)


@dataclass(frozen=True, slots=True)
class GroupComparison:
    """The most against the least exposed by the strongest attack of a setting, by its index."""

    index: int
    label: str
    attack: str
    n: int
    auc_top: float
    auc_bottom: float

    @property
    def gap(self) -> float:
        """How much better the most exposed are told: where little, it does not say why."""
        return self.auc_top - self.auc_bottom

    @property
    def doubts(self) -> bool:
        """Whether this does not say why: few people, or sides that are told about equally well."""
        return self.n < FEW or self.gap < CLOSE


def comparisons(traits: xr.Dataset) -> list[GroupComparison]:
    """Return one comparison a setting, by the attack that reaches most; named by what varies.

    Attacks that reach as much, to three digits, are named together; the numbers are of the highest.
    Those whose sides differ most come first: where all are told alike, nothing says why.
    """
    columns = {name: traits[name].values for name in _SETTING}
    reached = traits.auc_top.values + traits.auc_bottom.values
    settings: dict[tuple[object, ...], list[int]] = {}
    for i in range(traits.sizes["comparison"]):
        settings.setdefault(tuple(column[i] for column in columns.values()), []).append(i)
    attacks = traits.compared_attack.values
    strongest = {
        rows[int(np.nan_to_num(reached[rows], nan=-1.0).argmax())]: name_best(
            attacks[rows], reached[rows]
        )
        or str(attacks[rows[0]])
        for rows in settings.values()
    }
    found = [
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
    return sorted(found, key=lambda each: each.doubts * 2 - each.gap)


def views(traits: xr.Dataset) -> Iterator[tuple[int, str]]:
    """Yield the index of every setting whose components were taken, and its name."""
    columns = {name: traits[name].values for name in _VIEW}
    for i in range(traits.sizes["view"]):
        yield i, _label(columns, i)


def findings(traits: xr.Dataset) -> Markup:
    """Build the findings; they exist even where nobody could be compared."""
    shown = comparisons(traits)
    leading = {}
    for source in dict.fromkeys(map(str, traits.source.values)):
        mine = [each for each in shown if traits.source.values[each.index] == source]
        leading[source] = _leading(traits, mine[0])
    asked = json_attribute(traits, "plan").get("traits")
    share = asked.get("share") if isinstance(asked, dict) else None
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
    """Return what separates best, as words and numbers."""
    at = traits.isel(comparison=chosen.index)
    apart = np.abs(at.separation.values - 0.5)
    order = np.argsort(-np.nan_to_num(apart), kind="stable")[:3]
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
    """Name a row by the columns that take more than one value."""
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
