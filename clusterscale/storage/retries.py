"""Retry transient store errors; raise permanent ones immediately. Both name the URI.

Transient errors are broken connections, timeouts, and responses that a server is busy or failed.
Errors that a retry cannot fix are permanent: nothing stored, access denied, no such bucket, and a
full store. The environment variable ``CLUSTERSCALE_RETRY_SECONDS`` of the driver and its workers
says for how long to retry.
"""

import errno
import logging
import math
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from random import SystemRandom
from typing import Any, TypeVar

from tenacity import AsyncRetrying, RetryCallState, Retrying, retry_if_exception, stop_after_attempt

from clusterscale.errors import ClusterscaleError, InputError, StoreError
from clusterscale.redaction import clean

R = TypeVar("R")

VARIABLE = "CLUSTERSCALE_RETRY_SECONDS"
_FIRST, _LONGEST = 0.5, 10.0  # seconds to wait
_MEAN = 0.75  # of a wait, relative to the longest that it may be
_LOG = logging.getLogger(__name__)
_RNG = SystemRandom()  # operating system's, so that no random stream of an audit changes

_UNCHANGED = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)
"""Errors that callers handle themselves: neither retried nor replaced."""

_FULL = {errno.ENOSPC, errno.EDQUOT}
_PERMANENT = _FULL | {
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

# Error codes of S3 and compatible stores; status 500 and above is transient except for these.
_FULL_CODES = {
    "InsufficientStorage",
    "QuotaExceeded",
    "XMinioAdminBucketQuotaExceeded",
    "XMinioStorageFull",
}
_TRANSIENT_CODES = {
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
_NOT_IMPLEMENTED, _INSUFFICIENT_STORAGE = 501, 507

_CLIENTS = {"adlfs", "aiobotocore", "aiohttp", "azure", "botocore", "gcsfs", "google", "requests"}
_CLIENTS |= {"s3fs", "urllib3"}
_TRANSIENT_NAMES = {
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
    """Return ``call(*args, **options)``, tried again on transient errors; see :func:`attempts`.

    Parameters
    ----------
    where
        Address of the store, for messages.
    call
        An idempotent operation.

    Raises
    ------
    InputError
        If the environment variable has no number of seconds.
    StoreError
        If it failed each time, or with a permanent error.
    FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError
        As ``call`` raised them.
    """
    with _naming(where):
        return Retrying(**_policy(where))(call, *args, **options)


async def attempt_async(
    where: str, call: Callable[..., Awaitable[R]], *args: Any, **options: Any
) -> R:
    """Await ``call(*args, **options)`` as :func:`retry` does."""
    with _naming(where):
        return await AsyncRetrying(**_policy(where))(call, *args, **options)


@contextmanager
def _naming(where: str) -> Iterator[None]:
    """Replace errors of a store by :class:`StoreError`, which names it."""
    try:
        yield
    except Exception as error:
        replacement = _replace_error(error, where)
        if replacement is error:
            raise
        # Not `from error`: the cause may contain secrets, and tracebacks are stored.
        raise replacement from None


@contextmanager
def to_write(where: str) -> Iterator[None]:
    """Raise :class:`StoreError` if the bucket or folder to write to does not exist."""
    try:
        yield
    except FileNotFoundError:
        raise StoreError(f"{where} cannot be written: there is no such bucket or folder") from None


def is_transient(error: BaseException) -> bool:
    """Return whether the same call may succeed a moment later."""
    if isinstance(error, (ClusterscaleError, *_UNCHANGED)) or _is_full(error):
        return False
    if _is_of_client(error) and _TRANSIENT_NAMES & {cls.__name__ for cls in type(error).__mro__}:
        return True
    code, status = _response_of(error)
    if status is not None:
        server_fault = status >= 500 and status != _NOT_IMPLEMENTED
        return code in _TRANSIENT_CODES or status in {408, 425, 429} or server_fault
    return (
        isinstance(error, OSError)
        and error.errno not in _PERMANENT
        and not isinstance(error, PermissionError)
    )


def attempts() -> int:
    """Return how often a call is tried: until the waits take the seconds of the setting."""
    text = os.environ.get(VARIABLE) or str(90.0)  # of all waits, by default
    try:
        seconds = float(text)
        if not 0 <= seconds < math.inf:
            raise ValueError
    except ValueError:
        raise InputError(f"{VARIABLE}={text}: give a number of seconds, such as 90") from None
    wait, n = 0.5, 1
    while seconds > 0:
        seconds, wait, n = seconds - _MEAN * wait, min(2 * wait, _LONGEST), n + 1
    return n


def _policy(where: str) -> dict[str, Any]:
    return {
        "stop": stop_after_attempt(attempts()),
        "wait": _wait,
        "retry": retry_if_exception(is_transient),
        "before_sleep": partial(_warn, where),
        "reraise": True,
    }


def _warn(where: str, state: RetryCallState) -> None:
    if state.attempt_number == 3 and state.outcome is not None:  # failures before a warning
        error = state.outcome.exception()
        text = clean(f"{where}: {type(error).__name__}: {error}")
        _LOG.warning("%s; it is tried %d times in all", text, attempts())


def _wait(state: RetryCallState) -> float:
    """Return seconds to wait: doubled each time, shortened at random so that workers spread out."""
    longest = min(_FIRST * 2.0 ** (state.attempt_number - 1), _LONGEST)
    return longest * _RNG.uniform(2 * _MEAN - 1, 1.0)


def _replace_error(error: Exception, where: str) -> Exception:
    """Return the error to raise instead of ``error``, or ``error`` itself if it is clear enough."""
    if isinstance(error, (ClusterscaleError, *_UNCHANGED)):
        return error
    if not (isinstance(error, OSError) or _is_of_client(error)):
        return error
    reason = f"{type(error).__name__}: {error}"
    text = f"{where} cannot be used ({reason})"
    if _is_full(error):
        text = f"{where} is full; finished work is kept; free some space and run the same command "
        text += "again"
    elif is_transient(error):
        text = f"{where}: tried {attempts()} times; last error: {reason}"
    elif isinstance(error, PermissionError):
        text = f"{where}: access denied ({reason})"
    return StoreError(clean(text))


def _is_full(error: BaseException) -> bool:
    code, status = _response_of(error)
    if code in _FULL_CODES or status == _INSUFFICIENT_STORAGE:
        return True
    return any(isinstance(cause, OSError) and cause.errno in _FULL for cause in _causes(error))


def _response_of(error: BaseException) -> tuple[str, int | None]:
    """Return the error code and the HTTP status of a server's response, if known."""
    for cause in _causes(error):
        response = getattr(cause, "response", None)
        if isinstance(response, dict):
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            return str(response.get("Error", {}).get("Code", "")), status
        if _is_of_client(cause):
            for name in ("status", "status_code", "code"):
                status = getattr(cause, name, None)
                if isinstance(status, int):
                    return "", status
    return "", None


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _is_of_client(error: BaseException) -> bool:
    return any(cls.__module__.partition(".")[0] in _CLIENTS for cls in type(error).__mro__)
