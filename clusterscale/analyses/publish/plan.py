"""Settings of a publication: what is counted, the budget, and mechanisms that may publish."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, cast

import numpy as np
from pydantic import Field, model_validator

from clusterscale import contracts
from clusterscale.analyses.audit import Period
from clusterscale.contracts import ConfigModel, Count, Mechanism
from clusterscale.mechanisms.base import Exact, PostProcessing
from clusterscale.mechanisms.chain import Chain, steps_of
from clusterscale.mechanisms.coarsening import CoarsenSpace, CoarsenTime
from clusterscale.mechanisms.noise import AdditiveNoise
from clusterscale.mechanisms.noisy_counts import Gaussian, Laplace
from clusterscale.mechanisms.rounding import RoundToBase
from clusterscale.mechanisms.sampling import CapContributions, SampleTraces
from clusterscale.release import DeclaredMechanism
from clusterscale.release.metadata import STATED, Delta, Size

_WITHOUT_NOISE = (Exact, CoarsenSpace, CoarsenTime, CapContributions, SampleTraces, RoundToBase)


def as_chain(mechanism: Mechanism) -> Chain | None:
    """Return a mechanism as a chain; None for unchanged counts."""
    if isinstance(mechanism, Chain):
        return mechanism
    return None if isinstance(mechanism, Exact) else Chain(steps=(cast(Any, mechanism),))


def find_faults(mechanism: Mechanism, *, null_roi: bool) -> Iterator[str]:
    """Yield why a mechanism cannot publish real counts, each with the key and a remedy.

    Its numbers must come from the operating system's source, its noise must be whole numbers, and
    its sensitivity must not depend on the data.
    """
    steps, refused = steps_of(mechanism), False
    for i, step in enumerate(steps):
        where = f"mechanism.steps.{i}" if isinstance(mechanism, Chain) else "mechanism"
        if reason := _refusal(step):
            refused = True
            yield f"{where}: {step.label} is not published: {reason}"
    if any(step.uses_weights for step in steps) and draws_noise(mechanism):
        yield "mechanism: weights after noise depend on who is counted: expand by a number"
    if null_roi and any(isinstance(step, SampleTraces) for step in steps):
        yield "null_roi: users who lose their last event would be counted nowhere: set it to false"
    if not refused and bind_without_data(mechanism, null_roi=null_roi) is None:
        yield (
            "mechanism: its sensitivity would be the largest contribution of any user, which is "
            "private: state it, put cap_contributions before it and set unit: user_day, or set "
            "unit: event"
        )


OF_A_RUN = "the mechanism of --from"
"""Title of a mechanism that is not known yet."""


def draws_noise(mechanism: Mechanism) -> bool:
    """Return whether a release needs noise, which OpenDP draws."""
    return any(isinstance(step, AdditiveNoise) for step in steps_of(mechanism))


def stand_in(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a mechanism that the budget of a section allows, to check the others."""
    budget = section.get("budget")
    if not isinstance(budget, dict):
        return {"name": "exact", "title": OF_A_RUN}
    unit = next((name for name in ("user", "user_day") if name == budget.get("unit")), "event")
    noise = {"name": "laplace", "epsilon": 1.0, "unit": unit, "sensitivity": 1.0, "discrete": True}
    steps = [{"name": "cap_contributions", "per_day": 1}, noise]
    return {"name": "chain", "title": OF_A_RUN, "steps": steps}


def _refusal(step: Mechanism) -> str:
    """Return why a step cannot publish real counts; empty if it can."""
    if type(step) is Laplace or type(step) is Gaussian:
        return "" if step.discrete else "its noise is continuous: set discrete: true"
    if step.publish_refusal:
        return step.publish_refusal
    if isinstance(step, PostProcessing) or type(step) in _WITHOUT_NOISE:
        return ""
    return (
        "it is not known to draw its numbers from the operating system's source; mechanisms of "
        "other packages can only be post-processing"
    )


def bind_without_data(
    mechanism: Mechanism,
    frames: Sequence[contracts.CellCoordinates] | None = None,
    *,
    null_roi: bool,
) -> Mechanism | None:
    """Return the mechanism with its sensitivity; None if that would depend on the data.

    ``frames`` are the coordinates of the cells before each trace step; None: as if no epoch were on
    two days.
    """
    stability = contracts.stability_of(mechanism.trace_steps, frames)
    if stability is None:
        return None
    every = (contracts.Bounds(1 + null_roi, n, n, n, n, null_roi) for n in (1, 2))
    few, many = (mechanism.bind(stability.limit(bounds)) for bounds in every)
    return few if few == many else None


