"""Result datasets that are created empty, filled in parts, and opened when complete."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from zarr.storage import MemoryStore

from clusterscale.contracts import hash_of
from clusterscale.errors import DamagedError, FormatError, MissingError
from clusterscale.schema import TEXT, Variable, validate
from clusterscale.storage import files, manifest
from clusterscale.storage.atomic import staged
from clusterscale.storage.connection import open_store
from clusterscale.storage.groups import open_dataset, open_group

if TYPE_CHECKING:
    import xarray as xr


_DTYPES: dict[str, Any] = {"f": np.float32, "iu": np.int64, TEXT: str, "M": np.int64}
TIME_ATTRIBUTES = {"units": "seconds since 1970-01-01", "calendar": "proleptic_gregorian"}
"""Attributes of an array of whole seconds that xarray reads as times."""


_DECIDES = ("kind", "plan_digest", "cube_fingerprint", "input_digest", "results_revision", "code")


class TableStore:
    """A table of results that is created empty, then filled part by part.

    ``results.zarr`` holds the numbers, and ``done/`` a file for each part that is complete, with
    the digests of the chunks that it wrote. A part whose chunks are not those is not done. The
    manifest in ``results.zarr`` lists the files of the empty table, and all files once it is
    complete.

    Parameters
    ----------
    uri
        Folder that the study owns, a local path or fsspec URL.
    form
        Value of the attribute ``format``.
    create
        Creates the empty table at an address, and returns the digests of its files.
    """

    def __init__(self, uri: str, form: str, create: Callable[[str], dict[str, str]]) -> None:
        self.uri = uri.rstrip("/")
        self._table, self._create = f"{self.uri}/results.zarr", create
        self._done, self.complete = set[str](), False  # complete, and intact when it was opened
        self._digests: dict[str, str] = {}  # of the chunks that completed parts wrote
        if not is_table(self._table, form) or not self._repair():
            files.remove(f"{self.uri}/done")
            with staged(self._table, force=True, sealed=True) as staging:
                manifest.seal(staging, known=create(staging))
        # A part is marked as done only when its numbers are durable.
        self._store = open_store(self._table, "r+", durable=True)
        self._group = zarr.open_group(self._store, mode="r+")

    def done(self) -> set[str]:
        """Return the names of the completed parts, whose chunks are those that they wrote."""
        return set(self._done)

    def finish(self) -> None:
        """Mark the table as complete, and list the digests of its files.

        Raises
        ------
        DamagedError
            If a chunk is not the one that was written.
        """
        self._group.attrs["complete"] = True
        seal_table(self._table, self._digests | self._store.digests)

    def mark_done(self, name: str) -> None:
        """Record that a part is complete; its numbers are durable."""
        new = dict(self._store.digests.items() - self._digests.items())
        files.put(f"{self.uri}/done/{name}", manifest.to_sealed({"chunks": new}))
        self._digests |= new
        self._done.add(name)

    def _repair(self) -> bool:
        """Find the parts that are intact; make all else as if it had not been written yet.

        Return whether that is possible: not without a manifest of the empty table.
        """
        try:
            damage = manifest.find_damage(self._table, growing=True)
        except DamagedError:
            return False
        if damage is None:
            return False
        parts = dict(self._read_parts())
        found = manifest.digests(self._table, {path for part in parts.values() for path in part})
        # Parts that share a chunk recorded it in turn; it is what the last of them wrote.
        written = {pair for part in parts.values() for pair in part.items()}
        self._digests = {path: value for path, value in found.items() if (path, value) in written}
        self._done = {name for name, part in parts.items() if part.keys() <= self._digests.keys()}
        lost = {*damage, *(path for part in parts.values() for path in part)} - self._digests.keys()
        for path in lost:
            files.remove(f"{self._table}/{path}")
        if lost:
            self._restore(lost)
        self.complete = not lost and bool(attributes_of(self._table).get("complete"))
        return True

    def _read_parts(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the name of each part that was marked as done, and the digests of its chunks."""
        for name in files.list_names(f"{self.uri}/done"):
            try:
                content = manifest.from_sealed(files.read(f"{self.uri}/done/{name}"))
                yield name, manifest.digests_of(content, "chunks")
            except ValueError:  # damaged, or of a version without digests
                continue

    def _restore(self, paths: Collection[str]) -> None:
        """Write those files of the empty table again that are among ``paths``."""
        empty = f"{self._table}.partial-{uuid.uuid4().hex[:8]}"
        try:
            self._create(empty)
            for path in paths:
                if files.exists(f"{empty}/{path}"):
                    files.put(f"{self._table}/{path}", files.read(f"{empty}/{path}"))
        finally:
            files.remove(empty)

    def array(self, name: str) -> zarr.Array[Any]:
        """Return a variable, to be written part by part."""
        array = self._group[name]
        assert isinstance(array, zarr.Array)
        return array


