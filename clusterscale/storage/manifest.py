"""Manifests: digests of all files of a Zarr store, so that damage is never read as data.

The manifest is an empty group of the store, whose attributes have the digests: readers of Zarr that
do not know it pass over it.
"""

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from typing import Any

from clusterscale.errors import DamagedError, FormatError
from clusterscale.storage.address import LARGEST, check_size
from clusterscale.storage.connection import connect, is_remote
from clusterscale.storage.files import put, read

MANIFEST = "manifest/zarr.json"
REMEDY = (
    "run the command again that wrote these results, with the same config and output: it "
    "computes what is damaged, and keeps the rest"
)
"""What repairs a damaged folder."""


def digest(content: bytes) -> str:
    """Return the BLAKE2b digest of bytes, 16 bytes in hexadecimal."""
    return blake2b(content, digest_size=16).hexdigest()


def to_sealed(values: Mapping[str, Any]) -> bytes:
    """Return plain values as JSON with their digest, which :func:`from_sealed` checks."""
    text = json.dumps(dict(values), sort_keys=True)
    return json.dumps(
        {**values, "digest": digest(text.encode())}, indent=1, sort_keys=True
    ).encode()


def from_sealed(content: bytes) -> dict[str, Any]:
    """Return what :func:`to_sealed` was given.

    Raises
    ------
    ValueError
        If it is not JSON, or does not have the digest of what it says.
    """
    values = _load(content)
    if not isinstance(values, dict):
        raise ValueError("it is not a mapping")
    kept = values.pop("digest", None)
    if kept != digest(json.dumps(values, sort_keys=True).encode()):
        raise ValueError("it does not have the digest that it was written with")
    return values


def read_sealed(uri: str) -> dict[str, Any] | None:
    """Return the values of a sealed file, None if there is none.

    Raises
    ------
    DamagedError
        If it is not what was written.
    """
    try:
        return from_sealed(read(uri))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DamagedError(f"{uri} is damaged: {error}") from None


