"""Plan of a recovery: epochs, priors, strategies and mechanisms."""

from math import e
from typing import Annotated, Any, Literal

from pydantic import Field, Strict

from clusterscale.analyses.recovery.estimates import InferencePrior, InferenceStrategy
from clusterscale.analyses.recovery.priors import BELIEFS
from clusterscale.analyses.recovery.strategies import STRATEGIES
from clusterscale.contracts import (
    ConfigModel,
    Count,
    Mechanism,
    NonEmptyUnique,
    OptionalUnique,
    Share,
)
from clusterscale.cube import TraceCube
from clusterscale.errors import ConfigError
from clusterscale.html_tables import list_facts
from clusterscale.mechanisms import MECHANISMS
from clusterscale.mechanisms.base import Exact

Beliefs = Annotated[tuple[Annotated[InferencePrior, BELIEFS.entry()], ...], *NonEmptyUnique]
Strategies = Annotated[
    tuple[Annotated[InferenceStrategy, STRATEGIES.entry()], ...], *NonEmptyUnique
]
Mechanisms = Annotated[tuple[Annotated[Mechanism, MECHANISMS.entry()], ...], *OptionalUnique]

_PLAIN = ("bayes", "max_roi", "max_user")


class RecoveryPlan(ConfigModel):
    """One recovery: every prior × mechanism × strategy, all users of the cube at once.

    The adversary observes ``observed`` epochs from epoch ``first`` on (PETS17's T_O), and then the
    published counts of the ``epochs`` that follow (T'). Raw counts are always published too,
    because privacy gains are relative to them.

    A ROI is popular if its share is at least ``threshold``. Distances are in ``base`` 2, as in
    PETS17's text, or *e*, as in its figures.

    Attributes
    ----------
    seed
        Root seed of all random streams.
    first
        Number of the first observed epoch.
    observed
        Number of observed epochs, e.g. ``336``.
    epochs
        Number of published epochs that follow.
    priors
        What the adversary knows.
    strategies
        How locations are inferred.
    mechanisms
        How counts are published, besides raw counts, e.g. ``[{name: suppress_small, below: 5}]``.
    threshold
        Least share of a popular ROI.
    base
        Base of the logarithm of distances: 2 or ``e``.
    """

    seed: Annotated[int, Strict()] = 0
    first: Annotated[int, Strict(), Field(ge=0, lt=2**63)] = 0
    observed: Count
    epochs: Count = 168
    priors: Beliefs = tuple(prior() for prior in BELIEFS.classes)
    strategies: Strategies = tuple(STRATEGIES.create(name) for name in _PLAIN)
    mechanisms: Mechanisms = ()
    threshold: Share = 0.5
    base: Literal[2, "e"] = 2

    @property
    def published(self) -> tuple[Mechanism, ...]:
        """All mechanisms, raw counts first."""
        exact: Mechanism = Exact()
        return (exact, *(item for item in self.mechanisms if item.id != exact.id))

    @property
    def span(self) -> tuple[int, int]:
        """The first observed epoch and the one after the last inferred one."""
        return self.first, self.first + self.observed + self.epochs

    @property
    def inferred(self) -> tuple[int, int]:
        """The first inferred epoch and the one after the last."""
        return self.first + self.observed, self.span[1]

    @property
    def log_base(self) -> float:
        """Base of the logarithm of distances."""
        return e if self.base == "e" else float(self.base)

    def __repr__(self) -> str:
        return (
            f"RecoveryPlan({self.epochs} epochs after {self.observed} observed: "
            f"{len(self.priors)} priors × {len(self.published)} mechanisms × "
            f"{len(self.strategies)} strategies; {self.digest})"
        )

    __str__ = __repr__

    def _repr_html_(self) -> str:
        first, stop = self.span
        return list_facts(
            "Recovery",
            {
                "observed epochs": f"{self.observed:,}, from epoch {first:,} on",
                "inferred epochs": f"{self.epochs:,}, up to epoch {stop - 1:,}",
                "priors": [prior.label for prior in self.priors],
                "mechanisms": [mechanism.label for mechanism in self.published],
                "strategies": [strategy.label for strategy in self.strategies],
                "seed": str(self.seed),
                "digest": self.digest,
            },
        )

    def describe(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        return self.model_dump(mode="json")

    def check(self, cube: TraceCube) -> None:
        """Raise :class:`ConfigError`, naming the keys, if ``cube`` does not support the plan."""
        faults = [
            f"priors.{i}: {prior.name} needs {prior.needs} observed epochs, but observed is "
            f"{self.observed}"
            for i, prior in enumerate(self.priors)
            if prior.needs > self.observed
        ]
        faults += [
            f"mechanisms.{i}: {mechanism.label} publishes "
            f"{'several tables' if mechanism.n_tables > 1 else 'sums of weights'}, from which "
            "locations are not recovered: leave it out, expand by a number, or name one table"
            for i, mechanism in enumerate(self.mechanisms)
            if mechanism.uses_weights or mechanism.n_tables > 1
        ]
        if cube.calendar.step != 3600:  # seconds
            faults += [
                f"priors.{i}: {prior.name} needs epochs of an hour, but an epoch of this cube has "
                f"{cube.calendar.step / 60:g} minutes"
                for i, prior in enumerate(self.priors)
                if prior.hourly
            ]
        if self.span[1] > cube.n_epochs:
            faults.append(
                f"first + observed + epochs: {self.span[1]} epochs are needed, but the cube has "
                f"{cube.n_epochs}"
            )
        if faults:
            raise ConfigError("\n".join(faults))
