"""Membership lists: the groups that a plan gives, instead of groups at random from all users."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, product
from typing import Annotated

import numpy as np
from pydantic import AfterValidator, Field

from clusterscale.analyses.audit.settings import Precision, interim_looks
from clusterscale.analyses.audit.targets import find_users
from clusterscale.contracts import NonEmptyUnique, Prior
from clusterscale.cube import TraceCube
from clusterscale.errors import ConfigError, PoolError
from clusterscale.groups import check_lists

Indices = tuple[tuple[int, ...], ...]
"""Membership lists as indices of users in the cube."""

_MOST = 200_000  # members of all lists, because tasks carry them
_MOST_NAMED = 5  # lists in an error


def _few(lists: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    n_members = sum(map(len, lists))
    if n_members > _MOST:
        raise ValueError(f"the lists have {n_members:,} members, but at most {_MOST:,} are allowed")
    return lists


_List = Annotated[tuple[str, ...], Field(min_length=2), *NonEmptyUnique]
Lists = Annotated[tuple[_List, ...], *NonEmptyUnique, AfterValidator(_few)]
"""Membership lists as pseudonyms of users, or ``row N``."""


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


def find_short(
    lists: Sequence[Sequence[object]] | None,
    sizes: Sequence[int],
    priors: Sequence[Prior],
    precision: Precision | None,
) -> Iterator[str]:
    """Yield a line for each group size that membership lists are too short or too few for."""
    if lists is None:
        return
    for (i, size), prior in product(enumerate(sizes), priors):
        n_added = interim_looks(prior.n_challenges, precision)[-1] - prior.n_challenges
        try:
            check_lists(lists, size=size, n_groups=prior.n_groups + n_added, name=prior.name)
        except PoolError as error:
            yield f"group_sizes.{i}: {error}"


def describe_lists(lists: Sequence[Sequence[object]]) -> str:
    """Return how many lists there are, and how long they are, without naming members."""
    sizes = [len(each) for each in lists]
    return f"{len(sizes):,} lists of {min(sizes):,} to {max(sizes):,} users"
