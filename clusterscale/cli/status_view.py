"""Render the status of a run for a terminal; texts of the status are never markup."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.style import Style
from rich.table import Table
from rich.text import Text

from clusterscale.runtime.status import Stage, Status

_AGAIN = "run the same command again to resume it"
_REASONS = {
    "ClusterError": f"the cluster failed; {_AGAIN}",
    "WorkerLostError": f"workers died repeatedly; {_AGAIN}",
    "StalledError": f"nothing was finished for too long; {_AGAIN}",
    "StoreError": f"a store failed; {_AGAIN}",
}


def draw(
    status: Status, silence: float, *, gone: bool = False, read_error: str = ""
) -> RenderableType:
    """Return the view of a run.

    Parameters
    ----------
    status
        Last status that the driver wrote.
    silence
        Seconds since then.
    gone
        Whether the driver's process ended without a final status.
    read_error
        Why the status cannot be read any more, if so.
    """
    alive = status.state == "running" and not gone and not status.is_silent(silence)
    head = Text.assemble((status.work, "bold"), "  ", _state(status, silence, gone=gone))
    parts: list[RenderableType] = [
        head,
        _stages(status, silence if alive else 0.0, running=status.state == "running" and not gone),
        _facts(status, silence, alive=alive),
    ]
    if read_error:
        parts.append(Text(read_error, "yellow"))
    return Group(*parts)


def in_a_line(status: Status, silence: float) -> str:
    """Return how far a run is, for a log."""
    present = next((stage for stage in status.stages if stage.name == status.stage), None)
    done = ""
    if present is not None and present.n_total:
        done = f" {present.n_done:,} of {present.n_total:,}, {present.n_failed:,} failed"
    state, left = _state(status, silence, gone=False), _left(status, silence)
    return f"{status.work} {state}: {status.stage}{done}; left: {left}"


def duration(seconds: float) -> str:
    """Format a duration in its largest unit and the next smaller one."""
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
        text = f"no status update for {duration(silence)}: its driver was killed, or cannot write"
        return Text(f"{text}; {_AGAIN}", "bold red")
    if status.state == "running":
        return Text("running", "green")
    if status.state == "finished" and status.n_failed:
        return Text(f"finished, {status.n_failed:,} failed: see its report", "bold red")
    if status.state == "finished":
        return Text("finished", "bold green")
    if status.state == "interrupted":
        return Text(f"interrupted by {status.reason}; {_AGAIN}", "bold yellow")
    why = _REASONS.get(status.reason, "see its terminal")
    return Text(f"stopped by {status.reason}: {why}", "bold red")


def _stages(status: Status, since: float, *, running: bool) -> Table:
    """Return a row for each stage; the current one includes the seconds ``since`` the status."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("stage", overflow="fold", min_width=6)
    table.add_column("", max_width=40)  # columns of a bar
    for name in ("done", "of", "failed", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    for stage in status.stages:
        present = stage.name == status.stage and running
        table.add_row(*_line(stage, present=present, since=since))
    return table


def _line(stage: Stage, *, present: bool, since: float) -> Iterator[RenderableType]:
    yield Text(stage.name, "bold" if present else "")
    # A stage that counts nothing, or the same as a later stage, has a time and no bar.
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
    for name, value in _rows(status, silence, alive=alive):
        table.add_row(name, value)
    return table


def _rows(status: Status, silence: float, *, alive: bool) -> Iterator[tuple[str, Text]]:
    yield "elapsed", Text(duration(status.elapsed + (silence if alive else 0.0)))
    if alive:
        yield "rate", Text(_rate(status.rate))
        yield "left", Text(_left(status, silence))
        yield "workers", Text(_workers(status))
    if status.cluster:
        yield "cluster", Text(status.cluster)
    if alive and status.dashboard:
        yield "dashboard", _link(status.dashboard)
    updated = f", updated {duration(silence)} ago" if status.state == "running" else ""
    yield "driver", Text(status.driver + updated)


def _rate(rate: float | None) -> str:
    """Format a rate in the smallest unit of time with at least one result."""
    if not rate:
        return "not known before the first result"
    units = (("second", 1), ("minute", 60), ("hour", 3600))
    unit, number = next(
        ((unit, rate * size) for unit, size in units if rate * size >= 1), ("hour", rate * 3600)
    )
    return f"{number:,.3g} per {unit}" if number < 1000 else f"{number:,.0f} per {unit}"


def _left(status: Status, silence: float) -> str:
    seconds = status.seconds_left
    if seconds is None:
        return "not known yet"
    return f"about {duration(max(0.0, seconds - silence))} of this stage, at that rate"


def _workers(status: Status) -> str:
    if status.n_workers is None:
        return "not known"
    threads = status.n_threads
    more = f", {threads:,} threads" if threads is not None and threads != status.n_workers else ""
    return f"{status.n_workers:,}{more}"


def _link(address: str) -> Text:
    is_url = address.startswith(("http://", "https://"))
    return Text(address, Style(link=address) if is_url else "")
