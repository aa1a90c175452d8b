"""Privacy gain and utility of each defence, and one against the other."""

from __future__ import annotations

from collections.abc import Iterator
from string import ascii_uppercase

import numpy as np
from markupsafe import Markup

from clusterscale.reporting import figures
from clusterscale.reporting.audit.cases import mean
from clusterscale.reporting.audit.defences import (
    CaseIndex,
    Defences,
    Measure,
)
from clusterscale.reporting.audit.model import AuditReport
from clusterscale.reporting.section import (
    Column,
    Section,
    Table,
    fill,
    folded,
    number,
    percent,
    quantity,
    side_by_side,
)
from clusterscale.utility import NEARLY_EMPTY

_INTRO = (
    "Privacy gain is the share of the adversary’s advantage over guessing on raw counts that a "
    "mechanism removes: 0 if an attack does as well as the strongest on raw counts, 1 if none is "
    "better than guessing. It is the smallest over attacks, by their mean over targets. Boxes span "
    "the middle half of the targets; the thick line is the median, the dot the mean. Whiskers "
    "extend to the furthest target within 1.5 box lengths; circles are targets beyond. “Remaining "
    "AUC” is the highest mean AUC of any attack."
)


def build_gains(audit: AuditReport) -> Section | None:
    """Build boxes of privacy gain over targets by mechanism and prior; None without any gain.

    There is one table for each period and group size, as in POMACS20 Fig. 6 and NDSS18 Figs 12 and
    13.
    """
    defences = audit.defences
    if not defences.gains_known:
        return None
    folds = [
        (case.label, _boxes(defences, case))
        for case in defences.cases()
        if _known_priors(defences, case)
    ]
    body = folded(folds)
    if len(defences.priors) > 1:
        names = [f"{_letter(prior)}: {name}" for prior, name in enumerate(defences.priors)]
        body = figures.legend(names, dashed=False) + body
    return Section("gains", "Privacy gain of each defence", _INTRO, body)


def _letter(prior: int) -> str:
    """Return the letter of a prior, or its number beyond the alphabet."""
    return ascii_uppercase[prior] if prior < len(ascii_uppercase) else str(prior + 1)


def _known_priors(defences: Defences, case: CaseIndex) -> list[int]:
    """Return the priors with a known gain."""
    mechanisms = range(len(defences.mechanisms))
    return [
        prior
        for prior in range(len(defences.priors))
        if any(defences.gains(case, prior, mechanism).size for mechanism in mechanisms)
    ]


def _boxes(defences: Defences, case: CaseIndex) -> Markup:
    priors = _known_priors(defences, case)
    rows = [
        (
            defences.name(case, mechanism),
            [
                {
                    "key": _letter(prior),
                    "prior": defences.priors[prior],
                    "left": number(defences.left(case, prior, mechanism)),
                }
                | figures.boxed(defences.gains(case, prior, mechanism), figures.colour(prior))
                for prior in priors
            ],
        )
        for mechanism in range(len(defences.mechanisms))
    ]
    names = defences.table.attacks
    attacks = [" or ".join(names[i] for i in defences.strongest(case, prior)) for prior in priors]
    return fill(
        "gains.html.j2",
        caption=f"{case.label}: privacy gain of targets, relative to {_strongest(attacks, priors)} "
        "on raw counts",
        keys=len(defences.priors) > 1,
        rows=rows,
    )


def _strongest(attacks: list[str], priors: list[int]) -> str:
    if len(set(attacks)) == 1:
        return attacks[0]
    return ", ".join(
        f"{attack} ({_letter(prior)})" for prior, attack in zip(priors, attacks, strict=True)
    )


def build_utility(audit: AuditReport) -> Section | None:
    """Build the measures of utility by mechanism; None without a defence or a measurement."""
    defences = audit.defences
    if not defences.any or not np.isfinite(defences.utility).any():
        return None
    columns = [Column("Mechanism", number=False, header=True, wide=True)]
    columns += [Column(_heading(measure), hint=measure.name) for measure in defences.measures]
    groups = [
        (case.label, _utility_rows(defences, case))
        for case in defences.cases()
        if np.isfinite(defences.utility[case.period, case.size]).any()
    ]
    caption = "Utility of published values, mean (standard deviation) over groups"
    return Section(
        "utility",
        "Utility of each defence",
        "Published values are compared with the counts of the same groups. Each heading states "
        "the best value of its measure. The random guess is drawn without any data; a mechanism "
        "that does no better has no utility by that measure. A release that shows less than "
        f"{percent(NEARLY_EMPTY)} of the counts above 0, or of the events, is marked as nearly "
        "empty: if most counts are 0, publishing zeros has a small relative error but no use. If "
        "the cube has a null region, events kept and total variation omit it; the other measures "
        "include it, as in the papers.",
        Table(caption, columns, groups).html,
    )


