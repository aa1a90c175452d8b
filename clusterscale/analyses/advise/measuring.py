"""Utility of candidates on sampled groups: evaluations of mechanisms, several in a task."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from clusterscale.analyses.advise.goal import Aim, Finding, score_utility
from clusterscale.analyses.advise.plan import Advice
from clusterscale.analyses.audit import plan_resources
from clusterscale.analyses.dp_audit.evaluation import (
    MechanismEvaluation,
    MechanismEvaluationTask,
    evaluate_mechanism_task,
    evaluations_in,
    fold_evaluation,
    read_evaluations,
)
from clusterscale.contracts import Floats, Mechanism, hash_of
from clusterscale.cube.blocks import Range
from clusterscale.mechanisms import group_by_trace_steps
from clusterscale.storage.records import Records
from clusterscale.study import Stage, Study, each
from clusterscale.utility import NEARLY_EMPTY

if TYPE_CHECKING:
    import xarray as xr


_TOGETHER = 8  # candidates of a task, for which groups are counted once


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Utility of a candidate.

    Attributes
    ----------
    values, errors
        Mean of each measure over groups, and its standard error, means over periods and group
        sizes, float64, shape (measure,).
    released_share
        Smallest share that a release keeps of the events, or of the counts above 0.
    n_groups
        Number of groups for each period and group size.
    guess_loss
        How far a guess without traces is from the ideal of each measure, mean over periods and
        group sizes, float64, shape (measure,); None if not known.
    """

    values: Floats
    errors: Floats
    released_share: float
    n_groups: int
    guess_loss: Floats | None = None

    @classmethod
    def of(cls, means: Floats, deviations: Floats, shares: Floats, n_groups: int) -> Measured:
        """Average over settings.

        Parameters
        ----------
        means, deviations
            Mean and standard deviation over groups, float64, shape (setting, measure).
        shares
            Share released, float64, shape (setting,).
        n_groups
            Number of groups.
        """
        errors = np.sqrt((deviations**2).mean(axis=0) / (len(means) * n_groups))
        return cls(means.mean(axis=0), errors, float(shares.min()), n_groups)

    def score(self, aims: tuple[Aim, ...]) -> float:
        """Return the score of the goal, from 0 to 1."""
        return score_utility(aims, self.values)

    def compare_with_guess(self, aims: tuple[Aim, ...]) -> tuple[str, bool]:
        """Return how far measures are from their ideals, if a guess is closer; and whether all are.

        All are named if none is a twentieth closer than the guess. Measures of what is kept or
        hidden say nothing about it.
        """
        guessed = [np.nan] * len(aims) if self.guess_loss is None else self.guess_loss
        losses = [
            (aim.measure.heading, abs(value - aim.measure.ideal), guess)
            for aim, value, guess in zip(aims, self.values, guessed, strict=True)
            if aim.measure.kind in ("", "relative")
        ]
        useless = all(loss > (1 - NEARLY_EMPTY) * guess for _, loss, guess in losses)
        named = (
            f"{name} {loss:.3g} from its ideal (a guess {guess:.3g})"
            for name, loss, guess in losses
            if useless or loss > guess
        )
        return ", ".join(named), useless

    def ends(self, aim: int) -> tuple[float, float]:
        """Return the 95 % interval of the mean of a measure over groups, by Student's t."""
        reach = float(scipy.stats.t.ppf(0.975, self.n_groups - 1) * self.errors[aim])
        return float(self.values[aim]) - reach, float(self.values[aim]) + reach


def utility_findings(measured: Measured, aims: tuple[Aim, ...]) -> Iterator[Finding]:
    """Yield whether a release is nearly empty, and whether the measures reach their bounds."""
    if not measured.released_share >= NEARLY_EMPTY:
        share = f"shows {measured.released_share:.1%} of the counts or events"
        yield Finding("fails", f"a release {share} and is of no use")
    for i, aim in enumerate(aims):
        if aim.bound is None:
            continue
        low, high = measured.ends(i)
        side = "at most" if aim.is_loss else "at least"
        text = f"{aim.measure.label} {measured.values[i]:.3f} ({low:.3f} to {high:.3f}; "
        text += f"bound {side} {aim.bound:g})"
        value, bound = float(measured.values[i]), aim.bound
        if not aim.is_loss:
            low, value, high, bound = -high, -value, -low, -bound
        yield Finding.of(low, value, high, bound, text, "groups", measured.n_groups)


