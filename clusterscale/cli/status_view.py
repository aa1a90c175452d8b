"""One picture of a run that is under way, or was; every text in it is shown as it is written."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.style import Style
from rich.table import Table
from rich.text import Text

from clusterscale.runtime.status import Stage, Status

__all__ = ["draw", "duration"]

_WIDEST = 40  # columns of a bar

_AGAIN = "the same command goes on"
_REASONS = {
    "ClusterError": f"the cluster gave out; {_AGAIN}",
    "WorkerLostError": f"workers died, again and again; {_AGAIN}",
    "StalledError": f"nothing was finished for too long; {_AGAIN}",
    "StoreError": f"a store gave out; {_AGAIN}",
}


def draw(
    status: Status, silence: float, *, gone: bool = False, trouble: str = ""
) -> RenderableType:
    """Return what is known of a run.

    Parameters
    ----------
    status
        What its driver last said.
    silence
        Seconds since then.
    gone
        Whether its process has ended without saying how.
    trouble
        Why that cannot be read any more, if so.
    """
    alive = status.state == "running" and not gone and not status.is_silent(silence)
    head = Text.assemble((status.work, "bold"), "  ", _state(status, silence, gone=gone))
    parts: list[RenderableType] = [
        head,
        _stages(status, silence if alive else 0.0, running=status.state == "running" and not gone),
        _facts(status, silence, alive=alive),
    ]
    if trouble:
        parts.append(Text(trouble, "yellow"))
    return Group(*parts)


def duration(seconds: float) -> str:
    """Write a time as a person would: in its largest unit and the next."""
    for unit, size, smaller, part in _UNITS:
        if seconds >= size:
            whole, rest = divmod(round(seconds / part), size // part)
            return f"{whole:,} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{seconds:.0f} s"


_UNITS = (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1))


def _state(status: Status, silence: float, *, gone: bool) -> Text:
    if gone:
        text = "its driver was killed or crashed: its process is gone from this machine"
        return Text(f"{text}; {_AGAIN}", "bold red")
    if status.is_silent(silence):
        text = f"no sign of life for {duration(silence)}: its driver was killed, or cannot write"
        return Text(f"{text}; {_AGAIN}", "bold red")
    if status.state == "running":
        return Text("running", "green")
    if status.state == "finished" and status.n_failed:
        return Text(f"finished, {status.n_failed:,} failed: its report says why", "bold red")
    if status.state == "finished":
        return Text("finished", "bold green")
    if status.state == "interrupted":
        return Text(f"interrupted by {status.reason}; {_AGAIN}", "bold yellow")
    why = _REASONS.get(status.reason, "its terminal says why")
    return Text(f"stopped by {status.reason}: {why}", "bold red")


def _stages(status: Status, since: float, *, running: bool) -> Table:
    """Return a line for each stage; the present one goes on since its last sign."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("stage", overflow="fold", min_width=6)
    table.add_column("", max_width=_WIDEST)
    for name in ("done", "of", "failed", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    for stage in status.stages:
        present = stage.name == status.stage and running
        table.add_row(*_line(stage, present=present, since=since))
    return table


def _line(stage: Stage, *, present: bool, since: float) -> Iterator[RenderableType]:
    yield Text(stage.name, "bold" if present else "")
    # A stage that counts nothing, or what a later one does, has a time and no bar.
    if stage.n_total and (present or stage.moved or not stage.n_left):
        yield _bar(stage)
        yield Text(f"{stage.n_done:,}")
        yield Text(f"{stage.n_total:,}")
        yield Text(f"{stage.n_failed:,}", "bold red" if stage.n_failed else "dim")
    else:
        yield from (Text(""),) * 4
    yield Text(duration(stage.seconds + (since if present else 0.0)))


def _bar(stage: Stage) -> ProgressBar:
    ended = min(stage.n_total, stage.n_done + stage.n_failed)
    style = "red" if stage.n_failed else "green"
    return ProgressBar(
        stage.n_total, ended, style="dim", complete_style=style, finished_style=style
    )


def _facts(status: Status, silence: float, *, alive: bool) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _tell(status, silence, alive=alive):
        table.add_row(name, value)
    return table


def _tell(status: Status, silence: float, *, alive: bool) -> Iterator[tuple[str, Text]]:
    running = status.state == "running"
    yield "elapsed", Text(duration(status.elapsed + (silence if alive else 0.0)))
    if alive:
        yield "rate", Text(_rate(status.rate))
        yield "left", Text(_left(status, silence))
        yield "workers", Text(_workers(status))
    if status.cluster:
        yield "cluster", Text(status.cluster)
    if alive and status.dashboard:
        yield "dashboard", _link(status.dashboard)
    yield "driver", Text(status.driver + (f", heard {duration(silence)} ago" if running else ""))


def _rate(rate: float | None) -> str:
    """Write results a time, in a unit in which at least one comes."""
    if not rate:
        return "not known before something has ended"
    units = (("a second", 1), ("a minute", 60), ("an hour", 3600))
    unit, number = next(
        ((unit, rate * size) for unit, size in units if rate * size >= 1), ("an hour", rate * 3600)
    )
    return f"{number:,.3g} {unit}, of late" if number < 1000 else f"{number:,.0f} {unit}, of late"


def _left(status: Status, silence: float) -> str:
    seconds = status.seconds_left
    if seconds is None:
        return "not known yet"
    return f"about {duration(max(0.0, seconds - silence))} of this stage, at that rate"


def _workers(status: Status) -> str:
    if status.n_workers is None:
        return "not known now"
    threads = status.n_threads
    more = f", {threads:,} threads" if threads is not None and threads != status.n_workers else ""
    return f"{status.n_workers:,}{more}"


def _link(address: str) -> Text:
    known = address.startswith(("http://", "https://"))
    return Text(address, Style(link=address) if known else "")
