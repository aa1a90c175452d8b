"""Sections of certificates: the best that any adversary can do, and what attacks reached of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.certify.comparison import ERROR_RATE, Bracket, bracket
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

__all__ = ["NEIGHBOURS", "BracketCase", "CeilingCase", "CeilingLine", "read_brackets"]
__all__ += [
    "bracket_section",
    "read_ceilings",
    "render_sections",
    "show_ceiling",
    "state_posterior",
]

NEIGHBOURS: Mapping[str, str] = {"add_remove": "added", "replace": "replaced"}
"""How two releases differ, in words."""


@dataclass(frozen=True, slots=True)
class CeilingLine:
    """Ceilings of a mechanism over users: the median, the 95th percentile and the worst AUC.

    ``accuracy`` and ``tpr`` are those of the worst user; ``tight`` is whether an adversary reaches
    the ceiling.
    """

    mechanism: str
    neighbours: str
    median: float
    high: float
    worst: float
    accuracy: float
    tpr: float
    tight: bool
    reason: str


@dataclass(frozen=True, slots=True)
class CeilingCase:
    """The ceilings of a period and group size.

    ``rate``: the false positive rate of the lines; ``prior``: the probability that a user is
    inside, before the release is seen.
    """

    period: str
    group_size: int
    n_users: int
    rate: float
    prior: float
    lines: Sequence[CeilingLine]


def read_ceilings(certificates: xr.Dataset) -> Iterator[CeilingCase]:
    """Yield every period and group size, over users who change a count."""
    rate = float(f"{certificates['false_positive_rate'].min().item():g}")
    for period, size in product(certificates["period"].values, certificates["group_size"].values):
        chosen = certificates.sel(period=period, group_size=size)
        lines, n_users = [], 0
        for mechanism in certificates["mechanism"].values:
            own = chosen.sel(mechanism=mechanism)
            seen = own["n_changed"].values > 0
            n_users = max(n_users, int(seen.sum()))
            for neighbours in certificates["neighbours"].values:
                case = own.sel(neighbours=neighbours).isel(user=seen)
                if case.sizes["user"]:
                    lines.append(_line(case, str(mechanism), str(neighbours), rate))
        prior = float(certificates.attrs["prior"])
        yield CeilingCase(str(period), int(size), n_users, rate, prior, lines)


def _line(case: xr.Dataset, mechanism: str, neighbours: str, rate: float) -> CeilingLine:
    auc = case["auc"].values
    return CeilingLine(
        mechanism=mechanism,
        neighbours=neighbours,
        median=float(np.median(auc)),
        high=float(np.quantile(auc, 0.95)),
        worst=float(auc.max()),
        accuracy=float(case["accuracy"].max()),
        tpr=float(case["tpr"].sel(false_positive_rate=rate, method="nearest").max()),
        tight=neighbours == "add_remove" and str(case["tight"].item()) == "yes",
        reason=str(case["reason"].item()),
    )


def show_ceiling(value: float) -> str:
    """Return a ceiling with three digits, which is not rounded to 1."""
    return "> .999" if 0.9995 <= value < 1 else number(value)


def state_posterior(case: CeilingCase) -> str:
    """Return what the largest true positive rate means for somebody who is rarely inside."""
    worst = max((line.tpr for line in case.lines if line.neighbours == "add_remove"), default=0.0)
    found = worst * case.prior
    share = found / (found + case.rate * (1 - case.prior))
    return (
        f"If one in {1 / case.prior:,.0f} is inside, whoever is found at that rate is inside with "
        f"a probability of at most {share:.2f}, under the mechanism that reveals most."
    )


@dataclass(frozen=True, slots=True)
class BracketCase:
    """Measured AUCs of an audit or a screen against their ceilings, by mechanism.

    ``kind``: ``audit`` or ``screen``.
    """

    kind: str
    period: str
    group_size: int
    mechanism: str
    bracket: Bracket


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
            allowed = ceilings.sel(case).values[own[person].values]
            auc, low = (_by_person(own[name], person) for name in ("auc", "auc_low"))
            if (compared := bracket(auc, low, allowed.astype(np.float64))) is not None:
                found.append(BracketCase(kind, str(at[0]), int(at[1]), str(at[2]), compared))
    return found


def _by_person(
    values: xr.DataArray, person: str
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return values as float64, shape (person, attack and prior)."""
    ordered = values.transpose(person, ...).values
    return ordered.reshape(len(ordered), -1).astype(np.float64)


