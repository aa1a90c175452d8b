"""One task: one target's games at one period, prior and group size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from threadpoolctl import threadpool_limits

from clusterscale.contracts import Attack, Mechanism, Prior, Traces
from clusterscale.cube import TraceCube, cut, with_null_roi
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
    spans: tuple[tuple[int, int], ...]
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
        *past, traces = load_traces(task.uri, task.fingerprint, task.spans, task.null_roi)
        target, period, prior, size = task.key
        path = (period, prior, size, target)
        game = task.prior.set_up(
            traces,
            target,
            past=past,
            group_size=size,
            validate=any(attack.validates for attack in task.attacks),
            rng=stream(task.seed, "groups", *path),
        )
        outcomes = play(
            game, task.mechanisms, task.attacks, seed=task.seed, path=path, control=task.control
        )
        return list(outcomes)


@lru_cache(maxsize=2)
def load_traces(
    uri: str, fingerprint: str, spans: tuple[tuple[int, int], ...], null_roi: bool
) -> tuple[Traces, ...]:
    """Read the traces of a period, observed windows first, once a process; keep the last two.

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
    begin = min(first for first, _ in spans)
    whole = cube.traces(epochs=(begin, max(stop for _, stop in spans)))
    found = [cut(whole, first - begin, stop - begin) for first, stop in spans]
    return tuple(with_null_roi(traces) if null_roi else traces for traces in found)
