"""Audit task: the games of one target at one period, prior and group size."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from threadpoolctl import threadpool_limits

from clusterscale.analyses.audit.settings import Precision, interim_looks
from clusterscale.contracts import Attack, Bounds, Game, GroupRequest, GroupSample, Mechanism, Prior
from clusterscale.cube.blocks import Range, TraceSource, load_settings
from clusterscale.game import CONFIDENCE, FALSE_POSITIVE_RATE, AttackEvaluation, Outcome
from clusterscale.groups.member_lists import Indices
from clusterscale.mechanisms import group_by_trace_steps
from clusterscale.seeds import stream

Key = tuple[int, str, str, int]


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


def run_task(task: AuditTask) -> list[Outcome]:
    """Play the games of one task; a pure function of the task and the cube it names.

    The seed path of group draws does not include mechanism and attack, so these are compared on the
    same groups; a mechanism may change their traces before they are counted. Numeric libraries use
    one thread, so that sums do not depend on the machine.

    Parameters
    ----------
    task
        The target, period, prior and group size, and the mechanisms and attacks.

    Returns
    -------
    list[Outcome]
        One for each mechanism and attack.

    Raises
    ------
    ClusterscaleError
        If the cube cannot be read, is not the planned one, or a pool is too small.
    """
    with threadpool_limits(limits=1):
        return play_games(task, set_up(task))


def set_up(
    task: AuditTask, users: Range | None = None, *, validate: bool = False
) -> Iterator[tuple[Game, Bounds]]:
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


def play_games(task: AuditTask, games: Iterable[tuple[Game, Bounds]]) -> list[Outcome]:
    """Train and challenge every attack, one game for each list of trace steps, in order."""
    confidence = 1 - (1 - CONFIDENCE) / len(task.looks)  # Bonferroni over the looks
    evaluated: Iterable[_GameEvaluations] = _evaluate_games(task, games)
    if task.precision is not None:  # train all before challenges are added
        evaluated = [replace(game, evaluations=list(game.evaluations)) for game in evaluated]
        _add_challenges(evaluated, task.looks, task.precision.width, confidence)
    return [
        outcome
        for game in evaluated
        for evaluation in game.evaluations
        for outcome in evaluation.outcomes(
            false_positive_rate=task.false_positive_rate, confidence=confidence
        )
    ]


@dataclass(frozen=True, slots=True)
class _GameEvaluations:
    """The evaluations on one game, one a mechanism, and a function that draws more groups."""

    evaluations: Iterable[AttackEvaluation]
    more: Callable[[int], GroupSample] | None


def _evaluate_games(
    task: AuditTask, games: Iterable[tuple[Game, Bounds]]
) -> Iterator[_GameEvaluations]:
    for (game, bounds), (_, mechanisms) in zip(
        games, group_by_trace_steps(task.mechanisms), strict=True
    ):
        evaluate = partial(
            AttackEvaluation,
            game,
            attacks=task.attacks,
            seed=task.source.seed,
            path=task.path,
            bounds=bounds,
            control=task.control,
        )
        yield _GameEvaluations((evaluate(mechanism) for mechanism in mechanisms), game.more)


def _add_challenges(
    games: list[_GameEvaluations], looks: tuple[int, ...], width: float, confidence: float
) -> None:
    """Add challenges up to the next look, until all intervals are narrower than ``width``."""
    for n_before, n_after in pairwise(looks):
        widest = max(
            evaluation.max_interval_width(confidence)
            for game in games
            for evaluation in game.evaluations
        )
        if widest < width:
            return
        for game in games:
            assert game.more is not None
            challenges = game.more(n_after - n_before)
            for evaluation in game.evaluations:
                evaluation.add_challenges(challenges)
