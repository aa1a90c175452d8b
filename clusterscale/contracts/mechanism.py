"""Mechanisms and trace steps: required and optional members, sensitivity, and guarantees."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from types import NoneType
from typing import Any, ClassVar, Literal, Protocol, Self, get_args

import numpy as np

from clusterscale.contracts.data import (
    NO_NOISE,
    CellChange,
    CellLaw,
    Counts,
    Noise,
    Release,
    Support,
    TableLaw,
    Values,
)
from clusterscale.contracts.trace_steps import Bounds, TraceStep
from clusterscale.errors import ConfigError
from clusterscale.foreign import Fault, array_fault, returns
from clusterscale.models import NamedModel

NoiseScope = Literal["cell", "series", "release"]
"""Published values that one count can affect: its own cell, the series of its ROI, or all."""


_Unit = Literal["event", "user_day", "user", "roi_series", "none"]
_Neighbours = Literal["add_remove", "replace"]


ONLY_REPLACED = "its guarantee is for replaced units, and people have different numbers of them"
"""Why nothing follows for a person."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The privacy guarantee of a mechanism, or why it has none.

    An infinite ``epsilon`` with the unit ``none`` means no guarantee.

    Attributes
    ----------
    unit
        Neighbouring inputs differ in one event, user_day, user, or roi_series (one user in the
        series of one ROI).
    epsilon, delta
        Parameters of differential privacy.
    neighbours
        Whether one unit is added or removed, or replaced.
    reason
        Why it holds, or why there is none, as a clause.
    sensitivity
        The most that one unit may change the counts (L1 or L2 norm, as ``reason`` says), in visits;
        NaN if no limit is required.
    """

    unit: _Unit
    epsilon: float
    delta: float
    neighbours: _Neighbours
    reason: str
    sensitivity: float = np.nan

    def imply(self, removed: int, added: int) -> tuple[float, float]:
        """Return the ε and δ that follow if units of a person are removed, and others are added.

        They follow by group privacy. A guarantee about units that are replaced implies nothing, ε =
        ∞ and δ = 1, unless as many are added as removed.
        """
        if self.neighbours == "replace":
            if removed != added:
                return np.inf, 1.0
            added = 0
        return group_privacy(self.epsilon, self.delta, removed + added)


def group_privacy(epsilon: float, delta: float, n_units: int) -> tuple[float, float]:
    """Return what an (ε, δ) guarantee for one unit implies if ``n_units`` change.

    That is nε, and δ·Σ_{i<n} e^{iε}, at most 1 (Dwork and Roth 2014, Lemma 2.2). Nothing more
    follows from a guarantee alone: the same noise can be in everything published, as in a total
    with Laplace noise. Adding and removing are one change each; to replace somebody is to
    remove one and to add another, so it is two.
    """
    if n_units == 0:
        return 0.0, 0.0
    if delta == 0 or n_units == 1:
        return n_units * epsilon, min(delta, 1.0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        times = float(np.expm1(n_units * epsilon) / np.expm1(epsilon)) if epsilon else n_units
    return n_units * epsilon, min(1.0, delta * times) if times < np.inf else 1.0


class PrivacyLoss(Protocol):
    """Hashable privacy loss of one user in a release, as a composition of independent parts."""

    def __hash__(self) -> int: ...

    def total(self, times: int) -> tuple[float, float]:
        """Return ε and δ by basic composition of all parts, ``times`` over."""

    def accountant(self, times: int) -> Callable[[float], float]:
        """Return the function from δ to the smallest known ε of all parts, ``times`` over."""

    @property
    def least_delta(self) -> float:
        """The smallest δ at which all parts together have a finite ε; 0 if any will do."""


def guarantee_fault(returned: Any, mechanism: "Mechanism") -> str:
    """Return what is wrong with the guarantee and the noise scope of a mechanism."""
    if wrong := returns(Guarantee)(returned):
        return wrong
    for name, value, known in (
        ("unit", returned.unit, get_args(_Unit)),
        ("neighbours", returned.neighbours, get_args(_Neighbours)),
        ("noise_scope", getattr(mechanism, "noise_scope", None), get_args(NoiseScope)),
    ):
        if value not in known:
            return f"has {name} {value!r}: choose from {', '.join(known)}"
    for name, high in (("epsilon", np.inf), ("delta", 1.0)):
        value = getattr(returned, name)
        if not (isinstance(value, Real) and 0 <= float(value) <= high):
            return f"has {name} {value!r}: it must be a number from 0 to {high}"
    if (returned.unit == "none") != (returned.epsilon == np.inf):
        return (
            f"has ε {returned.epsilon} for the unit {returned.unit}: ε is infinite if there is no "
            "guarantee, which is the unit none, and only then"
        )
    if not isinstance(returned.sensitivity, Real) or returned.sensitivity < 0:
        return f"has sensitivity {returned.sensitivity!r}: it must be 0 or more visits, or NaN"
    clause = isinstance(returned.reason, str) and returned.reason
    return "" if clause else f"has reason {returned.reason!r}: it must be a clause"


def _values_fault(
    returned: Any, mechanism: "Mechanism", counts: Any, *_: Any, **options: Any
) -> str:
    return array_fault(returned, np.float64, np.shape(counts), finite=True)


_BOUNDARY: Mapping[str, Fault | None] = {
    "guarantee": guarantee_fault,
    "bind": returns(NamedModel, what="a mechanism"),
    "at_weight": returns(NamedModel, what="a mechanism"),
    "release": _values_fault,
    "noise": returns(Noise, NoneType),
    "law": returns(NoneType, has=("revised", "likelihood", "moments"), what="a CellLaw or None"),
    "table_laws": returns(tuple),
    "cell_change": returns(CellChange, NoneType),
    "support": returns(Support),
    "in_visits": _values_fault,
    "trace_steps": returns(tuple),
    "apply": returns(tuple, what="traces and the coordinates of their cells"),
    "expand": returns(np.ndarray),
    "required_sensitivity": returns(Real),
    "user_privacy_loss": returns(
        NoneType, has=("total", "accountant", "least_delta"), what="a PrivacyLoss or None"
    ),
}


@dataclass(frozen=True, slots=True)
class UsualSettings:
    """Settings with which a mechanism is used in practice; advice tries them by default.

    Attributes
    ----------
    settings
        Settings that all candidates have.
    over
        Values by setting, as those of a family: a list, or ``least``, ``most`` and ``n``.
    rank
        Position among the candidates, lowest first.
    """

    settings: Mapping[str, Any]
    over: Mapping[str, Any]
    rank: int = 100


class Mechanism(NamedModel):
    """Turns counts into published values: a subclass defines ``guarantee`` and ``release``.

    All else is optional. A mechanism that does not state how its output is distributed, or how far
    a change reaches, runs in every analysis that does not need it and is refused by the others.
    """

    _registry: ClassVar[str] = "clusterscale.mechanisms:MECHANISMS"
    _boundary = _BOUNDARY

    noise_scope: ClassVar[NoiseScope] = "release"
    """Scope of the published values that can change when one count changes.

    With ``cell`` or ``series``, the noise on each count, or on the counts of each ROI, is also
    independent of that on all others. Certificates rely on it: else guarantees are only taken to
    compose by group privacy.
    """

    noise_is_count_independent: ClassVar[bool] = False
    """Whether the same generator adds the same noise to all counts of one shape."""

    publish_seconds: ClassVar[float] = 1.5e-8
    """Processor seconds to publish a value, from which ``--explain`` predicts."""

    publish_refusal: ClassVar[str] = ""
    """Why it must not publish real counts, with a remedy; empty if it may."""

    usual: ClassVar[tuple[UsualSettings, ...]] = ()
    """What ``clusterscale advise`` tries of this mechanism if no families are named."""

    uses_weights: ClassVar[bool] = False
    """Whether ``release`` also takes ``sums``, float64, of the shape of the counts: the sums of the
    weights of the users counted. In a chain, earlier steps have already changed both."""

    n_tables: ClassVar[int] = 1
    """Number of tables together; of several, ``release`` must be given all cells, as laid out."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The privacy guarantee."""

    @abstractmethod
    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return published values of the shape of ``counts``, (…, roi, epoch), float64."""

    @property
    def publishes_float_noise(self) -> bool:
        """Whether continuous noise is published unrounded, so low-order bits may reveal counts."""
        return self.guarantee.unit != "none"

    @property
    def noise(self) -> Noise | None:
        """Distribution of the noise, if only independent noise is added to every count, or None."""
        return None

    @property
    def hides_more_in_larger_groups(self) -> bool:
        """Whether one more member never makes a member easier to recognise; False if unknown.

        It is so if the release is the sum of what each member contributes and of noise that does
        not depend on the counts: one more member is then one more independent term of the noise.
        """
        return False

    def law(self, group_size: int) -> CellLaw | None:
        """Return the output distribution of a count; None if unknown or of several counts."""
        return None

    def law_for_attacks(self, group_size: int) -> CellLaw | None:
        """Return the output distribution that attacks use, also where :meth:`law` says none.

        Checks and certificates know it in another way, or not at all.
        """
        return self.law(group_size)

    def table_laws(self, group_size: int, cells: tuple[int, ...]) -> tuple[TableLaw, ...]:
        """Return the output distributions of several tables; none if there is one.

        ``cells`` are the numbers of ROIs and epochs of a release.
        """
        return ()

    def cell_change(self, group_size: int) -> CellChange | None:
        """Return how one more visit changes a value; None if that follows from :meth:`law`."""
        return None

    def support(self, before: Support, group_size: int) -> Support:
        """Return the support of the output for values in ``before``; by default unlimited."""
        return Support(-np.inf, np.inf, 0.0)

    def in_visits(self, values: Values, counts: Counts) -> Values:
        """Return published values as numbers of visits, for measures of utility.

        By default they are returned unchanged. Shares and expanded values are scaled, by public
        numbers or by the totals of ``counts``, the raw ones; both have the shape (…, roi, epoch).
        If the mechanism uses weights, visits are those of the people whom users represent, and
        ``counts`` are the sums of weights.
        """
        return values

    def at_weight(self, weight: float) -> "Mechanism":
        """Return the mechanism that publishes the same if every user has this weight.

        Raises
        ------
        ConfigError
            If it uses weights, unless it is overridden.
        """
        if self.uses_weights:
            raise ConfigError(
                f"{self.label} does not say what it publishes if all weights are equal, which an "
                "adversary who does not know the weights assumes"
            )
        return self

    @property
    def trace_steps(self) -> tuple[TraceStep, ...]:
        """Changes made to traces before counting."""
        return ()

    def bind(self, bounds: Bounds) -> Self:
        """Return the mechanism with a sensitivity from ``bounds`` if none was set.

        Raises
        ------
        ConfigError
            If its definition does not apply to such counts.
        """
        return self

    def required_sensitivity(self, bounds: Bounds) -> float:
        """Return the sensitivity that the guarantee requires; NaN if it requires none.

        Unless overridden, the L1 norm of the unit of the guarantee, which is never too small.
        """
        stated = self.guarantee
        if stated.unit == "none" or np.isnan(stated.sensitivity):
            return np.nan
        return float(getattr(bounds, "series" if stated.unit == "roi_series" else stated.unit))

    def user_privacy_loss(self, bounds: Bounds) -> PrivacyLoss | None:
        """Return the privacy loss of one user's data in a release; None if it is unbounded."""
        return None

    def check(self, *, group_size: int, n_rois: int, n_epochs: int) -> None:
        """Raise :class:`~clusterscale.errors.ConfigError` if it cannot publish such counts."""


