"""Whom to attack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from clusterscale.audit.period import Period
from clusterscale.contracts import ConfigModel, Count, Ints, Share
from clusterscale.contracts.lists import NonEmptyUnique
from clusterscale.cube import TraceCube
from clusterscale.cube.summary import count_events
from clusterscale.errors import ConfigError, InputError
from clusterscale.seeds import stream

__all__ = ["TERTILES", "Chosen", "Presence", "Targets", "find_users"]

TERTILES = ("some", "mild", "high")

_KINDS = ("tertiles", "random", "most_exposed", "listed", "all")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Users to attack: indices in the cube, increasing, and the mobility tertile of each.

    ``attacked``: bool, shape (period, target), the periods in which each is attacked; all where
    None.
    """

    users: Ints
    tertiles: tuple[str, ...]
    attacked: NDArray[np.bool_] | None = None

    def attacks(self, period: int) -> Ints:
        """Return the users who are attacked in the period of that number."""
        return self.users if self.attacked is None else self.users[self.attacked[period]]


@dataclass(frozen=True, slots=True, eq=False)
class Presence:
    """Who has an event in the audited periods; those whom a prior observed before do not count.

    ``periods``: their names; ``n_events``: int64, shape (period, user); ``total``: int64, shape
    (user,), each event counted once where periods overlap.
    """

    periods: tuple[str, ...]
    n_events: NDArray[np.int64]
    total: NDArray[np.int64]

    @classmethod
    def of(cls, cube: TraceCube, periods: Sequence[Period]) -> Self:
        """Count the events of every user; of the whole cube where no period is given.

        Raises
        ------
        DamagedError
            If the events of the cube cannot be read.
        """
        names = tuple(period.name for period in periods) or ("the cube",)
        spans = tuple(period.spans[-1] for period in periods) or ((0, cube.n_epochs),)
        counts = count_events(cube, spans)
        return cls(names, counts[:-1], counts[-1])

    @property
    def n_seen(self) -> NDArray[np.int64]:
        """Users with an event in each period, int64, shape (period,)."""
        return np.asarray((self.n_events > 0).sum(axis=1), np.int64)

    def __str__(self) -> str:
        n_ever = f"{(self.total > 0).sum():,} of {len(self.total):,} users have an event in"
        if len(self.periods) == 1:
            return f"{n_ever} {self.periods[0]}"
        each = zip(self.periods, self.n_seen.tolist(), strict=True)
        return f"{n_ever} an audited period ({', '.join(f'{name}: {n:,}' for name, n in each)})"


