"""Test of whether the noise on known counts follows the declared mechanism."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, Strict

from clusterscale.contracts import Count, Probability, Values
from clusterscale.release.checks.finding import Check, CheckResult
from clusterscale.release.checks.residuals import (
    NAMES,
    NullDistribution,
    ReferenceMoments,
    estimate_null,
)
from clusterscale.release.checks.table import PublishedTable, decimals, fill_suppressed
from clusterscale.validation_messages import plural

Flags = NDArray[np.bool_]

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
    confidence: Probability = 0.999
    trials: Annotated[int, Strict(), Field(ge=20, lt=2**63)] = 200
    least: Count = 30

    def check(
        self, table: PublishedTable, others: Sequence[PublishedTable], *, rng: np.random.Generator
    ) -> CheckResult:
        """Return the result of the test; ``others`` are not used.

        Raises
        ------
        ConfigError
            If the declared mechanism cannot be applied to the table.
        """
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
        n_as_unusual = self._rank(null, float(deviations.max()), releases)
        most_unusual = int(np.argmax(deviations))
        observed, expected = float(statistics[most_unusual]), float(null.mean[most_unusual])
        what = f"{NAMES[most_unusual]} is {observed:.4g}, {expected:.4g} on average"
        n_known, declared = int(known.sum()), table.mechanism.label
        noise = f"the noise on {plural(n_known, 'known count')} is"
        if n_as_unusual:
            text = f"{noise} like that of {declared}: its most unusual statistic is not extreme"
            text += f" ({what})"
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

    def _rank(self, null: NullDistribution, deviation: float, releases: Iterator[Values]) -> int:
        """Return 1 at the first simulated release that deviates as much, 0 if none does."""
        for _ in range(self.n_honest):
            if null.measure(next(releases))[1].max() >= deviation:
                return 1
        return 0


def _publish(table: PublishedTable, rng: np.random.Generator) -> Values:
    """Return a new release of the counts, with unknown counts set to 0."""
    counts = np.maximum(table.counts, 0)
    return table.mechanism.release(counts, group_size=table.group_size, rng=rng)


def _releases(
    table: PublishedTable, values: Values, known: Flags, rng: np.random.Generator
) -> Iterator[Values]:
    """Yield simulated releases endlessly, with the decimals of the table if it has any."""
    n_decimals = decimals(values[known])
    while True:
        release = _publish(table, rng)
        yield np.round(release, n_decimals) if n_decimals else release
