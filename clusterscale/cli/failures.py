"""The message and the exit code of an error that ends a command."""

import errno
import os
import signal
from collections.abc import Iterator

from clusterscale.errors import TEMPORARY, ClusterError, ClusterscaleError, StoreError, StudyError
from clusterscale.redaction import clean
from clusterscale.validation_messages import quote

BUG = 70
"""Exit code of an unexpected error: EX_SOFTWARE of sysexits.h."""

TRACEBACK = "CLUSTERSCALE_TRACEBACK"
"""Environment variable that, if set, shows the traceback of any error."""

_FAILED, _INPUT = 1, 2
_MOST_LINES, _LONGEST = 10, 1000
_FILES = {errno.EMFILE, errno.ENFILE}
_FULL = {errno.ENOSPC, errno.EDQUOT}
_BAD_PATHS = {
    errno.EEXIST,
    errno.EINVAL,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ENOTEMPTY,
    errno.ENXIO,
}


def describe_failure(error: Exception) -> tuple[str, int]:
    """Return the message of at most ten lines, without secrets, and the exit code of a command.

    1: tasks failed. 2: the input is invalid. 75: something gave out, such as memory, disk or
    cluster, and the same command can resume. 70: an unexpected error.
    """
    message, code = _describe(error)
    lines = [line for line in message.splitlines() if line.strip()]
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES - 1 :] = [f"and {len(lines) - _MOST_LINES + 1:,} more lines"]
    text = clean("\n".join(lines))
    text = "".join(letter if letter.isprintable() or letter == "\n" else "�" for letter in text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…", code


def find_exit_code(error: BaseException) -> int | None:
    """Return the exit code of the signal that ended compiled code, None if none did.

    Compiled code replaces the exception of a signal handler by a ``SystemError``.
    """
    if isinstance(error, SystemError):
        for cause in _causes(error):
            if isinstance(cause, SystemExit):
                return int(cause.code or 0)
            if isinstance(cause, KeyboardInterrupt):
                return 128 + signal.SIGINT
    return None


def _describe(error: Exception) -> tuple[str, int]:
    if (lack := _lack(error)) is not None:
        return lack, TEMPORARY
    if isinstance(error, ClusterscaleError):
        code = TEMPORARY if isinstance(error, ClusterError | StoreError) else _INPUT
        code = _FAILED if isinstance(error, StudyError) else code
        return str(error), code
    if isinstance(error, UnicodeEncodeError):
        return f"{quote(error.object)} is not valid text", _INPUT
    if isinstance(error, OSError) and error.errno is not None:
        where = f"{error.filename}: " if error.filename else ""
        if error.errno in _FULL:
            return f"{where}the disk is full; free some space and repeat the command", TEMPORARY
        return f"{where}{error.strerror}", _INPUT if error.errno in _BAD_PATHS else TEMPORARY
    return (
        f"unexpected {type(error).__name__}: {quote(str(error))}\n"
        f"This is a bug in clusterscale; for its traceback, set {TRACEBACK}=1 and repeat the "
        "command",
        BUG,
    )


def _lack(error: BaseException) -> str | None:
    """Return what this process had too little of, also where another error followed from it."""
    for cause in _causes(error):
        number = cause.errno if isinstance(cause, OSError) else None
        if isinstance(cause, MemoryError) or number == errno.ENOMEM:
            return (
                "memory ran out: use fewer `--workers`, raise the limit of this process "
                "(`ulimit -v`), or free some memory"
            )
        if number in _FILES:
            return "too many files are open: raise the limit of this process (`ulimit -n`)"
        if number == errno.EAGAIN or "can't start new thread" in str(cause):
            return (
                "no more threads or processes can be started: raise the limit of this user "
                "(`ulimit -u`), or use fewer `--workers`"
            )
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def shows_traceback() -> bool:
    """Return whether errors are shown with their tracebacks."""
    return bool(os.environ.get(TRACEBACK))
