"""What an audit asks: a frozen plan, and the tasks that answer it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import AfterValidator, Field, Strict, model_validator

from clusterscale.attacks import ATTACKS
from clusterscale.audit.task import AuditTask
from clusterscale.contracts import NO_NOISE, Attack, Component, Count, Ints, Mechanism, Prior
from clusterscale.cube import TraceCube
from clusterscale.cube.storage import absolute
from clusterscale.errors import ConfigError, PoolError
from clusterscale.mechanisms import MECHANISMS
from clusterscale.priors import PRIORS
from clusterscale.seeds import stream

__all__ = ["TERTILES", "AuditPlan", "Chosen", "Period", "Targets"]

TERTILES = ("some", "mild", "high")
WEEK = 168


def _distinct(items: tuple[Any, ...]) -> tuple[Any, ...]:
    if not items:
        raise ValueError("give at least one")
    labels = [getattr(item, "label", item) for item in items]
    twice = sorted({str(label) for label in labels if labels.count(label) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)} stands there twice")
    return items


_Several = [Strict(False), AfterValidator(_distinct)]
_Perhaps = [Strict(False), AfterValidator(lambda items: items and _distinct(items))]


First = Annotated[int, Strict(), Field(ge=0)]


class Period(Component):
    """The epochs of one release: ``epochs`` of them from the one numbered ``first``.

    ``observed`` are the first epochs of past windows of the same length, whose releases priors of
    past groups learn from: weeks, or the same day or hours of earlier weeks (NDSS18 §VI-B, §VI-C).
    """

    name: Annotated[str, Field(min_length=1)]
    first: First = 0
    epochs: Count = WEEK
    observed: Annotated[tuple[First, ...], *_Perhaps] = ()

    @property
    def label(self) -> str:
        """The name."""
        return self.name

    @model_validator(mode="after")
    def _is_past(self) -> Self:
        late = [first for first in self.observed if first + self.epochs > self.first]
        if late:
            raise ValueError(
                f"observed: a window of {self.epochs} epochs from {late[0]} is not over when the "
                f"period begins at {self.first}"
            )
        return self

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """First epoch and the one after the last, of observed windows and then of the period."""
        return tuple((first, first + self.epochs) for first in (*self.observed, self.first))


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
    listed: Annotated[tuple[str, ...], *_Several] | None = None
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


if TYPE_CHECKING:
    Sizes = tuple[int, ...]
    Periods = tuple[Period, ...]
    Priors = tuple[Prior, ...]
    Mechanisms = tuple[Mechanism, ...]
    Attacks = tuple[Attack, ...]
else:  # unions of whatever the registries hold
    Sizes = Annotated[tuple[Annotated[int, Strict(), Field(ge=2)], ...], *_Several]
    Periods = Annotated[tuple[Period, ...], *_Several]
    Priors = Annotated[tuple[PRIORS.field(), ...], *_Several]
    Mechanisms = Annotated[tuple[MECHANISMS.field(), ...], *_Several]
    Attacks = Annotated[tuple[ATTACKS.field(), ...], *_Several]


class AuditPlan(Component):
    """One audit: every target × period × prior × group size × mechanism × attack."""

    seed: Annotated[int, Strict()] = 0
    null_roi: bool = True
    targets: Targets
    group_sizes: Sizes
    periods: Periods = (Period(name="first week"),)
    priors: Priors
    mechanisms: Mechanisms
    attacks: Attacks
    control: bool = True

    @property
    def digest(self) -> str:
        """Hash of the plan: equal plans ask the same."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return blake2b(text.encode(), digest_size=16).hexdigest()

    def describe(self) -> dict[str, Any]:
        """Return plain values that may be shown to anyone: listed users are counted, not named."""
        values = self.model_dump(mode="json")
        values["targets"] = self.targets.model_dump(mode="json", exclude_none=True)
        if self.targets.listed is not None:
            values["targets"] = {"listed": f"{len(self.targets.listed)} users"}
        return values

    def check(self, cube: TraceCube) -> None:
        """Raise :class:`ConfigError`, naming the key, if ``cube`` cannot answer the plan."""
        faults = [
            *self._too_long(cube.n_epochs),
            *self._too_large(cube.n_users),
            *self._not_known(),
        ]
        if faults:
            raise ConfigError("\n".join(faults))

    def _too_long(self, n_epochs: int) -> Iterator[str]:
        for i, period in enumerate(self.periods):
            first, stop = period.spans[-1]
            if stop > n_epochs:
                yield (
                    f"periods.{i}: epochs {first} to {stop} reach beyond the cube, "
                    f"which has {n_epochs}"
                )

    def _too_large(self, n_users: int) -> Iterator[str]:
        for (i, size), prior in product(enumerate(self.group_sizes), self.priors):
            try:
                prior.check(n_users, size)
            except PoolError as error:
                yield f"group_sizes.{i}: {error}"

    def _not_known(self) -> Iterator[str]:
        """Find what a prior or an attack needs and is not given."""
        for (i, period), prior in product(enumerate(self.periods), self.priors):
            if prior.needs_past and not period.observed:
                yield (
                    f"periods.{i}: {prior.name} learns from past releases: give the first epochs "
                    f"of past windows, e.g. observed: [{max(0, period.first - period.epochs)}]"
                )
        for (i, attack), prior in product(enumerate(self.attacks), self.priors):
            if attack.needs_whereabouts and not prior.gives_whereabouts:
                yield (
                    f"attacks.{i}: {attack.name} asks where the target was, and {prior.name} does "
                    "not tell; leave one of them out"
                )

    def tasks(self, cube: TraceCube, chosen: Chosen) -> Iterator[AuditTask]:
        """Yield one task for each period, target, prior and group size; a period's together."""
        for period, target, prior, size in product(
            self.periods, chosen.users, self.priors, self.group_sizes
        ):
            yield AuditTask(
                uri=absolute(cube.uri),  # a worker may run in another folder
                fingerprint=cube.fingerprint,
                null_roi=self.null_roi,
                target=int(target),
                period=period.name,
                spans=period.spans if prior.needs_past else period.spans[-1:],
                prior=prior,
                group_size=size,
                mechanisms=self.mechanisms,
                attacks=self.attacks,
                control=self.control,
                seed=self.seed,
            )

    @property
    def adds_noise(self) -> bool:
        """Whether anything else is published than the counts themselves."""
        return any(mechanism.noise != NO_NOISE for mechanism in self.mechanisms)

    @property
    def n_cases(self) -> int:
        """Results of one task: mechanisms × attacks."""
        return len(self.mechanisms) * len(self.attacks)
