"""Suppress or perturb small counts, and suppress what few people dominate."""

from abc import abstractmethod
from dataclasses import replace
from math import ceil
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, Strict, model_validator

from clusterscale.contracts import (
    Count,
    Counts,
    NoiseScope,
    Positive,
    Probability,
    Support,
    UsualSettings,
    Values,
)
from clusterscale.errors import ConfigError
from clusterscale.mechanisms.base import USE_LAPLACE, BaseMechanism, Margin, PostProcessing, Stage
from clusterscale.mechanisms.law import CountLikelihood, OutputDistribution
from clusterscale.mechanisms.noise import LaplaceNoise
from clusterscale.validation_messages import exact_number, exact_percent


class Suppression(PostProcessing):
    """A function of values that does not publish those below ``least_shown``."""

    @property
    @abstractmethod
    def least_shown(self) -> int:
        """The smallest value that is published, in visits."""

    @property
    def least_exact(self) -> int:
        """The smallest value that is published as it is, in visits."""
        return self.least_shown

    @property
    def hidden(self) -> Literal["zero", "hidden", "label"]:
        """What is published instead: 0, nothing, or for small values other than 0 a label."""
        return "zero"

    @property
    def hidden_as(self) -> float:
        """The number that stands for a hidden value, in attacks and in tables without it."""
        return self.least_shown / 2 if self.hidden == "label" else 0.0

    def check(self, *, group_size: int, n_rois: int, n_epochs: int) -> None:
        """Raise :class:`ConfigError` if no count could be published."""
        if self.least_shown > group_size:
            raise ConfigError(f"{self.name}: {self._describe()} covers all counts of {group_size}")

    def support(self, before: Support, group_size: int) -> Support:
        """Return the values that are shown, and the one that stands for the others."""
        low, high = self._ends(before)
        half = self.hidden == "label" and self.least_shown % 2 == 1
        step = min(0.5, before.step) if half else before.step
        return Support(min(low, self.hidden_as), max(high, self.hidden_as), step)

    def widen(self, margin: Margin) -> Margin | None:
        """Return ``margin``: values that are shown are as they were."""
        return margin

    def revise(self, values: Values) -> None:
        """Replace small values in place."""
        values[self.hides(values)] = self.hidden_as

    def hides(self, values: Values) -> NDArray[np.bool_]:
        """Return which values are not published, bool, the shape of ``values``."""
        small = values < self.least_shown
        if self.hidden == "label":
            small &= values > 0
        return np.asarray(small)

    def _describe(self) -> str:
        """Return which values are hidden, in the words of the settings."""
        return f"below {self.least_shown:,}"


class SuppressSmall(Suppression):
    """Publish 0 for small counts (SSC).

    Small means less than ``below`` (POMACS20 §4.2.2), or at most ``up_to`` (POPETS24 §2.2.2).

    Attributes
    ----------
    below
        Counts less than this are hidden, in visits, e.g. ``10``; give this or ``up_to``.
    up_to
        Counts of at most this are hidden, in visits, e.g. ``9``.
    """

    name: Literal["suppress_small"] = "suppress_small"
    publish_seconds = 4e-9
    below: Count | None = None
    up_to: Count | None = None

    @model_validator(mode="after")
    def _one_threshold(self) -> Self:
        if (self.below is None) == (self.up_to is None):
            raise ValueError("give exactly one of below, up_to")
        return self

    @property
    def least_shown(self) -> int:
        """The smallest value that is published, in visits."""
        return self.below if self.below is not None else (self.up_to or 0) + 1

    @property
    def phrase(self) -> str:
        """Short description for display."""
        return f"counts {self._describe()} set to 0"

    def revise(self, values: Values) -> None:
        """Zero small values in place."""
        small = values < self.below if self.below is not None else values <= (self.up_to or 0)
        values[small] = 0.0

    def _describe(self) -> str:
        return f"up to {self.up_to:,}" if self.below is None else f"below {self.below:,}"


