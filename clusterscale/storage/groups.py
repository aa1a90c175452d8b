"""Open and create Zarr groups, on a local path or any fsspec URL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import zarr
from zarr.core.sync import sync

from clusterscale.errors import ClusterscaleError, FormatError, InputError, MissingError, StoreError
from clusterscale.storage.address import local_path
from clusterscale.storage.connection import is_remote, open_store
from clusterscale.storage.files import exists

if TYPE_CHECKING:
    import xarray as xr


def open_group(uri: str) -> zarr.Group:
    """Open a Zarr group for reading.

    Parameters
    ----------
    uri
        Local path or fsspec URL.

    Returns
    -------
    zarr.Group
        Of Zarr format 3 or 2.

    Raises
    ------
    MissingError
        If nothing is stored at ``uri``.
    FormatError
        If it is not a Zarr group.
    StoreError
        If it cannot be read.
    """
    if not exists(uri):
        raise MissingError(f"{uri}: nothing is stored there{_hint_replaced_store(uri)}")
    reason = None
    for version in (3, 2):  # one after the other: on remote stores, checking both costs twice
        try:
            return zarr.open_group(open_store(uri), mode="r", zarr_format=version)
        except (MemoryError, InputError, StoreError):
            raise
        except Exception as error:  # Zarr raises many types on malformed JSON
            reason = reason or error
    raise FormatError(f"{uri} is not a readable Zarr group") from reason


def create_group(uri: str) -> zarr.Group:
    """Create an empty Zarr group for writing.

    Parameters
    ----------
    uri
        Local path or fsspec URL where nothing is stored.

    Returns
    -------
    zarr.Group
        Its store records digests.

    Raises
    ------
    InputError, PackageError, StoreError
        As :func:`~clusterscale.storage.exists`.
    """
    return zarr.create_group(open_store(uri, "r+"))


def open_dataset(uri: str) -> xr.Dataset:
    """Open a Zarr group written by clusterscale with xarray, lazily.

    Only Zarr v3 is accepted, because its arrays cannot contain pickled objects.

    Parameters
    ----------
    uri
        Local path or fsspec URL.

    Returns
    -------
    xr.Dataset
        Without Dask; variables are read when they are used.

    Raises
    ------
    FormatError
        If there is no such group.
    StoreError
        If it cannot be read.
    """
    with errors_as(FormatError, f"{uri} is not a Zarr store that xarray can open"):
        return open_with_xarray(zarr.open_group(open_store(uri), mode="r", zarr_format=3))


def open_with_xarray(group: zarr.Group, **options: Any) -> xr.Dataset:
    """Open a group lazily, by the metadata that it was opened with."""
    import xarray as xr  # imported here because workers do not need it

    root = group.metadata
    options |= {"consolidated": root.consolidated_metadata is not None, "chunks": None}
    return xr.open_dataset(group.store, engine="zarr", zarr_format=root.zarr_format, **options)


@contextmanager
def errors_as(
    kind: type[ClusterscaleError], message: str, *, detailed: bool = False
) -> Iterator[None]:
    """Turn errors of libraries, which raise many types, into one; ``detailed`` adds their text."""
    try:
        yield
    except (MemoryError, ClusterscaleError):
        raise
    except Exception as error:
        raise kind(f"{message}: {error}" if detailed else message) from error


def _hint_replaced_store(uri: str) -> str:
    """Return a hint at the old store, if a process was killed between the two renames."""
    path = local_path(uri)
    if is_remote(uri) or not path.parent.is_dir():
        return ""
    prefix = f"{path.name}.partial-"
    for old in sorted(path.parent.iterdir()):
        if old.name.startswith(prefix) and old.suffix == ".old":
            return f"; the store that was being replaced is complete in {old}: rename it back"
    return ""


def await_reads(seconds: float = 10) -> None:
    """Wait for the chunks that Zarr still reads.

    Zarr does not stop the other reads of an array when one has failed. At the exit of the process
    it prints a traceback for each.

    Parameters
    ----------
    seconds
        The longest wait.
    """

    async def wait() -> None:
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others, timeout=seconds)

    sync(wait())