def exceeds_sensitivity(mechanism: Mechanism, bounds: contracts.Bounds) -> bool:
    """Return whether one unit of the data changes the counts by more than a bound mechanism says.

    Parameters
    ----------
    mechanism
        Bound without data.
    bounds
        Largest changes that were found in the data.
    """
    stated: Any = mechanism.guarantee.sensitivity
    needed = mechanism.required_sensitivity(bounds)
    return bool(np.isfinite(stated) and needed > stated)


EVERYONE = "everyone"
"""The population of all users of the cube."""

ENDINGS = {"zarr": ".zarr", "netcdf": ".nc", "parquet": ".parquet", "csv": ".csv"}
"""Ending of the name of a release in each format."""

Words = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]


class Budget(ConfigModel):
    """Privacy budget of a series: the most that all its releases together may spend.

    Attributes
    ----------
    unit
        Privacy unit: ``event``, ``user_day`` or ``user``; that of each mechanism, e.g. ``user``.
    epsilon
        Largest ε of all releases that one unit can affect, e.g. ``4.0``.
    delta
        Largest δ of these, a probability; with 0, values of ε are added up, e.g. ``0.000001``.
    """

    unit: Literal["event", "user_day", "user"]
    epsilon: contracts.Positive
    delta: Delta = 0.0


class CapChoice(ConfigModel):
    """How many events of each user and day are kept, chosen from the records with noise.

    The numbers of user-days with 1, 2, … events get noise of the discrete Laplace distribution,
    which OpenDP draws; the smallest cap that leaves a share of these days as they are is chosen
    from the noisy numbers alone. The release states the sum of its ε and that of its noise.

    Attributes
    ----------
    epsilon
        Privacy budget ε of the choice, for the unit of the budget, e.g. ``0.1``.
    quantile
        Share of user-days with events that lose none, e.g. ``0.95``.
    """

    epsilon: contracts.Positive
    quantile: contracts.Probability = 0.95