class Threshold(Suppression):
    """Hide values below a threshold: "fewer than k".

    In a chain the order says what is compared: before ``expand``, it is the number of those who
    were counted; after it, that of the people for whom they stand. What is shown instead decides
    what is disclosed: ``zero`` and ``hidden`` treat a count of 0 like other small counts, but a
    ``label`` such as "<5" says that somebody was there, because 0 is published.

    Attributes
    ----------
    k
        Smallest value that is published, in visits, e.g. ``5``.
    shown
        What is published below it: ``zero``; nothing (``hidden``); or 0 where nobody was, else
        the ``label`` "<k", which attacks read as k/2.
    """

    name: Literal["threshold"] = "threshold"
    usual = (UsualSettings({}, {"k": (3, 5, 10, 20)}, rank=1),)
    k: Annotated[int, Strict(), Field(ge=2, lt=2**31)]
    shown: Literal["zero", "hidden", "label"] = "zero"

    no_guarantee = "values at or above the threshold are published as they are"

    @property
    def least_shown(self) -> int:
        """The smallest value that is published, in visits."""
        return self.k

    @property
    def hidden(self) -> Literal["zero", "hidden", "label"]:
        """What is published instead of a small value."""
        return self.shown

    @property
    def phrase(self) -> str:
        """Short description for display."""
        if self.shown == "label":
            return f"values from 1 to {self.k - 1:,} shown as “<{self.k:,}”"
        return f"values below {self.k:,} {'set to 0' if self.shown == 'zero' else 'hidden'}"


class Dominance(Suppression):
    """Hide cells in which few people make up most of the value: the (n, k) or the p-percent rule.

    By the (n, k) rule, a cell is hidden if its ``n`` largest contributions are more than ``share``
    of its value; by the p-percent rule, if the value without the two largest is less than
    ``percent`` of the largest (Hundepool et al., Statistical Disclosure Control, 2012, §4.2.2).
    Here each person contributes one visit to a cell, so both are thresholds; contributions are
    equal even if users have weights. Hidden cells may follow from totals: secondary suppression is
    not included.

    Attributes
    ----------
    n
        Number of the largest contributions, e.g. ``2``; by default 1.
    share
        Largest share of these, of a published cell, e.g. ``0.85``; give this or ``percent``.
    percent
        p of the p-percent rule: 100 times a share, e.g. ``10.0``.
    """

    name: Literal["dominance"] = "dominance"
    n: Count = 1
    share: Annotated[float, Strict(), Field(gt=0, lt=1)] | None = None
    percent: Annotated[float, Field(gt=0, le=100)] | None = None

    no_guarantee = "values that nobody dominates are published as they are"
    hidden: ClassVar[Literal["hidden"]] = "hidden"
    """Nothing is published instead."""

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        if (self.share is None) == (self.percent is None):
            raise ValueError("give exactly one of share, percent")
        if self.percent is not None and "n" in self.model_fields_set:
            raise ValueError("n is for share: percent is about the two largest contributions")
        return self

    @property
    def least_shown(self) -> int:
        """The smallest value that is published, in visits."""
        if self.share is not None:
            return max(1, ceil(self.n / self.share - 1e-9))
        assert self.percent is not None
        return 2 + ceil(self.percent / 100 - 1e-9)

    @property
    def phrase(self) -> str:
        """Short description for display."""
        if self.share is not None:
            people = "one person makes" if self.n == 1 else f"{self.n:,} people make"
            return f"cells hidden of which {people} up over {exact_percent(self.share)}"
        return f"cells hidden by the p-percent rule, p = {exact_number(self.percent or 0)}"


