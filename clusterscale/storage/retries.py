"""Stores fail: what passes is tried again, what lasts is told at once, and both name the place.

Whether an error passes is read off it: a connection that broke, a time that was exceeded, an answer
that a server is busy or at fault. What a second try cannot change does not pass: nothing there, not
allowed, no such bucket, and a store that is full.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import SystemRandom
from typing import Any, TypeVar

from tenacity import AsyncRetrying, RetryCallState, Retrying, retry_if_exception, stop_after_attempt

from clusterscale.errors import ClusterscaleError, StoreError
from clusterscale.redaction import clean

__all__ = ["ATTEMPTS", "attempt_async", "is_transient", "retry", "to_write"]

R = TypeVar("R")

ATTEMPTS = 5
_FIRST, _LONGEST = 0.5, 10.0  # seconds to wait
_DICE = SystemRandom()  # of the machine: no random stream of an audit moves

_PLAIN = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)
"""What callers ask for by trying: neither tried again nor told in other words."""

_FULL = {errno.ENOSPC, errno.EDQUOT}
_LASTING = _FULL | {
    errno.EACCES,
    errno.EFBIG,
    errno.EINVAL,
    errno.ELOOP,
    errno.EMSGSIZE,
    errno.ENAMETOOLONG,
    errno.ENOSYS,
    errno.ENOTEMPTY,
    errno.ENOTSUP,
    errno.EPERM,
    errno.EROFS,
}

# As S3 and those who speak it answer; a status of 500 and above passes in any case but for these.
_FULL_CODES = {
    "InsufficientStorage",
    "QuotaExceeded",
    "XMinioAdminBucketQuotaExceeded",
    "XMinioStorageFull",
}
_PASSING_CODES = {
    "BadDigest",
    "ConditionalRequestConflict",
    "IncompleteBody",
    "OperationAborted",
    "RequestLimitExceeded",
    "RequestTimeout",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "XAmzContentSHA256Mismatch",
}
_PASSING_STATUS = {408, 425, 429}
_NOT_IMPLEMENTED, _INSUFFICIENT_STORAGE = 501, 507

_CLIENTS = {"adlfs", "aiobotocore", "aiohttp", "azure", "botocore", "gcsfs", "google", "requests"}
_CLIENTS |= {"s3fs", "urllib3"}
_PASSING_NAMES = {
    "ClientConnectionError",
    "ClientPayloadError",
    "ConnectionError",
    "HTTPClientError",
    "IncompleteRead",
    "ProtocolError",
    "ResponseParserError",
    "ServiceRequestError",
    "ServiceResponseError",
}


def retry(where: str, call: Callable[..., R], *args: Any, **options: Any) -> R:
    """Return ``call(*args, **options)``, tried up to five times while it fails in passing.

    Parameters
    ----------
    where
        Address of the store, for messages.
    call
        What may be done twice without harm.

    Raises
    ------
    StoreError
        If it failed each time, or in a way that lasts.
    FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError
        As ``call`` raised them.
    """
    try:
        return Retrying(**_policy())(call, *args, **options)
    except Exception as error:
        told = _tell(error, where)
        if told is error:
            raise
        # Not `from error`: what the cause says is not clean, and tracebacks are stored.
        raise told from None


async def attempt_async(
    where: str, call: Callable[..., Awaitable[R]], *args: Any, **options: Any
) -> R:
    """Await ``call(*args, **options)`` as :func:`retry` does."""
    try:
        return await AsyncRetrying(**_policy())(call, *args, **options)
    except Exception as error:
        told = _tell(error, where)
        if told is error:
            raise
        raise told from None


@contextmanager
def to_write(where: str) -> Iterator[None]:
    """Say so where there is nowhere to write."""
    try:
        yield
    except FileNotFoundError:
        raise StoreError(f"{where} cannot be written: there is no such bucket or folder") from None


def is_transient(error: BaseException) -> bool:
    """Tell whether the same call may succeed a moment later."""
    if isinstance(error, (ClusterscaleError, *_PLAIN)) or _is_full(error):
        return False
    if _is_of_client(error) and _PASSING_NAMES & _names(error):
        return True
    code, status = _answer(error)
    if status is not None:
        return code in _PASSING_CODES or status in _PASSING_STATUS or _is_fault(status)
    return (
        isinstance(error, OSError)
        and error.errno not in _LASTING
        and not isinstance(error, PermissionError)
    )


def _policy() -> dict[str, Any]:
    return {
        "stop": stop_after_attempt(ATTEMPTS),
        "wait": _wait,
        "retry": retry_if_exception(is_transient),
        "reraise": True,
    }


def _wait(state: RetryCallState) -> float:
    """Return seconds: twice as many each time, shortened at random so that workers part."""
    longest = min(_FIRST * 2.0 ** (state.attempt_number - 1), _LONGEST)
    return longest * _DICE.uniform(0.5, 1.0)


def _tell(error: Exception, where: str) -> Exception:
    """Return the error to be raised instead of ``error``, or itself where it says enough."""
    if isinstance(error, (ClusterscaleError, *_PLAIN)):
        return error
    if not (isinstance(error, OSError) or _is_of_client(error)):
        return error
    if _is_full(error):
        return StoreError(
            clean(
                f"{where} is full; what was finished is kept; free some space and run the same "
                "command again"
            )
        )
    said = f"{type(error).__name__}: {error}"
    if is_transient(error):
        return StoreError(clean(f"{where}: tried {ATTEMPTS} times, the last ended in {said}"))
    if isinstance(error, PermissionError):
        return StoreError(clean(f"{where}: access is refused ({said})"))
    return StoreError(clean(f"{where} cannot be used ({said})"))


def _is_full(error: BaseException) -> bool:
    code, status = _answer(error)
    if code in _FULL_CODES or status == _INSUFFICIENT_STORAGE:
        return True
    return any(isinstance(each, OSError) and each.errno in _FULL for each in _causes(error))


def _is_fault(status: int) -> bool:
    return status >= 500 and status != _NOT_IMPLEMENTED


def _answer(error: BaseException) -> tuple[str, int | None]:
    """Return the code and the HTTP status that a server answered with, as far as known."""
    for each in _causes(error):
        response = getattr(each, "response", None)
        if isinstance(response, dict):
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            return str(response.get("Error", {}).get("Code", "")), status
        if _is_of_client(each):
            for name in ("status", "status_code", "code"):
                status = getattr(each, name, None)
                if isinstance(status, int):
                    return "", status
    return "", None


def _causes(error: BaseException) -> Iterator[BaseException]:
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__


def _is_of_client(error: BaseException) -> bool:
    return any(each.__module__.partition(".")[0] in _CLIENTS for each in type(error).__mro__)


def _names(error: BaseException) -> set[str]:
    return {each.__name__ for each in type(error).__mro__}
