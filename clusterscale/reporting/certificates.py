"""Sections of certificates: the best that any adversary can do, and what attacks reach of it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import Any

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.analyses.audit.settings import Precision, interim_looks
from clusterscale.analyses.certify.comparison import ERROR_RATE, Bracket, bracket, lower_limits
from clusterscale.phrases import at_most
from clusterscale.reporting import figures
from clusterscale.reporting import section as html
from clusterscale.reporting.run import Run
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


def state_posterior(line: CeilingLine, case: CeilingCase) -> str:
    """Return what the true positive rate of a mechanism means for somebody who is rarely inside."""
    share = line.posterior(case.prior, case.rate)
    rarely = f"If one in {1 / case.prior:,.0f} is inside, the worst user,"
    if share == 1:
        return f"{rarely} if found, is surely inside: nothing bounds it."
    return (
        f"{rarely} if found at a false positive rate of {case.rate:g}, is inside with a "
        f"probability of at most {ceil(100 * share) / 100:.2f}."
    )


def render_sections(certificates: xr.Dataset) -> tuple[Markup, list[html.Section]]:
    """Return the certificates' part of the first screen of a page, and their section."""
    cases = list(read_ceilings(certificates))
    folds = [(_label(case, cases), _table(case)) for case in cases if case.lines]
    ceilings = html.section("certificates", html.folded(folds), covers=COVERS)
    case = next((case for case in cases if case.lines), None)
    findings = html.fill(
        "certify.html.j2",
        case=case,
        ends=_ends(case) if case else [],
        posterior=state_posterior,
        covers=" ".join([COVERS, *html.counted_nowhere(certificates)]),
        ceiling=at_most,
    )
    return findings, [ceilings]


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
    how = {"neighbours": NEIGHBOURS, "ceiling": at_most}
    return html.table("ceilings", [("", case.lines)], case=case, **how)


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


def covers_audit(run: Run) -> bool:
    """Return whether a run has certificates of every period of its audit."""
    if run.certify is None or run.audit is None:
        return False
    plan: Any = html.json_attribute(run.certify, "plan") if "period_id" in run.audit else {}
    spans = {name: rf"{first}-{stop}(?!\d)" for name, first, stop in plan.get("periods", ())}
    names, known = map(str, run.audit["period"].values), run.certify["period"].values
    ids = map(str, run.audit.get("period_id", run.audit["period"]).values)
    pairs = zip(names, ids, strict=True)
    return all(name in known and re.match(spans.get(name, ""), one) for name, one in pairs)


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
    fields = html.json_attribute(audit, "plan").get("precision")
    return len(interim_looks(2, Precision.model_validate(fields))) if fields else 1


def _some_people(
    auc: figures.Floats, pairs: figures.Floats, ceilings: figures.Floats, tries: int
) -> tuple[figures.Floats, figures.Floats]:
    """Return the highest lower limits of people, in the order of ceilings, and their ceilings."""
    known = np.isfinite(auc).any(axis=1) & np.isfinite(ceilings)
    auc, pairs, ceilings = auc[known], pairs[known], ceilings[known]
    best = np.nanmax(auc, axis=1)
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


def bracket_sections(run: Run) -> Iterator[html.Section]:
    """Build the comparison of measured with certified AUCs; none without both."""
    if not (cases := read_brackets(run)):
        return
    n_violated = sum(case.bracket.is_violated for case in cases)
    yield html.section(
        "brackets",
        html.fill_part("warnings.ceilings", n_violated=n_violated)
        + html.table("brackets", [("", cases)], where=_where, ceiling=at_most)
        + _figures(cases),
        probability=f"{1 - ERROR_RATE:.1%}",
    )


def _figures(cases: Sequence[BracketCase]) -> Markup:
    """Return a figure of the people of each case whose ceilings say something."""
    shown = [case for case in cases if case.ceilings.min() < 1]
    if not shown:
        return Markup()
    legend = figures.marks(("at least", "certified"), line="guessing")
    return legend + html.folded([_people(i, case, shown) for i, case in enumerate(shown, 1)])


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
        f"difference is {html.number(gap)}.",
    )
    return label, drawn


def _where(case: BracketCase) -> str:
    return f"{case.kind}, {case.period}, groups of {case.group_size:,}"
