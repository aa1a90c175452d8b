"""Privacy gain and utility of each defence, one against the other, and the best defence."""

from collections.abc import Iterator
from dataclasses import dataclass
from string import ascii_uppercase

import numpy as np
from markupsafe import Markup

from clusterscale.reporting import figures
from clusterscale.reporting import section as html
from clusterscale.reporting.audit.cases import CaseIndex, Defences, Measure, mean
from clusterscale.reporting.audit.model import AuditReport
from clusterscale.reporting.declared import Column
from clusterscale.utility import NEARLY_EMPTY


def build_gains(audit: AuditReport) -> Iterator[html.Section]:
    """Build boxes of privacy gain over targets by mechanism and prior; none without any gain.

    There is one table for each period and group size, as in POMACS20 Fig. 6 and NDSS18 Figs 12 and
    13.
    """
    defences = audit.defences
    if not defences.gains_known:
        return
    folds = [
        (case.label, _boxes(defences, case))
        for case in defences.cases()
        if _known_priors(defences, case)
    ]
    body = html.folded(folds)
    if len(defences.priors) > 1:
        names = [f"{_letter(prior)}: {name}" for prior, name in enumerate(defences.priors)]
        body = figures.legend(names, dashed=False) + body
    yield html.section("gains", body)


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
            "",
            [
                {
                    "key": _letter(prior),
                    "title": defences.priors[prior],
                    "left": html.number(defences.left(case, prior, mechanism)),
                }
                | figures.boxed(defences.gains(case, prior, mechanism), figures.colour(prior))
                for prior in priors
            ],
        )
        for mechanism in range(len(defences.mechanisms))
    ]
    names = defences.table.attacks
    attacks = [" or ".join(names[i] for i in defences.strongest(case, prior)) for prior in priors]
    return html.fill(
        "gains.html.j2",
        caption=f"{case.label}: privacy gain of targets, relative to {_strongest(attacks, priors)} "
        "on raw counts",
        has_price=False,
        key="Prior" if len(defences.priors) > 1 else "",
        rows=rows,
    )


def _strongest(attacks: list[str], priors: list[int]) -> str:
    if len(set(attacks)) == 1:
        return attacks[0]
    return ", ".join(
        f"{attack} ({_letter(prior)})" for prior, attack in zip(priors, attacks, strict=True)
    )


def build_utility(audit: AuditReport) -> Iterator[html.Section]:
    """Build the measures of utility by mechanism; none without a defence or a measurement."""
    defences = audit.defences
    if not defences.any or not np.isfinite(defences.utility).any():
        return
    columns = [Column("Mechanism", ("header", "wide"))]
    columns += [Column(_heading(measure), hint=measure.name) for measure in defences.measures]
    groups = [
        (case.label, _utility_rows(defences, case))
        for case in defences.cases()
        if np.isfinite(defences.utility[case.period, case.size]).any()
    ]
    caption = "Utility of published values, mean (standard deviation) over groups"
    body = html.draw_table(caption, columns, groups)
    yield html.section("utility", body, limit=html.percent(NEARLY_EMPTY))


def _heading(measure: Measure) -> Markup:
    return html.fill_part("cells.measure", title=measure.title, ideal=html.quantity(measure.ideal))


def _utility_rows(defences: Defences, case: CaseIndex) -> list[list[str | Markup]]:
    at = (case.period, case.size)
    values, spread = defences.utility[at].tolist(), defences.spread[at].tolist()
    worse = defences.worse[at].tolist()
    guess: list[str | Markup] = [Markup("<i>random guess</i>")]
    guess += map(_number, defences.guess[at].tolist())
    rows: list[list[str | Markup]] = [
        [defences.name(case, i), *map(_cell, values[i], spread[i], worse[i])]
        for i in range(len(defences.mechanisms))
    ]
    return [*rows, guess]


def _cell(value: float, sd: float, worse: bool) -> Markup:
    spread = f"({_number(sd)})" if np.isfinite(sd) else ""
    return html.fill_part("cells.utility", value=_number(value), sd=spread, worse=worse)


def _number(value: float) -> str:
    """Format a value with three decimals, or fewer if it is large, as relative errors may be."""
    return html.quantity(value) if abs(value) >= 100 else html.number(value)


def tradeoff_figures(audit: AuditReport) -> list[figures.Figure]:
    """Return gain against loss, by prior, period and group size, and measure of utility.

    The result is empty if either is not known.
    """
    defences = audit.defences
    if not defences.gains_known or not np.isfinite(defences.loss).any():
        return []
    axes = [_axis(defences, measure) for measure in range(len(defences.measures))]
    return [
        figure
        for prior in range(len(defences.priors))
        for case in defences.cases()
        for figure in _tradeoffs(defences, case, prior, axes)
    ]


def build_tradeoff(audit: AuditReport) -> Iterator[html.Section]:
    """Build a panel for each measure, as in POMACS20 Figs 7 to 10; none without gain or loss."""
    every = tradeoff_figures(audit)
    folds = [
        (setting, html.side_by_side(figure.html for figure in every if figure.setting == setting))
        for setting in dict.fromkeys(figure.setting for figure in every)
    ]
    crossed = (
        f"shows less than {html.percent(NEARLY_EMPTY)} of counts or events: (nearly) empty release"
    )
    legend = figures.marks(
        audit.defences.mechanisms,
        line="random guess, drawn without any data",
        crossed=crossed if audit.empty else "",
    )
    return html.folds_section("tradeoff", folds, legend)


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
        f"{point.name}: gain {html.number(point.gain, 2)}, loss {html.quantity(point.loss)}"
        + (f" ({point.empty} release)" if point.empty else "")
        for point in points
    ]
    base = f" A random guess has loss {html.quantity(guess)}" if np.isfinite(guess) else ""
    return f"Mean privacy gain and utility loss by {measure}. " + "; ".join(marks) + f".{base}"