def create_table(
    uri: str,
    variables: Mapping[str, Variable],
    columns: Mapping[str, Sequence[Any]],
    chunks: Mapping[str, int],
    attributes: Mapping[str, Any],
    dtypes: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, str]:
    """Create the arrays of ``variables`` at ``uri``; floats are NaN until they are written.

    It is made in memory, so that a remote store takes one request a file.

    Parameters
    ----------
    uri
        Address where nothing is stored yet.
    variables
        Variables of the dataset.
    columns
        Known values: those of every dimension, which give its size, and optionally of other
        variables. Times are in seconds since 1970-01-01.
    chunks
        Chunk size of dimensions, default 1; coordinates of other dimensions are one chunk.
    attributes
        Attributes of the dataset.
    dtypes
        Dtypes of variables; by default float32, int64 and text.

    Returns
    -------
    dict[str, str]
        The digest of each file that was written, by its path in the store.
    """
    content: dict[str, Any] = {}
    group = zarr.create_group(MemoryStore(content))
    for name, variable in variables.items():
        shape = tuple(len(columns[dim]) for dim in variable.dims)
        whole = name in columns and not set(variable.dims) & set(chunks)
        pieces = tuple(max(1, min(chunks.get(dim, 1), len(columns[dim]))) for dim in variable.dims)
        array: zarr.Array[Any] = group.create_array(
            name,
            shape=shape,
            chunks=tuple(max(1, size) for size in shape) if whole else pieces,
            dtype=dtypes.get(name, _DTYPES[variable.kinds]),
            config={"write_empty_chunks": True},  # so that a missing chunk is one that was lost
            fill_value=np.nan if variable.kinds == "f" else None,
            dimension_names=variable.dims,
            attributes={
                "long_name": variable.long_name,
                **({"units": variable.units} if variable.units else {}),
                **(TIME_ATTRIBUTES if variable.kinds == "M" else {}),
            },
        )
        if name in columns and len(columns[name]):
            array[:] = np.asarray(columns[name], dtype=array.dtype)
    group.attrs.put(dict(attributes))
    raw = {path: value.to_bytes() for path, value in content.items()}
    raw["zarr.json"] = consolidate(raw)
    files.put_all(uri, raw)
    return {path: manifest.digest(value) for path, value in raw.items()}


def consolidate(raw: Mapping[str, bytes]) -> bytes:
    """Return the metadata of a root with that of its arrays, which are then read at once."""
    root = json.loads(raw["zarr.json"])
    arrays = {
        path.removesuffix("/zarr.json"): json.loads(value)
        for path, value in raw.items()
        if path.endswith("/zarr.json")
    }
    root["consolidated_metadata"] = {
        "kind": "inline",
        "must_understand": False,
        "metadata": arrays,
    }
    return json.dumps(root, indent=1).encode()


@contextmanager
def open_for_writing(uri: str) -> Iterator[tuple[zarr.Group, dict[str, str]]]:
    """Yield a table to write chunks of, also empty ones, and the digest of each by its path."""
    store = open_store(uri, "r+")
    with zarr.config.set({"array.write_empty_chunks": True}):
        yield zarr.open_group(store, mode="r+"), store.digests


def seal_table(uri: str, expected: Mapping[str, str] | None = None) -> None:
    """Write the manifest of a complete table, after the chunks that have only the fill value.

    Zarr leaves those out. They are written, so that a chunk that is not there is one that was lost.

    Parameters
    ----------
    uri
        Zarr store, a local path or fsspec URL.
    expected
        Digests of files that were recorded when they were written, by their path in the store.

    Raises
    ------
    DamagedError
        If a file does not have the expected digest.
    """
    kept = manifest.list_files(uri).keys() | (expected or {}).keys()
    with zarr.config.set({"array.write_empty_chunks": True}):
        group = zarr.open_group(open_store(uri, "r+"), mode="r+")
        for array, chunks in _arrays(group):
            for key, index in chunks.items():
                if key not in kept:
                    region = tuple(
                        slice(at * size, (at + 1) * size)
                        for at, size in zip(index, array.chunks, strict=True)
                    )
                    array[region] = array.fill_value
    manifest.seal(uri, expected)


