"""What attacks show and what is certified for the same people: lower limit ≤ true ≤ certified."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.analyses.audit.settings import Precision, interim_looks
from clusterscale.analyses.certify.comparison import ERROR_RATE, Bracket, bracket, lower_limits
from clusterscale.reporting import figures
from clusterscale.reporting.certificates import show_ceiling
from clusterscale.reporting.run import Run
from clusterscale.reporting.section import (
    Column,
    Section,
    Table,
    breakable,
    fill,
    folded,
    json_attribute,
    number,
)
from clusterscale.validation_messages import plural

_MOST_PEOPLE = 200  # in a figure


@dataclass(frozen=True, slots=True)
class BracketCase:
    """Lower limits of an audit or a screen against ceilings, by mechanism.

    ``kind``: ``audit`` or ``screen``; ``lows`` and ``ceilings``: the lower limit of the true AUC of
    the best attack on a person, and the highest of any adversary, float64, shape (person,), in the
    order of ceilings. Of many people they are evenly spaced ones, and those with high limits.
    """

    kind: str
    period: str
    group_size: int
    mechanism: str
    bracket: Bracket
    lows: figures.Floats
    ceilings: figures.Floats


def read_brackets(run: Run) -> list[BracketCase]:
    """Return the brackets of a run's audit and screen; none without certificates of its releases.

    The ceilings are those of the game, in which another user takes the target's place. Adversaries
    who train on the challenge groups are left out: they recognise groups, not only the target.
    """
    if run.certify is None:
        return []
    ceilings = run.certify["auc"].sel(neighbours="replace", drop=True)
    found = []
    for kind, measured, person in (("audit", run.audit, "target"), ("screen", run.screen, "user")):
        if measured is None:
            continue
        is_audit = kind == "audit"
        looks = _count_looks(measured) if is_audit else 1
        dims = ("period", "group_size", "mechanism")
        for at in product(*(measured[dim].values for dim in dims)):
            case = dict(zip(dims, at, strict=True))
            if any(value not in ceilings[dim].values for dim, value in case.items()):
                continue
            own = measured.sel(case)
            allowed = ceilings.sel(case).values[own[person].values].astype(np.float64)
            measures = own["auc"], own["n_challenges" if is_audit else "n_groups"] // 2
            if is_audit:
                measures = measures[0].where(own["epsilon_lower"].notnull()), measures[1]
            auc, pairs = (_by_person(one, person) for one in xr.broadcast(*measures))
            compared = bracket(auc, pairs, allowed, has_own_challenges=is_audit, looks=looks)
            if compared is not None:
                where = kind, str(at[0]), int(at[1]), str(at[2])
                some = _some_people(auc, pairs, allowed, compared.tries)
                found.append(BracketCase(*where, compared, *some))
    return found


def _count_looks(audit: xr.Dataset) -> int:
    """Return how often at most an audit looked whether an AUC was precise enough."""
    fields = json_attribute(audit, "plan").get("precision")
    return len(interim_looks(2, Precision.model_validate(fields))) if fields else 1


def _some_people(
    auc: figures.Floats, pairs: figures.Floats, ceilings: figures.Floats, tries: int
) -> tuple[figures.Floats, figures.Floats]:
    """Return the highest lower limits of people, in the order of ceilings, and their ceilings."""
    known = np.isfinite(auc).any(axis=1) & np.isfinite(ceilings)
    best, auc, pairs, ceilings = (
        np.nanmax(auc[known], axis=1),
        auc[known],
        pairs[known],
        ceilings[known],
    )
    order = np.lexsort((best, ceilings))
    at = np.linspace(0, len(order) - 1, min(len(order), _MOST_PEOPLE)).astype(int)
    chosen = order[np.union1d(at, int(np.argmax(best[order])))]
    return np.nanmax(lower_limits(auc[chosen], pairs[chosen], tries), axis=1), ceilings[chosen]


def _by_person(
    values: xr.DataArray, person: str
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return values as float64, shape (person, attack and prior)."""
    ordered = values.transpose(person, ...).values
    return ordered.reshape(len(ordered), -1).astype(np.float64)


_BRACKET_COLUMNS = (
    Column("Mechanism", number=False, header=True, wide=True),
    Column("By", number=False),
    Column(
        "At least", hint="Lower limit of the AUC of the best attack, for the most exposed person"
    ),
    Column("Certified", hint="Highest AUC of any adversary, for the same person"),
    Column("Mean at least", hint="Lower limit of the mean AUC over people, by the best attack"),
    Column("Mean certified", hint="Mean over the same people"),
    Column("Verdict", number=False),
)


def bracket_section(run: Run) -> Section | None:
    """Build the comparison of measured with certified AUCs; None without both."""
    if not (cases := read_brackets(run)):
        return None
    rows: list[list[str | Markup]] = [_bracket_row(case) for case in cases]
    n_violated = sum(case.bracket.is_violated for case in cases)
    return Section(
        "brackets",
        "Measured and certified",
        "The true exposure of a person is between what attacks show and what is certified for the "
        "same game: the person is inside, or another user drawn at random, whom the adversary "
        "knows. The best of many measured AUCs is high by chance; lower limits allow for that. "
        f"All limits of a row are right with a probability of {1 - ERROR_RATE:.1%}, for every law "
        "of scores. A limit above its ceiling shows a fault: a mechanism that adds less noise than "
        "it states, or an error of this software.",
        fill("brackets.html.j2", n_violated=n_violated)
        + Table("Lower limit ≤ true AUC ≤ certified", _BRACKET_COLUMNS, [("", rows)]).html
        + _figures(cases),
    )


def _figures(cases: Sequence[BracketCase]) -> Markup:
    """Return a figure of the people of each case whose ceilings say something."""
    shown = [case for case in cases if case.ceilings.min() < 1]
    if not shown:
        return Markup()
    legend = figures.marks(("at least", "certified"), line="guessing")
    return legend + folded([_people(i, case, shown) for i, case in enumerate(shown, 1)])


def _people(position: int, case: BracketCase, cases: Sequence[BracketCase]) -> tuple[str, Markup]:
    """Return the label and the figure of the people of a case."""
    several = len({(one.kind, one.period, one.group_size) for one in cases}) > 1
    label = f"{case.mechanism} · {_where(case)}" if several else case.mechanism
    gap, n_all = float(np.median(case.ceilings - case.lows)), case.bracket.n_people
    some = "" if len(case.lows) == n_all else f", of {n_all:,}"
    drawn = figures.plot(
        figures.brackets(case.lows, case.ceilings),
        slug=f"bracket-{position}",
        title=f"Lower limit and ceiling of the AUC of {plural(len(case.lows), 'user')}{some}",
        description=f"A line for each person, from the lower limit to the ceiling; the median "
        f"difference is {number(gap)}.",
    )
    return label, drawn


def _where(case: BracketCase) -> str:
    return f"{case.kind}, {case.period}, groups of {case.group_size:,}"


def _bracket_row(case: BracketCase) -> list[str | Markup]:
    one = case.bracket
    return [
        breakable(case.mechanism),
        _where(case),
        number(one.low),
        show_ceiling(one.certified),
        number(one.mean_low),
        show_ceiling(one.mean_certified),
        fill("measured.html.j2", verdict="ceiling exceeded" if one.is_violated else "within",
             broken=one.is_violated,
             seen=f"{one.n_people:,} {'person' if one.n_people == 1 else 'people'}"),
    ]  # fmt: skip
