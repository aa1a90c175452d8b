"""Whether what was added to the counts is the noise that is declared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, Strict

from clusterscale.consistency.decimals import decimals
from clusterscale.consistency.finding import CheckResult, told
from clusterscale.consistency.residuals import NAMES, NullDistribution, ReferenceMoments, study
from clusterscale.consistency.table import PublishedTable, fill_suppressed
from clusterscale.contracts import ConfigModel, Count, Probability, Values

__all__ = ["NoiseLaw"]

Flags = NDArray[np.bool_]

_ROUNDING = 1e-9


class NoiseLaw(ConfigModel):
    """Whether the noise on known counts is that of the declared mechanism.

    The mechanism publishes the counts again and again. The first ``trials`` releases tell what
    statistics of the noise are and how they vary: its mean, size and distribution function, how
    many values are whole, 0 or the count itself, correlation between epochs and ROIs, and its size
    in each ROI, each epoch and by count. A release then is as far off as its most unusual
    statistic. The table is called inconsistent if it is farther off than every one of
    1/(1 − ``confidence``) − 1 more releases. An honest table is one of so many alike, so the
    chance of calling it inconsistent is at most 1 − ``confidence``, all statistics together and
    whatever their laws (Barnard 1963; the releases end with the first that is as far off, Besag and
    Clifford 1991).

    A mechanism that draws nothing must have published exactly what it makes of the counts. Where
    one count can change other cells all counts must be known. Redaction must not hang on the noise.
    """

    name: Literal["noise_law"] = "noise_law"
    compares: ClassVar[bool] = False
    confidence: Probability = 0.999
    trials: Annotated[int, Strict(), Field(ge=20)] = 200
    least: Count = 30

    def check(
        self, table: PublishedTable, others: Sequence[PublishedTable], *, rng: np.random.Generator
    ) -> CheckResult:
        """Return how unusual the noise is; ``others`` are not used.

        Raises
        ------
        ConfigError
            If the declared mechanism cannot publish such a table.
        """
        values = fill_suppressed(table)
        known = (table.counts >= 0) & ~np.isnan(values)
        n_known = int(known.sum())
        if not n_known:
            return self._unknown(n_known, "no true count is known of a published cell")
        if table.mechanism.reach != "cell" and (table.counts < 0).any():
            text = f"{table.mechanism.label} looks at many counts at once, and not all are known"
            return self._unknown(n_known, text)
        before = repr(rng.bit_generator.state)  # which may hold arrays
        once = _publish(table, rng)
        if repr(rng.bit_generator.state) == before:
            return self._exactly(table, once)
        if n_known < self.least:
            text = f"the true counts of {told(n_known, 'cell')} are known, but {self.least} needed"
            return self._unknown(n_known, text)
        return self._statistically(table, values, known, rng)

    def _exactly(self, table: PublishedTable, due: Values) -> CheckResult:
        known, values = (table.counts >= 0) & table.published, table.values
        wrong = known & (np.abs(values - due) > _ROUNDING * np.maximum(1.0, np.abs(due)))
        n, n_known = int(wrong.sum()), int(known.sum())
        if not n_known:
            return self._unknown(0, "no true count is known of a published cell")
        text = f"all {n_known:,} known counts are published as {table.mechanism.label} does"
        if n:
            at = np.unravel_index(np.argmax(wrong), wrong.shape)
            text = (
                f"{n:,} of {n_known:,} known counts are not published as {table.mechanism.label} "
                f"does, which draws nothing: {table.counts[at]} as {values[at]:g}, not {due[at]:g}"
            )
        level: Literal["consistent", "inconsistent"] = "inconsistent" if n else "consistent"
        return CheckResult(self.name, level, float(n), 0.0, n_known, text)

    def _statistically(
        self, table: PublishedTable, values: Values, known: Flags, rng: np.random.Generator
    ) -> CheckResult:
        releases = _releases(table, values, known, rng)
        frame = ReferenceMoments.of(np.maximum(table.counts, 0), known, releases, self.trials // 2)
        pilot = study(frame, releases, self.trials - self.trials // 2)
        found, off = pilot.measure(np.where(known, values, frame.mean))
        n_farther = self._rank(pilot, float(off.max()), releases)
        worst = int(np.argmax(off))
        what = f"{NAMES[worst]} is {found[worst]:.4g}, {pilot.mean[worst]:.4g} on average"
        if n_farther:
            text = (
                f"the noise on {told(int(known.sum()), 'known count')} is like that of "
                f"{table.mechanism.label}: most unusual, {what}, as honest releases have it too"
            )
        else:
            text = (
                f"the noise on {told(int(known.sum()), 'known count')} is not that of "
                f"{table.mechanism.label}: {what} of honest releases, and none of {self.n_honest:,}"
                " is as unusual"
            )
        return CheckResult(
            self.name,
            "consistent" if n_farther else "inconsistent",
            float(found[worst]),
            float(pilot.mean[worst]),
            int(known.sum()),
            text,
        )

    @property
    def n_honest(self) -> int:
        """How many releases a table must be farther off than."""
        return int(np.ceil(1 / (1 - self.confidence) - 1e-6)) - 1

    def _rank(self, pilot: NullDistribution, farthest: float, releases: Iterator[Values]) -> int:
        """Return 1 as soon as an honest release is as far off, 0 if none is."""
        for _ in range(self.n_honest):
            if pilot.measure(next(releases))[1].max() >= farthest:
                return 1
        return 0

    def _unknown(self, n_cells: int, text: str) -> CheckResult:
        return CheckResult(self.name, "unknown", np.nan, np.nan, n_cells, text)


def _publish(table: PublishedTable, rng: np.random.Generator) -> Values:
    """Publish the counts anew; where they are not known, 0 stands for them."""
    counts = np.maximum(table.counts, 0)
    return table.mechanism.release(counts, group_size=table.group_size, rng=rng)


def _releases(
    table: PublishedTable, values: Values, known: Flags, rng: np.random.Generator
) -> Iterator[Values]:
    """Yield honest releases without end, with as many decimals as the table has."""
    places = decimals(values[known])
    while True:
        found = _publish(table, rng)
        yield np.round(found, places) if places else found
