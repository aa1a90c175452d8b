"""Audit task: the games of one target at one period, prior and group size.

If traces exceed a worker's memory, counts are summed over parts of the users: every part draws the
same groups and counts only its own users. Counts are integers, and weights are rounded so that sums
of them are exact, so the sum of all parts equals the counts of a worker that holds all users, bit
for bit.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Protocol, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from clusterscale.analyses.audit.settings import Precision, interim_looks
from clusterscale.contracts import (
    Attack,
    Bounds,
    Game,
    GroupRequest,
    GroupSample,
    Ints,
    Mechanism,
    Prior,
)
from clusterscale.contracts.adversary import add
from clusterscale.cube.blocks import Range, TraceSource, load_settings
from clusterscale.cube.bounds import merge_bounds
from clusterscale.game import CONFIDENCE, FALSE_POSITIVE_RATE, AttackEvaluation, Outcome
from clusterscale.groups.member_lists import Indices
from clusterscale.mechanisms import group_by_trace_steps
from clusterscale.seeds import stream
from clusterscale.study.execution import Failures, Part, R, Reduction

Key = tuple[int, str, str, int]
More = Callable[[int], GroupSample] | None
Played = tuple[Game, Bounds]  # and the largest change of its counts by one unit of data
Games = Callable[[], Iterable[Played]]  # set up anew by each call, with the same bits


@dataclass(frozen=True, slots=True)
class AuditTask:
    """The games of one target: a URI, a few numbers, and the lists of the plan.

    Attributes
    ----------
    source
        URI of the cube, and what is read of it.
    target
        Index of the target in the cube.
    period
        Id of the period.
    prior
        What the adversary knows.
    group_size
        Members of a group.
    mechanisms, attacks
        Every pair of them yields one result.
    control
        Whether negative controls are played.
    false_positive_rate
        Rate at which true positives are reported.
    precision
        When challenges are added; None for never.
    lists
        Membership lists of the plan, as indices of users; None for groups of all users.
    """

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
    lists: Indices | None = None

    @property
    def key(self) -> Key:
        """Target, id of the period, id of the prior, and group size."""
        return self.target, self.period, self.prior.id, self.group_size

    @property
    def path(self) -> tuple[str | int, ...]:
        """Path of the random streams of its games."""
        target, period, prior, size = self.key
        return period, prior, size, target

    @property
    def looks(self) -> tuple[int, ...]:
        """The numbers of challenges at interim looks, the last one included."""
        return interim_looks(self.prior.n_challenges, self.precision)

    @property
    def audit(self) -> "AuditTask":
        """The task itself."""
        return self

    def alone(self, mechanism: Mechanism) -> "AuditTask":
        """Return the task under one mechanism, without controls or added challenges."""
        return replace(self, mechanisms=(mechanism,), control=False, precision=None)

    def play(self, games: Games) -> list[Outcome]:
        """Train and challenge every attack, one game for each list of trace steps, in order.

        If an attack or a mechanism raises an error, all is played again without it, so that
        outcomes of others have the bits that they have without it.

        Raises
        ------
        PartialResultError
            If any did; with the outcomes of all cases, and the errors of those that failed.
        """
        failures, n_known = Failures(), -1
        while len(failures.errors) > n_known:
            n_known = len(failures.errors)
            outcomes = list(self._play(games(), failures))
        for (mechanism, attack), error in failures.errors.items():
            outcomes.append(Outcome(mechanism, attack, error=error))
        failures.raise_any(outcomes)
        return outcomes

    def _play(self, games: Iterable[Played], failures: Failures) -> Iterator[Outcome]:
        """Yield the outcomes of all cases that have not failed, and note those that fail now."""
        confidence = 1 - (1 - CONFIDENCE) / len(self.looks)  # Bonferroni over the looks
        played: Iterable[tuple[More, Iterable[AttackEvaluation]]]
        played = _evaluate_games(self, games, failures)
        if self.precision is not None:  # train all before challenges are added
            trained = [(more, list(evaluations)) for more, evaluations in played]
            _add_challenges(trained, self.looks, self.precision.width, confidence, failures)
            played = iter(trained)
        for _, evaluations in played:
            for evaluation in evaluations:
                with failures.note(evaluation.cases):
                    yield from evaluation.outcomes(
                        false_positive_rate=self.false_positive_rate, confidence=confidence
                    )


def set_up(
    task: AuditTask, users: Range | None = None, *, validate: bool = False
) -> Iterator[Played]:
    """Draw and count the groups for each list of trace steps; yield games and their bounds.

    Nothing is trained. With ``users``, a range of whole blocks, only these users are counted; the
    groups that are drawn do not depend on it. With ``validate`` there are groups for validation,
    even if no attack needs them.
    """
    path, seed = task.path, task.source.seed
    lists = [steps for steps, _ in group_by_trace_steps(task.mechanisms)]
    settings = load_settings(task.source, lists, users)
    for steps in lists:
        setting = settings[steps]
        game = task.prior.set_up(
            GroupRequest(
                setting.traces,
                task.target,
                frame=setting.cells.frame,
                past=setting.past,
                lists=task.lists,
                group_size=task.group_size,
                validate=validate or any(attack.validates for attack in task.attacks),
                rng=stream(seed, "groups", *path),
                control=stream(seed, "stand-ins", *path) if task.control else None,
                more=stream(seed, "more groups", *path) if len(task.looks) > 1 else None,
                mean_weight=setting.mean_weight,
            )
        )
        yield game, setting.bounds


def _evaluate_games(
    task: AuditTask, games: Iterable[Played], failures: Failures
) -> Iterator[tuple[More, Iterable[AttackEvaluation]]]:
    """Yield a function that draws more groups of each game, and an evaluation a mechanism."""
    for (game, bounds), (_, mechanisms) in zip(
        games, group_by_trace_steps(task.mechanisms), strict=True
    ):
        yield game.more, _evaluate(task, (game, bounds), mechanisms, failures)


def _evaluate(
    task: AuditTask, played: Played, mechanisms: Iterable[Mechanism], failures: Failures
) -> Iterator[AttackEvaluation]:
    """Yield the evaluation of each mechanism by the attacks that have not failed on it."""
    game, bounds = played
    for mechanism in mechanisms:
        left = {(mechanism.id, attack.id): attack for attack in task.attacks}
        left = {case: attack for case, attack in left.items() if case not in failures.errors}
        with failures.note(list(left)):
            if left:
                yield AttackEvaluation(
                    game,
                    mechanism,
                    list(left.values()),
                    seed=task.source.seed,
                    path=task.path,
                    bounds=bounds,
                    control=task.control,
                )


def _add_challenges(
    games: Sequence[tuple[More, Sequence[AttackEvaluation]]],
    looks: tuple[int, ...],
    width: float,
    confidence: float,
    failures: Failures,
) -> None:
    """Add challenges up to the next look, until all intervals are narrower than ``width``."""
    every = [evaluation for _, evaluations in games for evaluation in evaluations]
    for n_before, n_after in pairwise(looks):
        widths = [evaluation.max_interval_width(confidence) for evaluation in every]
        if max(widths, default=0.0) < width:
            return
        for more, evaluations in games:
            assert more is not None
            challenges = more(n_after - n_before)
            for evaluation in evaluations:
                with failures.note(evaluation.cases):
                    evaluation.add_challenges(challenges)


@dataclass(frozen=True, slots=True, eq=False)
class BlockCounts:
    """Counts of some users in one game.

    Attributes
    ----------
    game
        Without the challenges that may be added later.
    bounds
        Largest change of the counts by one unit of data of these users.
    spare
        All challenges that may be added later, in order; None if there are none.
    """

    game: Game
    bounds: Bounds
    spare: GroupSample | None

    def plus(self, other: "BlockCounts") -> "BlockCounts":
        """Add the counts of the users that follow these."""
        bounds, spare = merge_bounds(self.bounds, other.bounds), add(self.spare, other.spare)
        return BlockCounts(self.game.plus(other.game), bounds, spare)


CountsBySteps = tuple[BlockCounts, ...]
_R = TypeVar("_R", covariant=True)


def count_part(part: Part[AuditTask]) -> CountsBySteps:
    """Count some users in the games of a task, one game for each list of trace steps.

    Raises
    ------
    ClusterscaleError
        If the cube cannot be read, is not the planned one, or a pool is too small.
    """
    n_more = part.task.looks[-1] - part.task.looks[0]
    with threadpool_limits(limits=1):
        return tuple(
            BlockCounts(replace(game, more=None), bounds, game.more(n_more) if game.more else None)
            for game, bounds in set_up(part.task, part.users)
        )


def add_parts(one: CountsBySteps, other: CountsBySteps) -> CountsBySteps:
    """Add the counts of two ranges of users; ``other`` follows ``one``."""
    return tuple(mine.plus(theirs) for mine, theirs in zip(one, other, strict=True))


class GameTask(Protocol[_R]):
    """A task that is computed from the games of an audit's task."""

    @property
    def audit(self) -> AuditTask:
        """The task of the audit."""

    def play(self, games: Games) -> _R:
        """Return the result of the games, one for each list of trace steps."""


