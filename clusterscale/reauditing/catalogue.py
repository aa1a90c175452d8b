"""Catalogue of releases, listed or found in a folder; each is opened only if it changes."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError

from clusterscale import storage
from clusterscale.contracts import hash_of
from clusterscale.cube import TraceCube
from clusterscale.cube.regions import NULL_ROI
from clusterscale.errors import ClusterscaleError, DamagedError, InputError, MissingError
from clusterscale.reading.places import match_codes
from clusterscale.reauditing.population import add_places, write_without_people
from clusterscale.reauditing.resolved_release import ResolvedRelease, resolve_release
from clusterscale.release import ENDINGS, URI_FIELDS, RawRelease, read_table
from clusterscale.release.entry import ReleaseEntry
from clusterscale.release.metadata import beside
from clusterscale.storage.manifest import read_mapping
from clusterscale.validation_messages import plural


@dataclass(frozen=True, slots=True)
class Problem:
    """A release that cannot be listed or audited, and the reason.

    ``passing``: the next run may succeed without a change, because tasks failed.
    """

    name: str
    error: ClusterscaleError
    passing: bool = False


def find_releases(pattern: str) -> tuple[ReleaseEntry, ...]:
    """Return the releases in a folder, or those whose name matches a pattern, sorted by name.

    ``pattern`` is a folder with all names that end like a Zarr group or a NetCDF file, or one with
    a pattern, as in ``s3://bucket/releases/week-*.zarr``; entries set only ``counts``. Raises
    MissingError if there are none, and InputError if two names differ only in the ending.
    """
    folder, _, last = pattern.rstrip("/").rpartition("/")
    glob = last if any(sign in last for sign in "*?[") else None
    uri = (folder or ".") if glob else pattern.rstrip("/")
    names = [
        name
        for name in storage.list_names(uri)
        if (fnmatchcase(name, glob) if glob else name.endswith(ENDINGS))
    ]
    if not names:
        raise MissingError(f"{pattern}: there are no releases")
    names.sort(key=lambda name: PurePosixPath(name).stem)  # "week-3", then "week-3-revised"
    entries = tuple(ReleaseEntry(counts=f"{uri}/{name}") for name in names)
    labels = [entry.label for entry in entries]
    for label in labels:
        same = [name for name, other in zip(names, labels, strict=True) if other == label]
        if len(same) > 1:
            raise InputError(
                f"{pattern}: {' and '.join(same)} have the same name: list them with names"
            )
    return entries


def expand(entry: ReleaseEntry) -> tuple[ReleaseEntry, ...]:
    """Return a copy of an entry for each release that its pattern matches.

    It is the entry itself without a pattern. Raises InputError as :func:`find_releases`.
    """
    if not entry.is_pattern:
        return (entry,)
    try:
        matches = find_releases(entry.counts)
    except MissingError:
        return ()
    return tuple(entry.model_copy(update={"counts": match.counts}) for match in matches)


class Catalogue:
    """Releases, with a cache of what was read of them.

    A release is not opened again if its files did not change: their sizes and modification times,
    or the ETags of an object store. ``cube`` is the URI of the cube of releases whose entry does
    not name another; None: there are no traces. The file ``cache`` may be removed, and is then
    written again. Beside it are cubes without people, with the ROIs and epochs of releases that
    have no other.
    """

    def __init__(self, entries: tuple[ReleaseEntry, ...], cube: str | None, cache: str) -> None:
        self._entries, self._cube, self._cache_uri = entries, cube, cache
        self._cache = read_mapping(cache)
        self._cubes: dict[str, TraceCube] = {}

    def cube_of(self, release: ResolvedRelease | ReleaseEntry) -> TraceCube:
        """Return the cube of a release; it is opened once."""
        uri = release.cube or self._cube
        assert uri is not None  # a listed release has a cube, if only one without people
        if uri not in self._cubes:
            self._cubes[uri] = TraceCube(uri)
        return self._cubes[uri]

    def scan(self) -> list[ResolvedRelease | Problem]:
        """Return every release in order, or why it cannot be listed."""
        releases: list[ResolvedRelease | Problem] = []
        cache: dict[str, Any] = {}
        for entry in self._entries:
            try:
                key, release, inputs = self._scan_one(entry)
            except ClusterscaleError as error:
                releases.append(Problem(entry.label, error))
            except Exception as error:  # of one release: the others are listed
                what = f"{entry.counts} cannot be listed: {type(error).__name__}"
                releases.append(Problem(entry.label, DamagedError(what)))
            else:
                cache[key] = {"listed": release.model_dump(mode="json"), "behind": inputs}
                releases.append(release)
        if cache != self._cache:
            storage.put(self._cache_uri, json.dumps(cache, indent=1, sort_keys=True).encode())
            self._cache = cache
        return releases

    def read(self, release: ResolvedRelease) -> RawRelease:
        """Return the values of a release, in the order of its cube.

        Raises ClusterscaleError if they cannot be read, or changed since they were listed.
        """
        again, content = self._resolve(self.entry_of(release))
        if again.content != release.content:
            raise MissingError(f"{release.name} ({release.counts}) changed since it was listed")
        return content

    def entry_of(self, release: ResolvedRelease) -> ReleaseEntry:
        """Return the entry of a listed release."""
        same = (release.name, release.counts)
        return next(entry for entry in self._entries if (entry.label, entry.counts) == same)

    def _scan_one(self, entry: ReleaseEntry) -> tuple[str, ResolvedRelease, str]:
        """Return the key of a release in the cache, the release, and the hash of its inputs."""
        fields = [entry.model_dump(mode="json"), sorted(entry.model_fields_set)]
        marks = [*_file_marks(entry.counts)]
        if storage.exists(beside(entry.counts)):
            marks += _file_marks(beside(entry.counts))
        key = hash_of([*fields, self._cube, marks])
        cached = self._cache.get(key)
        if isinstance(cached, dict):
            try:
                release = ResolvedRelease.model_validate(cached.get("listed"), strict=False)
            except ValidationError:  # written by another version
                pass
            else:
                if self._same_uris(release, entry) and cached.get("behind") == (
                    inputs := self._inputs(release)
                ):
                    return key, release, inputs
        release, _ = self._resolve(entry)
        return key, release, self._inputs(release)

    def _same_uris(self, release: ResolvedRelease, entry: ReleaseEntry) -> bool:
        """Return whether a listed release has the URIs of its entry, or a cube without people."""
        alone = entry.cube is None and self._cube is None
        return all(
            getattr(release, at) == getattr(entry, at) or (alone and at == "cube")
            for at in URI_FIELDS
        )

    def _inputs(self, release: ResolvedRelease) -> str:
        """Return the hash of a release's cube and members."""
        members = [*_file_marks(release.members)] if release.members else []
        return hash_of([self.cube_of(release).fingerprint, members])

    def _resolve(self, entry: ReleaseEntry) -> tuple[ResolvedRelease, RawRelease]:
        raw = read_table(entry.counts, entry.table_format)
        members = storage.read_file(entry.members) if entry.members else b""
        folder = self._cache_uri.rpartition("/")[0]
        if entry.cube is None and self._cube is None:
            entry = entry.model_copy(update={"cube": write_without_people(folder, raw, entry)})
        known = {*self.cube_of(entry).regions.names, NULL_ROI}
        named = {*match_codes(raw.rois or (), known)[0], NULL_ROI}
        if more := sorted(named - known if known < named else ()):
            uri = add_places(folder, self.cube_of(entry), more)
            entry = entry.model_copy(update={"cube": uri})
            note = f"nobody in the cube is in {plural(len(more), 'place')}, such as {more[0]}"
            raw = replace(raw, notes=(*raw.notes, note))
        return resolve_release(entry, raw, self.cube_of(entry), members)


def _file_marks(uri: str) -> Iterator[list[Any]]:
    """Yield the name, size and modification marks of each file below a URI."""
    filesystem, path = storage.connect(uri)
    filesystem.invalidate_cache()
    files = filesystem.find(path, detail=True)
    if not files:
        raise MissingError(f"{uri}: nothing is stored there")
    for name, info in sorted(files.items()):
        marks = (info.get(key) for key in ("size", "mtime", "ETag", "LastModified", "created"))
        yield [PurePosixPath(name).name, *map(str, marks)]
