"""What a cluster is doing, in words: for whoever must find out why it hangs."""

from __future__ import annotations

from typing import Any

from distributed import Client

__all__ = ["describe"]

_SECONDS = 10.0  # that a hanging cluster may take to answer


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


def _worker(address: str, found: dict[str, Any]) -> str:
    metrics = found.get("metrics", {})
    memory = metrics.get("memory", 0) / 1e6
    return (
        f"{address}: {found.get('status', 'unknown')}, {metrics.get('executing', 0)} running, "
        f"{metrics.get('ready', 0)} ready, {memory:,.0f} MB"
    )