class SuppressUnpopular(PostProcessing):
    """Publish 0 in the least popular ROIs at the least popular epochs (SLP, POMACS20 §4.2.2).

    With z = ``fraction``, the ⌊zS⌋ of S ROIs and the ⌊zT⌋ of T epochs with the lowest sums are
    chosen in each release, ties by index; the cells of both are set to 0.

    Attributes
    ----------
    fraction
        Share of ROIs and of epochs that are unpopular, e.g. ``0.5``.
    """

    name: Literal["suppress_unpopular"] = "suppress_unpopular"
    publish_seconds = 4e-9
    fraction: Probability

    noise_scope: ClassVar[NoiseScope] = "release"

    @property
    def phrase(self) -> str:
        """Short description for display."""
        share = exact_percent(self.fraction)
        return f"quietest {share} of places set to 0 at the quietest {share} of times"

    def check(self, *, group_size: int, n_rois: int, n_epochs: int) -> None:
        """Raise :class:`ConfigError` if there is nothing to suppress."""
        if _share(self.fraction, n_rois) == 0 or _share(self.fraction, n_epochs) == 0:
            raise ConfigError(
                f"{self.name}: fraction {self.fraction} of {n_rois} ROIs or {n_epochs} epochs "
                "is less than one"
            )

    def support(self, before: Support, group_size: int) -> Support:
        """Return ``before``, and 0."""
        return replace(before, low=min(before.low, 0.0), high=max(before.high, 0.0))

    def revise(self, values: Values) -> None:
        """Zero cells in place, by popularity in each (roi, epoch) matrix."""
        n_rois, n_epochs = values.shape[-2:]
        for matrix in values.reshape(-1, n_rois, n_epochs):
            rois = np.argsort(matrix.sum(axis=1), kind="stable")[: _share(self.fraction, n_rois)]
            epochs = np.argsort(matrix.sum(axis=0), kind="stable")
            matrix[np.ix_(rois, epochs[: _share(self.fraction, n_epochs)])] = 0.0


def _share(fraction: float, n: int) -> int:
    return int(fraction * n + 1e-9)  # .29 · 100 is a little less than 29


class PerturbSmall(BaseMechanism):
    """Add Laplace noise of scale 1/ε to counts less than ``below`` (PSC, POMACS20 §4.2.3).

    These are then rounded and clipped at 0; other counts are published unchanged.

    Attributes
    ----------
    below
        Counts less than this get noise, in visits, e.g. ``5``.
    epsilon
        ε of that noise: its scale is 1/ε visits, e.g. ``1.0``.
    """

    name: Literal["perturb_small"] = "perturb_small"
    publish_refusal = f"its noise is drawn as floating-point numbers: {USE_LAPLACE}"
    below: Count
    epsilon: Positive

    stage: ClassVar[Stage] = "noise"
    noise_scope: ClassVar[NoiseScope] = "cell"
    whole_output: ClassVar[bool] = True
    no_guarantee = (  # a member who raises a count to the threshold is visible
        "(below, epsilon)-crowd-blending (Gehrke et al. 2012), which is not differential "
        "privacy: counts at or above the threshold are published unchanged"
    )

    @property
    def phrase(self) -> str:
        """Short description for display."""
        return f"Laplace noise of ε {exact_number(self.epsilon)} on counts below {self.below:,}"

    def check(self, *, group_size: int, n_rois: int, n_epochs: int) -> None:
        """Raise :class:`ConfigError` if the threshold exceeds every count."""
        if self.below > group_size:
            raise ConfigError(f"{self.name}: below {self.below} covers all counts of {group_size}")

    def support(self, before: Support, group_size: int) -> Support:
        """Return the whole numbers from 0."""
        return Support(0.0, np.inf, 1.0)

    def law_for_attacks(self, group_size: int) -> CountLikelihood:
        """Return that of rounded and clipped noise for small counts; others are themselves."""
        most = max(group_size, self.below + 28 / self.epsilon)  # exp(−28) is below 1e-12
        return CountLikelihood(self._probability, np.arange(np.ceil(most) + 1))

    def _probability(self, values: NDArray[Any], counts: NDArray[Any]) -> Values:
        noisy = OutputDistribution(LaplaceNoise(1 / self.epsilon), (_round,))
        small = noisy.likelihood(values[..., 0], counts)
        return np.where(counts < self.below, small, values == counts)

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return counts with noise on the small ones, float64, the same shape (…, roi, epoch).

        Raises InputError if ``counts`` are not those of ``group_size`` members.
        """
        self._check_counts(counts, group_size)
        values: Values = np.array(counts, np.float64, order="C")
        small: NDArray[Any] = values < self.below
        noisy = values[small] + rng.laplace(0.0, 1 / self.epsilon, int(small.sum()))
        _round(noisy)
        values[small] = noisy
        return values


def _round(values: Values) -> None:
    """Round values and clip them at 0, in place."""
    np.maximum(np.rint(values), 0.0, out=values)