def publish(
    counts: Counts,
    mechanism: Mechanism,
    *,
    group_size: int,
    rng: np.random.Generator,
    sums: Values | None = None,
) -> Release:
    """Publish counts by a mechanism.

    Parameters
    ----------
    counts
        Int32, shape (group, roi, epoch), visits.
    mechanism
        A bound mechanism.
    group_size
        Members of each group.
    rng
        Source of the noise.
    sums
        float64, shape of ``counts``: sums of the weights of the users counted; None if users have
        no weights.

    Returns
    -------
    Release
        Its values are ``counts`` itself if the mechanism does not change them.

    Raises
    ------
    ConfigError
        If the mechanism uses weights and there are none.
    """
    values: Values | Counts = counts
    if mechanism.noise != NO_NOISE:
        values = release_counts(mechanism, counts, sums, group_size=group_size, rng=rng)
    laws = (
        mechanism.law_for_attacks(group_size),
        mechanism.table_laws(group_size, counts.shape[-2:]),
    )
    return Release(values, group_size, mechanism.label, mechanism.noise, *laws)


def release_counts(
    mechanism: Mechanism,
    counts: Counts,
    sums: Values | None,
    *,
    group_size: int,
    rng: np.random.Generator,
) -> Values:
    """Return what a mechanism publishes of counts and of the sums of weights, if it uses these.

    Parameters
    ----------
    mechanism
        A bound mechanism.
    counts
        Shape (…, roi, epoch), visits.
    sums
        float64, the same shape: sums of the weights of the users counted; None if users have none.
    group_size
        Members of each group.
    rng
        Source of the noise.

    Returns
    -------
    Values
        float64, the same shape.

    Raises
    ------
    ConfigError
        If the mechanism uses weights and there are none.
    """
    if not mechanism.uses_weights:
        return mechanism.release(counts, group_size=group_size, rng=rng)
    if sums is None:
        raise ConfigError(
            f"{mechanism.label} uses the weights of users, which are not known here: it can be "
            "used in audits of a cube with weights"
        )
    release: Any = mechanism.release
    return release(counts, group_size=group_size, rng=rng, sums=sums)  # type: ignore[no-any-return]
