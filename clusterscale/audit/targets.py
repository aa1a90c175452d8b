"""Whom to attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import model_validator

from clusterscale.audit.lists import SEVERAL
from clusterscale.contracts import Component, Count, Ints
from clusterscale.cube import TraceCube
from clusterscale.errors import ConfigError
from clusterscale.seeds import stream

__all__ = ["TERTILES", "Chosen", "Targets"]

TERTILES = ("some", "mild", "high")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Users to attack: indices in the cube, increasing, and the mobility tertile of each."""

    users: Ints
    tertiles: tuple[str, ...]


class Targets(Component):
    """Whom to attack; exactly one of the fields is given.

    ``tertiles``: so many at random from each third of the users by number of events (NDSS18 §V-A);
    ``random``: so many at random; ``listed``: the users with these pseudonyms; ``all``: everyone.
    """

    tertiles: Count | None = None
    random: Count | None = None
    listed: Annotated[tuple[str, ...], *SEVERAL] | None = None
    all: Literal[True] | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if sum(value is not None for value in self.__dict__.values()) != 1:
            raise ValueError("give exactly one of tertiles, random, listed, all")
        return self

    def choose(self, cube: TraceCube, seed: int) -> Chosen:
        """Choose users of ``cube``.

        Raises
        ------
        ConfigError
            If the cube has fewer users than asked for, or none with a listed pseudonym.
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
    ids = cube.user_ids()
    order = np.argsort(ids)
    names = np.asarray(wanted, ids.dtype)
    place = np.minimum(np.searchsorted(ids, names, sorter=order), len(ids) - 1)
    users = order[place]
    unknown = int((ids[users] != names).sum())
    if unknown:
        raise ConfigError(f"targets.listed: {unknown} of {len(wanted)} users are not in the cube")
    return np.unique(users)
