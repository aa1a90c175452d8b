"""Targets: the users to attack."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from clusterscale.analyses.audit.settings import Period
from clusterscale.contracts import ConfigModel, Count, Ints, NonEmptyUnique, Share
from clusterscale.cube import TraceCube
from clusterscale.cube.describe import count_events
from clusterscale.errors import ConfigError, InputError
from clusterscale.groups.member_lists import find_users
from clusterscale.seeds import stream

TERTILES = ("some", "mild", "high")

_KINDS = ("tertiles", "random", "most_exposed", "listed", "all")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Users to attack: indices in the cube, increasing, and the mobility tertile of each.

    ``attacked``: bool, shape (period, target), the periods in which each is attacked; None for all.
    """

    users: Ints
    tertiles: tuple[str, ...] = ()
    attacked: NDArray[np.bool_] | None = None

    def attacks(self, period: int) -> Ints:
        """Return the users to attack in the period with that index."""
        return self.users if self.attacked is None else self.users[self.attacked[period]]


@dataclass(frozen=True, slots=True, eq=False)
class Presence:
    """Events of known users in the audited periods, without past windows that priors observe.

    ``periods``: their names; ``n_events``: int64, shape (period, user); ``total``: int64, shape
    (user,), each event counted once where periods overlap.
    """

    periods: tuple[str, ...]
    n_events: NDArray[np.int64]
    total: NDArray[np.int64]

    @classmethod
    def of(cls, cube: TraceCube, periods: Sequence[Period]) -> Self:
        """Count the events of every known user in the periods; in the whole cube if there are none.

        Raises
        ------
        DamagedError
            If the events of the cube cannot be read.
        """
        names = tuple(period.name for period in periods) or ("the cube",)
        spans = tuple(period.spans[-1] for period in periods) or ((0, cube.n_epochs),)
        counts = count_events(cube, spans)[:, : cube.n_known]
        return cls(names, counts[:-1], counts[-1])

    @property
    def n_seen(self) -> NDArray[np.int64]:
        """Number of users with an event in each period, int64, shape (period,)."""
        return np.asarray((self.n_events > 0).sum(axis=1), np.int64)

    def __str__(self) -> str:
        n_ever = f"{(self.total > 0).sum():,} of {len(self.total):,} users have an event in"
        if len(self.periods) == 1:
            return f"{n_ever} {self.periods[0]}"
        by_period = zip(self.periods, self.n_seen.tolist(), strict=True)
        numbers = ", ".join(f"{name}: {n:,}" for name, n in by_period)
        return f"{n_ever} an audited period ({numbers})"


