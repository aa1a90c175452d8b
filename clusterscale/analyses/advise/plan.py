"""Settings of advice: the goal, the limits, the candidates, and how they are searched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, Strict, model_validator

from clusterscale.analyses.advise.families import Family, list_candidates, merged, usual_families
from clusterscale.analyses.advise.goal import Aim, Limits
from clusterscale.analyses.audit import AuditPlan, Targets, UtilityPlan
from clusterscale.analyses.audit.targets import Presence
from clusterscale.analyses.dp_audit.dp_test import VerdictPlan
from clusterscale.analyses.screening import Screen
from clusterscale.contracts import (
    ConfigModel,
    Count,
    Ints,
    Mechanism,
    NonEmptyUnique,
    OptionalUnique,
    Probability,
    hash_of,
)
from clusterscale.cube import TraceCube
from clusterscale.errors import ConfigError
from clusterscale.seeds import stream
from clusterscale.utility import UTILITIES

CONFIDENCE = 0.95
"""Confidence of each interval; a limit holds if its whole interval is within it."""

_QUICK_TEST = VerdictPlan(trials=4, units=1)  # guarantees are tested on the finalists only


_USUAL_GOAL = tuple(
    Aim(measure=UTILITIES.create(name))
    for name in ("hotspot_f1", "jensen_shannon", "mean_relative_error")
)


class AdvicePlan(ConfigModel):
    """What to publish: the goal, the limits, the candidates, and how they are searched.

    Periods, group sizes, priors and attacks are those of the audit; its mechanisms are candidates,
    too. If all measures of the goal have bounds and none a weight, the advice is the mechanism that
    exposes least and keeps the bounds; else the one with the highest score.

    Attributes
    ----------
    goal
        Measures of utility, e.g. ``[{measure: {name: hotspot_f1}}, {measure: {name: pearson}}]``.
    limits
        What the release may expose, e.g. ``{screened: {loss: 0.5, share: 0.05}}``.
    families
        Mechanisms and ranges of their settings, e.g. ``[{mechanism: {name: threshold}, over: {k:
        [5, 10]}}]``; None: what official statistics and differential privacy use.
    held_out
        Share of users that the search never targets, on whom the advice is confirmed.
    groups
        Number of groups in the first round of measuring utility; it doubles from round to round.
    rounds
        Largest number of rounds; in each, half of the candidates are kept. If all measures have
        bounds, all that may keep them are; where it takes more groups to show that they do, they
        are measured on up to four times ``confirm_groups``, in search and confirmation.
    finalists
        Number of candidates after which there are no more rounds, and that are attacked together.
    search_targets, confirm_targets
        Numbers of users whom the search attacks, and of others in the confirmation.
    confirm_groups
        Number of new groups on which the utility of the advice is confirmed.
    tries
        Largest number of candidates that are confirmed, one after another.
    coarsen
        Whether places and epochs merged by 2 or 4, and then groups 2 or 4 times as large, are
        searched, too, if no candidate can be advised.
    """

    goal: Annotated[tuple[Aim, ...], *NonEmptyUnique] = _USUAL_GOAL
    limits: Limits = Limits()
    families: Annotated[tuple[Family, ...], *OptionalUnique] | None = None
    held_out: Probability = 0.5
    groups: Annotated[int, Strict(), Field(ge=2, le=10_000)] = 4
    rounds: Annotated[int, Strict(), Field(ge=1, le=10)] = 4
    finalists: Count = 4
    search_targets: Count = 12
    confirm_targets: Count = 30
    confirm_groups: Annotated[int, Strict(), Field(ge=2, le=10_000)] = 50
    tries: Annotated[int, Strict(), Field(ge=1, le=2)] = 2
    coarsen: bool = False

    @model_validator(mode="after")
    def _has_aim(self) -> Self:
        if not any(aim.factor or aim.bound is not None for aim in self.goal):
            raise ValueError("goal: give at least one measure a weight or a bound")
        return self

    @property
    def by_bounds(self) -> bool:
        """Whether the least exposed mechanism within bounds is wanted."""
        return not any(aim.factor for aim in self.goal)


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """Users of the search and others; indices in their cubes, int64, in random order."""

    search: Ints
    confirm: Ints


@dataclass(frozen=True, eq=False)
class Advice:
    """A plan of advice with the audit that evaluates its candidates.

    Attributes
    ----------
    plan
        Goal, limits and search.
    audit
        Periods, group sizes, priors, attacks and more candidates.
    """

    plan: AdvicePlan
    audit: AuditPlan

    @cached_property
    def candidates(self) -> tuple[Mechanism, ...]:
        """All candidates, each once: the mechanisms of the audit, and then the families."""
        families = usual_families() if self.plan.families is None else self.plan.families
        return list_candidates(self.audit.mechanisms, families)

    @property
    def digest(self) -> str:
        """Digest of the settings that decide results."""
        ids = [candidate.id for candidate in self.candidates]
        return hash_of(
            {"advise": self.plan.canonical, "audit": self.audit.canonical, "candidates": ids}
        )

    def coarser(self, mechanisms: Sequence[Mechanism]) -> Iterator[Advice]:
        """Yield advice on coarser cells for some mechanisms, and then on larger groups as well.

        Without ``coarsen``, utility is measured in one round, but for bounds that need more.
        """
        fields = {"families": (), **({} if self.plan.coarsen else {"rounds": 1})}
        coarse = merged(mechanisms)
        for times in (1, 2, 4):
            some = coarse if times == 1 else (*mechanisms, *coarse)
            sizes = tuple(times * size for size in self.audit.group_sizes)
            audit = self.audit.model_copy(update={"mechanisms": some, "group_sizes": sizes})
            yield Advice(self.plan.model_copy(update=fields), audit)

    def describe(self) -> Mapping[str, Any]:
        """Return the settings as plain values that may be shown to anyone."""
        return {"advise": self.plan.model_dump(mode="json"), "audit": self.audit.describe()}

    def measuring(self, mechanisms: tuple[Mechanism, ...], n_groups: int) -> AuditPlan:
        """Return the plan that measures the utility of some mechanisms on ``n_groups`` groups."""
        utility = UtilityPlan(
            groups=n_groups, measures=tuple(aim.measure for aim in self.plan.goal)
        )
        return self._with(mechanisms, utility=utility, verdict=_QUICK_TEST)

    def screening(self, mechanisms: tuple[Mechanism, ...], *, confirm: bool = False) -> Screen:
        """Return the screen of all users under some mechanisms."""
        seed = {"seed": self.confirming_seed} if confirm else {}
        return self._with(mechanisms, **seed).whole_screen

    def attacking(self, mechanisms: tuple[Mechanism, ...], users: Ints) -> AuditPlan:
        """Return the audit of the targets of the search."""
        plan = self.measuring(mechanisms, 2)
        return plan.model_copy(update={"targets": self._listed(users), "control": False})

    def confirming(self, mechanism: Mechanism, users: Ints, n_groups: int) -> AuditPlan:
        """Return the audit that confirms a mechanism, on groups and users that are new."""
        utility = self.measuring((mechanism,), n_groups).utility
        targets, seed = self._listed(users), self.confirming_seed
        return self._with((mechanism,), utility=utility, targets=targets, seed=seed)

    @property
    def confirming_seed(self) -> int:
        """Root seed of the confirmation: other groups, and other noise."""
        return int(stream(self.audit.seed, "advise", "confirm").integers(2**62))

    def split(self, search: TraceCube, confirm: TraceCube) -> HeldOut:
        """Split users at random into those of the search and those that are held out.

        Only users with an event in a period are split, unless the audit includes the others. Users
        of two different cubes are all used: the search never sees those of the other cube.

        Raises
        ------
        ConfigError
            If there are too few users for the targets.
        """
        pools = [self._eligible(search), self._eligible(confirm)]
        if search.fingerprint == confirm.fingerprint:
            n_held = round(self.plan.held_out * len(pools[0]))
            pools = [pools[0][n_held:], pools[0][:n_held]]
        for pool, name in zip(pools, ("search_targets", "confirm_targets"), strict=True):
            if (wanted := getattr(self.plan, name)) > len(pool):
                raise ConfigError(
                    f"advise.{name}: {wanted} requested, but there are {len(pool)} users to draw "
                    f"from, with advise.held_out: {self.plan.held_out}"
                )
        return HeldOut(*pools)

    def _eligible(self, cube: TraceCube) -> Ints:
        rng = stream(self.audit.seed, "advise", "held out", cube.fingerprint)
        if self.audit.targets.unseen == "include":
            return rng.permutation(cube.n_known)
        return rng.permutation(np.flatnonzero(Presence.of(cube, self.audit.periods).total))

    def _with(self, mechanisms: tuple[Mechanism, ...], **fields: Any) -> AuditPlan:
        return self.audit.model_copy(update={"mechanisms": mechanisms, **fields})

    def _listed(self, users: Ints) -> Targets:
        names = tuple(f"row {user}" for user in sorted(users.tolist()))
        return Targets(listed=names, unseen=self.audit.targets.unseen)
