"""Commands ``watch``, which follows a run, and ``certificates``, for long-lived clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Annotated

import typer

from clusterscale.cli.console import out
from clusterscale.cli.options import AddressArgument
from clusterscale.errors import TEMPORARY, StoreError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from clusterscale.runtime import Status


_BETWEEN_LINES = 30.0  # seconds
_INTERRUPTED = 130  # exit code of shells for a command ended by Ctrl-C


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
        self._read, self.clock = read, clock
        self.status, self.read_error = read(), ""
        self.driver_is_gone = False
        self._began = clock()
        self._heard = self._began - max(0.0, wall() - self.status.told)
        if self.status.has_lost_driver:
            self.update()

    @property
    def silence(self) -> float:
        """Seconds since the driver's last update."""
        return self.clock() - self._heard

    @property
    def overdue(self) -> bool:
        """Whether the driver is gone, or its next update is overdue."""
        return self.driver_is_gone or self.status.is_silent(self.silence)

    def has_given_up(self, patience: float) -> bool:
        """Return whether the driver is gone, or silent for ``patience`` and some beats here."""
        if self.driver_is_gone:
            return True
        looked = self.clock() - self._began
        return self.overdue and self.silence > patience and self.status.is_silent(looked)

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
            self.status, self._heard = status, self.clock()
        else:
            self.driver_is_gone = lost

    @property
    def _last(self) -> tuple[str, float, int]:
        return self.status.driver, self.status.began, self.status.number


def watch(
    folder: AddressArgument,
    every: Annotated[float, typer.Option(min=0.1)] = 2.0,
    patience: Annotated[float, typer.Option(min=0)] = 30.0,
    once: Annotated[bool, typer.Option("--once")] = False,
) -> None:
    """Watch a running audit, screen or recovery, from any machine with access to its folder.

    Ends with the run: with 0 if all tasks succeeded, 1 if some failed, 75 if it stopped early, its
    process is gone from this machine, or there was no update for `--patience`; 2 if there is no
    run. With `--once`, 0 also while it runs, and 75 as soon as an update is overdue. Shows no
    personal data.

    Parameters
    ----------
    folder
        Folder of a run: path or URL.
    every
        Seconds between two checks.
    patience
        Seconds without an update after which to stop; 30 or more.
    once
        Check once, for scripts.
    """
    try:
        from clusterscale.runtime import read_status

        observer = Observer(lambda: read_status(folder))
        if once:
            out.print(_draw(observer))
            raise typer.Exit(TEMPORARY if observer.overdue else observer.status.exit_code or 0)
        raise typer.Exit(_follow(observer, every, patience))
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None


def certificates(folder: AddressArgument, days: Annotated[int, typer.Option(min=1)] = 365) -> None:
    """Create TLS certificates for a long-lived cluster; anyone who can read them can use it.

    Parameters
    ----------
    folder
        Where to write ca.pem, cert.pem and key.pem.
    days
        Days for which they are valid.
    """
    from clusterscale.runtime.security import make_certificates
    from clusterscale.storage import check_outputs, local_path

    check_outputs([folder])
    tls = make_certificates(local_path(folder), days=days)
    for path in (tls.ca, tls.certificate, tls.key):
        out.print(path, soft_wrap=True)


def _draw(observer: Observer) -> RenderableType:
    from clusterscale.cli.status_view import draw

    return draw(
        observer.status,
        observer.silence,
        gone=observer.driver_is_gone,
        read_error=observer.read_error,
    )


def _follow(observer: Observer, every: float, patience: float) -> int:
    """Show the status until the run has ended, or has been silent for too long.

    If the output is not a terminal, a line is printed for each stage, and every half minute.
    """
    from rich.live import Live

    from clusterscale.cli.status_view import in_a_line

    polls = _poll(observer, every, patience)
    if out.is_terminal:
        with Live(console=out, auto_refresh=False) as live:
            for _ in polls:
                live.update(_draw(observer), refresh=True)
    else:
        stage, after = "", 0.0
        for _ in polls:
            now, status = observer.clock(), observer.status
            if status.exit_code is None and (status.stage != stage or now >= after):
                out.print(in_a_line(status, observer.silence), markup=False, soft_wrap=True)
                stage, after = status.stage, now + _BETWEEN_LINES
        out.print(_draw(observer))
    return TEMPORARY if observer.status.exit_code is None else observer.status.exit_code


def _poll(
    observer: Observer, every: float, patience: float, pause: Callable[[float], None] = sleep
) -> Iterator[None]:
    while True:
        yield
        if observer.status.exit_code is not None or observer.has_given_up(patience):
            return
        pause(every)
        observer.update()
