"""Privacy gain and utility of each defence, and one against the other."""

from __future__ import annotations

from string import ascii_uppercase

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.report import figures
from clusterscale.report.audit.cases import mean
from clusterscale.report.audit.defences import (
    CaseIndex,
    Defences,
    Measure,
    defences,
    name_mechanism,
)
from clusterscale.report.section import (
    Column,
    Section,
    Table,
    fill,
    join,
    number,
    percent,
    quantity,
)
from clusterscale.utility import NEARLY_EMPTY

_INTRO = (
    "Privacy gain is the share of an attack’s advantage over guessing on raw counts that a "
    "mechanism removes: 0 if the attack does as well as on raw counts, 1 if it is no better than "
    "guessing. Boxes span the middle half of the targets; the thick line is the median, the dot "
    "the mean. Whiskers extend to the furthest target within 1.5 box lengths; circles are targets "
    "beyond. Gains are against the attack that is strongest on raw counts. A mechanism may reduce "
    "other attacks less, so “remaining AUC” is the highest mean AUC of any attack."
)


def build_gains(results: xr.Dataset) -> Section | None:
    """Build boxes of privacy gain over targets by mechanism and prior; None without any gain.

    There is one table for each period and group size, as in POMACS20 Fig. 6 and NDSS18 Figs 12 and
    13.
    """
    by_mechanism = defences(results)
    if not by_mechanism.gains_known:
        return None
    folds = [
        (place.label, _boxes(by_mechanism, place))
        for place in by_mechanism.places()
        if _known(by_mechanism, place)
    ]
    body = fill("folds.html.j2", folds=folds)
    if len(by_mechanism.priors) > 1:
        names = [f"{_letter(prior)}: {name}" for prior, name in enumerate(by_mechanism.priors)]
        body = figures.legend(names, dashed=False) + body
    return Section("gains", "Privacy gain of each defence", _INTRO, body)


def _letter(prior: int) -> str:
    """Return the letter of a prior, or its number beyond the alphabet."""
    return ascii_uppercase[prior] if prior < len(ascii_uppercase) else str(prior + 1)


def _known(by_mechanism: Defences, place: CaseIndex) -> bool:
    return bool(_known_priors(by_mechanism, place))


def _known_priors(by_mechanism: Defences, place: CaseIndex) -> list[int]:
    """Return the priors with a known gain."""
    gain = by_mechanism.gain[place.period, :, :, place.size]
    return [
        prior
        for prior in range(len(by_mechanism.priors))
        if np.isfinite(gain[prior][:, by_mechanism.strongest(place, prior)]).any()
    ]


def _boxes(by_mechanism: Defences, place: CaseIndex) -> Markup:
    priors = _known_priors(by_mechanism, place)
    rows = [
        (
            name_mechanism(by_mechanism, place, mechanism),
            [_line(by_mechanism, place, prior, mechanism) for prior in priors],
        )
        for mechanism in range(len(by_mechanism.mechanisms))
    ]
    names = by_mechanism.table.attacks
    attacks = [
        " or ".join(names[i] for i in by_mechanism.strongest(place, prior)) for prior in priors
    ]
    return fill(
        "gains.html.j2",
        caption=f"{place.label}: privacy gain of targets, {_against(attacks, priors)}",
        keys=len(by_mechanism.priors) > 1,
        rows=rows,
    )


def _against(attacks: list[str], priors: list[int]) -> str:
    if len(set(attacks)) == 1:
        return f"against {attacks[0]}"
    return ", ".join(
        f"{_letter(prior)} against {attack}" for prior, attack in zip(priors, attacks, strict=True)
    )


def _line(
    by_mechanism: Defences, place: CaseIndex, prior: int, mechanism: int
) -> dict[str, object]:
    values = by_mechanism.gains(place, prior, mechanism)
    return {
        "key": _letter(prior),
        "prior": by_mechanism.priors[prior],
        "strip": figures.strip(values, figures.colour(prior)),
        "median": number(float(np.median(values))) if len(values) else "–",
        "mean": number(mean(values)),
        "left": number(by_mechanism.left(place, prior, mechanism)),
    }


def build_utility(results: xr.Dataset) -> Section | None:
    """Build the measures of utility by mechanism; None without a defence or a measurement."""
    by_mechanism = defences(results)
    if not by_mechanism.any or not np.isfinite(by_mechanism.utility).any():
        return None
    columns = [Column("Mechanism", number=False, header=True, wide=True)]
    columns += [Column(_heading(measure), hint=measure.name) for measure in by_mechanism.measures]
    groups = [
        (place.label, _utility_rows(by_mechanism, place))
        for place in by_mechanism.places()
        if np.isfinite(by_mechanism.utility[place.period, place.size]).any()
    ]
    caption = "Utility of published values, mean (standard deviation) over groups"
    return Section(
        "utility",
        "Utility of each defence",
        "Published values are compared with the counts of the same groups. Each heading states "
        "the best value of its measure. The random guess is drawn without any data; a mechanism "
        "that does no better has no utility by that measure. A release that keeps less than "
        f"{percent(NEARLY_EMPTY)} of the events is marked as nearly empty: if most counts are 0, "
        "publishing zeros has a small relative error but no use. If the cube has a null region, "
        "events kept and total variation omit it; the other measures include it, as in the papers.",
        Table(caption, columns, groups).html,
    )


