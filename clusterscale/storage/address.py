"""The one check of every address that is opened: protocols, local file types and sizes.

Local paths (or ``file://``), ``s3``, ``s3a``, ``gs``, ``gcs``, ``abfs``, ``abfss`` and ``az`` are
allowed, and ``memory``, which holds only what this process stored. With other protocols of fsspec,
an address could make this process fetch from any host or run code. An operator can allow some by
name in the environment variable ``CLUSTERSCALE_PROTOCOLS``, separated by commas, of the driver and
its workers: ``CLUSTERSCALE_PROTOCOLS=https,sftp``. Chained addresses (``::``) are never allowed.
"""

import errno
import os
import resource
import stat
from contextlib import suppress
from functools import cache
from math import ceil
from pathlib import Path

from clusterscale.errors import FormatError, InputError
from clusterscale.redaction import check_url

VARIABLE = "CLUSTERSCALE_PROTOCOLS"
"""Environment variable with the names of further protocols, separated by commas."""

LARGEST = 1 << 31
"""Bytes of the largest file that is read into memory as a whole, unless the caller says less."""

MEMORY = "CLUSTERSCALE_TABLE_MEMORY"
"""Environment variable with the bytes of memory that one file of others may need, as 16e9."""

_MOST_MEMORY = 8e9

_ALLOWED = ("file", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "memory")
_KERNEL = ("/proc", "/sys")


def protocol_of(uri: str) -> str:
    """Return the protocol of an address as fsspec reads it, ``file`` for a local path."""
    protocol, separator, _ = uri.partition("://")
    if separator and len(protocol) > 1:
        return protocol
    return "data" if uri.startswith("data:") else "file"


def local_path(uri: str) -> Path:
    """Return a local path.

    Parameters
    ----------
    uri
        Path, with or without ``file://``.

    Returns
    -------
    Path
        Relative if ``uri`` is.
    """
    return Path(uri.removeprefix("file://"))


def check_address(uri: str) -> str:
    """Return an address that may be opened, with a local path made absolute.

    Parameters
    ----------
    uri
        Local path or URL.

    Raises
    ------
    InputError
        If it contains credentials, is chained, has a protocol that is not allowed, or names a
        device, FIFO, socket or a file of the kernel.
    """
    check_url(uri)
    if "::" in uri:
        raise InputError(
            f"{uri}: chained addresses (::) are not opened: give the address of the file or folder "
            "itself"
        )
    protocol = protocol_of(uri)
    by_operator = {name.strip() for name in os.environ.get(VARIABLE, "").split(",")}
    if protocol not in {*_ALLOWED, *by_operator}:
        raise InputError(
            f"{uri}: addresses with the protocol {protocol!r} are not opened: give a local path or "
            f"one of {', '.join(f'{name}://' for name in _ALLOWED)}; whoever runs clusterscale can "
            f"allow others by the environment variable {VARIABLE}, as in {VARIABLE}=https,sftp"
        )
    if protocol != "file":
        return uri
    path = local_path(uri).absolute()
    try:
        real = os.path.realpath(path)
    except ValueError:
        raise InputError(f"{uri!r} contains a null character") from None
    if any(f"{place}/".startswith(f"{top}/") for place in (path, real) for top in _KERNEL):
        raise _of_kernel(uri)
    check_file(path, uri)
    return str(path)


def check_file(path: Path, uri: str, *, most: int | None = None) -> None:
    """Refuse a local file that could block, be endless or be larger than ``most`` bytes.

    It is not opened, because opening a FIFO already blocks. A missing file passes.

    Raises
    ------
    InputError
        If it is a device, FIFO, socket or a file of the kernel, or its path is too long.
    FormatError
        If it is too large.
    """
    try:
        status = path.stat()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(f"{uri[:50]}… is longer than a path can be here") from None
        return  # whoever opens it gets the same error
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise InputError(f"{uri} is a {_kind(status.st_mode)}, not a regular file or a folder")
    if status.st_dev in _kernel_devices():
        raise _of_kernel(uri)
    if most is not None and stat.S_ISREG(status.st_mode):
        check_size(status.st_size, uri, most)


def check_size(size: int, uri: str, most: int) -> None:
    """Raise :class:`FormatError` if a file of ``size`` bytes is larger than ``most``."""
    if size > most:
        raise FormatError(f"{uri} has {size:,} bytes; at most {most:,} are read into memory")


def check_memory(n_bytes: int, what: str, remedy: str = "") -> None:
    """Check, before memory is taken, that the content of a file needs no more than it may.

    Parameters
    ----------
    n_bytes
        Bytes of memory that it needs.
    what
        What needs them, and where, for the message.
    remedy
        What else would help, for the message, with a comma at its end.

    Raises
    ------
    FormatError
        If it needs more than a quarter of this machine's memory or 8 GB, or than the environment
        variable ``CLUSTERSCALE_TABLE_MEMORY`` allows.
    """
    try:
        most = float(os.environ.get(MEMORY) or min(_MOST_MEMORY, _memory_of_machine() / 4))
    except ValueError:
        raise InputError(
            f"{MEMORY} is {os.environ[MEMORY]!r}, but should be a number of bytes"
        ) from None
    if n_bytes > most:
        raise FormatError(
            f"{what} would take {n_bytes / 1e9:,.1f} GB of memory, but {most / 1e9:,.1f} GB are "
            f"allowed for one table: {remedy}allow more by the environment variable {MEMORY}, as "
            f"in {MEMORY}={ceil(n_bytes / 1e8) / 10:g}e9"
        )


@cache
def _memory_of_machine() -> float:
    """Return the bytes of memory of this machine, or those that this process may use if fewer."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    limits += [soft] if soft != resource.RLIM_INFINITY else []
    with suppress(OSError, ValueError):
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return float(min(limits))


def _of_kernel(uri: str) -> InputError:
    return InputError(f"{uri} is in {' or '.join(_KERNEL)}, whose files are not opened")


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "FIFO"
    return "socket" if stat.S_ISSOCK(mode) else "device"


@cache
def _kernel_devices() -> frozenset[int]:
    """Return the devices of the kernel's file systems, which symbolic links may also lead to."""
    return frozenset(os.stat(top).st_dev for top in _KERNEL if os.path.ismount(top))
