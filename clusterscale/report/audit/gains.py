"""Privacy gain of each defence."""

from __future__ import annotations

from string import ascii_uppercase

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.report import figures
from clusterscale.report.defences import CaseIndex, Defences, defences, name_mechanism
from clusterscale.report.section import Section, fill, number
from clusterscale.report.summary import mean

_INTRO = (
    "Privacy gain is the share of an attack’s advantage over guessing on raw counts that a "
    "mechanism removes: 0 if the attack does as well as on raw counts, 1 if it is no better than "
    "guessing. Boxes span the middle half of the targets; the thick line is the median, the dot "
    "the mean. Whiskers extend to the furthest target within 1.5 box lengths; circles are targets "
    "beyond. Gains are against the attack that is strongest on raw counts. A mechanism may reduce "
    "other attacks less, so “remaining AUC” is the highest mean AUC of any attack."
)


def build(results: xr.Dataset) -> Section | None:
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
        names = [f"{key(prior)}: {name}" for prior, name in enumerate(by_mechanism.priors)]
        body = figures.legend(names, dashed=False) + body
    return Section("gains", "Privacy gain of each defence", _INTRO, body)


def key(prior: int) -> str:
    """Return the letter of a prior, or its number beyond the alphabet."""
    return ascii_uppercase[prior] if prior < len(ascii_uppercase) else str(prior + 1)


def _known(by_mechanism: Defences, place: CaseIndex) -> bool:
    return bool(_priors(by_mechanism, place))


def _priors(by_mechanism: Defences, place: CaseIndex) -> list[int]:
    """Return the priors with a known gain."""
    gain = by_mechanism.gain[place.period, :, :, place.size]
    return [
        prior
        for prior in range(len(by_mechanism.priors))
        if np.isfinite(gain[prior][:, by_mechanism.strongest(place, prior)]).any()
    ]


def _boxes(by_mechanism: Defences, place: CaseIndex) -> Markup:
    priors = _priors(by_mechanism, place)
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
        f"{key(prior)} against {attack}" for prior, attack in zip(priors, attacks, strict=True)
    )


def _line(
    by_mechanism: Defences, place: CaseIndex, prior: int, mechanism: int
) -> dict[str, object]:
    values = by_mechanism.gains(place, prior, mechanism)
    return {
        "key": key(prior),
        "prior": by_mechanism.priors[prior],
        "strip": figures.strip(values, figures.colour(prior)),
        "median": number(float(np.median(values))) if len(values) else "–",
        "mean": number(mean(values)),
        "left": number(by_mechanism.left(place, prior, mechanism)),
    }