class PublishPlan(ConfigModel):
    """The release to make: its mechanism, period, population, series, budget and format.

    There is no seed: noise is drawn from the operating system, and cannot be drawn again.

    Attributes
    ----------
    mechanism
        How counts are published, e.g. ``{name: laplace, epsilon: 1.0, unit: event, discrete:
        true}``.
    period
        Epochs that are counted, e.g. ``{name: week-01, first: 0, epochs: 168}``; the name is unique
        in a series.
    series
        Name of the series, in letters, digits, ``-`` and ``_``, e.g. ``stations``.
    budget
        What the releases of the series may spend together, e.g. ``{unit: event, epsilon: 4.0}``;
        None: no release has a guarantee. It is set by the first release.
    choose_cap
        How the number of events kept of each user and day is chosen from the records, at the cost
        of some ε, e.g. ``{epsilon: 0.1, quantile: 0.95}``; it is at most the ``per_day`` that
        ``cap_contributions`` states as the first step. None: it is the number stated.
    population
        Who is counted: ``everyone``, or a Parquet or CSV file with a column ``user``, e.g.
        ``panel.csv``.
    among
        Number of people among whom these are, for re-audits, e.g. ``20_000``; without a guarantee
        by default the users of the cube, or twice as many if all of these are counted.
    counted
        What the records name users, in the plural, for those who read the release, e.g. ``cards``.
    licence
        Licence of the release, a name or URL, e.g. ``CC-BY-4.0``.
    contact_point
        Whom readers ask about the release, e.g. ``data@example.org``.
    group_size
        Number of people who are counted, as it may be published, e.g. ``1_000``, exact to a tenth.
        None: the exact number; with a guarantee it is not published, because it depends on data.
    places
        Parquet or CSV file with a column ``name``: the public list of all places, each of which is
        a row, e.g. ``places.csv``. Columns ``lat`` and ``lon``, if there are any, are published.
        None: the places of the cube, which must be public for a guarantee.
    other_places
        What happens to visits to places that are not listed: ``drop``, or ``one_row`` for all.
    null_roi
        Whether users without an event are counted in a last ROI.
    format
        Format of the releases: ``zarr``, ``netcdf``, ``parquet`` or ``csv``.
    without_guarantee
        Whether a release without a guarantee is published, although no gate has audited it.
    other_series
        What happens if another series, or a copy of this one, has a release that counts days of
        this cube that this one counts, too: ``add`` says what all spend together, ``refuse``
        publishes nothing. Copies share one budget.
    per_year
        Number of such releases in a year, for the page to sign, e.g. ``52``; None: not stated.
    releases
        Folder of releases, a path or URL, e.g. ``runs/releases``; each series has a folder in it.
    """

    mechanism: DeclaredMechanism
    period: Period
    series: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
    budget: Budget | None = None
    choose_cap: CapChoice | None = None
    population: contracts.Address = EVERYONE
    among: Count | None = None
    counted: Words = ""
    licence: Words = ""
    contact_point: Words = ""
    group_size: Size | None = None
    places: contracts.Address | None = None
    other_places: Literal["drop", "one_row"] = "drop"
    null_roi: bool = False
    format: Literal["zarr", "netcdf", "parquet", "csv"] = "zarr"
    without_guarantee: bool = False
    other_series: Literal["add", "refuse"] = "add"
    per_year: Count | None = None
    releases: contracts.Address

    @model_validator(mode="after")
    def _publishable(self) -> Self:
        faults = list(find_faults(self.mechanism, null_roi=self.null_roi))
        faults += [*self._over_budget(), *self._misplaced()]
        if faults:
            raise ValueError("\n".join(faults))
        return self

    def _over_budget(self) -> Iterator[str]:
        bound = bind_without_data(self.mechanism, null_roi=self.null_roi) or self.mechanism
        guarantee = bound.guarantee
        if self.budget is None:
            delta = f", delta: {4 * guarantee.delta:g}" if guarantee.delta else ""
            if guarantee.unit != "none":
                yield (
                    "budget: missing; the mechanism has a guarantee, so state what the series may "
                    f"spend, e.g. budget: {{unit: {guarantee.unit}, epsilon: "
                    f"{4 * guarantee.epsilon:g}{delta}}}"
                )
        elif guarantee.unit == "none":
            yield (
                f"mechanism: {self.mechanism.label} has no guarantee ({guarantee.reason}), so it "
                "cannot be in a series with a budget: add laplace with discrete: true, or publish "
                "it in a series without a budget"
            )
        elif guarantee.unit != self.budget.unit:
            yield (
                f"budget.unit: {self.budget.unit}, but the guarantee of {self.mechanism.label} is "
                f"for one {guarantee.unit}: state the same unit in both"
            )
        elif guarantee.delta > self.budget.delta:
            yield (
                f"budget.delta: {self.budget.delta:g}, but {self.mechanism.label} spends a δ of "
                f"{guarantee.delta:g}: state what the series may spend, e.g. delta: "
                f"{4 * guarantee.delta:g}"
            )

    def _misplaced(self) -> Iterator[str]:
        if self.places is None and self.other_places != "drop":
            yield "other_places: is for a list of places, and `places` is missing"
        if self.places and any(isinstance(step, CoarsenSpace) for step in steps_of(self.mechanism)):
            yield (
                "places: coarsen_space merges places before they are listed: write the cube with "
                "public places, by clusterscale ingest --points FILE, instead of stating `places`"
            )
        unit = self.mechanism.guarantee.unit
        if self.choose_cap and not (self.largest_cap and unit in ("user_day", "user")):
            yield (
                "choose_cap: needs cap_contributions as the first step of the mechanism, whose "
                "per_day is the largest cap, and noise for unit: user_day or user"
            )
        if (self.among or self.group_size or 0) < (self.group_size or 0):
            yield f"among: {self.among:,} people, but group_size is {self.group_size:,}"

    @property
    def span(self) -> tuple[int, int]:
        """First epoch and the one after the last."""
        return self.period.spans[-1]

    @property
    def largest_cap(self) -> int | None:
        """Largest number of events kept of each user and day; None if they are not capped first."""
        first = steps_of(self.mechanism)[0]
        return first.per_day if isinstance(first, CapContributions) else None

    def with_cap(self, per_day: int) -> Self:
        """Return the plan with another number of events kept of each user and day."""
        first, *rest = steps_of(self.mechanism)
        steps = [first.model_copy(update={"per_day": per_day}), *rest]
        chain = Chain.model_validate({"steps": steps, "title": self.mechanism.title})
        return self.model_copy(update={"mechanism": chain})

    @property
    def everyone(self) -> bool:
        """Whether all users of the cube are counted."""
        return self.population == EVERYONE

    @property
    def folder(self) -> str:
        """Folder of the series."""
        return f"{self.releases.rstrip('/')}/{self.series}"

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain values that may be shown to anyone."""
        # Without these, ids are as they were.
        added = {"group_size", "places", "other_places", "choose_cap", *STATED}
        unset = {key for key in added if getattr(self, key) == type(self).model_fields[key].default}
        return self.model_dump(
            mode="json", exclude={*unset, "without_guarantee", "per_year", "other_series"}
        )

    @property
    def digest(self) -> str:
        """Hash of all settings: another one would be another release."""
        return contracts.hash_of(self.describe())
