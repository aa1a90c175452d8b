"""Sections of a screen: the exposure of all users by mechanism, and the most exposed users."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import floor

import numpy as np
import xarray as xr
from markupsafe import Markup
from numpy.typing import NDArray

from clusterscale.analyses.screening import is_counted
from clusterscale.phrases import at_most
from clusterscale.reporting import figures
from clusterscale.reporting import section as html
from clusterscale.reporting.declared import Column
from clusterscale.reporting.figures import Floats
from clusterscale.reporting.findings import find_emptiness
from clusterscale.reporting.run import Run
from clusterscale.validation_messages import name_best, plural

AUC_LEVELS = (0.75, 0.9)
"""The AUC levels above which users are counted."""

BY_SIZE = (
    "Exposure need not fall with the size of the group: only exact counts and added noise hide a "
    "person better among more people. A verdict is about the audited size alone."
)
"""Why exposure is shown by group size."""

_SMALL_SHARE = 0.05  # of exposed users, which reassures
_CURVE = 401  # points of a distribution; as many as a panel has pixels


@dataclass(frozen=True, slots=True, eq=False)
class StrongestAttack:
    """The attack with the highest mean AUC on a mechanism's releases, and its AUCs.

    ``attack`` names all attacks whose means are equal to three digits; the numbers are of the
    highest. ``auc`` has shape (user,), NaN for users with too few groups to compare and users who
    do not count (``is_counted``). ``high`` is the 95th percentile over
    users, ``above`` the shares above :data:`AUC_LEVELS`, ``half`` half the mean width of the
    interval of a user's AUC, ``curve`` evenly spaced quantiles.
    """

    mechanism: str
    attack: str
    auc: NDArray[np.float32]
    mean: float
    high: float
    above: tuple[float, ...]
    half: float
    curve: Floats


@dataclass(frozen=True, slots=True, eq=False)
class ScreenCase:
    """A period and group size; ``label`` identifies them, and is empty if there is only one.

    ``n_users`` is the number of users who count, ``n_groups`` the median number of groups in which
    a user was compared, and ``n_events`` each user's events in the period, int64, shape (user,).
    """

    label: str
    period: str
    group_size: int
    n_users: int
    n_groups: int
    n_events: NDArray[np.int64]
    exposures: Sequence[StrongestAttack]

    @property
    def worst(self) -> StrongestAttack:
        """The mechanism that exposes most."""
        return max(self.exposures, key=lambda exposure: exposure.mean)

    @property
    def best(self) -> StrongestAttack:
        """The mechanism that exposes least."""
        return min(self.exposures, key=lambda exposure: exposure.mean)


def read_cases(screened: xr.Dataset) -> Iterator[ScreenCase]:
    """Yield every period and group size with an AUC of any user, group sizes ascending."""
    screened = screened.sortby("group_size")
    several, counted = screened.sizes["period"] > 1, is_counted(screened)
    for period, size in product(screened.period.values, screened.group_size.values):
        chosen, counts = screened.sel(period=period, group_size=size), counted.sel(period=period)
        exposures = [
            exposure
            for mechanism in screened.mechanism.values
            if (exposure := _read(chosen.sel(mechanism=mechanism), counts.values)) is not None
        ]
        if exposures:
            parts = [str(period)] if several else []
            if several or screened.sizes["group_size"] > 1:
                parts.append(f"Groups of {int(size):,}")
            yield ScreenCase(
                " · ".join(parts),
                str(period),
                int(size),
                int(counts.sum()),
                int(np.median(chosen.n_groups.values[counts.values])),
                chosen.n_events.values,
                exposures,
            )


def shares_by_size(
    cases: Sequence[ScreenCase],
) -> Iterator[tuple[str, list[int], dict[str, list[float]]]]:
    """Yield each period that has several group sizes, these sizes, and shares of exposed users.

    These are the shares of users with an AUC above the first of :data:`AUC_LEVELS` at each size, by
    mechanism; NaN where no user could be compared.
    """
    for period in dict.fromkeys(case.period for case in cases):
        sized = {case.group_size: case for case in cases if case.period == period}
        shares = {
            (attack.mechanism, size): attack.above[0]
            for size, case in sized.items()
            for attack in case.exposures
        }
        names = dict.fromkeys(name for name, _ in shares)
        if len(sized) > 1:
            found = {name: [shares.get((name, size), np.nan) for size in sized] for name in names}
            yield period, list(sized), found


def _read(case: xr.Dataset, counts: NDArray[np.bool_]) -> StrongestAttack | None:
    auc = case.auc.transpose("user", "attack").values
    if not counts.all():
        auc = np.where(counts[:, None], auc, np.float32(np.nan))
    known = np.isfinite(auc)
    n = known.sum(axis=0)
    if not n.any():
        return None
    sums = np.where(known, auc, 0).sum(axis=0, dtype=np.float64)
    means = np.where(n > 0, sums / np.maximum(n, 1), -np.inf)
    best = int(means.argmax())
    values = auc[known[:, best], best].astype(np.float64)
    one = case.isel(attack=best)
    widths = (one.auc_high.values - one.auc_low.values)[known[:, best]]
    return StrongestAttack(
        mechanism=str(case.mechanism.item()),
        attack=name_best(case.attack.values, means),
        auc=auc[:, best],
        mean=float(values.mean()),
        high=float(np.quantile(values, 0.95)),
        above=tuple(float((values > level).mean()) for level in AUC_LEVELS),
        half=float(widths.mean(dtype=np.float64)) / 2,
        curve=np.quantile(values, np.linspace(0, 1, _CURVE)),
    )


def _doubts(run: Run, case: ScreenCase, exposure: StrongestAttack) -> list[str]:
    """Return why a small share of exposed users is not shown in large type; empty if it is.

    It is if ceilings show that no user is exposed, and the release is not nearly empty.
    """
    if exposure.above[0] >= _SMALL_SHARE:
        return []
    doubts, name = [], exposure.mechanism
    at = {"period": case.period, "group_size": case.group_size, "mechanism": name}
    certified = run.certify is not None and all(
        value in run.certify[dim].values for dim, value in at.items()
    )
    if run.certify is None or not certified:
        doubts.append("no ceiling is certified, and other attacks may recognise more")
    else:
        highest = float(run.certify["auc"].sel(at | {"neighbours": "replace"}).max(skipna=False))
        if not highest <= AUC_LEVELS[0]:
            doubts.append(f"certified is only that no AUC exceeds {at_most(highest)}")
    known = run.audit is not None and name in run.audit["mechanism"].values
    empty = find_emptiness(run.audit, name) if known and run.audit is not None else "unknown"
    if empty == "unknown":
        doubts.append("whether the release is nearly empty is unknown, because it was not audited")
    elif empty:
        doubts.append(f"the release is {empty}")
    return doubts


def _findings(screened: xr.Dataset, cases: Sequence[ScreenCase], run: Run) -> Markup:
    """Build the findings; they exist even if no user could be compared."""
    worst = max(cases, key=lambda case: case.worst.mean, default=None)
    best = min(cases, key=lambda case: case.best.mean, default=None)
    alone = sum(len(case.exposures) for case in cases) < 2
    return html.fill(
        "screen.html.j2",
        users=plural(screened.sizes["user"], "user"),
        cube=html.json_attribute(screened, "cube"),
        worst=worst,
        best=None if alone else best,
        levels=AUC_LEVELS,
        doubts=partial(_doubts, run),
        absent=html.absent_users(screened),
    )


def _spread(cases: Sequence[ScreenCase]) -> html.Section:
    """Build the distribution of AUC over all users, a curve per mechanism, and its numbers."""
    folds = [(case.label, _figure(case, i) + _spread_table(case)) for i, case in enumerate(cases)]
    return html.section("everyone", html.folded(folds))


def _figure(case: ScreenCase, index: int) -> Markup:
    names = [attack.mechanism for attack in case.exposures]
    lowest = min(float(attack.curve[0]) for attack in case.exposures)
    drawn = figures.distributions(
        {i: attack.curve for i, attack in enumerate(case.exposures)},
        names,
        start=min(0.4, floor(lowest * 10) / 10),
        axis="AUC of a user",
        among="users",
    )
    words = html.quartiles((attack.mechanism, attack.curve) for attack in case.exposures)
    return figures.legend(names) + figures.plot(
        drawn,
        slug=f"everyone-{index + 1}",
        title="AUC of all users, by mechanism",
        description=f"Cumulative distribution of AUC over users. {words}",
    )


def _spread_table(case: ScreenCase) -> Markup:
    who = "All users" if case.n_users == len(case.n_events) else "All users with an event"
    return html.table("screened", [("", case.exposures)], who=who, case=case, levels=AUC_LEVELS)


def _by_size(cases: Sequence[ScreenCase]) -> Iterator[html.Section]:
    """Build the shares of exposed users by group size, if there are several sizes."""
    folds = []
    for period, sizes, shares in shares_by_size(cases):
        columns = [Column("Mechanism", ("header", "wide"))]
        columns += [Column(f"{size:,}") for size in sizes]
        rows = [
            [html.breakable(name), *map(html.percent, values)] for name, values in shares.items()
        ]
        caption = f"Users with an AUC above {AUC_LEVELS[0]}, by group size"
        folds.append((period, html.draw_table(caption, columns, [("", rows)])))
    if folds:
        yield html.Section("sizes", "Exposure by group size", BY_SIZE, html.folded(folds))


_ROWS = 10_000  # of a table on the page
_CELLS = 600_000  # of all tables: about three megabytes


def _people(cases: Sequence[ScreenCase]) -> html.Section:
    """Build the tables of the most exposed users, one for each period and group size."""
    cells = sum(2 + len(case.exposures) for case in cases)
    n_rows = min(_ROWS, _CELLS // max(1, cells))
    folds = [
        (case.label, _people_table(case, min(n_rows, case.n_users), f"users-{i + 1}.csv"))
        for i, case in enumerate(cases)
    ]
    return html.section("people", html.folded(folds))


def _people_table(case: ScreenCase, n_rows: int, file: str) -> Markup:
    rows = _most_exposed(case, n_rows)
    columns = [
        html.LongColumn(Column("User", ("header",)), [f"row {row}" for row in rows]),
        html.LongColumn(Column("Events", ("digits 0",), "In the period"), case.n_events[rows]),
        *(
            html.LongColumn(Column(attack.mechanism, ("digits 3",)), attack.auc[rows])
            for attack in case.exposures
        ),
    ]
    if n_rows < case.n_users:
        few = f"The {n_rows:,} most exposed of {case.n_users:,} users"
    else:
        few = "All users" if n_rows == len(case.n_events) else "All users with an event"
    where = f"{case.label}: {few[0].lower()}{few[1:]}" if case.label else few
    return html.draw_long_table(f"{where}, by AUC under each mechanism", columns, file=file)


def _most_exposed(case: ScreenCase, n_rows: int) -> NDArray[np.int64]:
    """Return the rows with the highest mean AUC, descending; users with unknown AUC are last."""
    total = np.zeros(len(case.exposures[0].auc))
    for attack in case.exposures:
        total += np.where(np.isfinite(attack.auc), attack.auc, -np.inf)
    order: NDArray[np.int64] = np.argsort(-total, kind="stable")[:n_rows]
    return order


def render_sections(
    screened: xr.Dataset, run: Run | None = None
) -> tuple[Markup, list[html.Section]]:
    """Return a screen's part of the first screen of a page, and its sections.

    ``run`` has the certificates and the audit of the same releases, if any. The dataset may be lazy
    and larger than memory: it is read once, one mechanism at a time.
    """
    cases = list(read_cases(screened))
    sections = [_spread(cases), *_by_size(cases), _people(cases)]
    return _findings(screened, cases, run or Run()), sections