def _heading(measure: Measure) -> Markup:
    return fill("measure.html.j2", title=measure.title, ideal=quantity(measure.ideal))


def _utility_rows(by_mechanism: Defences, place: CaseIndex) -> list[list[str | Markup]]:
    at = (place.period, place.size)
    rows: list[list[str | Markup]] = []
    for mechanism in range(len(by_mechanism.mechanisms)):
        pairs = zip(
            by_mechanism.utility[at][mechanism], by_mechanism.spread[at][mechanism], strict=True
        )
        rows.append(
            [
                name_mechanism(by_mechanism, place, mechanism),
                *(_cell(float(value), float(sd)) for value, sd in pairs),
            ]
        )
    rows.append(
        [Markup("<i>random guess</i>"), *(_number(float(v)) for v in by_mechanism.guess[at])]
    )
    return rows


def _cell(value: float, sd: float) -> Markup:
    spread = f"({_number(sd)})" if np.isfinite(sd) else ""
    return fill("spread.html.j2", value=_number(value), spread=spread)


def _number(value: float) -> str:
    """Format a value with three decimals, or fewer if it is large, as relative errors may be."""
    return quantity(value) if abs(value) >= 100 else number(value)


def build_tradeoff(results: xr.Dataset) -> Section | None:
    """Build a panel for each measure, as in POMACS20 Figs 7 to 10; None without gain or loss."""
    by_mechanism = defences(results)
    if not by_mechanism.gains_known or not np.isfinite(by_mechanism.loss).any():
        return None
    axes = [_axis(by_mechanism, measure) for measure in range(len(by_mechanism.measures))]
    folds = [
        (_label(by_mechanism, place, prior), panels)
        for prior in range(len(by_mechanism.priors))
        for place in by_mechanism.places()
        if (panels := _panels(by_mechanism, place, prior, axes))
    ]
    if not folds:
        return None
    crossed = f"keeps less than {percent(NEARLY_EMPTY)} of the events: (nearly) empty release"
    legend = figures.marks(
        by_mechanism.mechanisms,
        line="random guess, drawn without any data",
        crossed=crossed if any(map(by_mechanism.emptiest, by_mechanism.mechanisms)) else "",
    )
    return Section(
        "tradeoff",
        "Privacy gain against utility loss",
        "Each mark is a mechanism; the upper left is best: high privacy gain and low utility loss. "
        "The vertical axis is the mean privacy gain against the attack that is strongest on raw "
        "counts. Utility loss is the distance to the best value of a measure; marks right of the "
        "dashed line are further off than a random guess. Do not choose a crossed-out mechanism: "
        "its release is (nearly) empty. Relative errors and events kept have a logarithmic axis "
        "with 0 at its left end.",
        legend + fill("folds.html.j2", folds=folds),
    )


def _label(by_mechanism: Defences, place: CaseIndex, prior: int) -> str:
    return " · ".join(
        [by_mechanism.priors[prior], place.label] if len(by_mechanism.priors) > 1 else [place.label]
    )


def _axis(by_mechanism: Defences, measure: int) -> figures.Axis:
    # equal for all periods and group sizes, so that panels can be compared
    values = np.concatenate(
        [by_mechanism.loss[..., measure].ravel(), by_mechanism.guess_loss[..., measure].ravel()]
    )
    return figures.axis(values, log=by_mechanism.measures[measure].relative)


def _panels(
    by_mechanism: Defences, place: CaseIndex, prior: int, axes: list[figures.Axis]
) -> Markup | None:
    panels = []
    for index, measure in enumerate(by_mechanism.measures):
        points = _points(by_mechanism, place, prior, index)
        if not points:
            continue
        guess = float(by_mechanism.guess_loss[place.period, place.size, index])
        size = by_mechanism.table.group_sizes[place.size]
        panels.append(
            figures.plot(
                figures.tradeoff(points, guess, axes[index]),
                slug=f"tradeoff-{place.period + 1}-{prior + 1}-{size}-{index + 1}",
                title=measure.title,
                description=_in_words(points, measure.title, guess),
            )
        )
    return fill("panels.html.j2", panels=join(panels)) if panels else None


def _points(
    by_mechanism: Defences, place: CaseIndex, prior: int, measure: int
) -> list[figures.Point]:
    losses = by_mechanism.loss[place.period, place.size, :, measure]
    points = [
        figures.Point(i, name, float(losses[i]), mean(by_mechanism.gains(place, prior, i)), empty)
        for i, name in enumerate(by_mechanism.mechanisms)
        for empty in [by_mechanism.emptiness(place, i)]
    ]
    return [point for point in points if np.isfinite(point.loss) and np.isfinite(point.gain)]


def _in_words(points: list[figures.Point], measure: str, guess: float) -> str:
    marks = [
        f"{point.name}: gain {number(point.gain, 2)}, loss {quantity(point.loss)}"
        + (f" ({point.empty} release)" if point.empty else "")
        for point in points
    ]
    base = f" A random guess has loss {quantity(guess)}" if np.isfinite(guess) else ""
    return f"Mean privacy gain and utility loss by {measure}. " + "; ".join(marks) + f".{base}"