def _heading(measure: Measure) -> Markup:
    return fill("measure.html.j2", title=measure.title, ideal=quantity(measure.ideal))


def _utility_rows(defences: Defences, case: CaseIndex) -> list[list[str | Markup]]:
    at = (case.period, case.size)
    values, spread = defences.utility[at].tolist(), defences.spread[at].tolist()
    guess: list[str | Markup] = [Markup("<i>random guess</i>")]
    guess += map(_number, defences.guess[at].tolist())
    rows: list[list[str | Markup]] = [
        [defences.name(case, i), *map(_cell, values[i], spread[i])]
        for i in range(len(defences.mechanisms))
    ]
    return [*rows, guess]


def _cell(value: float, sd: float) -> Markup:
    spread = f"({_number(sd)})" if np.isfinite(sd) else ""
    return fill("spread.html.j2", value=_number(value), spread=spread)


def _number(value: float) -> str:
    """Format a value with three decimals, or fewer if it is large, as relative errors may be."""
    return quantity(value) if abs(value) >= 100 else number(value)


def tradeoff_figures(audit: AuditReport) -> list[figures.Figure]:
    """Return gain against loss, by prior, period and group size, and measure of utility."""
    defences = audit.defences
    axes = [_axis(defences, measure) for measure in range(len(defences.measures))]
    return [
        figure
        for prior in range(len(defences.priors))
        for case in defences.cases()
        for figure in _tradeoffs(defences, case, prior, axes)
    ]


def build_tradeoff(audit: AuditReport) -> Section | None:
    """Build a panel for each measure, as in POMACS20 Figs 7 to 10; None without gain or loss."""
    defences = audit.defences
    if not defences.gains_known or not np.isfinite(defences.loss).any():
        return None
    every = tradeoff_figures(audit)
    folds = [
        (setting, side_by_side(figure.html for figure in every if figure.setting == setting))
        for setting in dict.fromkeys(figure.setting for figure in every)
    ]
    if not folds:
        return None
    crossed = f"shows less than {percent(NEARLY_EMPTY)} of counts or events: (nearly) empty release"
    legend = figures.marks(
        defences.mechanisms,
        line="random guess, drawn without any data",
        crossed=crossed if any(map(defences.emptiest, defences.mechanisms)) else "",
    )
    return Section(
        "tradeoff",
        "Privacy gain against utility loss",
        "Each mark is a mechanism; the upper left is best: high privacy gain and low utility loss. "
        "The vertical axis is the mean privacy gain, the smallest over attacks. Utility loss is "
        "the distance to the best value of a measure; marks right of the dashed line are further "
        "off than a random guess. Do not choose a crossed-out mechanism: its release is (nearly) "
        "empty. Relative errors and events kept have a logarithmic axis with 0 at its left end.",
        legend + folded(folds),
    )


def _axis(defences: Defences, measure: int) -> figures.Axis:
    # equal for all periods and group sizes, so that panels can be compared
    values = np.concatenate(
        [defences.loss[..., measure].ravel(), defences.guess_loss[..., measure].ravel()]
    )
    return figures.axis(values, log=defences.measures[measure].relative)


def _tradeoffs(
    defences: Defences, case: CaseIndex, prior: int, axes: list[figures.Axis]
) -> Iterator[figures.Figure]:
    """Yield a figure for each measure of utility."""
    several = len(defences.priors) > 1
    for index, measure in enumerate(defences.measures):
        points = _points(defences, case, prior, index)
        if not points:
            continue
        guess = float(defences.guess_loss[case.period, case.size, index])
        size = defences.table.group_sizes[case.size]
        yield figures.Figure(
            figures.tradeoff(points, guess, axes[index]),
            slug=f"tradeoff-{case.period + 1}-{prior + 1}-{size}-{index + 1}",
            title=measure.title,
            description=_in_words(points, measure.title, guess),
            setting=f"{defences.priors[prior]} · {case.label}" if several else case.label,
            names=defences.mechanisms,
        )


def _points(defences: Defences, case: CaseIndex, prior: int, measure: int) -> list[figures.Point]:
    losses = defences.loss[case.period, case.size, :, measure]
    points = [
        figures.Point(
            i,
            name,
            float(losses[i]),
            mean(defences.gains(case, prior, i)),
            defences.emptiness(case, i),
        )
        for i, name in enumerate(defences.mechanisms)
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
