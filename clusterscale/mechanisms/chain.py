"""Several mechanisms in sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

import numpy as np
from pydantic import Strict, model_validator

from clusterscale.contracts import (
    NO_NOISE,
    Bounds,
    CellChange,
    Counts,
    Guarantee,
    Mechanism,
    Noise,
    NoiseScope,
    PrivacyLoss,
    Support,
    TraceStep,
    UsualSettings,
    Values,
    release_counts,
    stability_of,
)
from clusterscale.contracts.mechanism import ONLY_REPLACED, group_privacy
from clusterscale.mechanisms import base
from clusterscale.mechanisms.law import FiniteDistribution, Law, OutputDistribution
from clusterscale.mechanisms.rounding import RoundToBase
from clusterscale.mechanisms.sampling import SampleEvents
from clusterscale.mechanisms.scaling import Expand, ShareOfTotal
from clusterscale.mechanisms.suppression import Dominance, Suppression


def weigh(values: Values, counts: Counts, sums: Values) -> Values:
    """Return values times the mean weight of those counted; the sums where they are the counts."""
    means = np.divide(sums, counts, out=np.zeros(counts.shape), where=counts > 0)
    return np.where(values == counts, sums, values * means)


def find_misuse(steps: Sequence[base.BaseMechanism]) -> str:
    """Return what is wrong with the steps around one that uses weights; empty if nothing is."""
    first = next((i for i, step in enumerate(steps) if step.uses_weights), len(steps))
    name = steps[first].name if first < len(steps) else ""
    for i, step in enumerate(steps if name else ()):
        if step.stage == "sample":
            return (
                f"{step.name} does not say whose events it drops, so {name} cannot add up the "
                "weights of the others: use sample_traces, or expand by a number"
            )
        if i > first and step.uses_weights:
            return f"weights are used twice ({name}, {step.name}): keep one"
        if i > first and isinstance(step, Dominance):
            return (
                f"{step.name} counts every contribution as one, so it must come before {name}, "
                "which publishes sums of weights"
            )
    return ""


def steps_of(mechanism: Mechanism) -> tuple[Mechanism, ...]:
    """Return the steps of a chain, or the mechanism as the only step."""
    return mechanism.steps if isinstance(mechanism, Chain) else (mechanism,)


def last_suppression(mechanism: Mechanism) -> Suppression | None:
    """Return the last step that hides small values, None without one."""
    hiding = [step for step in steps_of(mechanism) if isinstance(step, Suppression)]
    return hiding[-1] if hiding else None


if TYPE_CHECKING:
    Steps = tuple[base.BaseMechanism, ...]
else:
    Steps = Annotated[
        tuple[base.MECHANISMS.field(base.BaseMechanism, skip="chain"), ...], Strict(False)
    ]

_WEIGHED = (
    "noise is added, but then values are multiplied by the mean weight of the users counted, which "
    "noise does not hide"
)
_UNSTABLE = (
    "a step changes traces and does not state its stability, so what one unit changes is not known"
)
_CAPPED_SERIES = (
    "noise is for the series of one place, but the cap lets events of other places in where those "
    "of one are removed: state a guarantee per user, or leave out cap_contributions"
)
_STAGE_NAMES: dict[str, str] = {
    "trace": "changes traces",
    "sample": "drops events",
    "noise": "adds noise",
    "publish": "changes published values",
}
_EXPANDED = ({"name": "expand", "factor": 3.0}, {"name": "threshold", "k": 15})
_ROUNDED = ({"name": "threshold", "k": 5}, {"name": "round_to_base", "base": 5})
_NOISY = {"name": "laplace", "epsilon": 1.0, "clip": True, "discrete": True}
_CAPPED = ({"name": "cap_contributions", "per_day": 4}, {**_NOISY, "unit": "user_day"})
_GAUSSIAN = (_CAPPED[0], {**_NOISY, "name": "gaussian", "delta": 1e-5, "unit": "user_day"})
_SUPPRESSED = ({**_NOISY, "unit": "event"}, {"name": "suppress_small", "below": 5})
_USUAL = (
    UsualSettings({"steps": _EXPANDED}, {"steps.1.k": (15, 30)}, rank=7),
    UsualSettings({"steps": _ROUNDED}, {}, rank=8),
    *(
        UsualSettings(
            {"steps": steps},
            {"steps.0.per_day": (2, 8), "steps.1.epsilon": base.USUAL_EPSILONS},
            rank=rank,
        )
        for rank, steps in ((10, _CAPPED), (11, _GAUSSIAN))
    ),
    UsualSettings(
        {"steps": _SUPPRESSED},
        {"steps.0.epsilon": base.USUAL_EPSILONS, "steps.1.below": (3, 5)},
        rank=14,
    ),
)


class Chain(base.BaseMechanism):
    """Apply ``steps`` in order: on traces, on events, noise, and on published values.

    POMACS20's SPSC is ``sample_events`` and ``perturb_small``, its SFPA ``sample_events`` and
    ``fourier`` (§4.2.4); POPETS24's DP+SSC is ``laplace`` and ``suppress_small`` (§2.2.2). The
    guarantee is that of the noise: later steps see only its output, and earlier steps are part of
    the data. Sampling before event-level noise strengthens it: an event counted with
    probability q has (ln(1 + q(e^ε − 1)), qδ)-DP (Balle et al., NeurIPS 2018). No amplification is
    claimed for larger units, because their events are not dropped together. No guarantee is claimed
    if values are then multiplied by the mean weight of the users counted.

    Attributes
    ----------
    steps
        Mechanisms, in the order in which they are applied, e.g. ``[{name: coarsen_time, factor:
        4}, {name: suppress_small, below: 5}]``.
    """

    name: Literal["chain"] = "chain"
    usual = _USUAL
    steps: Steps

    no_guarantee = "no step adds noise"

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.steps:
            raise ValueError("steps: give at least one")
        for i, (before, after) in enumerate(pairwise(self.steps)):
            if base.STAGES.index(before.stage) > base.STAGES.index(after.stage):
                raise ValueError(
                    f"steps.{i + 1}: {after.name} {_STAGE_NAMES[after.stage]} and must come "
                    f"before {before.name}, which {_STAGE_NAMES[before.stage]}"
                )
        for stage in ("sample", "noise"):
            several = [step.name for step in self.steps if step.stage == stage]
            if len(several) > 1:
                raise ValueError(
                    f"steps: more than one {_STAGE_NAMES[stage]} ({', '.join(several)}): keep one"
                )
        if any(step.name == "exact" for step in self.steps):
            raise ValueError("steps: exact does nothing in a chain")
        if fault := find_misuse(self.steps):
            raise ValueError(f"steps: {fault}")
        return self

    @property
    def _label(self) -> str:
        return f"chain({' + '.join(step.label for step in self.steps)})"

    @property
    def phrase(self) -> str:
        """The headings of the steps, joined."""
        return ", then ".join(step.heading for step in self.steps)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the noise, amplified by sampling where that is proven."""
        noise, sample = self._step("noise"), self._step("sample")
        if noise is None:
            return super().guarantee
        if self.uses_weights:
            return Guarantee("none", np.inf, 0.0, "add_remove", _WEIGHED)
        guarantee = self._before_trace_steps(noise)
        if not isinstance(sample, SampleEvents) or guarantee.unit != "event":
            return guarantee
        if not np.isfinite(guarantee.epsilon) or guarantee.neighbours != "add_remove":
            return guarantee
        share = 1 - sample.remove
        epsilon = float(np.logaddexp(np.log(share) + guarantee.epsilon, np.log1p(-share)))
        reason = f"{guarantee.reason}; each event is counted with probability {share:g}"
        delta = share * guarantee.delta
        return replace(guarantee, epsilon=epsilon, delta=delta, reason=reason)

    def _before_trace_steps(self, noise: base.BaseMechanism) -> Guarantee:
        """Return what a guarantee for traces after the trace steps implies for those before."""
        guarantee, stability = noise.guarantee, stability_of(self.trace_steps)
        if stability is None:
            return Guarantee("none", np.inf, 0.0, "add_remove", _UNSTABLE)
        if guarantee.unit == "roi_series" and stability.event > 1:
            return Guarantee("none", np.inf, 0.0, "add_remove", _CAPPED_SERIES)
        is_shared = guarantee.unit != "user" and noise.noise_scope != "cell"
        if guarantee.neighbours == "replace" and is_shared and self.trace_steps:
            return Guarantee("none", np.inf, 0.0, "add_remove", ONLY_REPLACED)
        if guarantee.unit != "event" or stability.event == 1:
            return guarantee
        covered = 1.0 if np.isnan(guarantee.sensitivity) else guarantee.sensitivity
        times = int(np.ceil(stability.event / covered))
        epsilon, delta = group_privacy(guarantee.epsilon, guarantee.delta, times)
        return replace(
            guarantee,
            epsilon=epsilon,
            delta=delta,
            reason=f"{guarantee.reason}; capped, one event changes up to {stability.event}",
            sensitivity=times * guarantee.sensitivity,
        )

    @property
    def publishes_float_noise(self) -> bool:
        """Whether the noise step does, and no later step puts values on a fixed grid."""
        noise = self._step("noise")
        rounded = any(step.whole_output for step in self.steps if step.stage == "publish")
        return noise is not None and noise.publishes_float_noise and not rounded

    @property
    def noise(self) -> Noise | None:
        """The noise of the noise step, if all other steps are trace steps."""
        if self._step("sample") is not None or self._step("publish") is not None:
            return None
        noise = self._step("noise")
        return NO_NOISE if noise is None else noise.noise

    def widen(self, margin: base.Margin) -> base.Margin | None:
        """Return the margin after all steps."""
        after: base.Margin | None = margin
        for step in self.steps:
            after = None if after is None else step.widen(after)
        return after

    def law(self, group_size: int) -> Law | None:
        """Return the distribution of noise and revisions; None unless each count is independent."""
        law: Law | None = OutputDistribution()
        for step in self.steps:
            own = OutputDistribution() if step.stage == "trace" else step.law(group_size)
            if law is None or own is None:
                return None
            known = step.stage == "trace" or isinstance(step, base.PostProcessing | RoundToBase)
            if known and isinstance(own, OutputDistribution) and own.noise == NO_NOISE:
                law = reduce(lambda before, revise: before.then(revise), own.revisions, law)
            elif isinstance(law, OutputDistribution) and law.noise == NO_NOISE and not law.revised:
                law = own
            elif known and isinstance(own, FiniteDistribution) and law.is_finite:
                law = own.after(law)
            else:  # what it states of counts holds if they were unchanged
                law = None
        return law

    def cell_change(self, group_size: int) -> CellChange | None:
        """Return the change by sampling and noise; None if :meth:`law` says it.

        What follows is a function of the noisy values, which cannot reveal more than they do.
        """
        noise, sample = self._step("noise"), self._step("sample")
        unprocessed = all(step.stage != "publish" for step in self.steps)
        sampled = None if sample is None else sample.cell_change(group_size)
        if noise is None:
            return _limit(sampled, tight=unprocessed)
        law = noise.law(group_size)
        if isinstance(law, OutputDistribution) and (
            sampled is not None or self.law(group_size) is None
        ):
            kept = 1.0 if sampled is None else sampled.kept
            return CellChange(law.noise, kept, tight=unprocessed and not law.revised)
        if sample is not None:  # the noise may hide more than sampling alone
            return _limit(sampled, tight=False)
        return _limit(noise.cell_change(group_size), tight=unprocessed)

    def support(self, before: Support, group_size: int) -> Support:
        """Return the values after all steps."""
        for step in self.steps:
            before = step.support(replace(before, per_series=None), group_size)
        return before

    def in_visits(self, values: Values, counts: Counts) -> Values:
        """Return published values as numbers of visits, undoing the scale of each step."""
        for step in reversed(self.steps):
            values = step.in_visits(values, counts)
            if isinstance(step, ShareOfTotal):  # the scale before it is divided out
                break
        return values

    def at_weight(self, weight: float) -> Self:
        """Return the chain with every step at that weight."""
        steps = tuple(step.at_weight(weight) for step in self.steps)
        return self.model_copy(update={"steps": steps})

    @property
    def trace_steps(self) -> tuple[TraceStep, ...]:
        """The steps that change traces."""
        return tuple(step for step in self.steps if isinstance(step, TraceStep))

    @property
    def noise_scope(self) -> NoiseScope:  # type: ignore[override]
        """The widest scope of any step."""
        return max((step.noise_scope for step in self.steps), key=get_args(NoiseScope).index)

    @property
    def uses_weights(self) -> bool:  # type: ignore[override]
        """Whether a step does."""
        return any(step.uses_weights for step in self.steps)

    @property
    def noise_is_count_independent(self) -> bool:  # type: ignore[override]
        """Whether this is so for every step."""
        return all(step.noise_is_count_independent for step in self.steps)

    @property
    def hides_more_in_larger_groups(self) -> bool:
        """Whether this is so for every step."""
        return all(step.hides_more_in_larger_groups for step in self.steps)

    def bind(self, bounds: Bounds) -> Self:
        """Return the chain with every step bound.

        Raises ConfigError if a step is not defined for such counts.
        """
        return self.model_copy(update={"steps": tuple(step.bind(bounds) for step in self.steps)})

    def required_sensitivity(self, bounds: Bounds) -> float:
        """Return the sensitivity that the noise needs; NaN without noise or a guarantee."""
        noise = self._step("noise")
        if noise is None or self.uses_weights:
            return np.nan
        return noise.required_sensitivity(bounds)

    def user_privacy_loss(self, bounds: Bounds) -> PrivacyLoss | None:
        """Return the privacy loss of the noise; None without noise or a guarantee."""
        noise = self._step("noise")
        if noise is None or self.uses_weights or stability_of(self.trace_steps) is None:
            return None
        return noise.user_privacy_loss(bounds)

    def check(self, *, group_size: int, n_rois: int, n_epochs: int) -> None:
        """Raise :class:`~clusterscale.errors.ConfigError` if a step does not suit the counts."""
        for step in self.steps:
            step.check(group_size=group_size, n_rois=n_rois, n_epochs=n_epochs)
            group_size = _largest(step, group_size)

    def release(
        self,
        counts: Counts,
        *,
        group_size: int,
        rng: np.random.Generator,
        sums: Values | None = None,
        see: Callable[[base.BaseMechanism, Values], None] = lambda step, values: None,
    ) -> Values:
        """Return the published values of ``counts``, float64.

        The trace steps are not applied: ``counts`` are of traces that they have changed.
        ``sums`` are those of the weights of users, for steps that use them. ``see`` is
        called with each other step and the values before it, which the step may then change
        in place. Raises ConfigError if a step uses weights and there are no ``sums``.
        """
        self._check_shape(counts, group_size)
        values: Any = counts
        for step in (step for step in self.steps if step.stage != "trace"):
            see(step, values)
            if step.uses_weights:
                weighed = None if sums is None else weigh(values, counts, sums)
                values = release_counts(step, values, weighed, group_size=group_size, rng=rng)
            elif isinstance(step, base.PostProcessing) and values is not counts:
                step.revise(values)
            else:
                values = step.release(values, group_size=group_size, rng=rng)
            group_size = _largest(step, group_size)
        return np.array(values, np.float64) if values is counts else values

    def _step(self, stage: str) -> base.BaseMechanism | None:
        return next((step for step in self.steps if step.stage == stage), None)


def _limit(change: CellChange | None, *, tight: bool) -> CellChange | None:
    """Return a change that is tight only if it was and still is; None if there is none."""
    return None if change is None else replace(change, tight=change.tight and tight)


def _largest(step: base.BaseMechanism, group_size: int) -> int:
    """Return the group size for the steps after one: any, if it expands to other people."""
    # 2**62: people: more than any group counts for
    return 2**62 if step.uses_weights or isinstance(step, Expand) else group_size
