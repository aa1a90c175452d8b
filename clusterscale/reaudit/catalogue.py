"""What releases there are: listed in a file, or found in a folder; opened only when they change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError

from clusterscale.contracts import hash_of
from clusterscale.cube import TraceCube, storage
from clusterscale.errors import ClusterscaleError, MissingError
from clusterscale.reaudit.entry import ReleaseEntry
from clusterscale.reaudit.listed import Content, Listed, settle
from clusterscale.reaudit.values import ENDINGS, read_values

__all__ = ["Catalogue", "Problem", "find_releases"]


@dataclass(frozen=True, slots=True)
class Problem:
    """A release that cannot be listed, and why."""

    name: str
    error: ClusterscaleError


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
    return tuple(ReleaseEntry(counts=f"{place}/{name}") for name in names)


class Catalogue:
    """Releases, and what is known of them from earlier.

    A release whose files are as they were (their sizes and times of change, or what an object store
    calls their content) is not opened again.

    Parameters
    ----------
    entries
        The releases, in order.
    cube
        Address of whom they are made, where they do not say.
    memory
        File that keeps what is known; it may be lost, and is then made again.
    """

    def __init__(self, entries: tuple[ReleaseEntry, ...], cube: str, memory: str) -> None:
        self._entries, self._cube, self._memory = entries, cube, memory
        self._known = _recall(memory)
        self._cubes: dict[str, TraceCube] = {}

    def cube_of(self, listed: Listed) -> TraceCube:
        """Return the cube that a release is made of, opened once."""
        return self._open(listed.cube)

    def look(
        self, tell: Callable[[int, int], None] = lambda total, done: None
    ) -> list[Listed | Problem]:
        """Return every release in order, or why it cannot be listed.

        ``tell`` is called with how many there are, and how many are listed.
        """
        found: list[Listed | Problem] = []
        known: dict[str, Any] = {}
        for entry in self._entries:
            try:
                key, listed = self._look(entry)
            except ClusterscaleError as error:
                found.append(Problem(entry.label, error))
            else:
                known[key] = self._describe(listed)
                found.append(listed)
            tell(len(self._entries), len(found))
        if known != self._known:
            storage.put(self._memory, json.dumps(known, indent=1, sort_keys=True).encode())
            self._known = known
        return found

    def read(self, listed: Listed) -> Content:
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

    def _look(self, entry: ReleaseEntry) -> tuple[str, Listed]:
        """Return a release with the key that it is known by."""
        key = hash_of([entry.model_dump(mode="json"), list(_stamp(entry.counts))])
        return key, self._remember(key) or self._settle(entry)[0]

    def _remember(self, key: str) -> Listed | None:
        """Return what is known by a key, unless the cube or the table of members is another now."""
        try:
            known = self._known[key]
            listed = Listed.model_validate(known["listed"], strict=False)
            same = known["cube"] == self.cube_of(listed).fingerprint
            members = list(_stamp(listed.members)) if listed.members else []
            return listed if same and known["members"] == members else None
        except (KeyError, TypeError, ValidationError, ClusterscaleError):
            return None  # of another version, or gone: look again, and say what is wrong

    def _describe(self, listed: Listed) -> dict[str, Any]:
        return {
            "listed": listed.model_dump(mode="json"),
            "cube": self.cube_of(listed).fingerprint,
            "members": list(_stamp(listed.members)) if listed.members else [],
        }

    def _settle(self, entry: ReleaseEntry) -> tuple[Listed, Content]:
        written = read_values(entry.counts, entry.variable)
        said = entry.or_else(written.described)
        members = storage.read(said["members"]) if said.get("members") else b""
        return settle(entry, written, self._open(said.get("cube")), members)

    def _open(self, cube: str | None) -> TraceCube:
        uri = cube or self._cube
        if uri not in self._cubes:
            self._cubes[uri] = TraceCube(uri)
        return self._cubes[uri]


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
