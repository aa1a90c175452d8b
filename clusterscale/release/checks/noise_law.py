"""Test of whether the noise on known counts follows the declared mechanism.

Its statistics are chosen so that any wrong noise changes one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, ClassVar, Literal

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import Field, Strict

from clusterscale.contracts import NO_NOISE, Count, Counts, Probability, Values
from clusterscale.mechanisms.law import OutputDistribution
from clusterscale.release.checks.count_intervals import fill_suppressed
from clusterscale.release.checks.table import Check, CheckResult, Flags, PublishedTable, decimals
from clusterscale.validation_messages import plural

_EDGES = 33  # quantiles at which distribution functions are compared
_PARTS = 8  # groups of cells by their mean published value
_SURE = 1e-9  # tolerance for equal numbers
_FEW = 8  # ROIs or epochs with fewer cells are ignored: their heavy tails would hide other faults
_POWER, _FAULTS = 0.8, 20  # least share of so many faulty tables that a test must detect
_CELL = 1 / 8  # of a cell: least standard deviation, so that one deviating cell is detected

NAMES: tuple[str, ...] = (
    "number of values that differ from the one published in every trial",
    "share of whole values",
    "share of values that are exactly 0",
    "share of values that are exactly the count",
    "mean of the noise",
    "standard deviation of the noise",
    "mean size of the noise",
    "mean size of the noise over its standard deviation",
    "correlation of the noise from one epoch to the next",
    "correlation of the noise from one ROI to the next",
    "largest correlation of the noise between epochs at any distance",
    *(f"mean root size of the noise in part {i + 1} of {_PARTS} by count" for i in range(_PARTS)),
    *("share of noise up to a quantile" for _ in range(_EDGES)),
    "largest root size of the noise in a ROI, in standard errors",
    "smallest root size of the noise in a ROI, in standard errors",
    "largest root size of the noise in an epoch, in standard errors",
    "smallest root size of the noise in an epoch, in standard errors",
)
"""Names of the statistics, in order."""


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceMoments:
    """Moments of simulated releases per cell, used to standardise other releases.

    Shapes (roi, epoch): int32 ``counts``; bool ``known`` cells with a count and a value; float64
    ``mean`` and ``spread`` of the published values; and ``fixed``, the known cells with the same
    value in every release. ``edges`` are quantiles of the noise, shape (edge,); ``parts`` are 0 to
    7 by mean, int64, shape (known cell,).
    """

    counts: Counts
    known: Flags
    mean: Values
    spread: Values
    fixed: Flags
    edges: Values
    parts: NDArray[np.int64]

    @classmethod
    def of(
        cls, counts: Counts, known: Flags, releases: Iterator[Values], n: int
    ) -> ReferenceMoments:
        """Return the moments of the next ``n`` releases."""
        first = next(releases)
        total, square = np.zeros_like(first), np.zeros_like(first)
        same = known.copy()
        for values in islice(releases, n - 1):
            difference = values - first
            total += difference
            square += difference**2
            same &= difference == 0
        mean = total / n
        spread = np.sqrt(np.maximum(square / n - mean**2, 0.0))
        mean += first
        noise = (first - counts)[known]
        edges = np.unique(np.quantile(noise, np.linspace(0, 1, _EDGES + 2)[1:-1]))
        edges = np.append(edges, np.full(_EDGES - len(edges), np.inf))
        ranks = np.argsort(np.argsort(mean[known], kind="stable"), kind="stable")
        parts = ranks * _PARTS // max(len(ranks), 1)
        return cls(counts, known, mean, spread, same, edges, parts)

    @property
    def varied(self) -> Flags:
        """Which cells have noise, bool, shape (roi, epoch)."""
        return np.asarray(self.known & ~self.fixed & (self.spread > _SURE))

    def statistics(self, values: Values) -> tuple[Values, Values, Values]:
        """Return the plain statistics, and the summed root size of the noise by ROI and epoch."""
        known = self.known
        published = values[known]
        noise = published - self.counts[known]
        varied = self.varied
        standardised = np.where(varied, values - self.mean, 0.0)
        standardised /= np.where(varied, self.spread, 1.0)
        size = np.sqrt(
            np.abs(standardised)
        )  # roots have lighter tails, so smaller faults are detected
        sizes = size[known]
        plain = [
            np.count_nonzero(values[self.fixed] != self.mean[self.fixed]),
            np.mean(published == np.rint(published)),
            np.mean(published == 0),
            np.mean(np.abs(noise) < _SURE),
            noise.mean(),
            deviation := noise.std(),
            extent := np.abs(noise).mean(),
            extent / deviation if deviation > _SURE else 0.0,
            *_correlations(standardised),
        ]
        by_part = np.bincount(self.parts, sizes, minlength=_PARTS)
        shares = np.searchsorted(np.sort(noise), self.edges + _SURE, side="right") / len(noise)
        return (
            np.concatenate([plain, by_part / len(noise) * _PARTS, shares]),
            size.sum(axis=1),
            size.sum(axis=0),
        )


def _correlations(standardised: Values) -> tuple[float, float, float]:
    """Return correlations between epochs, between ROIs, and the largest at any lag in time."""
    square = float((standardised**2).sum())
    if square == 0:
        return 0.0, 0.0, 0.0
    n_epochs = standardised.shape[1]
    power = (
        np.abs(
            scipy.fft.rfft(standardised, scipy.fft.next_fast_len(2 * n_epochs, real=True), axis=1)
        )
        ** 2
    )
    at_lag = scipy.fft.irfft(power.sum(axis=0))[1:n_epochs]
    over_rois = float((standardised[1:] * standardised[:-1]).sum())
    if not at_lag.size:
        return 0.0, over_rois / square, 0.0
    return at_lag[0] / square, over_rois / square, float(np.abs(at_lag).max()) / square


@dataclass(frozen=True, slots=True, eq=False)
class NullDistribution:
    """Mean and standard deviation of the statistics over simulated releases.

    ``mean`` and ``spread`` are float64, shape (statistic,). ``moments``, shapes (2, roi) and (2,
    epoch), are mean and standard deviation of the summed root size of the noise; the deviation is 0
    for fewer than 8 cells. ``largest`` are the largest deviations of these releases, (release,).
    """

    reference: ReferenceMoments
    mean: Values
    spread: Values
    moments: Sequence[Values]
    largest: Values

    def measure(self, values: Values) -> tuple[Values, Values]:
        """Return each statistic and its deviation in standard deviations, both (statistic,).

        Statistics that never varied get a small standard deviation. A single deviating cell is
        then detected, but if rare in honest releases it does not hide larger faults elsewhere.
        """
        plain, *sizes = self.reference.statistics(values)
        statistics = np.append(plain, _extremes(sizes, self.moments))
        return statistics, np.abs(statistics - self.mean) / self.spread

    def critical(self, n: int) -> float:
        """Return about the largest deviation that one of ``n`` further releases has, by median.

        The largest of many statistics is nearly of Gumbel's distribution, whose moments give it.
        """
        scale = self.largest.std() * np.sqrt(6) / np.pi
        centre = self.largest.mean() - np.euler_gamma * scale
        return float(centre + scale * np.log(n / np.log(2)))


def _extremes(sizes: Sequence[Values], moments: Sequence[Values]) -> list[float]:
    """Return the largest and the smallest of each sizes in standard errors, 0 if none varies."""
    ends = list[float]()
    for size, (mean, spread) in zip(sizes, moments, strict=True):
        varied = spread > _SURE
        off = (size[varied] - mean[varied]) / spread[varied]
        ends += [off.max(), off.min()] if off.size else [0.0, 0.0]
    return ends


def estimate_null(
    reference: ReferenceMoments, releases: Iterator[Values], n: int
) -> NullDistribution:
    """Return the moments of the statistics over the next ``n`` releases."""
    statistics = [reference.statistics(values) for values in islice(releases, n)]
    _, by_roi, by_epoch = (np.array(column) for column in zip(*statistics, strict=True))
    moments = []
    for sizes, axis in ((by_roi, 1), (by_epoch, 0)):
        few = reference.varied.sum(axis=axis) < _FEW
        moments.append(np.array([sizes.mean(axis=0), np.where(few, 0.0, sizes.std(axis=0))]))
    every = np.array([np.append(plain, _extremes(sizes, moments)) for plain, *sizes in statistics])
    least_spread = np.full(every.shape[1], _CELL / np.count_nonzero(reference.known))
    least_spread[0] = _CELL  # a number, not a share
    mean, spread = every.mean(axis=0), np.maximum(every.std(axis=0), least_spread)
    largest = (np.abs(every - mean) / spread).max(axis=1)
    return NullDistribution(reference, mean, spread, moments, largest)


_ROUNDING = 1e-9
_NOTHING_KNOWN = "no true count of a published cell is known"


class NoiseLaw(Check):
    """Test whether the noise on known counts is that of the declared mechanism.

    The declared mechanism publishes the counts many times. The first ``trials`` simulated releases
    estimate the null distribution of statistics of the noise: mean, size, distribution function,
    shares of values that are whole, 0 or equal to the count, correlations between epochs and
    between ROIs, and size per ROI, per epoch and by count. The deviation of a release is that of
    its most unusual statistic. The table is inconsistent if it deviates more than all of
    1/(1 − ``confidence``) − 1 further simulated releases. An honest table is exchangeable with
    them, so it is called inconsistent with probability at most 1 − ``confidence``, over all
    statistics together and whatever their distributions (Barnard 1963). Simulation stops at the
    first release that deviates as much (Besag and Clifford 1991).

    The table is consistent only if the test has power: at least 80 % of simulated tables with noise
    of half the scale, or with nothing drawn, would be found. Else the result is unknown, as with
    fewer than ``least`` known counts.

    A mechanism without randomness must have published exactly its output for the counts. Where
    one count can change other cells, all counts must be known. Redaction must not depend on the
    noise.

    Attributes
    ----------
    confidence
        Probability that an honest table passes, e.g. ``0.999``.
    trials
        Number of simulated releases for the null distribution, e.g. ``200``.
    least
        Least number of known counts that decide, e.g. ``30``.
    """

    name: Literal["noise_law"] = "noise_law"
    compares: ClassVar[bool] = False
    statistical: ClassVar[bool] = True
    confidence: Probability = 0.999
    trials: Annotated[int, Strict(), Field(ge=20, lt=2**63)] = 200
    least: Count = 30

    def check(
        self, table: PublishedTable, others: Sequence[PublishedTable], *, rng: np.random.Generator
    ) -> CheckResult:
        """Return the result of the test; raises ConfigError if the mechanism does not fit."""
        known = table.counts >= 0
        if not known.any():
            return CheckResult.unknown(self.name, 0, _NOTHING_KNOWN)
        values = fill_suppressed(table)
        known &= ~np.isnan(values)
        n_known = int(known.sum())
        if not n_known:
            return CheckResult.unknown(self.name, 0, _NOTHING_KNOWN)
        if table.mechanism.uses_weights:
            text = f"{table.mechanism.label} publishes sums of weights, which counts do not give"
            return CheckResult.unknown(self.name, n_known, text)
        if table.mechanism.noise_scope != "cell" and (table.counts < 0).any():
            text = f"{table.mechanism.label} combines many counts, and not all of them are known"
            return CheckResult.unknown(self.name, n_known, text)
        state = repr(rng.bit_generator.state)  # may contain arrays, so compared as text
        release = _publish(table, rng)
        if repr(rng.bit_generator.state) == state:
            return self._exactly(table, release)
        if n_known < self.least:
            text = (
                f"only {plural(n_known, 'true count')} known for published cells, but the test "
                f"needs {self.least}"
            )
            return CheckResult.unknown(self.name, n_known, text)
        return self._statistically(table, values, known, rng)

    def _exactly(self, table: PublishedTable, expected: Values) -> CheckResult:
        known, values = (table.counts >= 0) & table.published, table.values
        wrong = known & (np.abs(values - expected) > _ROUNDING * np.maximum(1.0, np.abs(expected)))
        n, n_known = int(wrong.sum()), int(known.sum())
        if not n_known:
            return CheckResult.unknown(self.name, 0, _NOTHING_KNOWN)
        text = f"all {n_known:,} known counts are published as {table.mechanism.label} requires"
        if n:
            cell = np.unravel_index(np.argmax(wrong), wrong.shape)
            text = (
                f"{n:,} of {n_known:,} known counts are not published as {table.mechanism.label} "
                f"requires, which adds no noise: {table.counts[cell]} is published as "
                f"{values[cell]:g}, not {expected[cell]:g}"
            )
        return CheckResult.of_faults(self.name, n, n_known, text)

    def _statistically(
        self, table: PublishedTable, values: Values, known: Flags, rng: np.random.Generator
    ) -> CheckResult:
        releases = _releases(table, values, known, rng)
        reference = ReferenceMoments.of(
            np.maximum(table.counts, 0), known, releases, self.trials // 2
        )
        null = estimate_null(reference, releases, self.trials - self.trials // 2)
        statistics, deviations = null.measure(np.where(known, values, reference.mean))
        simulated = (null.measure(one)[1].max() for one in islice(releases, self.n_honest))
        as_unusual = any(deviation >= float(deviations.max()) for deviation in simulated)
        most_unusual = int(np.argmax(deviations))
        observed, expected = float(statistics[most_unusual]), float(null.mean[most_unusual])
        what = f"{NAMES[most_unusual]} is {observed:.4g}, {expected:.4g} on average"
        n_known, declared = int(known.sum()), table.mechanism.label
        noise = f"the noise on {plural(n_known, 'known count')} is"
        if as_unusual:
            text = f"{noise} like that of {declared}: its most unusual statistic is not extreme"
            text += f" ({what})"
            faults, fault = _faulty(table, null, known, rng)
            critical = null.critical(self.n_honest)
            n_found = sum(null.measure(one)[1].max() > critical for one in faults)
            told = f"of {plural(len(faults), 'table')} with {fault}, {n_found} would be found"
            if n_found < _POWER * len(faults):
                text = f"{n_known:,} known counts say too little of the noise of {declared}: {told}"
                return CheckResult.unknown(self.name, n_known, text)
            text += f"; {told}"
            return CheckResult(self.name, "consistent", observed, expected, n_known, text)
        text = (
            f"{noise} not that of {declared}: {what} in simulated releases, and none of "
            f"{self.n_honest:,} is as unusual"
        )
        return CheckResult(self.name, "inconsistent", observed, expected, n_known, text)

    @property
    def n_honest(self) -> int:
        """Number of simulated releases that the table is compared with."""
        return int(np.ceil(1 / (1 - self.confidence) - 1e-6)) - 1


def _publish(table: PublishedTable, rng: np.random.Generator) -> Values:
    """Return a new release of the counts, with unknown counts set to 0."""
    counts = np.maximum(table.counts, 0)
    return table.mechanism.release(counts, group_size=table.group_size, rng=rng)


def _faulty(
    table: PublishedTable, null: NullDistribution, known: Flags, rng: np.random.Generator
) -> tuple[list[Values], str]:
    """Return tables with a fault that the test should detect, and what it is.

    Noise that is added has half the scale; where a mechanism draws otherwise, it draws nothing.
    """
    law, counts = table.mechanism.law(table.group_size), null.reference.counts
    values, n_decimals = [null.reference.mean], decimals(table.values[known & table.published])
    added = isinstance(law, OutputDistribution) and law.noise != NO_NOISE
    if isinstance(law, OutputDistribution) and added:
        noise = replace(law.noise, scale=law.noise.scale / 2)
        samples = (noise.sample(counts.size, rng=rng) for _ in range(_FAULTS))
        values = [(counts + one.reshape(counts.shape)).astype(np.float64) for one in samples]
        for one in values:
            law.revise(one)
    if n_decimals is not None:
        values = [np.round(one, n_decimals) for one in values]
    return values, "noise of half the scale" if added else "nothing drawn at random"


def _releases(
    table: PublishedTable, values: Values, known: Flags, rng: np.random.Generator
) -> Iterator[Values]:
    """Yield simulated releases endlessly, with the decimals of the table if it has any."""
    n_decimals = decimals(values[known])
    while True:
        release = _publish(table, rng)
        yield np.round(release, n_decimals) if n_decimals else release
