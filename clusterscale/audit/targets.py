"""Whom to attack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import model_validator

from clusterscale.contracts import Component, Count, Ints, Share
from clusterscale.contracts.lists import SEVERAL
from clusterscale.cube import TraceCube
from clusterscale.errors import ConfigError, InputError
from clusterscale.seeds import stream

__all__ = ["TERTILES", "Chosen", "Targets", "find_users"]

TERTILES = ("some", "mild", "high")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Users to attack: indices in the cube, increasing, and the mobility tertile of each."""

    users: Ints
    tertiles: tuple[str, ...]


class Targets(Component):
    """Whom to attack; exactly one of the fields is given.

    ``tertiles``: so many at random from each third of the users by number of events (NDSS18 §V-A);
    ``random``: so many at random; ``most_exposed``: so many, or that share of all, whom a screen of
    everyone finds easiest to tell (:func:`clusterscale.screen`, which the audit runs first);
    ``listed``: the users with these pseudonyms, as results name them; ``all``: everyone.
    """

    tertiles: Count | None = None
    random: Count | None = None
    most_exposed: Count | Share | None = None
    listed: Annotated[tuple[str, ...], *SEVERAL] | None = None
    all: Literal[True] | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if sum(value is not None for value in self.__dict__.values()) != 1:
            raise ValueError("give exactly one of tertiles, random, most_exposed, listed, all")
        return self

    def n_most_exposed(self, cube: TraceCube) -> int:
        """Return how many of the most exposed are wanted, 0 where the choice is another.

        Raises
        ------
        ConfigError
            If the cube has fewer users.
        """
        wanted = self.most_exposed
        if wanted is None:
            return 0
        number = wanted if isinstance(wanted, int) else ceil(wanted * cube.n_users)
        if number > cube.n_users:
            raise ConfigError(
                f"targets.most_exposed: {number} asked for, but there are {cube.n_users} users"
            )
        return number

    def choose(self, cube: TraceCube, seed: int, ranking: Ints | None = None) -> Chosen:
        """Choose users of ``cube``; ``ranking`` has those of a screen, the most exposed first.

        Raises
        ------
        ConfigError
            If the cube has fewer users than asked for, or none with a listed pseudonym.
        InputError
            If the most exposed are wanted, and there is no ranking.
        """
        n_users = cube.n_users
        rank = np.empty(n_users, np.int64)
        rank[np.argsort(np.diff(cube.offsets), kind="stable")] = np.arange(n_users)
        third = 3 * rank // n_users
        rng = stream(seed, "targets")
        if self.tertiles is not None:
            users = np.concatenate(
                [
                    _draw(np.flatnonzero(third == i), self.tertiles, rng, "tertiles")
                    for i in range(3)
                ]
            )
        elif self.random is not None:
            users = _draw(np.arange(n_users), self.random, rng, "random")
        elif self.most_exposed is not None:
            if ranking is None:
                raise InputError("targets.most_exposed: a screen must rank everyone first")
            users = np.asarray(ranking[: self.n_most_exposed(cube)], np.int64)
        elif self.listed is not None:
            users = _find(cube, self.listed)
        else:
            users = np.arange(n_users)
        users = np.sort(users)
        return Chosen(users, tuple(TERTILES[i] for i in third[users]))


def _draw(pool: Ints, size: int, rng: np.random.Generator, key: str) -> Ints:
    if size > len(pool):
        raise ConfigError(
            f"targets.{key}: {size} asked for, but there are {len(pool)} to draw from"
        )
    return rng.choice(pool, size, replace=False)


def _find(cube: TraceCube, wanted: tuple[str, ...]) -> Ints:
    users = find_users(cube, wanted)
    unknown = int((users < 0).sum())
    if unknown:
        raise ConfigError(f"targets.listed: {unknown} of {len(wanted)} users are not in the cube")
    return np.unique(users)


def find_users(cube: TraceCube, wanted: Sequence[str]) -> Ints:
    """Return the rows of users with these ids, or with the names that results call them by.

    int64, shape (user,), in their order; −1 of whom the cube does not know.
    """
    import pandas as pd  # is slow to import, and NumPy's own search fails on two arrays of strings

    users = pd.Index(cube.user_ids().astype(object)).get_indexer(list(wanted))
    rows = [name.removeprefix("row ") for name in wanted]
    for i in np.flatnonzero(users < 0).tolist():
        row = int(rows[i]) if rows[i].isdecimal() else cube.n_users
        if row < cube.n_users and cube.pseudonyms(np.array([row]))[0] == wanted[i]:
            users[i] = row
    return np.asarray(users, np.int64)