class Targets(ConfigModel):
    """Whom to attack; exactly one of the fields but ``unseen`` is given.

    ``tertiles``: so many at random from each third of the users by number of events (NDSS18 §V-A);
    ``random``: so many at random; ``most_exposed``: so many, or that share of all, whom a screen of
    everyone finds easiest to tell (:func:`clusterscale.screen`, which the audit runs first);
    ``listed``: the users with these pseudonyms, as results name them; ``all``: everyone.

    ``unseen``: what becomes of users without an event in the audited periods, who have nothing to
    expose. With ``exclude`` users are those with an event in one of them, thirds are by the events
    in them, and a target is not attacked in a period in which it has none. With ``include`` users
    are all of the cube, and thirds are by all of their events, as in the papers. Groups are drawn
    from all users either way.
    """

    tertiles: Count | None = None
    random: Count | None = None
    most_exposed: Count | Share | None = None
    listed: Annotated[tuple[str, ...], *NonEmptyUnique] | None = None
    all: Literal[True] | None = None
    unseen: Literal["exclude", "include"] = "exclude"

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if sum(getattr(self, kind) is not None for kind in _KINDS) != 1:
            raise ValueError(f"give exactly one of {', '.join(_KINDS)}")
        return self

    def n_most_exposed(self, cube: TraceCube, periods: Sequence[Period] = ()) -> int:
        """Return how many of the most exposed are wanted, 0 where the choice is another.

        Raises
        ------
        ConfigError
            If there are fewer users to choose from.
        """
        wanted = self.most_exposed
        if wanted is None:
            return 0
        presence = Presence.of(cube, periods)
        n_users = len(self._eligible(presence))
        number = wanted if isinstance(wanted, int) else ceil(wanted * n_users)
        if number > n_users:
            raise self._too_few("most_exposed", number, f"{n_users} users", n_users, presence)
        return number

    def choose(
        self,
        cube: TraceCube,
        seed: int,
        ranking: Ints | None = None,
        *,
        periods: Sequence[Period] = (),
    ) -> Chosen:
        """Choose users of ``cube``.

        Parameters
        ----------
        cube, seed
            Whose users, and the root seed of the draw.
        ranking
            Users by their exposure in a screen, the most exposed first, int64; only for
            ``most_exposed``.
        periods
            The audited periods; where none is given, users of the whole cube are chosen, and
            attacked in every period.

        Raises
        ------
        ConfigError
            If there are fewer users than asked for, none with a listed pseudonym, or nobody with
            an event in a period.
        InputError
            If the most exposed are wanted, and there is no ranking.
        """
        presence = Presence.of(cube, periods)
        eligible = self._eligible(presence)
        events = presence.total if self.unseen == "exclude" else np.diff(cube.offsets)
        third = _thirds(events[eligible])
        rng = stream(seed, "targets")
        if self.tertiles is not None:
            pools = [eligible[third == i] for i in range(3)]
            users = np.concatenate(
                [self._draw(pool, self.tertiles, rng, "tertiles", presence) for pool in pools]
            )
        elif self.random is not None:
            users = self._draw(eligible, self.random, rng, "random", presence)
        elif self.most_exposed is not None:
            if ranking is None:
                raise InputError("targets.most_exposed: a screen must rank everyone first")
            users = np.asarray(ranking, np.int64)
            users = users[np.isin(users, eligible)][: self.n_most_exposed(cube, periods)]
        elif self.listed is not None:
            users = self._find(cube, self.listed, eligible, presence)
        else:
            users = eligible
        users = np.sort(users)
        tertiles = tuple(TERTILES[i] for i in third[np.searchsorted(eligible, users)])
        attacked = None
        if periods and self.unseen == "exclude":
            attacked = presence.n_events[:, users] > 0
        return Chosen(users, tertiles, attacked)

    def _eligible(self, presence: Presence) -> Ints:
        """Return the users that targets are chosen from, increasing.

        Raises
        ------
        ConfigError
            If unseen users are left out, and there are no others in a period.
        """
        if self.unseen == "include":
            return np.arange(len(presence.total))
        empty = [
            f"periods.{i}: no user has an event in {name}, so there is nobody to attack; choose "
            "other epochs"
            for i, name in enumerate(presence.periods)
            if not presence.n_seen[i]
        ]
        if empty:
            raise ConfigError("\n".join(empty))
        return np.flatnonzero(presence.total)

    def _draw(
        self, pool: Ints, size: int, rng: np.random.Generator, key: str, presence: Presence
    ) -> Ints:
        if size > len(pool):
            smallest = len(self._eligible(presence)) // 3 if key == "tertiles" else len(pool)
            words = f"{len(pool)} to draw from"
            raise self._too_few(key, size, words, smallest, presence)
        return rng.choice(pool, size, replace=False)

    def _too_few(
        self, key: str, asked: int, there_are: str, n_fitting: int, presence: Presence
    ) -> ConfigError:
        text = f"targets.{key}: {asked} asked for, but there are {there_are}"
        if self.unseen == "exclude" and not presence.total.all():
            text += f"{' in a third' * (key == 'tertiles')}: only {presence}"
            fits = f"ask for {n_fitting} or fewer, or " if n_fitting else ""
            text += f"; {fits}choose from the others as well (targets.unseen: include)"
        return ConfigError(text)

    def _find(
        self, cube: TraceCube, wanted: tuple[str, ...], eligible: Ints, presence: Presence
    ) -> Ints:
        users = find_users(cube, wanted)
        unknown = int((users < 0).sum())
        if unknown:
            raise ConfigError(
                f"targets.listed: {unknown} of {len(wanted)} users are not in the cube"
            )
        absent = ~np.isin(users, eligible)
        if absent.any():
            names = list(dict.fromkeys(cube.pseudonyms(users[absent]).tolist()))
            more = ", …" if len(names) > _MOST_NAMED else ""
            raise ConfigError(
                f"targets.listed: {len(names)} of {len(wanted)} users have no event in "
                f"{' or '.join(presence.periods)}, and nothing to expose there "
                f"({', '.join(names[:_MOST_NAMED])}{more}); leave them out, or attack them all "
                "the same (targets.unseen: include)"
            )
        return np.unique(users)


_MOST_NAMED = 5  # pseudonyms in an error


def _thirds(events: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the third of each user by number of events, 0 to 2; among equals by place."""
    rank = np.empty(len(events), np.int64)
    rank[np.argsort(events, kind="stable")] = np.arange(len(events))
    return 3 * rank // max(1, len(events))


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
