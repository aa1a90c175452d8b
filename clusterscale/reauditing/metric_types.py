"""Metrics of a release, and the exposure of users from which some of them follow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterscale.analyses.audit.findings import Finding
from clusterscale.contracts import Ints
from clusterscale.reauditing.known_part import KnownPart

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """A number and its interval.

    Attributes
    ----------
    value, low, high
        NaN if not known.
    """

    value: float = np.nan
    low: float = np.nan
    high: float = np.nan

    @classmethod
    def exact(cls, value: float) -> IntervalEstimate:
        """Return a number without uncertainty."""
        return cls(value, value, value)

    @property
    def known(self) -> bool:
        """Whether the number is known."""
        return bool(np.isfinite(self.value))


@dataclass(frozen=True, slots=True, eq=False)
class Exposures:
    """Privacy loss of users, by the attack that is strongest on average.

    Attributes
    ----------
    users
        Rows in the cube, increasing, int64, shape (user,).
    loss, low, high
        Privacy loss and its 95 % interval, float64, shape (user,).
    attack
        Label of the attack.
    everyone
        True for all users that a screen counts, False for targets, or known people among others.
    """

    users: Ints
    loss: Floats
    low: Floats
    high: Floats
    attack: str
    everyone: bool

    def known(self, part: KnownPart | None) -> Exposures:
        """Return the exposure of known people; of the simulated ones if none are known."""
        if part is None:
            return self
        kept = self.users < part.n_known
        kept = kept if kept.any() else np.ones(len(kept), np.bool_)
        loss, low, high = (values[kept] for values in (self.loss, self.low, self.high))
        return Exposures(self.users[kept], loss, low, high, self.attack, everyone=False)


class UtilityValue(NamedTuple):
    """A measure at its worst: the value, its ideal, and the name and label of the measure."""

    value: float
    ideal: float
    name: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class ReleaseMetrics:
    """Metrics of a release.

    Attributes
    ----------
    finding
        The worst verdict on exposure, over periods, priors and group sizes.
    n_targets
        Number of finished targets of the audit.
    attack
        The strongest attack, by mean privacy loss, with its prior.
    mean_loss, worst_loss
        Mean and largest privacy loss of the targets, by that attack.
    share_exposed, n_screened, exposed_above
        Share of users with a privacy loss above ``exposed_above``, among ``n_screened`` users.
    epsilon_seen, epsilon_declared, verdict, unit
        Result of the test of the guarantee, for its unit; without a guarantee, the declared ε is
        infinite and the verdict ``nothing promised``.
    utility
        By id of the measure; without measures that are unknown in some setting.
    float_noise
        Whether continuous noise is published unrounded: ``yes``, ``no``, or empty if not known.
    guarantee_reason
        Why the guarantee holds, and what it means for a person, as a clause.
    """

    finding: Finding
    n_targets: int
    attack: str
    mean_loss: IntervalEstimate
    worst_loss: float
    share_exposed: IntervalEstimate
    n_screened: int
    exposed_above: float
    epsilon_seen: float
    epsilon_declared: float
    verdict: str
    unit: str
    utility: dict[str, UtilityValue] = field(default_factory=dict)
    float_noise: str = ""
    guarantee_reason: str = ""
