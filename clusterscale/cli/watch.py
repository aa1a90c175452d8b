"""Commands ``watch``, which follows a run, and ``certificates``, for long-lived clusters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clusterscale.cli.console import out
from clusterscale.cli.options import AddressArgument
from clusterscale.errors import TEMPORARY, StoreError

if TYPE_CHECKING:
    from clusterscale.runtime import Status


_BETWEEN_LINES = 30.0  # seconds
_INTERRUPTED = 130  # exit code of shells for a command ended by Ctrl-C

_AGAIN = "run the same command again to resume it"
_REASONS = {
    "ClusterError": f"the cluster failed; {_AGAIN}",
    "WorkerLostError": f"workers died repeatedly; {_AGAIN}",
    "StalledError": f"nothing was finished for too long; {_AGAIN}",
    "StoreError": f"a store failed; {_AGAIN}",
}


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
        if status != self.status:
            self.status, self._heard = status, self.clock()
        else:
            self.driver_is_gone = lost


def watch(
    folder: AddressArgument,
    patience: Annotated[float, typer.Option(min=0)] = 30.0,
    once: Annotated[bool, typer.Option("--once")] = False,
    log: Literal["text", "json"] = "text",
) -> None:
    """Watch a running analysis, from any machine with access to its folder.

    Prints a line for each stage, every half minute, and at the end: tasks done and failed, workers
    and those lost, batches sent again, merges of files that the run waits for, peak memory of the
    driver and of a worker. Shows no personal data.

    Ends with the run: with 0 if all tasks succeeded, 1 if some failed, 75 if it stopped early, its
    process is gone from this machine, or there was no update for `--patience`; 2 if there is no
    run. With `--once`, 0 also while it runs, and 75 as soon as an update is overdue.

    Parameters
    ----------
    folder
        Folder of a run: path or URL.
    patience
        Seconds without an update after which to stop; 30 or more.
    once
        Print one line, for scripts.
    log
        Lines of text, or of JSON: memory in bytes, times in seconds since 1970.
    """
    try:
        from clusterscale.runtime import read_status

        observer = Observer(lambda: read_status(folder))
        if once:
            _print(observer, log)
            raise typer.Exit(TEMPORARY if observer.overdue else observer.status.exit_code or 0)
        raise typer.Exit(_follow(observer, patience, log))
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


def _follow(observer: Observer, patience: float, log: str) -> int:
    """Print lines until the run has ended, or has been silent for too long; return the exit code.

    A line is printed for each stage, and every half minute.
    """
    stage, after = "", 0.0
    for _ in _poll(observer, patience):
        now, status = observer.clock(), observer.status
        over = status.exit_code is not None or observer.driver_is_gone
        if not over and (status.stage != stage or now >= after):
            _print(observer, log)
            stage, after = status.stage, now + _BETWEEN_LINES
    _print(observer, log)
    return TEMPORARY if observer.status.exit_code is None else observer.status.exit_code


def _poll(
    observer: Observer, patience: float, pause: Callable[[float], None] = sleep
) -> Iterator[None]:
    while True:
        yield
        if observer.status.exit_code is not None or observer.has_given_up(patience):
            return
        pause(2.0)  # seconds between two reads, as between two writes of a driver
        observer.update()


def _print(observer: Observer, log: str) -> None:
    line = _as_json(observer) if log == "json" else _as_text(observer)
    out.print(line, markup=False, emoji=False, soft_wrap=True)


def _as_json(observer: Observer) -> str:
    seen = {"silence": round(observer.silence, 1), "overdue": observer.overdue}
    return json.dumps(observer.status.model_dump() | seen | {"read_error": observer.read_error})


def _as_text(observer: Observer) -> str:
    """Return the status in a line, which begins with the time of the driver's clock."""
    told = datetime.fromtimestamp(observer.status.told, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    parts = [f"{told} {observer.status.work} {_state(observer)}", *_facts(observer.status)]
    return "; ".join(filter(None, [*parts, observer.read_error]))


def _state(observer: Observer) -> str:
    status = observer.status
    if observer.driver_is_gone:
        text = "its driver was killed or crashed: its process is gone from this machine"
        return f"{text}; {_AGAIN}"
    if observer.overdue:
        driver = f" ({status.process.host}, process {status.process.pid})" if status.process else ""
        text = f"no status update for {_duration(observer.silence)}: its driver{driver} was killed"
        return f"{text}, or cannot write; {_AGAIN}"
    if status.state == "running":
        return "running"
    if status.state == "finished":
        n_failed = status.n_failed
        return f"finished, {n_failed:,} failed: see its report" if n_failed else "finished"
    if status.state == "interrupted":
        return f"interrupted by {status.reason}; {_AGAIN}"
    return f"stopped by {status.reason}: {_REASONS.get(status.reason, 'see its terminal')}"


def _facts(status: Status) -> Iterator[str]:
    """Yield how far a run is, what was lost on the way, and the memory it has used."""
    from clusterscale.study import describe_bytes

    n_tasks = f" {status.n_done:,} of {status.n_tasks:,}" if status.n_tasks else ""
    yield f"{status.stage}{n_tasks}, {status.n_failed:,} failed"
    yield f"elapsed {_duration(status.told - status.began)}"
    if (left := status.seconds_left) is not None:
        yield f"about {_duration(left)} left of this stage"
    if status.n_workers is not None:
        yield f"workers {status.n_workers:,}"
    counts = (status.n_lost_workers, status.n_retries, status.n_merging)
    for name, n in zip(("workers lost", "retries", "merges waiting"), counts, strict=True):
        if n:
            yield f"{name} {n:,}"
    memory = (("driver", status.driver_memory), ("worker", status.worker_memory))
    used = [f"{who} {describe_bytes(n)}" for who, n in memory if n is not None]
    yield f"peak memory {', '.join(used)}" if used else ""


def _duration(seconds: float) -> timedelta:
    # A clock may be set back, and a file of anybody may have any number.
    return timedelta(seconds=round(min(max(0.0, seconds), 1e11)))
