"""What a cluster is doing, in words: for whoever must find out why it hangs."""

from __future__ import annotations

from typing import Any

from distributed import Client

from clusterscale.contracts import WorkerCount

__all__ = ["count_workers", "describe"]

_SECONDS = 10.0  # that a hanging cluster may take to answer
_AT_ONCE = 2.0  # seconds, for who only looks on


def describe(client: Client) -> str:
    """Return the workers, what each holds and runs, and where in the code it is.

    Nothing in it tells of a person: functions, lines, and numbers of tasks.
    """
    try:
        info = client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=_SECONDS)
    except Exception as error:
        return f"the scheduler does not answer ({type(error).__name__})"
    lines = [f"{len(info['workers'])} workers"]
    lines += [_worker(address, found) for address, found in sorted(info["workers"].items())]
    try:
        stacks = client.sync(client.scheduler.call_stack, keys=None, callback_timeout=_SECONDS)
    except Exception as error:
        return "\n".join([*lines, f"their call stacks are unknown ({type(error).__name__})"])
    for address, tasks in sorted(stacks.items()):
        for frames in tasks.values():
            lines += [f"{address} is at", *(frame.rstrip() for frame in frames)]
    return "\n".join(lines)


def count_workers(client: Client) -> WorkerCount | None:
    """Return how many workers and threads there are, None if the scheduler does not say at once."""
    try:
        info = client.sync(client.scheduler.identity, n_workers=0, callback_timeout=_AT_ONCE)
        return WorkerCount(int(info["n_workers"]), int(info["total_threads"]))
    except Exception:  # it is lost, or being closed, as whoever works with it will be told
        return None


def _worker(address: str, found: dict[str, Any]) -> str:
    metrics = found.get("metrics", {})
    memory = metrics.get("memory", 0) / 1e6
    return (
        f"{address}: {found.get('status', 'unknown')}, {metrics.get('executing', 0)} running, "
        f"{metrics.get('ready', 0)} ready, {memory:,.0f} MB"
    )
