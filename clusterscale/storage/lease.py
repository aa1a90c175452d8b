"""Lease on a folder for one process at a time; another takes over if the holder dies."""

import os
import platform
import re
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Self

from pydantic import BaseModel, ValidationError

from clusterscale import storage
from clusterscale.errors import ClusterscaleError, DamagedError, StoreError
from clusterscale.storage.process import find_machine, has_ended

BEAT = 5.0
"""Seconds between two heartbeats."""

PATIENCE = 30.0
"""Seconds without a heartbeat after which the holder is presumed dead."""

_NAME = re.compile(r"(\d{8,})\.json")


class _Holder(BaseModel, strict=True):
    """What the file of a holder says: ``boot`` is the machine of the process."""

    id: str
    host: str
    boot: str
    process: int
    beat: int
    ended: bool
    since: str = ""


class LostLeaseError(StoreError):
    """Another process took over, because this one sent no heartbeat for too long."""


class LeaseHeldError(Exception):
    """Another live process has the lease.

    Parameters
    ----------
    holder
        The process, as a person can find it.
    since
        When it took the lease, UTC; empty if not known.
    """

    def __init__(self, holder: str, since: str = "") -> None:
        super().__init__(holder)
        self.holder, self.since = holder, since


class Lease:
    """A lease on a folder, as a context; raises :class:`LeaseHeldError` if another process has it.

    Holders are numbered. The process that creates the file of the next number is the holder; the
    file system or object store lets only one process create it. The holder renews its file as long
    as it lives. Another process takes over at once if the holder ran on this machine and has ended,
    and otherwise when the file has not changed for ``patience`` seconds; clocks of different
    machines are never compared. A holder that lost its lease learns so from
    :meth:`check`, before it writes.

    Parameters
    ----------
    uri
        Folder of the lease, a local path or fsspec URL.
    beat, patience
        Seconds.
    clock, pause
        Return the seconds since some moment; wait for a number of seconds. Tests pass their own
        clock, which advances only by waiting.
    on_wait
        Called with a sentence about a process elsewhere that may have died, before waiting for it.

    Raises
    ------
    DamagedError
        If the file of a holder is malformed.
    StoreError
        If the store cannot be used, or cannot create a file exclusively.
    """

    def __init__(
        self,
        uri: str,
        *,
        beat: float = BEAT,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
        on_wait: Callable[[str], object] = lambda text: None,
    ) -> None:
        self._uri, self._beat, self._patience = uri.rstrip("/"), beat, patience
        self._clock, self._pause, self._on_wait = clock, pause, on_wait
        self._since = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
        self._id, self._number, self._count = uuid.uuid4().hex, 0, 0
        self._over = Event()
        self._thread = Thread(target=self._send_heartbeats, name="lease", daemon=True)

    def __enter__(self) -> Self:
        while True:
            number, about = self._last()
            if about is not None and not about.ended:
                self._wait_until_gone(number, about)
            if self._take(number + 1):
                break
        self._thread.start()
        for old in self._numbers():
            if old < self._number:  # not needed: the largest number counts
                storage.remove(self._name(old))
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        if self._is_mine():
            try:
                storage.put(self._name(self._number), self._text(ended=True))
            except StoreError:  # such as a full disk, which still lets files be removed
                storage.remove(self._name(self._number))

    def check(self) -> None:
        """Raise :class:`LostLeaseError` if another process has taken over."""
        if not self._is_mine():
            raise LostLeaseError(
                f"{self._uri}: another process took over, because this one sent no heartbeat for "
                f"{self._patience:g} s; it continues with what is left"
            )

    def _numbers(self) -> list[int]:
        """Return the numbers of all holders with a file."""
        matches = (_NAME.fullmatch(name) for name in storage.list_names(self._uri))
        return [int(match[1]) for match in matches if match]

    def _last(self) -> tuple[int, _Holder | None]:
        """Return the number of the last holder and its file's content; 0 and None without one."""
        number = max(self._numbers(), default=0)
        return number, self._read(number) if number else None

    def _wait_until_gone(self, number: int, about: _Holder) -> None:
        """Return once a holder is dead or done; raise :class:`LeaseHeldError` if it is alive."""
        if has_ended(about.boot, about.process):
            return
        began, holder = self._clock(), f"{about.host}, process {about.process}"
        self._on_wait(f"{holder} was at work on {self._uri}: waiting whether it still is")
        while self._clock() - began < self._patience:
            self._pause(min(0.5, self._patience / 4))
            now = self._read(number)
            if now is None or now.ended:
                return
            if now != about:
                raise LeaseHeldError(holder, now.since)

    def _take(self, number: int) -> bool:
        """Try to become the holder with a number, and return whether it is the last one."""
        self._number = number
        taken = storage.put_new(self._name(number), self._text())
        if self._is_mine():  # also if an upload was retried after the first one had succeeded
            return True
        if taken:  # of an old number, whose file was removed meanwhile
            storage.remove(self._name(number))
        return False

    def _send_heartbeats(self) -> None:
        while not self._over.wait(self._beat):
            self._renew()

    def _renew(self) -> None:
        """Send one heartbeat, unless another process has taken over."""
        self._count += 1
        # A heartbeat that fails is skipped; the next one follows.
        with suppress(ClusterscaleError):
            if self._is_mine():
                storage.put(self._name(self._number), self._text())

    def _is_mine(self) -> bool:
        number, about = self._last()
        return number == self._number and about is not None and about.id == self._id

    def _read(self, number: int) -> _Holder | None:
        uri = self._name(number)
        try:
            return _Holder.model_validate_json(storage.read(uri))
        except FileNotFoundError:
            return None
        except ValidationError:
            raise DamagedError(
                f"{uri} does not name the holder of this lease: remove it if no process is running"
            ) from None

    def _name(self, number: int) -> str:
        return f"{self._uri}/{number:08d}.json"

    def _text(self, *, ended: bool = False) -> bytes:
        holder = _Holder(
            id=self._id,
            host=platform.node(),
            boot=find_machine(),
            process=os.getpid(),
            beat=self._count,
            ended=ended,
            since=self._since,
        )
        return holder.model_dump_json().encode()
