"""Sections of traits: what exposed users have in common, and which cells identify people."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.reporting import figures
from clusterscale.reporting import section as html
from clusterscale.validation_messages import name_best, plural

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


def _findings(traits: xr.Dataset, shown: Sequence[GroupComparison]) -> Markup:
    """Build the findings; they exist even without comparisons."""
    leading = {}
    for source in dict.fromkeys(map(str, traits.source.values)):
        of_source = [pair for pair in shown if traits.source.values[pair.index] == source]
        leading[source] = _leading(traits, of_source[0])
    plan = html.json_attribute(traits, "plan").get("traits")
    share = plan.get("share") if isinstance(plan, dict) else None
    return html.fill(
        "traits.html.j2",
        share=f"{100 * share:g} %" if isinstance(share, float) else "",
        sources=_SOURCES,
        leading=leading,
        has_views=traits.sizes["view"] > 0,
    )


def _leading(traits: xr.Dataset, chosen: GroupComparison) -> Mapping[str, object]:
    """Return a comparison, and the three characteristics that separate best."""
    at = traits.isel(comparison=chosen.index)
    distance = np.abs(at.separation.values - 0.5)
    order = np.argsort(-np.nan_to_num(distance), kind="stable")[:3]
    return {"chosen": chosen, "traits": [at.isel(characteristic=i) for i in order]}


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


def _table(traits: xr.Dataset, chosen: GroupComparison) -> Markup:
    at = traits.isel(comparison=chosen.index)
    importance = np.nan_to_num(at.forest_importance.values)
    rows = [at.isel(characteristic=i) for i in np.argsort(-importance, kind="stable")]
    highest, accuracy = max(float(importance.max()), 1e-9), float(at.forest_accuracy.item())
    about = {"chosen": chosen, "accuracy": accuracy, "highest": highest, "spread": _spread}
    table = html.table("characteristics", [("", rows)], **about)
    if not chosen.doubts:
        return table
    return html.fill_part("warnings.few_people", few=FEW, close=CLOSE) + table


def _spread(mean: float, sd: float) -> str:
    digits = 0 if abs(mean) >= 100 else 1 if abs(mean) >= 10 else 2
    return f"{mean:,.{digits}f} ± {sd:,.{digits}f}"


_NAMES = ("most exposed", "least exposed", "all users")
_SIDES = ("top", "bottom", "all")


def _curves_of(traits: xr.Dataset, chosen: GroupComparison) -> Markup:
    shares = [traits.frequency.isel(comparison=chosen.index).sel(who=who).values for who in _SIDES]
    is_known = np.isfinite(shares).all(axis=0)
    epochs = traits.epoch.values[is_known]
    series = {i: share[is_known] for i, share in enumerate(shares)}
    distance = 0.5 * float(np.abs(series[0] - series[1]).sum())
    return figures.plot(
        figures.curves(epochs, series, _NAMES, axis="share of visits"),
        slug=f"times-{chosen.index + 1}",
        title="Share of visits by epoch",
        description=f"The visits of the most and the least exposed are spread over {len(epochs)} "
        f"epochs; the total variation distance between the two is {html.number(distance, 2)}",
    )


def render_sections(traits: xr.Dataset) -> tuple[Markup, list[html.Section]]:
    """Return the traits' part of the first screen of a page, and its sections.

    The characteristics of single users are not read; the page shows only their summaries.
    """
    traits = traits.drop_vars("value").compute()
    columns = {name: traits[name].values for name in _VIEW}
    views = [_label(columns, i) for i in range(traits.sizes["view"])]
    shown = comparisons(traits)
    # as in POMACS20: Tables 2 and 3, and Fig. 4
    tables = [(pair.label, _table(traits, pair)) for pair in shown]
    curves = [(pair.label, _curves_of(traits, pair)) for pair in shown]
    sections = [*html.folds_section("traits", tables), *build_map(traits, views)]
    sections += build_cells(traits, views)
    sections += html.folds_section("times", curves, figures.legend(_NAMES))
    return _findings(traits, shown), sections


def build_map(traits: xr.Dataset, views: Sequence[str]) -> Iterator[html.Section]:
    """Build a map of the regions by mean loading; none without loadings or positions."""
    placed = np.isfinite(traits.x.values) & np.isfinite(traits.y.values)
    shown = enumerate(views if placed.any() else ())
    folds = [(label, _map(traits, view, label, placed)) for view, label in shown]
    return html.folds_section("map", folds, figures.scale("discloses little", "most"))


def _map(traits: xr.Dataset, view: int, label: str, placed: figures.Floats) -> Markup:
    loading = traits.loading.isel(view=view).sel(who="all").values[placed]
    is_known = np.isfinite(loading)
    # there is no loading outside the period, or without a viewed target
    total, n = np.where(is_known, loading, 0).sum(axis=1), is_known.sum(axis=1)
    means = np.divide(total, n, out=np.zeros(len(total)), where=n > 0)
    shares = means / max(float(means.max()), 1e-12)
    names = [str(name) for name in traits.roi_name.values[placed]]
    drawn = figures.map_of(
        names,
        traits.x.values[placed],
        traits.y.values[placed],
        shares,
        html.json_attribute(traits, "roi_shapes"),
    )
    first = np.argsort(-shares, kind="stable")[:5]
    words = ", ".join(f"{names[i]} ({html.number(float(shares[i]), 2)})" for i in first)
    return figures.plot(
        drawn,
        slug=f"map-{view + 1}",
        title=label or "Regions by how much they disclose",
        description=f"Map of regions. The regions that disclose most: {words}",
    )


_ORIGINAL = "in original order"
_WHO = {"all": "All targets", "top": "Most exposed", "bottom": "Least exposed"}


def build_cells(traits: xr.Dataset, views: Sequence[str]) -> Iterator[html.Section]:
    """Build heatmaps of loadings, as in POMACS20 Figs 2, 3 and 5; none without any."""
    folds = [(label, _panels(traits, view)) for view, label in enumerate(views)]
    return html.folds_section("cells", folds, figures.scale("low correlation", "high"))


def _panels(traits: xr.Dataset, view: int) -> Markup:
    panels = []
    for who, title, loading in loading_panels(traits, view):
        n = int(traits.n_viewed.isel(view=view).sel(who=who).item())
        by = "" if title == _ORIGINAL else ", by events"
        panels.append(_panel(loading, view, title, f"region{by}", f"epoch{by}", n))
    return html.side_by_side(panels)


def loading_panels(traits: xr.Dataset, view: int) -> Iterator[tuple[str, str, figures.Floats]]:
    """Yield whose loadings a heatmap shows, its title, and the loadings, shape (roi, epoch).

    First those of all targets in original order; then those of all and of either side, with regions
    and epochs by their events.
    """
    chosen = traits.isel(view=view)
    period = traits.period.values.tolist().index(chosen.view_period.item())
    is_known = np.isfinite(chosen.loading.sel(who="all").values).any(axis=0)
    rois = np.argsort(traits.roi_events.values[period], kind="stable")
    epochs = np.argsort(traits.epoch_events.values[period][is_known], kind="stable")
    for who, title in _WHO.items():
        loading = np.nan_to_num(chosen.loading.sel(who=who).values[:, is_known])
        if not int(chosen.n_viewed.sel(who=who).item()):
            continue
        if who == "all":
            yield who, _ORIGINAL, loading
        yield who, f"{title.lower()}, sorted", loading[np.ix_(rois, epochs)]


def _panel(loading: figures.Floats, view: int, title: str, up: str, across: str, n: int) -> Markup:
    shares = loading / max(float(loading.max()), 1e-12)
    top = np.unravel_index(int(np.argmax(shares)), shares.shape)
    return figures.plot(
        figures.heatmap(loading, across=across, up=up),
        slug=f"cells-{view + 1}",
        title=f"{title[0].upper()}{title[1:]}, {plural(n, 'target')}",
        description=f"Heatmap of {shares.shape[0]} regions by {shares.shape[1]} epochs. The "
        f"largest is region {top[0] + 1} from below in epoch {top[1] + 1} from the left; "
        f"{np.mean(shares > 0.5):.1%} of cells have more than half of it",
    )
