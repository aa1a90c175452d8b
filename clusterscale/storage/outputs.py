"""The one decision of where outputs may be written: over no input, in no store, no other's file."""

import os
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from posixpath import normpath
from typing import Any

from clusterscale.errors import ExistsError, FormatError, InputError
from clusterscale.phrases import option
from clusterscale.storage.address import local_path, protocol_of
from clusterscale.storage.files import exists, read_file

_ALIASES = {"s3a": "s3", "gcs": "gs", "abfss": "abfs", "az": "abfs"}
_OF_ZARR = ("zarr.json", ".zgroup", ".zarray")
_WRITTEN = (
    b'name="generator" content="clusterscale"',
    b'{\n "rule":',
    b'{\n "verdict":',
    b"<testsuites ",
)
"""What pages, facts to sign, and verdicts as JSON or JUnit XML of this package have."""


def check_outputs(outputs: Iterable[object], inputs: Iterable[object] = ()) -> None:
    """Check, before anything is written, that outputs replace no input and change no store.

    Addresses are compared by what they are: symbolic and hard links, ``file://``, ``..``, further
    slashes, and names that the file system does not distinguish lead to the same file or folder.

    Parameters
    ----------
    outputs
        Addresses that are written, None among them. A folder counts as replaced with all that is in
        it; where other files of it are kept, give the addresses in it instead.
    inputs
        Addresses that are read, None among them. Local ones that do not exist, such as names of
        methods, are passed over.

    Raises
    ------
    InputError
        If an output is an input, is in an input that is a folder, contains an input, or is inside a
        Zarr store.
    """
    read = [(one, found) for one in map(str, filter(None, inputs)) if (found := _within(one))]
    for output in map(str, filter(None, outputs)):
        places = _within(output, new=True)
        for given, others in read:
            if others[0] == places[0]:
                raise InputError(f"{output} is {given}, which is read: name another output")
            if others[0] in places:
                raise InputError(f"{output} is in {given}, which is read: name another output")
            if places[0] in others:
                raise InputError(
                    f"{given} is in {output}, where it would be replaced: name another output"
                )
        if protocol_of(output) == "file":
            for folder in Path(os.path.realpath(local_path(output))).parents:
                if _is_store(folder):
                    raise InputError(f"{output} is inside the Zarr store {folder}: name another")


def check_new(
    outputs: Iterable[object], *, force: bool | None = None, renews: Iterable[object] | None = None
) -> None:
    """Check, before anything is written, that outputs replace no file that somebody else wrote.

    Parameters
    ----------
    outputs
        Addresses that are written, None among them.
    force
        Whether any file is replaced; None if the caller has no such option.
    renews
        Texts that a file of this package has if it is an earlier output of the same command, such
        as the fingerprint of its cube: it is replaced. None: no file is.

    Raises
    ------
    ExistsError
        If there is another file.
    """
    marks = None if renews is None else [str(text).encode() for text in renews]
    for output in map(str, filter(None, outputs)):
        if force or not exists(output):
            continue
        content = b""
        with suppress(FormatError):  # a folder
            content = b"" if marks is None else read_file(output)
        is_own = any(mark in content for mark in _WRITTEN)
        if not (is_own and all(mark in content for mark in marks or ())):
            other = "remove it" if force is None else f"overwrite it with {option('force', 'True')}"
            raise ExistsError(f"{output} exists: name another file, or {other}")


def inputs_in(values: Any) -> Iterator[str]:
    """Yield the texts in the plain values of a config that are URLs, or name a file or a store."""
    if isinstance(values, str):
        if protocol_of(values) != "file" or os.path.isfile(local_path(values)) or _is_store(values):
            yield values
    elif isinstance(values, Mapping | list | tuple):
        for one in values.values() if isinstance(values, Mapping) else values:
            yield from inputs_in(one)


def _is_store(folder: str | Path) -> bool:
    return any(os.path.exists(local_path(f"{folder}/{name}")) for name in _OF_ZARR)


def _within(uri: str, *, new: bool = False) -> list[Hashable]:
    """Return what an address is, and then the folders in which it is, the nearest first.

    Empty if there is nothing at a local address, unless it is ``new``.
    """
    if (protocol := protocol_of(uri)) != "file":
        bucket, *names = normpath(uri.partition("://")[2].lstrip("/")).split("/")
        start = f"{_ALIASES.get(protocol, protocol)}://{bucket}"
        return ["/".join([start, *names[:n]]) for n in range(len(names), -1, -1)]
    try:
        path = Path(os.path.realpath(local_path(uri)))
        return [_identity(one) for one in (path, *path.parents)] if new or path.exists() else []
    except (OSError, ValueError):  # a text that is no path
        return []


def _identity(path: Path) -> Hashable:
    """Return what distinguishes a local file, or the path if there is none yet."""
    try:
        status = path.stat()
    except OSError:
        return str(path)
    return status.st_dev, status.st_ino
