"""One at a time: a lease on a folder, which another takes over when its holder has died."""

from __future__ import annotations

import json
import os
import platform
import time
import uuid
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Self

from clusterscale.cube import storage
from clusterscale.errors import StoreError

__all__ = ["BEAT", "PATIENCE", "Held", "Lease", "LostLeaseError"]

BEAT = 5.0
"""Seconds between two signs of life."""

PATIENCE = 30.0
"""Seconds without any, after which the holder is taken for dead."""

_WATCH = 0.5


class LostLeaseError(StoreError):
    """Another process took over, for this one gave no sign of life for too long."""


class Held(Exception):
    """Another process holds the lease, and is alive; ``holder`` says which."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


class Lease:
    """A lease on a folder, as a context; raises :class:`Held` where another process has it.

    Holders are numbered. Whoever can create the file of the next number, which a file system or
    object store lets one alone do, is the holder; it renews that file as long as it lives. A
    holder of this machine whose process is gone is taken over from at once, another one when its
    file stays as it is for ``patience`` seconds: no clocks of two machines are compared. A holder
    who was taken for dead finds that out by :meth:`check` before it writes.

    Parameters
    ----------
    uri
        Folder of the lease, a local path or fsspec URL.
    beat, patience
        Seconds.
    """

    def __init__(self, uri: str, *, beat: float = BEAT, patience: float = PATIENCE) -> None:
        self._uri, self._beat, self._patience = uri.rstrip("/"), beat, patience
        self._id, self._number, self._count = uuid.uuid4().hex, 0, 0
        self._over = Event()
        self._thread = Thread(target=self._live, name="lease", daemon=True)

    def __enter__(self) -> Self:
        while True:
            number, text = self._last()
            if text is not None and not _ended(text):
                self._outwait(number, text)
            if self._take(number + 1):
                break
        self._thread.start()
        for old in range(number, 0, -1):  # nobody needs them: the largest number counts
            if not storage.exists(self._name(old)):
                break
            storage.remove(self._name(old))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        if self._is_mine():
            storage.put(self._name(self._number), self._text(ended=True))

    def check(self) -> None:
        """Raise :class:`LostLeaseError` if another process has taken over."""
        if not self._is_mine():
            raise LostLeaseError(
                f"{self._uri}: another process took over, for this one gave no sign of life for "
                f"{self._patience:g} s; it goes on with what is left"
            )

    def _last(self) -> tuple[int, bytes | None]:
        """Return the number of the last holder and what it says; 0 and None where there is none."""
        names = storage.list_names(self._uri)
        numbers = [int(name[:-5]) for name in names if name.endswith(".json")]
        if not numbers:
            return 0, None
        return max(numbers), self._read(max(numbers))

    def _outwait(self, number: int, text: bytes) -> None:
        """Return when a holder is dead or done; raise :class:`Held` when it is alive."""
        if _is_gone(text):
            return
        began = time.monotonic()
        while time.monotonic() - began < self._patience:
            time.sleep(min(_WATCH, self._patience / 4))
            now = self._read(number)
            if now is None or _ended(now):
                return
            if now != text:
                raise Held(_holder(now))

    def _take(self, number: int) -> bool:
        """Try to be the holder of that number, and tell whether this is now the last one."""
        self._number = number
        taken = storage.put_new(self._name(number), self._text())
        if self._is_mine():  # also where an upload was tried again, and the first had come through
            return True
        if taken:  # of a number that was over, and removed since it was looked for
            storage.remove(self._name(number))
        return False

    def _live(self) -> None:
        while not self._over.wait(self._beat):
            self._count += 1
            try:
                if self._is_mine():
                    storage.put(self._name(self._number), self._text())
            except StoreError:  # a sign of life may be late; the next one is not
                continue

    def _is_mine(self) -> bool:
        number, text = self._last()
        return number == self._number and text is not None and json.loads(text)["id"] == self._id

    def _read(self, number: int) -> bytes | None:
        try:
            return storage.read(self._name(number))
        except FileNotFoundError:
            return None

    def _name(self, number: int) -> str:
        return f"{self._uri}/{number:08d}.json"

    def _text(self, *, ended: bool = False) -> bytes:
        about = {
            "id": self._id,
            "host": platform.node(),
            "boot": _boot(),
            "process": os.getpid(),
            "beat": self._count,
            "ended": ended,
        }
        return json.dumps(about).encode()


def _ended(text: bytes) -> bool:
    return bool(json.loads(text)["ended"])


def _holder(text: bytes) -> str:
    about = json.loads(text)
    return f"{about['host']}, process {about['process']}"


def _is_gone(text: bytes) -> bool:
    """Tell whether a holder was a process of this machine that has ended."""
    about = json.loads(text)
    if (about["host"], about["boot"]) != (platform.node(), _boot()) or not about["boot"]:
        return False
    try:
        os.kill(about["process"], 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _boot() -> str:
    """Return what tells this start of the machine from any other, and containers on it apart."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return boot + str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""
