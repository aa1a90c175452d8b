"""The verb that looks on while others work."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Annotated

import typer

from clusterscale.cli.console import out
from clusterscale.cli.options import argument
from clusterscale.errors import TEMPORARY, StoreError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from clusterscale.runtime import Status

__all__ = ["Observer", "watch"]

_LEFT = 130  # as a shell says of whom Ctrl-C ended


class Observer:
    """Reads again and again how far a run is, and keeps how long nothing new was heard.

    Clocks of two machines may differ, so the driver's is only trusted until it was heard twice.

    Parameters
    ----------
    read
        Returns what the driver last said.
    clock, wall
        Seconds of a clock that never goes back, and since 1970.
    """

    def __init__(
        self,
        read: Callable[[], Status],
        *,
        clock: Callable[[], float] = monotonic,
        wall: Callable[[], float] = time,
    ) -> None:
        self._read, self._clock = read, clock
        self.status, self.trouble = read(), ""
        self.driver_is_gone = False
        self._began = clock()
        self._heard = self._began - max(0.0, wall() - self.status.told)
        if self.status.has_lost_driver:
            self.look()

    @property
    def silence(self) -> float:
        """Seconds since the driver was heard."""
        return self._clock() - self._heard

    @property
    def overdue(self) -> bool:
        """Whether the driver is gone, or should have been heard by now."""
        return self.driver_is_gone or self.status.is_silent(self.silence)

    def is_in_vain(self, patience: float) -> bool:
        """Tell whether the driver is gone, or silent for that long and for a few beats of ours."""
        if self.driver_is_gone:
            return True
        looked = self._clock() - self._began
        return self.overdue and self.silence > patience and self.status.is_silent(looked)

    @property
    def exit_code(self) -> int | None:
        """What the run came to, None while it goes on."""
        return self.status.exit_code

    def look(self) -> None:
        """Read again; a store that cannot be read now is one more reason for silence."""
        # Asked before reading: a driver that ended in order has written so before it was gone.
        lost = self.status.has_lost_driver
        try:
            found = self._read()
        except StoreError as error:
            self.trouble = str(error)
            return
        self.trouble = ""
        if (found.driver, found.began, found.number) != self._last:
            self.status, self._heard = found, self._clock()
        else:
            self.driver_is_gone = lost

    @property
    def _last(self) -> tuple[str, float, int]:
        return self.status.driver, self.status.began, self.status.number


def watch(
    folder: Annotated[str, argument("Folder of a run: path or URL.")],
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 2.0,
    patience: Annotated[
        float,
        typer.Option(min=0, help="Seconds without a sign of life after which to stop; 30 or more."),
    ] = 30.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, for scripts.")] = False,
) -> None:
    """Watch an audit, a screen or a recovery that runs, from any machine that sees its folder.

    Ends when the run does: with 0 if all is well, 1 if some tasks failed, 75 if it stopped before
    its end, its process is gone from this machine, or it gave no sign of life for `--patience`; 2
    if there is none. With `--once`, 0 also while it goes on, and 75 as soon as a sign is overdue.
    Nothing about a person is shown.
    """
    try:
        from clusterscale.runtime import read_status

        observer = Observer(lambda: read_status(folder))
        if once:
            _print(observer)
            raise typer.Exit(TEMPORARY if observer.overdue else observer.exit_code or 0)
        raise typer.Exit(_follow(observer, every, patience))
    except KeyboardInterrupt:
        raise typer.Exit(_LEFT) from None


def _print(observer: Observer) -> None:
    out.print(_draw(observer))


def _draw(observer: Observer) -> RenderableType:
    from clusterscale.cli.status_view import draw

    return draw(
        observer.status,
        observer.silence,
        gone=observer.driver_is_gone,
        trouble=observer.trouble,
    )


def _follow(observer: Observer, every: float, patience: float) -> int:
    """Show what is heard until the run has ended, or nothing was heard for too long.

    Where that is no terminal, such as a file, only the end is shown.
    """
    from rich.live import Live

    looks = _looks(observer, every, patience)
    if out.is_terminal:
        with Live(console=out, auto_refresh=False) as live:
            for _ in looks:
                live.update(_draw(observer), refresh=True)
    else:
        deque(looks, maxlen=0)
        _print(observer)
    return TEMPORARY if observer.exit_code is None else observer.exit_code


def _looks(
    observer: Observer, every: float, patience: float, pause: Callable[[float], None] = sleep
) -> Iterator[None]:
    while True:
        yield
        if observer.exit_code is not None or observer.is_in_vain(patience):
            return
        pause(every)
        observer.look()