def measure(
    advice: Advice, job: Study, name: str, mechanisms: Sequence[Mechanism], n_groups: int
) -> Generator[Stage[Any, Any], None, dict[str, Measured]]:
    """Yield the stage that measures mechanisms on groups, and return what it measured, by id.

    Groups are the same for all mechanisms, and those of a later round begin with those of this one.

    Parameters
    ----------
    advice
        Goal and settings of the groups.
    job
        The study; results are kept in its folder ``name``.
    name
        Name of the round.
    mechanisms
        Mechanisms to measure.
    n_groups
        Number of groups for each period and group size.
    """
    journals: dict[_Key, Records[MechanismEvaluation]] = {}
    tasks, done = list[MechanismEvaluationTask](), list[MechanismEvaluation]()
    users: tuple[Range, ...] = ()
    for chunk in _chunks(mechanisms):
        plan = advice.measuring(chunk, n_groups)
        users = plan_resources(plan, job.cube, job.memory, job.n_workers).users
        ids = [mechanism.id for mechanism in chunk]
        journal = evaluations_in(f"{job.uri}/{name}/{hash_of(ids)}")
        finished = {key: one for key, one in read_evaluations(journal).items() if not one.error}
        done += finished.values()
        left = [task for task in plan.evaluations(job.cube) if task.key not in finished]
        journals |= {_key(task): journal for task in left}
        tasks += left

    def keep(task: MechanismEvaluationTask, evaluation: MechanismEvaluation) -> None:
        journals[_key(task)].add(evaluation)
        done.append(evaluation)

    function = partial(fold_evaluation, users=users) if users else evaluate_mechanism_task
    n_done = len(done)
    total = n_done + len(tasks)
    yield Stage(name, function, tasks, each(keep), total, n_done, by_parts=bool(users))
    return {mechanism.id: _collect(mechanism.id, done, n_groups) for mechanism in mechanisms}


_Key = tuple[str, int, tuple[str, ...]]


def _key(task: MechanismEvaluationTask) -> _Key:
    return (*task.key, tuple(mechanism.id for mechanism in task.mechanisms))


def _chunks(mechanisms: Sequence[Mechanism]) -> Iterator[tuple[Mechanism, ...]]:
    for _, some in group_by_trace_steps(mechanisms):
        for first in range(0, len(some), _TOGETHER):
            yield tuple(some[first : first + _TOGETHER])


def _collect(name: str, done: Sequence[MechanismEvaluation], n_groups: int) -> Measured:
    """Return the utility of one mechanism over all periods and group sizes, in their order."""
    own = sorted((one for one in done if name in one.utility), key=lambda one: one.key)
    means, deviations = (np.array([one.utility[name][i] for one in own]) for i in (0, 1))
    shares = np.array([one.released_share[name] for one in own])
    guesses = np.mean([one.guess_loss or means[0] * np.nan for one in own], axis=0)
    return replace(Measured.of(means, deviations, shares, n_groups), guess_loss=guesses)


def read_utility(results: xr.Dataset, mechanism: str, n_groups: int) -> Measured:
    """Return the utility of a mechanism in the dataset of an audit with ``n_groups`` groups."""
    chosen = results.sel(mechanism=mechanism)
    order, n_measures = ("period", "group_size", "measure"), results.sizes["measure"]
    means, deviations = (
        chosen[name].transpose(*order).values.reshape(-1, n_measures).astype(np.float64)
        for name in ("utility", "utility_sd")
    )
    return Measured.of(means, deviations, chosen.released_share.values.ravel(), n_groups)
