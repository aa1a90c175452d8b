"""An audit as a page, a notebook and the terminal present it, computed once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from clusterscale.analyses.audit.findings import Finding, find_exposures
from clusterscale.metrics import is_testable, off_cells, weak_cells
from clusterscale.phrases import BROKEN, is_tested, worst_guarantee
from clusterscale.reporting.audit.cases import Cases, Floats, SummaryRow, cases, mean, row
from clusterscale.reporting.audit.defences import Defences, read_defences

Verdict = Literal["chance", "off", "unknown"]


@dataclass(frozen=True, slots=True)
class Control:
    """Result of one negative control.

    ``verdict`` is ``chance``, ``off`` or ``unknown``; ``mean`` is the mean AUC of the control,
    ``n_cells`` the number of cells (setting, group size, attack) that could be tested, and ``off``
    lists those whose control differs from 0.5 by more than sampling explains.
    """

    verdict: Verdict
    mean: float
    n_cells: int
    off: tuple[SummaryRow, ...]


@dataclass(frozen=True, slots=True)
class Controls:
    """The controls of an audit.

    ``shuffled`` trains on shuffled labels; ``absent`` replaces the target by another user in all
    groups. ``weak`` lists the cells where the sum of all published values recognises the target
    better than chance, and the attack does no better than the sum.
    """

    shuffled: Control
    absent: Control
    weak: tuple[SummaryRow, ...]

    @property
    def verdict(self) -> Verdict:
        """``off`` if either control is off; ``unknown`` if neither could be tested."""
        verdicts = (self.shuffled.verdict, self.absent.verdict)
        return "off" if "off" in verdicts else "chance" if "chance" in verdicts else "unknown"


@dataclass(frozen=True, slots=True)
class GuaranteeStatement:
    """What a mechanism guarantees in a period; fields are the variables of the same names."""

    mechanism: str
    guarantee_unit: str
    guarantee_neighbours: str
    guarantee_reason: str
    guarantee_epsilon: float
    guarantee_delta: float
    sensitivity: float
    sensitivity_needed: float
    user_epsilon: float
    user_delta: float
    composed_epsilon: float
    composed_delta: float
    auc_ceiling: float

    @property
    def is_made(self) -> bool:
        """Whether there is a guarantee."""
        has_unit = self.guarantee_unit not in ("none", "")
        return has_unit and bool(np.isfinite(self.guarantee_epsilon))

    @property
    def lacks_noise(self) -> bool:
        """Whether noise is scaled to less than the sensitivity of one unit in this cube."""
        return self.is_made and self.sensitivity < self.sensitivity_needed * (1 - 1e-9)


@dataclass(frozen=True, slots=True)
class GuaranteeTest:
    """Result of testing the guarantee of a mechanism in a period, over all group sizes.

    ``verdict`` is the worst verdict, empty if none is known; ``group_sizes`` are those with that
    verdict, ascending. Among these, ``observed`` is the largest lower bound on ε and ``n_trials``
    the number of releases on each side.
    """

    mechanism: str
    period: str
    unit: str
    declared: float
    verdict: str
    observed: float
    n_trials: float
    group_sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """The targets, by pseudonym; arrays have shape (target,)."""

    pseudonyms: list[str]
    tertiles: NDArray[np.object_]
    n_events: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class AuditReport:
    """Everything that is reported of an audit.

    Attributes
    ----------
    results
        The dataset, for its attributes and pooled numbers.
    cases, controls
        Numbers of all cases, and whether the controls are at chance.
    findings
        The verdict on exposure of each release.
    guarantees
        What each mechanism guarantees, by period.
    tests
        The tests of these guarantees.
    float_noise, float_noise_unknown
        Mechanisms that publish unrounded noise, and those for which it is not recorded.
    defences
        Privacy gains and utility by mechanism.
    people
        The targets.
    """

    results: xr.Dataset
    cases: Cases
    controls: Controls
    findings: list[Finding]
    guarantees: dict[str, list[GuaranteeStatement]]
    tests: list[GuaranteeTest]
    float_noise: list[str]
    float_noise_unknown: list[str]
    defences: Defences
    people: People

    @classmethod
    def of(cls, results: xr.Dataset) -> Self:
        """Return the report of the results of an audit."""
        results = results.compute()
        table = cases(results)
        return cls(
            results=results,
            cases=table,
            controls=check_controls(table),
            findings=find_exposures(results),
            guarantees={
                str(period): _statements(results.isel(period=i))
                for i, period in enumerate(results["period"].values)
            },
            tests=guarantee_tests(results),
            float_noise=list_float_noise(results),
            float_noise_unknown=list_float_noise(results, ""),
            defences=read_defences(results, table),
            people=People(
                [str(name) for name in results["pseudonym"].values],
                results["tertile"].values.astype(object),
                results["n_events"].values,
            ),
        )

    @property
    def broken(self) -> list[str]:
        """The mechanisms with a broken guarantee, sorted."""
        return sorted({test.mechanism for test in self.tests if test.verdict == BROKEN})

    @property
    def n_tested(self) -> int:
        """Number of mechanisms whose guarantee was tested."""
        return len({test.mechanism for test in self.tests if is_tested(test.verdict)})


def check_controls(table: Cases) -> Controls:
    """Compare every control with chance, and every attack with the sum of published values.

    The tests are those of :func:`off_cells` over both controls together: an audit without fault is
    reported as off at most once in 100 audits.
    """
    both = off_cells(table.control, table.absent)
    shuffled, absent = (
        _control(table, values, off)
        for values, off in zip((table.control, table.absent), both, strict=True)
    )
    weak = np.argwhere(weak_cells(table.auc, table.naive)).tolist()
    return Controls(shuffled, absent, tuple(row(table, *cell) for cell in weak))


def _control(table: Cases, values: Floats, off: NDArray[np.bool_]) -> Control:
    n_cells = int(is_testable(values).sum())
    verdict: Verdict = "off" if off.any() else "chance" if n_cells else "unknown"
    rows = tuple(row(table, *cell) for cell in np.argwhere(off).tolist())
    return Control(verdict, mean(values), n_cells, rows)


def guarantee_tests(results: xr.Dataset) -> list[GuaranteeTest]:
    """Return the test result of each guarantee, mechanisms by period, in the order of results."""
    ordered = results.sortby("group_size").transpose("period", "mechanism", "group_size", ...)
    columns = (ordered[name].values for name in ("verdict", "epsilon_seen", "verdict_trials"))
    verdicts, observed, trials = columns
    tests = []
    for at in np.ndindex(verdicts.shape[:2]):
        words = [str(word) for word in verdicts[at]]
        worst = worst_guarantee(words)
        same = np.array([i for i, word in enumerate(words) if word == worst])
        highest = same[np.argmax(np.nan_to_num(observed[at][same], nan=-1.0))]
        tests.append(
            GuaranteeTest(
                mechanism=str(ordered["mechanism"].values[at[1]]),
                period=str(ordered["period"].values[at[0]]),
                unit=str(ordered["guarantee_unit"].values[at]),
                declared=float(ordered["guarantee_epsilon"].values[at]),
                verdict=worst,
                observed=float(observed[at][highest]),
                n_trials=float(trials[at][highest]),
                group_sizes=tuple(int(size) for size in ordered["group_size"].values[same]),
            )
        )
    return tests


def list_float_noise(results: xr.Dataset, word: str = "yes") -> list[str]:
    """Return the labels of mechanisms that publish unrounded noise, in the order of the results.

    With ``word`` = ``""``, return those for which older results do not record it.
    """
    labels = [str(label) for label in results["mechanism"].values]
    if "float_noise" not in results:
        return [] if word else labels
    words = results["float_noise"].transpose("mechanism", "period").values
    return [label for label, answers in zip(labels, words, strict=True) if word in answers]


def _statements(results: xr.Dataset) -> list[GuaranteeStatement]:
    """Return the guarantee of each mechanism in one period."""
    fields: Any = {name: results[name].values for name in GuaranteeStatement.__annotations__}
    types = {"str": str, "float": float}
    parse = {name: types[str(kind)] for name, kind in GuaranteeStatement.__annotations__.items()}
    return [
        GuaranteeStatement(**{name: parse[name](column[i]) for name, column in fields.items()})
        for i in range(results.sizes["mechanism"])
    ]