def read_mapping(uri: str) -> dict[str, Any]:
    """Return a mapping as JSON without a digest; an empty one if it is absent or damaged."""
    try:
        values = _load(read(uri))
    except (FileNotFoundError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def digests_of(values: Mapping[str, Any], key: str) -> dict[str, str]:
    """Return the digests of files, by their path in a folder, from values that were sealed.

    Raises
    ------
    ValueError
        If it is not a mapping from paths in the folder to digests: a path that leads out of the
        folder must not be read, and even less be removed as damaged.
    """
    listed = values.get(key)
    if not isinstance(listed, dict):
        raise ValueError(f"its {key} are not a mapping")
    for path, value in listed.items():
        inside = not {"", ".", ".."} & set(path.split("/")) and "\0" not in path
        if not inside or not isinstance(value, str):
            raise ValueError(f"its {key} are not digests of files of the folder")
    return listed


def _load(content: bytes) -> Any:
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def seal(
    uri: str,
    expected: Mapping[str, str] | None = None,
    *,
    known: Mapping[str, str] | None = None,
) -> None:
    """Write the manifest of a folder: the digests of all files in it.

    Parameters
    ----------
    uri
        Folder, a local path or fsspec URL.
    expected
        Digests of files that were recorded when they were written, by their path in the folder;
        the files are read and compared.
    known
        The same of files that this process or its workers have just written: they are not read.

    Raises
    ------
    DamagedError
        If a file does not have the expected digest, or is missing.
    """
    known, present = known or {}, list_files(uri)
    for path in known.keys() - present.keys():
        raise DamagedError(f"{uri}/{path} is missing; {REMEDY}")
    found = {**digests(uri, present.keys() - known.keys(), present), **known}
    for path, wanted in (expected or {}).items():
        if found.get(path) != wanted:
            raise DamagedError(f"{uri}/{path} {_damage(path, found)}; {REMEDY}")
    attributes = json.loads(to_sealed({"files": found}))
    group = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    put(f"{uri}/{MANIFEST}", json.dumps(group, indent=1, sort_keys=True).encode())


def find_damage(uri: str, *, growing: bool = False) -> dict[str, str] | None:
    """Return what is wrong with each file of a folder, by its path; None if it has no manifest.

    ``growing``: files that the manifest does not list are expected.

    Raises
    ------
    DamagedError
        If the manifest itself is damaged.
    """
    compared = _compare(uri, growing=growing)
    return None if compared is None else compared[1]


def _compare(
    uri: str, only: set[str] | None = None, *, growing: bool = False
) -> tuple[set[str], dict[str, str]] | None:
    """Return the files that a manifest lists, and what is wrong with each that is damaged.

    ``only``: files that are looked at.
    """
    try:
        group = _load(read(f"{uri}/{MANIFEST}"))
        listed = digests_of(from_sealed(json.dumps(group["attributes"]).encode()), "files")
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{uri}/{MANIFEST} is damaged ({error}); {REMEDY}") from None
    present: dict[str, int] = {}
    if only is None:
        present = list_files(uri)
    else:
        listed = {path: listed[path] for path in only & listed.keys()}
    found = digests(uri, listed.keys(), present)
    damage = {
        path: _damage(path, found) for path in sorted(listed) if found.get(path) != listed[path]
    }
    if not growing:
        damage |= {path: "does not belong there" for path in sorted(present.keys() - listed.keys())}
    return set(listed), damage


def check(uri: str) -> set[str]:
    """Check every file of a folder against its manifest, and return their paths.

    Raises
    ------
    DamagedError
        If one is missing, differs or does not belong there, or if there is no manifest. Names the
        file, and says what repairs it.
    """
    compared = _compare(uri)
    if compared is None:
        raise DamagedError(f"{uri}/{MANIFEST} is missing; {REMEDY}")
    listed, damage = compared
    for path, what in damage.items():
        raise DamagedError(f"{uri}/{path} {what}; {REMEDY}")
    return listed


def check_root(uri: str) -> None:
    """Check the root of a Zarr store, which says what is in it, if it has a manifest.

    Raises
    ------
    DamagedError
        If it is not what was written.
    """
    compared = _compare(uri, {"zarr.json"})
    for path, what in (compared[1] if compared else {}).items():
        raise DamagedError(f"{uri}/{path} {what}; {REMEDY}")


def is_intact(uri: str) -> bool:
    """Return whether a folder has a manifest, and every file is as it says."""
    try:
        return find_damage(uri) == {}
    except DamagedError:
        return False


def _damage(path: str, found: Mapping[str, str]) -> str:
    return "is not the file that was written" if path in found else "is missing"


def list_files(uri: str) -> dict[str, int]:
    """Return the files in a folder, without its manifest and unfinished writes: bytes by path."""
    filesystem, root = connect(uri)
    filesystem.invalidate_cache()
    prefix = str(root).rstrip("/") + "/"
    found = filesystem.find(root, detail=True)
    sizes = {str(path)[len(prefix) :]: about["size"] or 0 for path, about in found.items()}
    return {
        path: size
        for path, size in sizes.items()
        if path != MANIFEST and not path.endswith(".partial")
    }


def digests(
    uri: str, paths: Iterable[str], sizes: Mapping[str, int] | None = None
) -> dict[str, str]:
    """Return the digests of files of a folder, by their path in it, without missing files.

    ``sizes``: bytes of files, which a remote store is then not asked for.
    """
    filesystem, root = connect(uri)
    sizes = sizes if sizes is not None and is_remote(uri) else {}

    def read_one(path: str) -> str | None:
        try:
            if path not in sizes:
                return digest(read(f"{uri}/{path}"))
            check_size(sizes[path], f"{uri}/{path}", LARGEST)
            return digest(filesystem.cat_file(f"{root}/{path}"))
        except FileNotFoundError:
            return None
        except FormatError:  # a folder, or too large: not what was written
            return ""

    ordered = sorted(paths)
    # 16: concurrent reads of remote files
    with ThreadPoolExecutor(16 if is_remote(uri) else 1) as pool:
        pairs = zip(ordered, pool.map(read_one, ordered), strict=True)
        return {path: value for path, value in pairs if value is not None}
