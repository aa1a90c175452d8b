"""Unpopular cells set to 0, and noise on small counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Count, Counts, NoiseScope, Positive, Probability, Support, Values
from clusterscale.errors import ConfigError
from clusterscale.mechanisms.base import USE_LAPLACE, BaseMechanism, PostProcessing, Stage
from clusterscale.validation_messages import exact_number, exact_percent


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

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return counts with noise on the small ones, float64, the same shape (…, roi, epoch).

        Raises
        ------
        InputError
            If ``counts`` are not those of ``group_size`` members.
        """
        self._check_counts(counts, group_size)
        values: Values = np.array(counts, np.float64, order="C")
        small: NDArray[Any] = values < self.below
        noisy = values[small] + rng.laplace(0.0, 1 / self.epsilon, int(small.sum()))
        values[small] = np.maximum(np.rint(noisy), 0.0)
        return values
