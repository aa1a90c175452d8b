"""Arguments of the functions on arrays: parts by name, releases, traces and groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel

from clusterscale.contracts import GroupSample, Mechanism, Members, Release, Traces
from clusterscale.errors import ConfigError, InputError
from clusterscale.groups import count_visits, sum_weights
from clusterscale.registry import Registry

T = TypeVar("T")


def make(registry: Registry[T], given: Any) -> T:
    """Return an entry of a registry: an object, or made from a name or a mapping with a name."""
    if isinstance(given, str):
        return registry.create(given)
    if isinstance(given, Mapping):
        if "name" not in given:
            known = ", ".join(registry)
            raise ConfigError(f"{registry.kind}: `name` is missing; use one of {known}")
        return registry.create(**given)
    kind: Any = registry.base or BaseModel
    if not isinstance(given, kind):
        raise InputError(
            f"{registry.kind} is of type {type(given).__name__}, but should be a name or {kind}"
        )
    return given  # type: ignore[no-any-return]


def read_labels(labels: ArrayLike) -> NDArray[np.bool_]:
    """Return labels, bool, shape (group,); raise :class:`InputError` if they are something else."""
    given = np.asarray(labels)
    if given.ndim != 1 or given.dtype != np.bool_:
        raise InputError(f"labels are {given.dtype} of shape {given.shape}, not bool (group,)")
    return given


def read_releases(values: Any, size: int, mechanism: Mechanism | None, what: str) -> Release:
    """Return published values as a release; raise :class:`InputError` for another shape."""
    given = np.asarray(values)
    if given.ndim != 3 or given.dtype.kind not in "iuf":
        raise InputError(
            f"{what} are {given.dtype} of shape {given.shape}, not numbers (group, roi, epoch)"
        )
    array = np.ascontiguousarray(given, np.float64)
    if mechanism is None:
        return Release(array, size, "published values")
    return Release(array, size, mechanism.label, mechanism.noise, mechanism.law_for_attacks(size))


def read_traces(dense: Any) -> Traces:
    """Return a dense array of who was where as traces."""
    given = np.asarray(dense)
    if given.ndim != 3 or given.dtype.kind not in "biu" or not np.isin(given, (0, 1)).all():
        raise InputError(
            f"traces are {given.dtype} of shape {given.shape}, not bool (user, roi, epoch)"
        )
    n_users, n_rois, n_epochs = given.shape
    rows, cells = np.nonzero(given.reshape(n_users, -1))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_users))])
    return Traces(offsets.astype(np.int64), cells.astype(np.int64), n_rois, n_epochs)


def read_rows(traces: Traces, rows: ArrayLike, what: str, ndim: int) -> Members:
    """Return rows of users as int64; raise :class:`InputError` if there is no such user."""
    given = np.asarray(rows)
    if given.ndim != ndim or given.dtype.kind not in "iu" or not given.size:
        shape = "(group, member)" if ndim == 2 else "(user,)"
        raise InputError(f"{what} are {given.dtype} of shape {given.shape}, not integers {shape}")
    if given.min() < 0 or given.max() >= traces.n_users:
        raise InputError(
            f"{what} has rows from {given.min()} to {given.max()}, but there are {traces.n_users} "
            "users"
        )
    return given.astype(np.int64)


def read_groups(traces: Traces, rows: ArrayLike, what: str) -> Members:
    """Return groups, (group, member); raise :class:`InputError` if a user is listed twice."""
    groups = read_rows(traces, rows, f"{what} groups", 2)
    if (np.diff(np.sort(groups, axis=1), axis=1) == 0).any():
        raise InputError(f"a user is listed twice in one of the {what} groups")
    return groups


def count_groups(
    traces: Traces, target: int, groups: Members, what: str, least: int
) -> GroupSample:
    """Count groups; ``least`` is how many must contain the target, and how many must not."""
    labels = (groups == target).any(axis=1)
    n_inside, n_outside = int(labels.sum()), int((~labels).sum())
    if min(n_inside, n_outside) < least:
        raise InputError(
            f"of {len(groups)} {what} groups, {n_inside} contain the target and {n_outside} do "
            f"not; give at least {least} of each"
        )
    counts, sums = count_visits(traces, groups), sum_weights(traces, groups)
    return GroupSample(counts, labels, _blocks(groups, target), sums)


def _blocks(groups: Members, target: int) -> NDArray[np.int64]:
    """Return a number for each group; groups with the same other members share it."""
    others = [frozenset(row) - {target} for row in groups.tolist()]
    numbers = {members: number for number, members in enumerate(dict.fromkeys(others))}
    return np.array([numbers[members] for members in others], np.int64)
