"""Commands ``watch``, which follows a run, and ``certificates``, for long-lived clusters."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.style import Style
from rich.table import Table
from rich.text import Text

from clusterscale.cli.console import out
from clusterscale.cli.options import argument
from clusterscale.errors import TEMPORARY, StoreError
from clusterscale.runtime.status import Stage, Status

if TYPE_CHECKING:
    from rich.console import RenderableType

    from clusterscale.runtime import Status

_INTERRUPTED = 130  # exit code of shells for a command ended by Ctrl-C


_WIDEST = 40  # columns of a bar

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
    table.add_column("", max_width=_WIDEST)
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
    yield (
        "driver",
        Text(status.driver + (f", updated {duration(silence)} ago" if running else "")),
    )


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


class Observer:
    """Polls the status of a run, and measures the time since its last update.

    Clocks of two machines may differ, so the driver's clock is used only until the second update.

    Parameters
    ----------
    read
        Returns the last status of the driver.
    clock, wall
        Return the seconds of a monotonic clock, and since 1970.
    """

    def __init__(
        self,
        read: Callable[[], Status],
        *,
        clock: Callable[[], float] = monotonic,
        wall: Callable[[], float] = time,
    ) -> None:
        self._read, self._clock = read, clock
        self.status, self.read_error = read(), ""
        self.driver_is_gone = False
        self._began = clock()
        self._heard = self._began - max(0.0, wall() - self.status.told)
        if self.status.has_lost_driver:
            self.update()

    @property
    def silence(self) -> float:
        """Seconds since the driver's last update."""
        return self._clock() - self._heard

    @property
    def overdue(self) -> bool:
        """Whether the driver is gone, or its next update is overdue."""
        return self.driver_is_gone or self.status.is_silent(self.silence)

    def has_given_up(self, patience: float) -> bool:
        """Return whether the driver is gone, or silent for ``patience`` and some beats here."""
        if self.driver_is_gone:
            return True
        looked = self._clock() - self._began
        return self.overdue and self.silence > patience and self.status.is_silent(looked)

    @property
    def exit_code(self) -> int | None:
        """Exit code of the run, None while it runs."""
        return self.status.exit_code

    def update(self) -> None:
        """Read the status; a store that cannot be read counts as no update."""
        # Checked before reading: a driver that ends normally writes its final status first.
        lost = self.status.has_lost_driver
        try:
            status = self._read()
        except StoreError as error:
            self.read_error = str(error)
            return
        self.read_error = ""
        if (status.driver, status.began, status.number) != self._last:
            self.status, self._heard = status, self._clock()
        else:
            self.driver_is_gone = lost

    @property
    def _last(self) -> tuple[str, float, int]:
        return self.status.driver, self.status.began, self.status.number


def watch(
    folder: Annotated[str, argument("Folder of a run: path or URL.")],
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two checks.")] = 2.0,
    patience: Annotated[
        float,
        typer.Option(min=0, help="Seconds without an update after which to stop; 30 or more."),
    ] = 30.0,
    once: Annotated[bool, typer.Option("--once", help="Check once, for scripts.")] = False,
) -> None:
    """Watch a running audit, screen or recovery, from any machine with access to its folder.

    Ends with the run: with 0 if all tasks succeeded, 1 if some failed, 75 if it stopped early, its
    process is gone from this machine, or there was no update for `--patience`; 2 if there is no
    run. With `--once`, 0 also while it runs, and 75 as soon as an update is overdue. Shows no
    personal data.
    """
    try:
        from clusterscale.runtime import read_status

        observer = Observer(lambda: read_status(folder))
        if once:
            _print(observer)
            raise typer.Exit(TEMPORARY if observer.overdue else observer.exit_code or 0)
        raise typer.Exit(_follow(observer, every, patience))
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None


def certificates(
    folder: Annotated[Path, typer.Argument(help="Where to write ca.pem, cert.pem and key.pem.")],
    days: Annotated[int, typer.Option(min=1, help="Days for which they are valid.")] = 365,
) -> None:
    """Create TLS certificates for a long-lived cluster; anyone who can read them can use it."""
    from clusterscale.runtime.security import make_certificates

    tls = make_certificates(folder, days=days)
    for path in (tls.ca, tls.certificate, tls.key):
        out.print(path, highlight=False, soft_wrap=True)


def _print(observer: Observer) -> None:
    out.print(_draw(observer))


def _draw(observer: Observer) -> RenderableType:
    from clusterscale.cli.watch import draw

    return draw(
        observer.status,
        observer.silence,
        gone=observer.driver_is_gone,
        read_error=observer.read_error,
    )


def _follow(observer: Observer, every: float, patience: float) -> int:
    """Show the status until the run has ended, or has been silent for too long.

    If the output is not a terminal, only the last status is shown.
    """
    from rich.live import Live

    polls = _poll(observer, every, patience)
    if out.is_terminal:
        with Live(console=out, auto_refresh=False) as live:
            for _ in polls:
                live.update(_draw(observer), refresh=True)
    else:
        deque(polls, maxlen=0)
        _print(observer)
    return TEMPORARY if observer.exit_code is None else observer.exit_code


def _poll(
    observer: Observer, every: float, patience: float, pause: Callable[[float], None] = sleep
) -> Iterator[None]:
    while True:
        yield
        if observer.exit_code is not None or observer.has_given_up(patience):
            return
        pause(every)
        observer.update()
