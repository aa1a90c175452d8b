"""Sections of certificates: the best that any adversary can do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.reporting.section import Column, Section, Table, breakable, fill, folded, number
from clusterscale.validation_messages import plural

COVERS = (
    "The number of people counted is held fixed and taken as public: what its change reveals is "
    "not covered."
)
"""What ceilings do not cover."""

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

    def posterior(self, prior: float, rate: float) -> float:
        """Return the largest probability that somebody found at a false positive rate is inside.

        1 if nothing bounds the mechanism: then nobody need be found by mistake.
        """
        found = self.tpr * prior
        return 1.0 if self.tpr >= 1 else found / (found + rate * (1 - prior))


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


def state_posterior(line: CeilingLine, case: CeilingCase) -> str:
    """Return what the true positive rate of a mechanism means for somebody who is rarely inside."""
    share = line.posterior(case.prior, case.rate)
    rarely = f"If one in {1 / case.prior:,.0f} is inside, the worst user,"
    if share == 1:
        return f"{rarely} if found, is surely inside: nothing bounds it."
    return (
        f"{rarely} if found at a false positive rate of {case.rate:g}, is inside with a "
        f"probability of at most {share:.2f}."
    )


_COLUMNS = (
    Column("Mechanism", number=False, header=True, wide=True),
    Column("User is", number=False, hint="Added to the others, or in the place of a random other"),
    Column("Median", hint="Of the highest AUC of any adversary, over users"),
    Column("95th percentile"),
    Column("Worst", hint="Of the user who changes most counts"),
    Column("Accuracy", hint="Of the worst user, if inside and outside are equally likely"),
    Column("TPR", hint="Of the worst user, at the false positive rate of the caption"),
    Column("Inside if found", hint="Probability for the worst user, if found at that rate"),
    Column("Reached", number=False, hint="Whether an adversary who knows all else does so well"),
    Column("Reason", number=False, wide=True),
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
        f"user would be. {COVERS} Statistics are over users who change a count.",
        folded(folds),
    )
    case = next((case for case in cases if case.lines), None)
    findings = fill(
        "certify.html.j2",
        case=case,
        ends=_ends(case) if case else [],
        posterior=state_posterior,
        covers=COVERS,
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
            f"{line.posterior(case.prior, case.rate):.2f}",
            "yes" if line.tight else "at most",
            line.reason,
        ]
        for line in case.lines
    ]
    caption = (
        f"Highest AUC of any adversary on {plural(case.n_users, 'user')}; TPR at a false positive "
        f"rate of {case.rate:g}; one in {1 / case.prior:,.0f} is inside before the release is seen"
    )
    return Table(caption, _COLUMNS, [("", rows)]).html
