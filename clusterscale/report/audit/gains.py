"""What each defence takes from the attacks."""

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
    "Privacy gain is the share of an attack’s advantage over a coin on bare counts that a "
    "mechanism takes away: 0 when the attack does as well as before, 1 when it is left with a "
    "coin. Boxes hold the middle half of the targets, the thick line is the median, the dot the "
    "mean; whiskers reach the furthest target within 1.5 box lengths, circles are targets beyond. "
    "Gains are against the attack that is strongest on bare counts; another attack may be less "
    "hampered, so “AUC left” is the highest mean AUC of any attack."
)


def build(results: xr.Dataset) -> Section | None:
    """Build boxes of privacy gain over targets by mechanism and prior; None without any.

    As POMACS20 Fig. 6 and NDSS18 Figs 12 and 13, one table for each period and group size.
    """
    found = defences(results)
    if not found.gains_known:
        return None
    folds = [
        (place.label, _boxes(found, place)) for place in found.places() if _known(found, place)
    ]
    body = fill("folds.html.j2", folds=folds)
    if len(found.priors) > 1:
        names = [f"{key(prior)}: {name}" for prior, name in enumerate(found.priors)]
        body = figures.legend(names, dashed=False) + body
    return Section("gains", "What each defence buys", _INTRO, body)


def key(prior: int) -> str:
    """Return the letter of a prior; a number beyond the alphabet."""
    return ascii_uppercase[prior] if prior < len(ascii_uppercase) else str(prior + 1)


def _known(found: Defences, place: CaseIndex) -> bool:
    return bool(_priors(found, place))


def _priors(found: Defences, place: CaseIndex) -> list[int]:
    """Return the priors that any gain is known for."""
    gain = found.gain[place.period, :, :, place.size]
    return [
        prior
        for prior in range(len(found.priors))
        if np.isfinite(gain[prior][:, found.strongest(place, prior)]).any()
    ]


def _boxes(found: Defences, place: CaseIndex) -> Markup:
    priors = _priors(found, place)
    rows = [
        (
            name_mechanism(found, place, mechanism),
            [_line(found, place, prior, mechanism) for prior in priors],
        )
        for mechanism in range(len(found.mechanisms))
    ]
    names = found.table.attacks
    attacks = [" or ".join(names[i] for i in found.strongest(place, prior)) for prior in priors]
    return fill(
        "gains.html.j2",
        caption=f"{place.label}: privacy gain of targets, {_against(attacks, priors)}",
        keys=len(found.priors) > 1,
        rows=rows,
    )


def _against(attacks: list[str], priors: list[int]) -> str:
    if len(set(attacks)) == 1:
        return f"against {attacks[0]}"
    return ", ".join(
        f"{key(prior)} against {attack}" for prior, attack in zip(priors, attacks, strict=True)
    )


def _line(found: Defences, place: CaseIndex, prior: int, mechanism: int) -> dict[str, object]:
    values = found.gains(place, prior, mechanism)
    return {
        "key": key(prior),
        "prior": found.priors[prior],
        "strip": figures.strip(values, figures.colour(prior)),
        "median": number(float(np.median(values))) if len(values) else "–",
        "mean": number(mean(values)),
        "left": number(found.left(place, prior, mechanism)),
    }