def play_whole(task: GameTask[R]) -> R:
    """Set up the games of a task and play them; a pure function of the task and its cube.

    The seed path of group draws does not include mechanism and attack, so these are compared on the
    same groups; a mechanism may change their traces before they are counted. Numeric libraries use
    one thread, so that sums do not depend on the machine.

    Raises
    ------
    ClusterscaleError
        If the cube cannot be read, is not the planned one, or a pool is too small.
    """
    with threadpool_limits(limits=1):
        return task.play(partial(set_up, task.audit))


def fold_play(
    task: GameTask[R], users: Sequence[Range]
) -> Reduction[GameTask[R], Part[AuditTask], CountsBySteps, R]:
    """Return :func:`play_whole` as a reduction over parts of the users."""
    parts = tuple(Part(task.audit, part) for part in users)
    return Reduction(task, parts, count_part, add_parts, _finish)


def _finish(task: GameTask[R], total: CountsBySteps) -> R:
    """Play the games on the summed counts of all users."""

    def games() -> Iterator[Played]:
        for part in total:
            yield replace(part.game, more=_serve(part.spare)), part.bounds

    with threadpool_limits(limits=1):
        return task.play(games)


def _serve(spare: GroupSample | None) -> Callable[[int], GroupSample] | None:
    """Return a function that hands out groups in the order in which they were drawn."""
    if spare is None:
        return None
    n_served = 0

    def more(n_groups: int) -> GroupSample:
        nonlocal n_served
        rows: Ints = np.arange(n_served, n_served + n_groups)
        n_served += n_groups
        return spare.take(rows)

    return more
