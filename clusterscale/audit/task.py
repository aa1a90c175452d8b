"""One task: one target's games at one period, prior and group size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from threadpoolctl import threadpool_limits

from clusterscale.audit.precision import Precision, interim_looks
from clusterscale.audit.source import TraceSource, load_settings
from clusterscale.contracts import Attack, Bounds, Game, GroupRequest, GroupSample, Mechanism, Prior
from clusterscale.cube.blocks import Range
from clusterscale.game import CONFIDENCE, FALSE_POSITIVE_RATE, AttackEvaluation, Outcome
from clusterscale.mechanisms import group_by_trace_steps
from clusterscale.seeds import stream

__all__ = ["AuditTask", "Key", "play_games", "run_task", "set_up"]

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
        """Target, id of the period, id of the prior, and group size."""
        return self.target, self.period, self.prior.id, self.group_size

    @property
    def stops(self) -> tuple[int, ...]:
        """The numbers of challenges at which the target is looked at."""
        return interim_looks(self.prior.n_challenges, self.precision)


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
    with threadpool_limits(limits=1):
        return play_games(task, set_up(task))


def set_up(task: AuditTask, users: Range | None = None) -> Iterator[tuple[Game, Bounds]]:
    """Draw and count the groups for each list of trace steps, with the bounds that hold then.

    Nothing is trained. Of some ``users``, whole blocks of them, all that is counted is what these
    count for; who is drawn never hangs on it.
    """
    target, period, prior, size = task.key
    path, seed = (period, prior, size, target), task.source.seed
    lists = [steps for steps, _ in group_by_trace_steps(task.mechanisms)]
    settings = load_settings(task.source, lists, users)
    for steps in lists:
        setting = settings[steps]
        game = task.prior.set_up(
            GroupRequest(
                setting.traces,
                target,
                frame=setting.cells.frame,
                past=setting.past,
                group_size=size,
                validate=any(attack.validates for attack in task.attacks),
                rng=stream(seed, "groups", *path),
                control=stream(seed, "stand-ins", *path) if task.control else None,
                more=stream(seed, "more groups", *path) if len(task.stops) > 1 else None,
            )
        )
        yield game, setting.bounds


def play_games(task: AuditTask, games: Iterable[tuple[Game, Bounds]]) -> list[Outcome]:
    """Train and ask every attack, one game for each list of trace steps, in order."""
    confidence = 1 - (1 - CONFIDENCE) / len(task.stops)
    tables: Iterable[_GroupEvaluations] = _lay(task, games)
    if task.precision is not None:  # all are trained before any is asked more
        tables = [replace(table, contests=list(table.contests)) for table in tables]
        _ask_more(tables, task.stops, task.precision.width, confidence)
    return [
        outcome
        for table in tables
        for contest in table.contests
        for outcome in contest.outcomes(
            false_positive_rate=task.false_positive_rate, confidence=confidence
        )
    ]


@dataclass(frozen=True, slots=True)
class _GroupEvaluations:
    """The contests on one set of counted groups, and what draws more of these."""

    contests: Iterable[AttackEvaluation]
    more: Callable[[int], GroupSample] | None


def _lay(task: AuditTask, games: Iterable[tuple[Game, Bounds]]) -> Iterator[_GroupEvaluations]:
    target, period, prior, size = task.key
    for (game, bounds), (_, mechanisms) in zip(
        games, group_by_trace_steps(task.mechanisms), strict=True
    ):
        contest = partial(
            AttackEvaluation,
            game,
            attacks=task.attacks,
            seed=task.source.seed,
            path=(period, prior, size, target),
            bounds=bounds,
            control=task.control,
        )
        yield _GroupEvaluations((contest(mechanism) for mechanism in mechanisms), game.more)


def _ask_more(
    tables: list[_GroupEvaluations], stops: tuple[int, ...], width: float, confidence: float
) -> None:
    """Double the challenges until every AUC is known to ``width``, or there are no more stops."""
    for n_before, n_after in pairwise(stops):
        widest = max(
            each.max_interval_width(confidence) for table in tables for each in table.contests
        )
        if widest < width:
            return
        for table in tables:
            assert table.more is not None
            challenge = table.more(n_after - n_before)
            for contest in table.contests:
                contest.ask(challenge)