_COLUMNS = (
    Column("Mechanism", number=False, header=True, wide=True),
    Column("User is", number=False, hint="Added to the others, or in the place of a random other"),
    Column("Median", hint="Of the highest AUC of any adversary, over users"),
    Column("95th percentile"),
    Column("Worst", hint="Of the user who changes most counts"),
    Column("Accuracy", hint="Of the worst user, if inside and outside are equally likely"),
    Column("TPR", hint="Of the worst user, at the false positive rate of the caption"),
    Column("Reached", number=False, hint="Whether an adversary who knows all else does so well"),
    Column("Reason", number=False, wide=True),
)
_BRACKET_COLUMNS = (
    Column("Mechanism", number=False, header=True, wide=True),
    Column("By", number=False),
    Column("Measured", hint="AUC of the best attack, of the most exposed person"),
    Column("Certified", hint="Highest AUC of any adversary, for the same person"),
    Column("Reached", hint="Mean share of the certified advantage over guessing"),
    Column("Above", hint="Intervals above the ceiling, of all measured AUCs"),
    Column("Verdict", number=False),
)


def render_sections(certificates: xr.Dataset) -> tuple[Markup, list[Section]]:
    """Return the certificates' part of the first screen of a page, and their section."""
    cases = list(read_ceilings(certificates))
    folds = [(_label(case, cases), _table(case)) for case in cases if case.lines]
    section = Section(
        "certificates",
        "Ceilings of any adversary",
        "An attack that fails proves nothing; a ceiling bounds all attacks. The adversary knows "
        "everything except whether the user is inside: the traces of all others, and where the "
        "user would be. Statistics are over users who change a count.",
        folded(folds),
    )
    case = next((case for case in cases if case.lines), None)
    findings = fill(
        "certify.html.j2",
        case=case,
        ends=_ends(case) if case else [],
        posterior=state_posterior(case) if case else "",
        ceiling=show_ceiling,
    )
    return findings, [section]


def _ends(case: CeilingCase) -> list[CeilingLine]:
    """Return the mechanism with the highest and that with the lowest ceiling of the worst user."""
    lines = sorted(
        (line for line in case.lines if line.neighbours == "add_remove"),
        key=lambda line: line.worst,
    )
    return [lines[-1], lines[0]][: len(lines)]


def _label(case: CeilingCase, cases: Sequence[CeilingCase]) -> str:
    return f"{case.period} · Groups of {case.group_size:,}" if len(cases) > 1 else ""


def _table(case: CeilingCase) -> Markup:
    rows: list[list[str | Markup]] = [
        [
            breakable(line.mechanism),
            NEIGHBOURS[line.neighbours],
            *map(show_ceiling, (line.median, line.high, line.worst, line.accuracy, line.tpr)),
            "yes" if line.tight else "at most",
            line.reason,
        ]
        for line in case.lines
    ]
    caption = (
        f"Highest AUC of any adversary on {plural(case.n_users, 'user')}; TPR at a false positive "
        f"rate of {case.rate:g}"
    )
    return Table(caption, _COLUMNS, [("", rows)]).html


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
        + Table("Measured ≤ true ≤ certified", _BRACKET_COLUMNS, [("", rows)]).html,
    )


def _bracket_row(case: BracketCase) -> list[str | Markup]:
    one = case.bracket
    where = f"{case.kind}, {case.period}, groups of {case.group_size:,}"
    verdict = "ceiling exceeded" if one.is_violated else "within"
    return [
        breakable(case.mechanism),
        where,
        number(one.measured),
        show_ceiling(one.certified),
        percent(one.reached) if np.isfinite(one.reached) else "–",
        f"{one.n_above:,} of {one.n_compared:,}",
        fill("measured.html.j2", verdict=verdict, broken=one.is_violated,
             seen=f"{one.n_people:,} {'person' if one.n_people == 1 else 'people'}"),
    ]  # fmt: skip
