"""One task: one target's games at one period, prior and group size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from threadpoolctl import threadpool_limits

from clusterscale.audit.source import TraceSource, load_setting
from clusterscale.contracts import Attack, Mechanism, Prior, TraceStep
from clusterscale.game import Outcome, play
from clusterscale.seeds import stream

__all__ = ["AuditTask", "Key", "by_steps", "run_task"]

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
    target, period, prior, size = task.key
    path, seed = (period, prior, size, target), task.source.seed
    outcomes: list[Outcome] = []
    with threadpool_limits(limits=1):
        for steps, mechanisms in by_steps(task.mechanisms):
            setting = load_setting(task.source, steps)
            game = task.prior.set_up(
                setting.traces,
                target,
                past=setting.past,
                group_size=size,
                validate=any(attack.validates for attack in task.attacks),
                rng=stream(seed, "groups", *path),
            )
            outcomes += play(
                game,
                mechanisms,
                task.attacks,
                seed=seed,
                path=path,
                bounds=setting.bounds,
                control=task.control,
            )
    return outcomes


def by_steps(
    mechanisms: Iterable[Mechanism],
) -> list[tuple[tuple[TraceStep, ...], list[Mechanism]]]:
    """Return the mechanisms by what they do to traces, for each list of steps is done once."""
    order: dict[tuple[TraceStep, ...], list[Mechanism]] = {}
    for mechanism in mechanisms:
        order.setdefault(mechanism.trace_steps, []).append(mechanism)
    return list(order.items())