@dataclass(frozen=True, slots=True)
class BestDefence:
    """A mechanism with its privacy gain and utility loss where raw counts expose most.

    ``period`` is empty if there is only one. ``gain`` is the mean privacy gain, the smallest over
    attacks and ``n_priors`` priors. ``equals`` are other mechanisms with the same gain to two
    digits; ``same_loss`` is whether their utility loss is the same to three digits. ``measure`` is
    the least favourable measure, in which the mechanism is closest to a random guess; its ``value``
    and that of a ``guess`` are NaN if utility was not measured.
    """

    mechanism: str
    group_size: int
    period: str
    gain: float
    n_priors: int
    measure: Measure | None
    value: float
    guess: float
    equals: tuple[str, ...] = ()
    same_loss: bool = False


def best_defence(defences: Defences) -> BestDefence | None:
    """Return the mechanism with the highest gain, among equals the cheapest; None without gains.

    All mechanisms are compared for one period and group size, on the same targets: a mean over
    several would favour mechanisms that were only run on easy ones. The gain is the smallest over
    attacks and priors, as the defender cannot choose the adversary's. A mechanism whose release is
    nearly empty is never chosen, nor one for which that is unknown.
    """
    if not defences.gains_known:
        return None
    case, gains = _compare(defences)
    at = (case.period, case.size)
    released = defences.released_share[at]
    gains = {i: gain for i, gain in gains.items() if released[i] >= NEARLY_EMPTY}
    if not gains:
        return None
    share = defences.relative_loss(case)
    loss = np.max(np.nan_to_num(share, nan=-1.0), axis=1, initial=-1.0)
    loss[loss < 0] = np.inf  # an unknown loss is not a low one
    # among gains that are equal as displayed, choose the cheapest
    best = min(gains, key=lambda i: (-round(gains[i], 2), float(loss[i])))
    equals = [i for i in gains if i != best and round(gains[i], 2) == round(gains[best], 2)]
    worst = int(np.nanargmax(share[best])) if np.isfinite(loss[best]) else None
    return BestDefence(
        mechanism=defences.mechanisms[best],
        group_size=defences.table.group_sizes[case.size],
        period=defences.periods[case.period] if len(defences.periods) > 1 else "",
        gain=gains[best],
        n_priors=len(defences.attacked_priors(case)),
        measure=None if worst is None else defences.measures[worst],
        value=np.nan if worst is None else float(defences.utility[at][best, worst]),
        guess=np.nan if worst is None else float(defences.guess[at][worst]),
        equals=tuple(defences.mechanisms[i] for i in equals),
        same_loss=bool(np.allclose(loss[equals], loss[best], rtol=0, atol=5e-4)),
    )


def least_gains(defences: Defences) -> dict[str, float]:
    """Return the mean privacy gain of each mechanism where raw counts expose most.

    The gain is the smallest over attacks and priors. The result is empty if no gain is known.
    """
    if not defences.gains_known:
        return {}
    return {defences.mechanisms[i]: gain for i, gain in _compare(defences)[1].items()}


def largest_loss(defences: Defences, mechanism: str) -> tuple[float, Measure | None]:
    """Return the largest utility loss of a mechanism over all cases and measures, and the measure.

    The loss is relative to that of a random guess; NaN and None if utility was not measured.
    """
    index = defences.mechanisms.index(mechanism)
    shares = np.array([defences.relative_loss(case)[index] for case in defences.cases()])
    if not np.isfinite(shares).any():
        return float("nan"), None
    _, worst = np.unravel_index(np.nanargmax(shares), shares.shape)
    return float(np.nanmax(shares)), defences.measures[worst]


def mean_loss(defences: Defences, mechanism: str) -> float:
    """Return the mean utility loss over measures, at most 1 each, where it is largest.

    The loss is relative to that of a random guess; NaN if utility was not measured.
    """
    index = defences.mechanisms.index(mechanism)
    shares = (np.minimum(defences.relative_loss(case)[index], 1) for case in defences.cases())
    return max((found for each in shares if np.isfinite(found := mean(each))), default=np.nan)


def _compare(audited: Defences) -> tuple[CaseIndex, dict[int, float]]:
    """Return the case where raw counts expose most, and the least gains of mechanisms there."""
    assert audited.raw_counts is not None
    raw = audited.mechanisms.index(audited.raw_counts)
    exposure = {
        case: max(audited.left(case, prior, raw) for prior in priors)
        for case in audited.cases()
        if (priors := audited.attacked_priors(case))
    }
    case = max(exposure, key=lambda case: exposure[case])
    priors = audited.attacked_priors(case)
    gains = {
        mechanism: float(np.min([mean(audited.gains(case, prior, mechanism)) for prior in priors]))
        for mechanism, name in enumerate(audited.mechanisms)
        if name != audited.raw_counts
    }
    return case, {mechanism: gain for mechanism, gain in gains.items() if np.isfinite(gain)}