def _arrays(group: zarr.Group) -> Iterator[tuple[zarr.Array[Any], dict[str, tuple[int, ...]]]]:
    """Yield each array, and the file of each of its chunks with its index."""
    for _, array in group.arrays():
        indices = product(*(range(size) for size in array.cdata_shape))
        yield array, {f"{array.path}/{array.metadata.encode_chunk_key(i)}": i for i in indices}


def open_table(
    uri: str | Path, what: str, form: str, variables: Mapping[str, Variable]
) -> xr.Dataset:
    """Open a complete table, lazily.

    Parameters
    ----------
    uri
        Folder of a run, its subfolder ``what``, or the store itself.
    what
        Kind of results in one word.
    form
        Value of the attribute ``format``.
    variables
        Variables that it must have.

    Raises
    ------
    MissingError
        If there is no table, or it is not complete.
    FormatError
        If the dataset does not match ``variables``.
    DamagedError
        If a file is not the one that was written.
    """
    uri = str(uri).rstrip("/")
    candidates = (f"{uri}/{what}/results.zarr", f"{uri}/results.zarr", uri)
    store = next((candidate for candidate in candidates if is_table(candidate, form)), None)
    if store is None:
        for candidate in candidates:
            manifest.check_root(candidate)
        raise MissingError(f"{uri}: there are no results of a {what}")
    if not attributes_of(store).get("complete"):
        raise MissingError(f"{store}: this {what} has not finished; run it again to resume it")
    require_own(store, what)
    names = [name for name in variables if name.endswith(("_label", "_title"))]
    return open_sealed(store, variables).set_coords(names)


def study_of(folder: str, kind: str) -> str:
    """Return the digest of what decides the results of the study in a folder; empty without one."""
    kept = manifest.read_sealed(f"{folder}/{kind}.json")
    return "" if kept is None else hash_of([kept.get(key) for key in _DECIDES])


def require_own(store: str, kind: str) -> None:
    """Check that results are those of the study that their folder says it has, if it says one.

    Raises
    ------
    DamagedError
        If they are of another plan, cube, input, revision or code.
    """
    folder, about = store.rpartition("/")[0], attributes_of(store)
    kept = manifest.read_sealed(f"{folder}/{kind}.json") or {}
    # results of earlier versions have no digest of their study
    known = {key: about.get(key) for key in ("plan_digest", "cube_fingerprint") if key in about}
    own = about.get("study") in (None, study_of(folder, kind))
    if kept and not (own and all(kept.get(key) == value for key, value in known.items())):
        raise DamagedError(
            f"{store} has results of another study than {folder}/{kind}.json says: put back those "
            f"of this {kind}, or remove them and run it again"
        )


def open_sealed(uri: str, variables: Mapping[str, Variable]) -> xr.Dataset:
    """Open a dataset lazily, after all its files were checked against its manifest.

    Parameters
    ----------
    uri
        Zarr store, a local path or fsspec URL.
    variables
        Variables that it must have.

    Raises
    ------
    DamagedError
        If a file is not the one that was written.
    FormatError
        If the dataset does not match ``variables``.
    """
    present = manifest.check(uri)
    for _, chunks in _arrays(open_group(uri)):
        for lost in sorted(chunks.keys() - present):
            raise DamagedError(f"{uri}/{lost} is missing; {manifest.REMEDY}")
    dataset = open_dataset(uri)
    try:
        return validate(dataset, variables, stored=True)
    except FormatError as error:
        raise FormatError(f"{uri} is {error}") from None


def attributes_of(uri: str) -> Mapping[str, Any]:
    """Return the attributes of a Zarr store; none if there is no store that can be read."""
    if not files.exists(f"{uri}/zarr.json"):
        return {}
    try:
        return dict(open_group(uri).attrs)
    except FormatError:
        return {}


def is_table(uri: str, form: str) -> bool:
    """Return whether a store with the format ``form`` is at ``uri``, complete or not."""
    return bool(attributes_of(uri).get("format") == form)
