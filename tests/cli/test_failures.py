"""Messages and exit codes of errors that end a command."""

import errno

import pytest
from loops import for_each

from clusterscale.cli.failures import describe_failure, find_exit_code
from clusterscale.errors import DamagedError, InputError, StoreError


@for_each(
    ("error", "code", "words"),
    [
        (InputError("bad"), 2, "bad"),
        (StoreError("full"), 75, "full"),
        (MemoryError(), 75, "memory ran out"),
        (OSError(errno.EMFILE, "too many"), 75, "ulimit -n"),
        (OSError(errno.ENOSPC, "full", "/x"), 75, "/x: the disk is full"),
        (OSError(errno.EROFS, "Read-only file system", "/x"), 75, "/x: Read-only file system"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", "/x"), 2, "/x: Not a directory"),
        (RuntimeError("can't start new thread"), 75, "ulimit -u"),
        (KeyError("x"), 70, "CLUSTERSCALE_TRACEBACK"),
    ],
)
def test_codes(error, code, words):
    message, found = describe_failure(error)
    assert (found, words in message) == (code, True)


def test_a_limit_is_not_blamed_on_the_cube():
    error = DamagedError("chunk 1 is damaged")
    error.__cause__ = OSError(errno.EMFILE, "too many")
    assert describe_failure(error)[1] == 75


def test_messages_are_short():
    message, _ = describe_failure(InputError("\n".join(["\x1b[31m" + "x" * 300] * 30)))
    assert len(message.splitlines()) <= 10
    assert len(message) <= 1000
    assert "\x1b" not in message


@pytest.mark.parametrize(
    ("cause", "code"), [(SystemExit(143), 143), (KeyboardInterrupt(), 130), (KeyError(), None)]
)
def test_a_signal_that_ended_compiled_code_is_no_bug(cause, code):
    error = SystemError("returned a result with an exception set")
    error.__cause__ = cause
    assert find_exit_code(error) == code
