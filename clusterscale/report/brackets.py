"""What attacks measured and what is certified for the same people: measured ≤ true ≤ certified."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.certify.comparison import ERROR_RATE, Bracket, bracket
from clusterscale.report import figures
from clusterscale.report.certificates import show_ceiling
from clusterscale.report.run import Run
from clusterscale.report.section import (
    Column,
    Section,
    Table,
    breakable,
    fill,
    folded,
    number,
    percent,
    plural,
)

__all__ = ["BracketCase", "bracket_section", "read_brackets"]

_MOST_PEOPLE = 200  # in a figure


@dataclass(frozen=True, slots=True)
class BracketCase:
    """Measured AUCs of an audit or a screen against their ceilings, by mechanism.

    ``kind``: ``audit`` or ``screen``; ``measured`` and ``ceilings``: the AUC of the best attack on
    a person, and the highest of any adversary, float64, shape (person,), in the order of ceilings.
    Of many people they are evenly spaced ones, and the most exposed.
    """

    kind: str
    period: str
    group_size: int
    mechanism: str
    bracket: Bracket
    measured: figures.Floats
    ceilings: figures.Floats


def read_brackets(run: Run) -> list[BracketCase]:
    """Return the brackets of a run's audit and screen; none without certificates of its releases.

    The ceilings are those of the game, in which another user takes the target's place.
    """
    if run.certify is None:
        return []
    ceilings = run.certify["auc"].sel(neighbours="replace", drop=True)
    found = []
    for kind, measured, person in (("audit", run.audit, "target"), ("screen", run.screen, "user")):
        if measured is None:
            continue
        dims = ("period", "group_size", "mechanism")
        for at in product(*(measured[dim].values for dim in dims)):
            case = dict(zip(dims, at, strict=True))
            if any(value not in ceilings[dim].values for dim, value in case.items()):
                continue
            own = measured.sel(case)
            allowed = ceilings.sel(case).values[own[person].values].astype(np.float64)
            auc, low = (_by_person(own[name], person) for name in ("auc", "auc_low"))
            if (compared := bracket(auc, low, allowed)) is not None:
                where = kind, str(at[0]), int(at[1]), str(at[2])
                found.append(BracketCase(*where, compared, *_some_people(auc, allowed)))
    return found


def _some_people(
    auc: figures.Floats, ceilings: figures.Floats
) -> tuple[figures.Floats, figures.Floats]:
    """Return the highest AUC of people, in the order of ceilings, and their ceilings."""
    known = np.isfinite(auc).any(axis=1) & np.isfinite(ceilings)
    best, ceilings = np.nanmax(auc[known], axis=1), ceilings[known]
    order = np.lexsort((best, ceilings))
    at = np.linspace(0, len(order) - 1, min(len(order), _MOST_PEOPLE)).astype(int)
    chosen = order[np.union1d(at, int(np.argmax(best[order])))]
    return best[chosen], ceilings[chosen]


def _by_person(
    values: xr.DataArray, person: str
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return values as float64, shape (person, attack and prior)."""
    ordered = values.transpose(person, ...).values
    return ordered.reshape(len(ordered), -1).astype(np.float64)


_BRACKET_COLUMNS = (
    Column("Mechanism", number=False, header=True, wide=True),
    Column("By", number=False),
    Column("Measured", hint="AUC of the best attack, of the most exposed person"),
    Column("Certified", hint="Highest AUC of any adversary, for the same person"),
    Column("Reached", hint="Mean share of the certified advantage over guessing"),
    Column("Above", hint="Intervals above the ceiling, of all measured AUCs"),
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
        "The true exposure of a person is between what attacks measured and what is certified for "
        "the same game: the person is inside, or another user drawn at random, whom the adversary "
        f"knows. A measured AUC above the ceiling, by more than chance ({ERROR_RATE:g} for all of "
        "a row), shows a fault: a mechanism that adds less noise than it states, or an error of "
        "this software.",
        fill("brackets.html.j2", n_violated=n_violated)
        + Table("Measured ≤ true ≤ certified", _BRACKET_COLUMNS, [("", rows)]).html
        + _figures(cases),
    )


def _figures(cases: Sequence[BracketCase]) -> Markup:
    """Return a figure of the people of each case whose ceilings say something."""
    shown = [case for case in cases if case.ceilings.min() < 1]
    if not shown:
        return Markup()
    legend = figures.marks(("measured", "certified"), line="guessing")
    return legend + folded([_people(i, case, shown) for i, case in enumerate(shown, 1)])


def _people(position: int, case: BracketCase, cases: Sequence[BracketCase]) -> tuple[str, Markup]:
    """Return the label and the figure of the people of a case."""
    several = len({(one.kind, one.period, one.group_size) for one in cases}) > 1
    label = f"{case.mechanism} · {_where(case)}" if several else case.mechanism
    gap, n_all = float(np.median(case.ceilings - case.measured)), case.bracket.n_people
    some = "" if len(case.measured) == n_all else f", of {n_all:,}"
    drawn = figures.plot(
        figures.brackets(case.measured, case.ceilings),
        slug=f"bracket-{position}",
        title=f"Measured and certified AUC of {plural(len(case.measured), 'user')}{some}",
        description=f"A line for each person, from the measured to the certified AUC; the median "
        f"difference is {number(gap)}.",
    )
    return label, drawn


def _where(case: BracketCase) -> str:
    return f"{case.kind}, {case.period}, groups of {case.group_size:,}"


def _bracket_row(case: BracketCase) -> list[str | Markup]:
    one = case.bracket
    verdict = "within" if one.measured <= one.certified else "within chance"
    if one.is_violated:
        verdict = "ceiling exceeded"
    return [
        breakable(case.mechanism),
        _where(case),
        number(one.measured),
        show_ceiling(one.certified),
        percent(one.reached) if np.isfinite(one.reached) else "–",
        f"{one.n_above:,} of {one.n_compared:,}",
        fill("measured.html.j2", verdict=verdict, broken=one.is_violated,
             seen=f"{one.n_people:,} {'person' if one.n_people == 1 else 'people'}"),
    ]  # fmt: skip
