"""Describe the state of a cluster, to diagnose why it hangs."""

from __future__ import annotations

from typing import Any

from distributed import Client

from clusterscale.study.execution import WorkerCount

__all__ = ["count_workers", "describe"]

_SECONDS = 10.0  # timeout of a diagnosis
_AT_ONCE = 2.0  # timeout of a status query, in seconds


def describe(client: Client) -> str:
    """Return the workers with their memory, number of tasks and call stacks.

    The text contains no personal data: only functions, lines and numbers of tasks.
    """
    try:
        info = client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=_SECONDS)
    except Exception as error:
        return f"the scheduler does not answer ({type(error).__name__})"
    lines = [f"{len(info['workers'])} workers"]
    lines += [_worker(address, worker) for address, worker in sorted(info["workers"].items())]
    try:
        stacks = client.sync(client.scheduler.call_stack, keys=None, callback_timeout=_SECONDS)
    except Exception as error:
        return "\n".join([*lines, f"their call stacks are unknown ({type(error).__name__})"])
    for address, tasks in sorted(stacks.items()):
        for frames in tasks.values():
            lines += [f"{address} is at", *(frame.rstrip() for frame in frames)]
    return "\n".join(lines)


def count_workers(client: Client) -> WorkerCount | None:
    """Return the numbers of workers and threads, None if the scheduler does not answer in time."""
    try:
        info = client.sync(client.scheduler.identity, n_workers=0, callback_timeout=_AT_ONCE)
        return WorkerCount(int(info["n_workers"]), int(info["total_threads"]))
    except Exception:  # it is lost or being closed, which its user notices anyway
        return None


def _worker(address: str, info: dict[str, Any]) -> str:
    metrics = info.get("metrics", {})
    memory = metrics.get("memory", 0) / 1e6
    return (
        f"{address}: {info.get('status', 'unknown')}, {metrics.get('executing', 0)} running, "
        f"{metrics.get('ready', 0)} ready, {memory:,.0f} MB"
    )
