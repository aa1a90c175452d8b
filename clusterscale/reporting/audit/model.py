"""An audit as a page, a notebook and the terminal present it, computed once."""

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Literal, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from clusterscale.contracts import Mechanism
from clusterscale.errors import ClusterscaleError
from clusterscale.mechanisms import MECHANISMS
from clusterscale.metrics import is_testable, off_cells, weak_cells
from clusterscale.phrases import BROKEN, is_tested, worst_guarantee
from clusterscale.reporting.audit import cases as case_tables
from clusterscale.reporting.findings import Finding, find_exposures, find_promises, worst_findings
from clusterscale.reporting.section import absent_users, json_attribute
from clusterscale.schema import find_mechanism

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
    off: tuple[case_tables.SummaryRow, ...]


@dataclass(frozen=True, slots=True)
class Controls:
    """The controls of an audit.

    ``shuffled`` trains on shuffled labels; ``absent`` replaces the target by another user in all
    groups. ``weak`` lists the cells where the sum of all published values recognises the target
    better than chance, and the attack does no better than the sum.
    """

    shuffled: Control
    absent: Control
    weak: tuple[case_tables.SummaryRow, ...]

    @property
    def verdict(self) -> Verdict:
        """``off`` if either control is off; ``unknown`` if neither could be tested."""
        verdicts = (self.shuffled.verdict, self.absent.verdict)
        return "off" if "off" in verdicts else "chance" if "chance" in verdicts else "unknown"


_STATED = ["mechanism", "guarantee_unit", "guarantee_neighbours", "guarantee_reason"]
_STATED += ["guarantee_epsilon", "guarantee_delta", "sensitivity", "sensitivity_needed"]
_STATED += ["user_epsilon", "user_delta", "composed_epsilon", "composed_delta", "auc_ceiling"]


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


