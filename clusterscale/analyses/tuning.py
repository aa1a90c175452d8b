"""Tuning of attacks by cross-validation on the adversary's own groups, never on challenges."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clusterscale.analyses.audit.plan import AuditPlan
from clusterscale.analyses.audit.targets import Chosen
from clusterscale.analyses.audit.task import AuditTask, set_up
from clusterscale.attacks.learned import LearnedAttack
from clusterscale.contracts import Examples, Mechanism
from clusterscale.cube import TraceCube
from clusterscale.errors import ConfigError
from clusterscale.game import study


@dataclass(frozen=True, slots=True)
class TuningCase:
    """One target's game under one mechanism, as an audit sets it up."""

    task: AuditTask
    mechanism: Mechanism

    @property
    def path(self) -> tuple[str | int, ...]:
        """Path that identifies this case within its plan."""
        return *self.task.path, self.mechanism.id

    def form(self) -> tuple[Examples, Examples | None]:
        """Return the adversary's training groups, and new groups of its own for validation.

        The training groups are exactly those of the audit, except for the events that are omitted
        if the target's trace is known in part; for an adversary that retrains for each release,
        those of the first. The second is None if the prior has no groups for attacks that choose
        a threshold.
        """
        task = self.task.alone(self.mechanism)
        ((game, bounds),) = set_up(task, validate=True)
        seed, path = task.source.seed, task.path
        knowledge = study(game, self.mechanism, seed=seed, path=path, bounds=bounds)
        return knowledge.training, knowledge.validation


@dataclass(frozen=True, slots=True)
class TuningResult:
    """Result of cross-validation for one attack of a plan.

    ``auc`` and ``given_auc`` are means over all cases and folds, of the variant that was chosen
    and of the attack as given; ``spread`` is the standard error over targets of the difference, NaN
    for a single target.
    """

    given: LearnedAttack
    chosen: LearnedAttack
    auc: float
    given_auc: float
    spread: float


def tunable(plan: AuditPlan) -> tuple[LearnedAttack, ...]:
    """Return the attacks of a plan whose hyperparameters can be tuned.

    Raises
    ------
    ConfigError
        If there are none.
    """
    attacks = tuple(one for one in plan.attacks if isinstance(one, LearnedAttack) and one.grid)
    if not attacks:
        names = ", ".join(
            cls.model_fields["name"].default for cls in LearnedAttack.__subclasses__() if cls.grid
        )
        raise ConfigError(f"attacks: none of them can be tuned; these can be: {names}")
    return attacks


def list_cases(
    plan: AuditPlan, cube: TraceCube, chosen: Chosen, n_targets: int
) -> Iterator[TuningCase]:
    """Yield a case for each of the first targets, period, prior, group size and mechanism."""
    attacked = None if chosen.attacked is None else chosen.attacked[:, :n_targets]
    first = Chosen(chosen.users[:n_targets], chosen.tertiles[:n_targets], attacked)
    for task in plan.tasks(cube, first):
        for mechanism in plan.mechanisms:
            yield TuningCase(task, mechanism)


def choose(
    variants: tuple[LearnedAttack, ...], scores: NDArray[np.float64], targets: NDArray[np.int64]
) -> TuningResult:
    """Return the variant of highest mean AUC, the first of equals.

    Parameters
    ----------
    variants
        Variants of one attack; the first is the attack as given.
    scores
        float64, shape (case, variant, fold): AUC.
    targets
        int64, shape (case,): target of each case.
    """
    means = scores.mean(axis=(0, 2))
    best = int(np.argmax(means))
    gains = (scores[:, best] - scores[:, 0]).mean(axis=1)
    by_target = np.array([gains[targets == target].mean() for target in np.unique(targets)])
    n_targets = len(by_target)
    spread = by_target.std(ddof=1) / np.sqrt(n_targets) if n_targets > 1 else np.nan
    return TuningResult(
        variants[0], variants[best], float(means[best]), float(means[0]), float(spread)
    )
