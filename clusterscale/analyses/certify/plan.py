"""Settings of certificates."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, Strict

from clusterscale.analyses.certify.basis import needs_series
from clusterscale.contracts import (
    Bounds,
    CellCoordinates,
    ConfigModel,
    Mechanism,
    NonEmptyUnique,
    Prior,
    Traces,
    TraceStep,
    hash_of,
)
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Span
from clusterscale.mechanisms import group_by_trace_steps
from clusterscale.schema import Variable, read_variables

ALL_PERIODS = "all periods"
"""Name of the releases of all periods together."""


_Rate = Annotated[float, Strict(), Field(gt=0, lt=1)]


CERTIFICATES_FORMAT = "clusterscale-certificates"
"""Value of the attribute ``format`` of certificates."""
ROWS_OF_RECORDS = "if the places and epochs of releases are public, not those of the records"
"""Condition of certificates about a cube whose places or epochs may follow from its records."""


CERTIFICATES: Mapping[str, Variable] = read_variables(Path(__file__).with_name("variables.md"))
"""Variables and coordinates of the dataset of certificates."""


def has_public_rows(cube: TraceCube) -> bool:
    """Return whether the places and epochs of a cube do not follow from its records."""
    return cube.public == {"places", "calendar"}


class CertifyPlan(ConfigModel):
    """What certificates state besides the AUC and the accuracy of the best adversary.

    Attributes
    ----------
    false_positive_rates
        False positive rates, each a probability, at which true positive rates are stated, e.g.
        ``[0.001, 0.01]``.
    prior
        Probability that somebody is inside before the release is seen, from which the adversary's
        probability after it follows, e.g. ``0.01``.
    """

    false_positive_rates: Annotated[tuple[_Rate, ...], *NonEmptyUnique] = (0.001, 0.01)
    prior: _Rate = 0.01


@dataclass(frozen=True, slots=True)
class Setting:
    """Releases that one adversary sees, and the mechanisms that share trace steps.

    Attributes
    ----------
    period
        Name of the period, or :data:`ALL_PERIODS`.
    spans
        First epoch and the one after the last of each release.
    steps, mechanisms
        The trace steps, and the mechanisms that have them.
    """

    period: str
    spans: tuple[Span, ...]
    steps: tuple[TraceStep, ...]
    mechanisms: tuple[Mechanism, ...]

    @property
    def series(self) -> bool:
        """Whether a ceiling depends on the places of visits."""
        return any(map(needs_series, self.mechanisms))


@dataclass(frozen=True, slots=True)
class ReleaseSettings:
    """The releases of an analysis of all users: every period × group size × mechanism.

    Attributes
    ----------
    seed, null_roi
        Root seed, and whether there is a null ROI, visited when no other is.
    periods
        Names and spans of epochs: the first, and the one after the last.
    group_sizes, mechanisms
        Numbers of members, and the mechanisms.
    """

    seed: int
    null_roi: bool
    periods: tuple[tuple[str, Span], ...]
    group_sizes: tuple[int, ...]
    mechanisms: tuple[Mechanism, ...]

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain values, with labels."""
        return {
            "seed": self.seed,
            "null_roi": self.null_roi,
            "periods": [[name, *span] for name, span in self.periods],
            "group_sizes": list(self.group_sizes),
            "mechanisms": [mechanism.label for mechanism in self.mechanisms],
        }

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that affect results; names of periods and titles do not."""
        spans = [span for _, span in self.periods]
        ids = [mechanism.id for mechanism in self.mechanisms]
        return ReleaseSettings.describe(self) | {"periods": spans, "mechanisms": ids}


def check_fit(
    mechanism: Mechanism, shape: tuple[int, CellCoordinates], sizes: Sequence[int], null_roi: bool
) -> None:
    """Raise :class:`ConfigError` if a mechanism does not fit the ROIs, epochs and group sizes.

    Its trace steps are applied to no traces, and it checks the counts that it then gets.
    """
    n_rois, frame = shape
    traces = Traces(np.zeros(1, np.int64), np.zeros(0, np.int32), n_rois, len(frame.days))
    for step in mechanism.trace_steps:
        traces, frame = step.apply(traces, frame, rng=np.random.default_rng(0))
    mechanism.bind(Bounds(1 + null_roi, 1, 1, 1, 1, null_roi))
    for size in sizes:
        n_rois = traces.n_rois + null_roi
        mechanism.check(group_size=size, n_rois=n_rois, n_epochs=traces.n_epochs)


@dataclass(frozen=True, slots=True)
class Certification(ReleaseSettings):
    """Certificates of every user × period × group size × mechanism.

    Attributes
    ----------
    plan
        What is stated.
    priors
        Priors of the audit that is certified, which draw groups.
    lists
        Lengths of the lists of members from which groups are drawn; None: from all users.
    """

    plan: CertifyPlan
    priors: tuple[Prior, ...] = ()
    lists: tuple[int, ...] | None = None

    def n_candidates(self, n_users: int) -> list[int]:
        """Return from how many others the substitute of a user is drawn, by group size.

        It is the smallest number for any prior and list; 0 if it is not known, because a list has
        so few distinct groups that these are soon used up.
        """
        least = min((prior.n_candidates(n_users) for prior in self.priors), default=n_users - 1)
        if self.lists is None:
            return [least] * len(self.group_sizes)
        # 5: distinct groups of a list, as a multiple of those drawn
        many = 5 * max((prior.n_groups for prior in self.priors), default=0)
        found = []
        for size in self.group_sizes:
            lengths = [length for length in self.lists if length >= size]
            few = any(comb(length - 1, size - 1) < many for length in lengths)
            found.append(0 if few else min([least, *(length - 1 for length in lengths)]))
        return found

    @property
    def releases(self) -> tuple[tuple[str, tuple[Span, ...]], ...]:
        """Names and spans of each period, and of all of them if there are several."""
        each = tuple((name, (span,)) for name, span in self.periods)
        if len(each) == 1:
            return each
        return (*each, (ALL_PERIODS, tuple(span for _, span in self.periods)))

    def settings(self) -> Iterator[Setting]:
        """Yield the settings, by period."""
        for name, spans in self.releases:
            for steps, mechanisms in group_by_trace_steps(self.mechanisms):
                yield Setting(name, spans, steps, tuple(mechanisms))

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain values, with labels."""
        return ReleaseSettings.describe(self) | self.plan.model_dump(mode="json")

    @property
    def digest(self) -> str:
        """Hash of the settings that affect results."""
        priors = [prior.id for prior in self.priors]
        own = {"plan": self.plan.canonical, "priors": priors, "lists": self.lists}
        return hash_of(self.identity | own)