@dataclass(frozen=True, eq=False)
class AuditReport:
    """Everything that page, terminal and notebook show of an audit, each part computed once.

    ``results`` is the dataset, in memory.
    """

    results: xr.Dataset

    @classmethod
    def of(cls, results: xr.Dataset) -> Self:
        """Return the report of the results of an audit, which are loaded."""
        return cls(results.compute())

    @cached_property
    def cases(self) -> case_tables.Cases:
        """Numbers of all cases."""
        return case_tables.cases(self.results)

    @cached_property
    def lines(self) -> list[case_tables.SummaryRow]:
        """A row for each setting, group size and attack, whether run or not."""
        cells = np.ndindex(self.cases.auc.shape[:-1])
        return [case_tables.row(self.cases, *cell) for cell in cells]

    @cached_property
    def controls(self) -> Controls:
        """Every control compared with chance, and every attack with the sum of published values.

        The tests are those of :func:`off_cells` over both controls together: an audit without fault
        is reported as off at most once in 100 audits.
        """
        table = self.cases
        both = off_cells(table.control, table.absent)
        shuffled, absent = (
            _control(table, values, off)
            for values, off in zip((table.control, table.absent), both, strict=True)
        )
        weak = np.argwhere(weak_cells(table.auc, table.naive)).tolist()
        return Controls(shuffled, absent, tuple(case_tables.row(table, *cell) for cell in weak))

    @cached_property
    def findings(self) -> list[Finding]:
        """The verdict on exposure of each release."""
        return find_exposures(self.results)

    @cached_property
    def worst(self) -> dict[str, Finding]:
        """The worst finding of each mechanism."""
        return worst_findings(self.findings)

    def worst_person(self, mechanism: str) -> dict[str, Any]:
        """Return the pseudonym, AUC and period of the person whom a mechanism exposes most.

        An adversary with raw counts can apply every mechanism to them.
        """
        every, settings = mechanism == self.defences.raw_counts, self.cases.settings
        at = [i for i, one in enumerate(settings) if every or one.mechanism == mechanism]
        auc = np.nan_to_num(self.cases.auc[at], nan=-1.0)
        worst, *_, target = np.unravel_index(int(auc.argmax()), auc.shape)
        name, period = self.results["pseudonym"].values[target], settings[at[int(worst)]].period
        return {"pseudonym": str(name), "auc": float(auc.max()), "period": period}

    @cached_property
    def guarantees(self) -> dict[str, list[Any]]:
        """What each mechanism guarantees, by period.

        Fields are variables of the same names, ``made``, whether there is a guarantee, and
        ``lacks_noise``, whether noise is scaled to less than the sensitivity of one unit in this
        cube.
        """
        return {
            str(period): _statements(self.results.isel(period=i))
            for i, period in enumerate(self.results["period"].values)
        }

    @cached_property
    def tests(self) -> list[GuaranteeTest]:
        """The test result of each guarantee, mechanisms by period, in the order of results."""
        dims = ("period", "mechanism", "group_size", ...)
        ordered = self.results.sortby("group_size").transpose(*dims)
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

    @cached_property
    def float_noise(self) -> list[str]:
        """Mechanisms that publish unrounded noise."""
        return list_float_noise(self.results)

    @cached_property
    def mechanisms(self) -> dict[str, Mechanism]:
        """The mechanisms by name, without those of packages that are not installed."""
        plan: Any = json_attribute(self.results, "plan")
        found = dict[str, Mechanism]()
        for settings in plan.get("mechanisms", ()):
            with suppress(ClusterscaleError, TypeError):
                made = MECHANISMS.create(**settings)
                found[find_mechanism(self.results, made.id) or made.label] = made
        return found

    @cached_property
    def refused(self) -> dict[str, list[str]]:
        """Mechanisms that ``publish`` refuses, by the reason."""
        from clusterscale.analyses.publish.plan import find_faults

        null_roi = bool(json_attribute(self.results, "plan").get("null_roi"))
        refused = dict[str, list[str]]()
        for name, made in self.mechanisms.items():
            for fault in find_faults(made, null_roi=null_roi):
                reason = fault.partition(": ")[2].rpartition(" is not published: ")[2]
                refused.setdefault(reason, []).append(name)
        return refused

    @cached_property
    def defences(self) -> case_tables.Defences:
        """Privacy gains and utility by mechanism."""
        return case_tables.read_defences(self.results, self.cases)

    @cached_property
    def gains(self) -> dict[tuple[str, str, int, str], float]:
        """The known mean privacy gains, by period, prior, group size and mechanism."""
        own = self.defences
        every = product(own.cases(), range(len(own.priors)), range(len(own.mechanisms)))
        return {
            own.names(*at): case_tables.mean(found)
            for at in every
            if (found := own.gains(*at)).size
        }

    @cached_property
    def empty(self) -> list[str]:
        """Mechanisms whose releases are nearly empty in any case."""
        return [name for name in self.defences.mechanisms if self.defences.emptiest(name)]

    @cached_property
    def absent(self) -> list[str]:
        """A sentence for each period in which some users have no event."""
        return absent_users(self.results)

    @property
    def broken(self) -> list[str]:
        """The mechanisms with a broken guarantee, sorted."""
        return sorted({test.mechanism for test in self.tests if test.verdict == BROKEN})

    @property
    def n_tested(self) -> int:
        """Number of mechanisms whose guarantee was tested."""
        return len({test.mechanism for test in self.tests if is_tested(test.verdict)})

    @property
    def tested(self) -> dict[str, str]:
        """The worst verdict on the guarantee of each mechanism that was tested, over periods."""
        worst: dict[str, str] = {}
        for test in self.tests:
            if np.isfinite(test.observed):
                before = worst.get(test.mechanism, test.verdict)
                worst[test.mechanism] = worst_guarantee([before, test.verdict])
        mechanisms = map(str, self.results["mechanism"].values)
        return {name: worst[name] for name in mechanisms if name in worst}


def _control(
    table: case_tables.Cases, values: case_tables.Floats, off: NDArray[np.bool_]
) -> Control:
    n_cells = int(is_testable(values).sum())
    verdict: Verdict = "off" if off.any() else "chance" if n_cells else "unknown"
    rows = tuple(case_tables.row(table, *cell) for cell in np.argwhere(off).tolist())
    return Control(verdict, case_tables.mean(values), n_cells, rows)


def list_float_noise(results: xr.Dataset, word: str = "yes") -> list[str]:
    """Return the labels of mechanisms that publish unrounded noise, in the order of the results.

    With ``word`` = ``""``, return those for which older results do not record it.
    """
    labels = [str(label) for label in results["mechanism"].values]
    if "float_noise" not in results:
        return [] if word else labels
    words = results["float_noise"].transpose("mechanism", "period").values
    return [label for label, answers in zip(labels, words, strict=True) if word in answers]


def _statements(results: xr.Dataset) -> list[Any]:
    """Return the guarantee of each mechanism in one period."""
    rows = results[_STATED].reset_coords(drop=True).to_dataframe().reset_index()[_STATED]
    rows["made"], rows["lacks_noise"] = find_promises(rows)
    return list(rows.itertuples(index=False))
