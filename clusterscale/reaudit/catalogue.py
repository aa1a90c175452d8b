"""What releases there are: listed in a file, or found in a folder; opened only when they change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from clusterscale import storage
from clusterscale.contracts import hash_of
from clusterscale.cube import TraceCube
from clusterscale.errors import ClusterscaleError, InputError, MissingError
from clusterscale.reaudit.entry import PLACES, ReleaseEntry
from clusterscale.reaudit.resolved_release import Content, ResolvedRelease, settle
from clusterscale.reaudit.values import ENDINGS, read_values

__all__ = ["Catalogue", "Problem", "expand", "find_releases", "read_file"]


@dataclass(frozen=True, slots=True)
class Problem:
    """A release that cannot be listed, and why."""

    name: str
    error: ClusterscaleError
    passing: bool = False


def find_releases(pattern: str) -> tuple[ReleaseEntry, ...]:
    """Return the releases in a folder, or those whose name fits a pattern, by name.

    Parameters
    ----------
    pattern
        A folder, a local path or fsspec URL, of which everything is taken whose name ends as a
        Zarr group or a NetCDF file; or such a folder with a pattern for names, as in
        ``s3://bucket/releases/week-*.zarr``.

    Raises
    ------
    MissingError
        If there are none.
    InputError
        If two have the same name but for the ending.
    """
    folder, _, last = pattern.rstrip("/").rpartition("/")
    wanted = last if any(sign in last for sign in "*?[") else None
    place = (folder or ".") if wanted else pattern.rstrip("/")
    names = [
        name
        for name in storage.list_names(place)
        if (fnmatchcase(name, wanted) if wanted else name.endswith(ENDINGS))
    ]
    if not names:
        raise MissingError(f"{pattern}: there are no releases")
    names.sort(key=lambda name: PurePosixPath(name).stem)  # "week-3", then "week-3-revised"
    entries = tuple(ReleaseEntry(counts=f"{place}/{name}") for name in names)
    labels = [entry.label for entry in entries]
    for label in labels:
        same = [name for name, other in zip(names, labels, strict=True) if other == label]
        if len(same) > 1:
            raise InputError(f"{pattern}: {' and '.join(same)} have one name; list them with names")
    return entries


def expand(entry: ReleaseEntry) -> tuple[ReleaseEntry, ...]:
    """Return an entry for each release whose name fits, all else the same; itself if no pattern."""
    if not entry.is_pattern:
        return (entry,)
    try:
        found = find_releases(entry.counts)
    except MissingError:
        return ()
    return tuple(entry.model_copy(update={"counts": each.counts}) for each in found)


class Catalogue:
    """Releases, and what is known of them from earlier.

    A release whose files are as they were (their sizes and times of change, or what an object store
    calls their content) is not opened again.

    Parameters
    ----------
    entries
        The releases, in order.
    cube
        Address of the cube of those whose entry does not give another.
    memory
        File that keeps what is known; it may be lost, and is then made again.
    """

    def __init__(self, entries: tuple[ReleaseEntry, ...], cube: str, memory: str) -> None:
        self._entries, self._cube, self._memory = entries, cube, memory
        self._known = _recall(memory)
        self._cubes: dict[str, TraceCube] = {}

    def cube_of(self, listed: ResolvedRelease) -> TraceCube:
        """Return the cube that a release is made of, opened once."""
        return self._open(listed.cube)

    def _open(self, uri: str | None) -> TraceCube:
        uri = uri or self._cube
        if uri not in self._cubes:
            self._cubes[uri] = TraceCube(uri)
        return self._cubes[uri]

    def look(
        self, tell: Callable[[int, int], None] = lambda total, done: None
    ) -> list[ResolvedRelease | Problem]:
        """Return every release in order, or why it cannot be listed.

        ``tell`` is called with how many there are, and how many are listed.
        """
        found: list[ResolvedRelease | Problem] = []
        known: dict[str, Any] = {}
        for entry in self._entries:
            try:
                key, listed, behind = self._look(entry)
            except ClusterscaleError as error:
                found.append(Problem(entry.label, error))
            else:
                known[key] = {"listed": listed.model_dump(mode="json"), "behind": behind}
                found.append(listed)
            tell(len(self._entries), len(found))
        if known != self._known:
            storage.put(self._memory, json.dumps(known, indent=1, sort_keys=True).encode())
            self._known = known
        return found

    def read(self, listed: ResolvedRelease) -> Content:
        """Return the values of a release.

        Raises
        ------
        ClusterscaleError
            If they cannot be read, or are no longer those that were listed.
        """
        for entry in self._entries:
            if (entry.label, entry.counts) == (listed.name, listed.counts):
                again, content = self._settle(entry)
                if again.content == listed.content:
                    return content
        raise MissingError(f"{listed.name} ({listed.counts}) changed while it was looked at")

    def _look(self, entry: ReleaseEntry) -> tuple[str, ResolvedRelease, str]:
        """Return a release, with the key that it is known by and the hash of what is behind it."""
        _refuse_indirect(entry.counts)
        said = [entry.model_dump(mode="json"), sorted(entry.model_fields_set)]
        key = hash_of([*said, self._cube, [*_stamp(entry.counts)]])
        known = self._known.get(key)
        if isinstance(known, dict):
            try:
                listed = ResolvedRelease.model_validate(known.get("listed"), strict=False)
            except ValidationError:  # written by another version
                pass
            else:
                same_places = all(getattr(listed, at) == getattr(entry, at) for at in PLACES)
                if same_places and known.get("behind") == (behind := self._behind(listed)):
                    return key, listed, behind
        listed, _ = self._settle(entry)
        return key, listed, self._behind(listed)

    def _behind(self, listed: ResolvedRelease) -> str:
        """Return the hash of a release's cube and members."""
        members = [*_stamp(listed.members)] if listed.members else []
        return hash_of([self.cube_of(listed).fingerprint, members])

    def _settle(self, entry: ReleaseEntry) -> tuple[ResolvedRelease, Content]:
        written = read_values(entry.counts, entry.variable)
        members = read_file(entry.members) if entry.members else b""
        return settle(entry, written, self._open(entry.cube), members)


def read_file(uri: str) -> bytes:
    """Return the bytes of a file that somebody named.

    Raises
    ------
    MissingError
        If there is none.
    StoreError
        If it cannot be read.
    """
    try:
        return storage.read(uri)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise MissingError(f"{uri}: there is no such file") from None


def _refuse_indirect(uri: str) -> None:
    """Refuse an address through which a release, or its name, would say what else is opened."""
    if "::" in uri or urlsplit(uri).scheme == "reference":
        raise InputError(
            f"{uri}: chained addresses (::) and reference:// are not opened: a release could point "
            "to any file through them; give the address of its own store"
        )


def _recall(memory: str) -> dict[str, Any]:
    try:
        known = json.loads(storage.read(memory))
    except (FileNotFoundError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _stamp(uri: str) -> Iterator[list[Any]]:
    """Yield what tells the files below an address from what they were."""
    filesystem, path = storage.connect(uri)
    filesystem.invalidate_cache()
    found = filesystem.find(path, detail=True)
    if not found:
        raise MissingError(f"{uri}: nothing is stored there")
    for name, facts in sorted(found.items()):
        marks = (facts.get(key) for key in ("size", "mtime", "ETag", "LastModified", "created"))
        yield [PurePosixPath(name).name, *map(str, marks)]
