"""An adversary with groups of its own to train on."""

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from clusterscale.contracts import (
    NO_NOISE,
    Examples,
    GroupSample,
    Ints,
    Knowledge,
    Mechanism,
    Release,
    TargetKnowledge,
    Traces,
    publish,
)
from clusterscale.contracts.adversary import add


@dataclass(frozen=True, slots=True)
class AuxiliaryDataAdversary:
    """An adversary with groups to train on, formed or observed; it does not learn from releases.

    Attributes
    ----------
    group_size
        Members in each group.
    training, validation
        Groups that the adversary can form or has observed.
    whereabouts
        What it knows about the target and about the others.
    paired
        Whether rows 2i and 2i + 1 of the training groups share their noise (POPETS24 §4.4).
    passive
        Whether it trains on raw counts, whatever is published (NDSS18 §VII).
    mean_weight
        Mean weight of users, if it knows no other: where sums of weights are published, its own
        groups are published as if everyone had this weight. None: it knows their weights.
    """

    group_size: int
    training: GroupSample
    whereabouts: TargetKnowledge | None = None
    validation: GroupSample | None = None
    paired: bool = False
    passive: bool = False
    mean_weight: float | None = None

    retrains_per_release: ClassVar[bool] = False

    def study(
        self, release: Release | None, mechanism: Mechanism, *, rng: np.random.Generator
    ) -> Knowledge:
        """Return its own groups, published by the same mechanism."""
        training = self._train(mechanism, rng)
        validation = None
        if (sample := self.validation) is not None:
            published = self._publish(sample, mechanism, rng)
            validation = Examples(published, sample.labels, sample.blocks)
        return Knowledge(training, self._target_knowledge(mechanism), validation)

    def plus(self, other: Self) -> Self:
        """Add the counts of the users that follow these, in the same groups."""
        return replace(
            self,
            training=self.training.plus(other.training),
            whereabouts=add(self.whereabouts, other.whereabouts),
            validation=add(self.validation, other.validation),
        )

    def _train(self, mechanism: Mechanism, rng: np.random.Generator) -> Examples:
        sample = self.training
        if self.passive:
            release = Release(sample.counts, self.group_size, "exact", NO_NOISE)
        elif self.paired:
            twin = deepcopy(rng)
            halves = (sample.take(np.arange(first, len(sample), 2)) for first in (0, 1))
            inside = self._publish(next(halves), mechanism, rng)
            outside = self._publish(next(halves), mechanism, twin)
            values: Any = np.stack([inside.values, outside.values], axis=1)
            release = replace(inside, values=values.reshape(sample.counts.shape))
        else:
            release = self._publish(sample, mechanism, rng)
        return Examples(release, sample.labels, sample.blocks)

    def _publish(
        self, sample: GroupSample, mechanism: Mechanism, rng: np.random.Generator
    ) -> Release:
        size, mean = self.group_size, self.mean_weight
        assumed = mechanism if mean is None else mechanism.at_weight(mean)
        release = publish(sample.counts, assumed, group_size=size, rng=rng, sums=sample.sums)
        # The true weights differ, so what is known of the output at equal weights does not hold.
        return replace(release, noise=None, law=None) if mechanism.uses_weights else release

    def _target_knowledge(self, mechanism: Mechanism) -> TargetKnowledge | None:
        """Return what it knows of the target, with weights only if the mechanism uses them."""
        known, mean = self.whereabouts, self.mean_weight
        if known is None:
            return None
        if not mechanism.uses_weights:
            return replace(known, weights=None)
        return known if mean is None else replace(known, weights=(mean, mean * known.n_users))


def target_weights(traces: Traces, target: int, users: Ints) -> tuple[float, float] | None:
    """Return the weight of the target and the total of some users, of those held.

    None if users have no weights. Totals of a cube's weights are exact, so they can be added.
    """
    if traces.weights is None:
        return None
    held = users[(users >= traces.first) & (users < traces.first + traces.n_held)]
    return traces.weight(target), float(traces.weights[held - traces.first].sum())
