"""One task: one target's games at one period, prior and group size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from threadpoolctl import threadpool_limits

from clusterscale.contracts import Attack, Mechanism, Prior, Traces
from clusterscale.cube import TraceCube, with_null_roi
from clusterscale.errors import FormatError
from clusterscale.game import Outcome, play
from clusterscale.seeds import stream

__all__ = ["AuditTask", "Key", "load_traces", "run_task"]

Key = tuple[int, str, str, int]


@dataclass(frozen=True, slots=True)
class AuditTask:
    """An address and a few numbers: all that a worker needs, never an array."""

    uri: str
    fingerprint: str
    null_roi: bool
    target: int
    period: str
    epochs: tuple[int, int]
    prior: Prior
    group_size: int
    mechanisms: tuple[Mechanism, ...]
    attacks: tuple[Attack, ...]
    control: bool
    seed: int

    @property
    def key(self) -> Key:
        """What tells this task from the others of its plan."""
        return self.target, self.period, self.prior.label, self.group_size


def run_task(task: AuditTask) -> list[Outcome]:
    """Play the games of one task; a pure function of the task and the cube it names.

    Group draws leave mechanism and attack out of their seed path, so these are compared on the
    same groups. Numeric libraries are held to one thread: sums then never depend on the machine.

    Raises
    ------
    ClusterscaleError
        If the cube cannot be read, is another one than was planned for, or a pool is too small.
    """
    with threadpool_limits(limits=1):
        traces = load_traces(task.uri, task.fingerprint, task.epochs, task.null_roi)
        target, period, prior, size = task.key
        path = (period, prior, size, target)
        rng = stream(task.seed, "groups", *path)
        game = task.prior.set_up(traces, target, group_size=size, rng=rng)
        outcomes = play(
            game, task.mechanisms, task.attacks, seed=task.seed, path=path, control=task.control
        )
        return list(outcomes)


@lru_cache(maxsize=2)
def load_traces(uri: str, fingerprint: str, epochs: tuple[int, int], null_roi: bool) -> Traces:
    """Read the traces of a period once a process and keep the last two periods.

    Raises
    ------
    FormatError
        If the cube at ``uri`` is not the one with that fingerprint.
    """
    cube = TraceCube(uri)
    if cube.fingerprint != fingerprint:
        raise FormatError(
            f"{uri} has fingerprint {cube.fingerprint}, not {fingerprint}: "
            "it was replaced since the audit was planned"
        )
    traces = cube.traces(epochs=epochs)
    return with_null_roi(traces) if null_roi else traces
