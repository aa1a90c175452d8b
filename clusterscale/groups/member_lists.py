"""Membership lists: the groups that a plan gives, instead of groups at random from all users."""

from collections.abc import Sequence
from itertools import chain
from typing import Annotated

import numpy as np
from pydantic import AfterValidator, Field

from clusterscale.contracts import Ints, NonEmptyUnique
from clusterscale.cube import TraceCube
from clusterscale.cube.attributes import ROW_NAME
from clusterscale.errors import ConfigError, InputError

Indices = tuple[tuple[int, ...], ...]
"""Membership lists as indices of users in the cube."""

_MOST = 200_000  # members of all lists, because tasks carry them
_MOST_NAMED = 5  # lists in an error


def _check_size(lists: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    n_members = sum(map(len, lists))
    if n_members > _MOST:
        raise ValueError(f"the lists have {n_members:,} members, but at most {_MOST:,} are allowed")
    return lists


_List = Annotated[tuple[str, ...], Field(min_length=2), *NonEmptyUnique]
Lists = Annotated[tuple[_List, ...], *NonEmptyUnique, AfterValidator(_check_size)]
"""Membership lists as pseudonyms of users, or ``row N``."""


def find_users(cube: TraceCube, wanted: Sequence[str]) -> Ints:
    """Return the rows of users with these ids or pseudonyms, in order, int64, shape (user,).

    −1 for users that are not in the cube. ``row N`` always is row N, never the user whose stored
    id reads so: that user, too, is reached by row.
    """
    import pandas as pd  # slow to import; but NumPy's search fails on two arrays of strings

    users = pd.Index(cube.user_ids().astype(object)).get_indexer(list(wanted))
    for i, name in enumerate(wanted):
        if match := ROW_NAME.fullmatch(name):
            users[i] = int(match[1]) if int(match[1]) < cube.n_users else -1
    return np.asarray(users, np.int64)


def find_listed(cube: TraceCube, names: Sequence[str], uri: str) -> Ints:
    """Return the rows of the users that a file lists, in its order, int64, shape (user,).

    Raises InputError if one is not in the cube or is listed twice; messages name no users.
    """
    rows = find_users(cube, names)
    if n_unknown := int((rows < 0).sum()):
        raise InputError(f"{uri}: {n_unknown:,} of {len(rows):,} users are not in the cube")
    if n_twice := len(rows) - len(np.unique(rows)):
        raise InputError(f"{uri}: {n_twice:,} users are listed twice")
    return rows


def find_members(cube: TraceCube, lists: Sequence[Sequence[str]] | None) -> Indices | None:
    """Return membership lists as indices of users; None if there are none.

    Raises
    ------
    ConfigError
        If a user is not in the cube, or is in a list twice.
    """
    if lists is None:
        return None
    users = find_users(cube, list(chain.from_iterable(lists)))
    found = np.split(users, np.cumsum([len(each) for each in lists])[:-1])
    faults = []
    for i, members in enumerate(found):
        unknown, n_twice = int((members < 0).sum()), len(members) - len(np.unique(members))
        if unknown:
            faults.append(f"groups.{i}: {unknown} of {len(members)} users are not in the cube")
        elif n_twice:
            faults.append(f"groups.{i}: {n_twice} of {len(members)} users are listed twice")
    if faults:
        more = [f"and {len(faults) - _MOST_NAMED} more lists"] * (len(faults) > _MOST_NAMED)
        raise ConfigError("\n".join([*faults[:_MOST_NAMED], *more]))
    return tuple(tuple(members.tolist()) for members in found)


def describe_lists(lists: Sequence[Sequence[object]]) -> str:
    """Return how many lists there are, and how long they are, without naming members."""
    sizes = [len(each) for each in lists]
    return f"{len(sizes):,} lists of {min(sizes):,} to {max(sizes):,} users"
