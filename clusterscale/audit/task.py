"""One task: one target's games at one period, prior and group size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from threadpoolctl import threadpool_limits

from clusterscale.audit.precision import Precision, looks
from clusterscale.audit.source import TraceSource, load_setting
from clusterscale.contracts import Attack, Mechanism, Prior, Sample
from clusterscale.game import CONFIDENCE, FALSE_POSITIVE_RATE, Contest, Outcome
from clusterscale.mechanisms import by_steps
from clusterscale.seeds import stream

__all__ = ["AuditTask", "Key", "run_task"]

Key = tuple[int, str, str, int]


@dataclass(frozen=True, slots=True)
class AuditTask:
    """An address and a few numbers: all that a worker needs, never an array."""

    source: TraceSource
    target: int
    period: str
    prior: Prior
    group_size: int
    mechanisms: tuple[Mechanism, ...]
    attacks: tuple[Attack, ...]
    control: bool
    false_positive_rate: float = FALSE_POSITIVE_RATE
    precision: Precision | None = None

    @property
    def key(self) -> Key:
        """What tells this task from the others of its plan."""
        return self.target, self.period, self.prior.label, self.group_size


def run_task(task: AuditTask) -> list[Outcome]:
    """Play the games of one task; a pure function of the task and the cube it names.

    Group draws leave mechanism and attack out of their seed path, so these are compared on the
    same groups, whose traces a mechanism may change before they are counted. Numeric libraries are
    held to one thread: sums then never depend on the machine.

    Raises
    ------
    ClusterscaleError
        If the cube cannot be read, is another one than was planned for, or a pool is too small.
    """
    stops = looks(task.prior.n_challenges, task.precision)
    confidence = 1 - (1 - CONFIDENCE) / len(stops)
    with threadpool_limits(limits=1):
        tables: Iterable[_Table] = _set_up(task, more=len(stops) > 1)
        if task.precision is not None:  # all are trained before any is asked more
            tables = [replace(table, contests=list(table.contests)) for table in tables]
            _ask_more(tables, stops, task.precision.width, confidence)
        return [
            outcome
            for table in tables
            for contest in table.contests
            for outcome in contest.outcomes(
                false_positive_rate=task.false_positive_rate, confidence=confidence
            )
        ]


@dataclass(frozen=True, slots=True)
class _Table:
    """The contests on one set of counted groups, and what draws more of these."""

    contests: Iterable[Contest]
    more: Callable[[int], Sample] | None


def _set_up(task: AuditTask, *, more: bool) -> Iterator[_Table]:
    """Draw and count the groups for each list of trace steps; nothing is trained yet."""
    target, period, prior, size = task.key
    path, seed = (period, prior, size, target), task.source.seed
    for steps, mechanisms in by_steps(task.mechanisms):
        setting = load_setting(task.source, steps)
        game = task.prior.set_up(
            setting.traces,
            target,
            past=setting.past,
            group_size=size,
            validate=any(attack.validates for attack in task.attacks),
            rng=stream(seed, "groups", *path),
            control=stream(seed, "stand-ins", *path) if task.control else None,
            more=stream(seed, "more groups", *path) if more else None,
        )
        contest = partial(
            Contest,
            game,
            attacks=task.attacks,
            seed=seed,
            path=path,
            bounds=setting.bounds,
            control=task.control,
        )
        contests = (contest(mechanism) for mechanism in mechanisms)
        yield _Table(contests, game.more)


def _ask_more(
    tables: list[_Table], stops: tuple[int, ...], width: float, confidence: float
) -> None:
    """Double the challenges until every AUC is known to ``width``, or there are no more stops."""
    for n_before, n_after in pairwise(stops):
        widest = max(each.widest(confidence) for table in tables for each in table.contests)
        if widest < width:
            return
        for table in tables:
            assert table.more is not None
            challenge = table.more(n_after - n_before)
            for contest in table.contests:
                contest.ask(challenge)