class Targets(ConfigModel):
    """Users to attack; exactly one of the fields other than ``unseen`` is set.

    ``tertiles``: this number at random from each third of users by number of events (NDSS18 §V-A);
    ``random``: this number at random; ``most_exposed``: this number or share of users with the
    highest AUC in a screen of all users (:func:`clusterscale.screen`; the audit runs it first);
    ``listed``: the users with these pseudonyms, as results name them, where ``row 7`` always is the
    user in row 7 of the cube, counted from 0, even if the stored id of another reads so;
    ``all``: all users.

    ``unseen``: how to treat users without an event in the audited periods, who have nothing to
    expose. With ``exclude``, targets are chosen from users with an event in one of the periods,
    thirds are by events in these, and a target is not attacked in a period without its events. With
    ``include``, targets are chosen from all users, and thirds are by all of their events, as in the
    papers. Groups are always drawn from all users.

    Attributes
    ----------
    tertiles
        Number of users drawn at random from each third by events, e.g. ``50``.
    random
        Number of users drawn at random, e.g. ``150``.
    most_exposed
        Number or share of users with the highest AUC in a screen, e.g. ``0.01``.
    listed
        Pseudonyms of users, or ``row N``, e.g. ``[row 7]``.
    all
        All users, e.g. ``true``.
    unseen
        Whether users without an event are excluded.
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

    def count(self, n_users: int) -> int:
        """Return the number of targets among so many users, all of whom are seen.

        Raises
        ------
        ConfigError
            If there are fewer users.
        """
        n_exposed = self._n_exposed(n_users)
        n_listed = len(self.listed or ())
        number = 3 * (self.tertiles or 0) + (self.random or 0) + n_exposed + n_listed
        if number > n_users:
            raise ConfigError(f"targets: {number:,} requested, but there are {n_users:,} users")
        return number or n_users

    def n_most_exposed(self, cube: TraceCube, periods: Sequence[Period] = ()) -> int:
        """Return the number of most exposed users to attack, 0 if ``most_exposed`` is not set.

        Raises
        ------
        ConfigError
            If there are fewer users.
        """
        if self.most_exposed is None:
            return 0
        presence = Presence.of(cube, periods)
        n_users = len(self._eligible(presence))
        number = self._n_exposed(n_users)
        if number > n_users:
            raise self._too_few("most_exposed", number, f"{n_users} users", n_users, presence)
        return number

    def _n_exposed(self, n_users: int) -> int:
        most = self.most_exposed or 0
        return most if isinstance(most, int) else ceil(most * n_users)

    def choose(
        self,
        cube: TraceCube,
        seed: int,
        ranking: Ints | None = None,
        *,
        periods: Sequence[Period] = (),
    ) -> Chosen:
        """Choose targets among the users of ``cube``.

        Parameters
        ----------
        cube, seed
            The traces, and the root seed of the draw.
        ranking
            Users by their exposure in a screen, the most exposed first, int64; only for
            ``most_exposed``.
        periods
            The audited periods; if there are none, events of the whole cube count, and targets are
            attacked in every period.

        Raises
        ------
        ConfigError
            If there are too few users, a listed pseudonym is unknown, or no user has an event in a
            period.
        InputError
            If the most exposed are to be attacked, and there is no ranking.
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
                raise InputError("targets.most_exposed: a screen must rank all users first")
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
            If unseen users are excluded, and no user has an event in a period.
        """
        if self.unseen == "include":
            return np.arange(len(presence.total))
        empty = [
            f"periods.{i}: no user has an event in {name}, so there is no target; choose "
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
            raise self._too_few(key, size, f"{len(pool)} to draw from", smallest, presence)
        return rng.choice(pool, size, replace=False)

    def _too_few(
        self, key: str, number: int, available: str, n_fitting: int, presence: Presence
    ) -> ConfigError:
        text = f"targets.{key}: {number} requested, but there are {available}"
        if self.unseen == "exclude" and not presence.total.all():
            text += f"{' in a third' * (key == 'tertiles')}: only {presence}"
            fits = f"request {n_fitting} or fewer, or " if n_fitting else ""
            text += f"; {fits}include the other users (targets.unseen: include)"
        return ConfigError(text)

    def _find(
        self, cube: TraceCube, pseudonyms: tuple[str, ...], eligible: Ints, presence: Presence
    ) -> Ints:
        users = find_users(cube, pseudonyms)
        unknown = int((users < 0).sum())
        if unknown:
            raise ConfigError(
                f"targets.listed: {unknown} of {len(pseudonyms)} users are not in the cube"
            )
        absent = ~np.isin(users, eligible)
        if absent.any():
            names = list(dict.fromkeys(cube.pseudonyms(users[absent]).tolist()))
            more = ", …" if len(names) > _MOST_NAMED else ""
            raise ConfigError(
                f"targets.listed: {len(names)} of {len(pseudonyms)} users have no event in "
                f"{' or '.join(presence.periods)}, and nothing to expose there "
                f"({', '.join(names[:_MOST_NAMED])}{more}); remove them, or attack them "
                "nevertheless (targets.unseen: include)"
            )
        return np.unique(users)


_MOST_NAMED = 5  # pseudonyms in an error


def _thirds(events: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the third of each user by number of events, 0 to 2; ties are in order of users."""
    rank = np.empty(len(events), np.int64)
    rank[np.argsort(events, kind="stable")] = np.arange(len(events))
    return 3 * rank // max(1, len(events))
