"""Privacy gains and utility of mechanisms, and the best defence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.metrics import privacy_gain
from clusterscale.reporting.audit.cases import Cases, Floats, cases, mean
from clusterscale.reporting.section import breakable, fill
from clusterscale.schema import RAW_COUNTS, find_mechanism
from clusterscale.utility import NEARLY_EMPTY, emptiness
from clusterscale.validation_messages import find_ties


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of utility: its name, its title, and its value for unchanged counts."""

    name: str
    title: str
    ideal: float
    kind: str = ""

    @property
    def relative(self) -> bool:
        """Whether its loss can exceed 1."""
        return self.kind != ""


@dataclass(frozen=True, slots=True)
class CaseIndex:
    """Indices of a period and a group size, with a label."""

    period: int
    size: int
    label: str


@dataclass(frozen=True, slots=True)
class Defences:
    """Results of an audit by mechanism.

    ``auc`` has the axes (period, prior, mechanism, group_size, attack, target), NaN for cases that
    did not finish; ``utility`` and ``spread`` (period, group_size, mechanism,
    measure), ``released_share`` (period, group_size, mechanism), ``guess`` (period, group_size,
    measure). ``raw_counts`` is the mechanism that publishes the counts themselves, None where it
    was not audited.
    """

    table: Cases
    periods: tuple[str, ...]
    priors: tuple[str, ...]
    mechanisms: tuple[str, ...]
    raw_counts: str | None
    measures: tuple[Measure, ...]
    auc: Floats
    utility: Floats
    spread: Floats
    released_share: Floats
    guess: Floats

    @property
    def any(self) -> bool:
        """Whether any mechanism other than raw counts was used."""
        return any(mechanism != self.raw_counts for mechanism in self.mechanisms)

    @property
    def gains_known(self) -> bool:
        """Whether any privacy gain is known: it needs results for a defence and for raw counts."""
        if self.raw_counts is None:
            return False
        raw, known = self.mechanisms.index(self.raw_counts), np.isfinite(self.auc)
        others = np.delete(known, raw, axis=2).any(axis=(2, -2))
        return bool((others & known[:, :, raw].any(axis=-2)).any())

    @property
    def loss(self) -> Floats:
        """Utility loss, shape (period, group_size, mechanism, measure): distance to the ideal."""
        return np.asarray(np.abs(self.utility - self._ideals))

    @property
    def guess_loss(self) -> Floats:
        """Utility loss of a random guess, shape (period, group_size, measure)."""
        return np.asarray(np.abs(self.guess - self._ideals))

    @property
    def _ideals(self) -> Floats:
        return np.array([measure.ideal for measure in self.measures], dtype=np.float64)

    def cases(self) -> Iterator[CaseIndex]:
        """Yield every period and group size, labelled by what varies."""
        for period, name in enumerate(self.periods):
            for size, group_size in enumerate(self.table.group_sizes):
                parts = [name] if len(self.periods) > 1 else []
                yield CaseIndex(period, size, " · ".join([*parts, f"Groups of {group_size:,}"]))

    def emptiness(self, case: CaseIndex, mechanism: int) -> str:
        """Return ``empty`` or ``nearly empty`` for the release of a mechanism in a case, or ""."""
        return emptiness(float(self.released_share[case.period, case.size, mechanism]))

    def emptiest(self, mechanism: str) -> str:
        """Return the same for a mechanism, in the case where it releases least."""
        shares = self.released_share[..., self.mechanisms.index(mechanism)]
        return emptiness(float(np.min(shares, initial=np.inf, where=np.isfinite(shares))))

    def name(self, case: CaseIndex, mechanism: int) -> Markup:
        """Return the label of a mechanism, marked in red if its release is nearly empty."""
        name = breakable(self.mechanisms[mechanism])
        return fill("mechanism.html.j2", name=name, empty=self.emptiness(case, mechanism))

    def strongest(self, case: CaseIndex, prior: int) -> list[int]:
        """Return the attacks with the highest mean AUC on raw counts; empty if there is none.

        There are several if their means are equal to three digits.
        """
        if self.raw_counts is None:
            return []
        raw = self.mechanisms.index(self.raw_counts)
        counted = self.auc[case.period, prior, raw, case.size]
        return find_ties([mean(values) for values in counted])

    def gains(self, case: CaseIndex, prior: int, mechanism: int) -> Floats:
        """Return the known privacy gains of targets: those with the smallest mean over attacks.

        The gain is the share of the advantage of the strongest attack on raw counts that an attack
        on the mechanism's releases no longer has. The adversary may choose another attack on these.
        """
        if not (strongest := self.strongest(case, prior)):
            return np.empty(0)
        raw = self.mechanisms.index(str(self.raw_counts))
        at_first, left = (self.auc[case.period, prior, i, case.size] for i in (raw, mechanism))
        gains = (privacy_gain(at_first[i], one) for i in strongest for one in left)
        known = [values[np.isfinite(values)] for values in gains]
        return min((values for values in known if values.size), key=mean, default=np.empty(0))

    def left(self, case: CaseIndex, prior: int, mechanism: int) -> float:
        """Return the highest remaining mean AUC of any attack; NaN if none is known."""
        means = [mean(values) for values in self.auc[case.period, prior, mechanism, case.size]]
        return float(np.nanmax(means)) if np.isfinite(means).any() else float("nan")

    def relative_loss(self, case: CaseIndex) -> Floats:
        """Return utility losses relative to a random guess's, shape (mechanism, measure)."""
        at = (case.period, case.size)
        lost, guessed = self.loss[at], self.guess_loss[at]
        # Events not kept are lost, even if a random guess, which adds many, is further off.
        is_total = np.array([measure.kind == "total" for measure in self.measures], np.bool_)
        guessed = np.where(is_total & (self.utility[at] < 1), np.minimum(guessed, 1), guessed)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = lost / guessed
        return np.where(np.isfinite(share), share, np.nan)

    def attacked_priors(self, case: CaseIndex) -> list[int]:
        """Return the priors with an attack on raw counts."""
        return [prior for prior in range(len(self.priors)) if self.strongest(case, prior)]


def read_defences(results: xr.Dataset, table: Cases) -> Defences:
    """Return the numbers of ``results`` and of its cases by mechanism, group sizes ascending."""
    labels = {
        name: tuple(str(value) for value in results[name].values)
        for name in ("period", "prior", "mechanism")
    }
    by_setting = (*(len(names) for names in labels.values()), *table.auc.shape[1:])
    sorted_results = results.sortby("group_size")

    def values(name: str, *dims: str) -> Floats:
        return np.asarray(sorted_results[name].transpose(*dims).values, dtype=np.float64)

    columns = zip(
        *(results[name].values for name in ("measure", "measure_title", "ideal", "measure_kind")),
        strict=True,
    )
    dims = ("period", "group_size", "mechanism", "measure")
    return Defences(
        table=table,
        periods=labels["period"],
        priors=labels["prior"],
        mechanisms=labels["mechanism"],
        raw_counts=find_mechanism(results, RAW_COUNTS),
        measures=tuple(
            Measure(str(name), str(title), float(ideal), str(kind))
            for name, title, ideal, kind in columns
        ),
        auc=table.auc.reshape(by_setting),
        utility=values("utility", *dims),
        spread=values("utility_sd", *dims),
        released_share=values("released_share", *dims[:-1]),
        guess=values("random_guess", *dims[:2], dims[-1]),
    )


def read_results(results: xr.Dataset) -> Defences:
    """Return the numbers of the results of an audit by mechanism."""
    return read_defences(results, cases(results))


def gains_of_settings(results: xr.Dataset) -> dict[tuple[str, str], dict[tuple[int, str], float]]:
    """Return the mean privacy gain of all mechanisms, by period and prior: by size and mechanism.

    It is unknown, and not in the result, without raw counts.
    """
    audited = read_results(results)
    found: dict[tuple[str, str], dict[tuple[int, str], float]] = {}
    for case in audited.cases():
        size = audited.table.group_sizes[case.size]
        for i, prior in enumerate(audited.priors):
            gains = found.setdefault((audited.periods[case.period], prior), {})
            for mechanism, name in enumerate(audited.mechanisms):
                if (values := audited.gains(case, i, mechanism)).size:
                    gains[size, name] = mean(values)
    return found


@dataclass(frozen=True, slots=True)
class BestDefence:
    """A mechanism with its privacy gain and utility loss where raw counts expose most.

    ``period`` is empty if there is only one. ``gain`` is the mean privacy gain, the smallest over
    attacks and ``n_priors`` priors. ``equals`` are other mechanisms with the same gain to two
    digits; ``same_loss`` is whether their utility loss is the same to three digits. ``measure`` is
    the least favourable measure, in which the mechanism is closest to a random guess; its ``value``
    and that of a ``guess`` are NaN if utility was not measured.
    """

    mechanism: str
    group_size: int
    period: str
    gain: float
    n_priors: int
    measure: Measure | None
    value: float
    guess: float
    equals: tuple[str, ...] = ()
    same_loss: bool = False


def best_defence(defences: Defences) -> BestDefence | None:
    """Return the mechanism with the highest gain, among equals the cheapest; None without gains.

    All mechanisms are compared for one period and group size, on the same targets: a mean over
    several would favour mechanisms that were only run on easy ones. The gain is the smallest over
    attacks and priors, as the defender cannot choose the adversary's. A mechanism whose release is
    nearly empty is never chosen, nor one for which that is unknown.
    """
    if not defences.gains_known:
        return None
    case, gains = _compare(defences)
    at = (case.period, case.size)
    released = defences.released_share[at]
    gains = {i: gain for i, gain in gains.items() if released[i] >= NEARLY_EMPTY}
    if not gains:
        return None
    share = defences.relative_loss(case)
    loss = np.max(np.nan_to_num(share, nan=-1.0), axis=1, initial=-1.0)
    loss[loss < 0] = np.inf  # an unknown loss is not a low one
    # among gains that are equal as displayed, choose the cheapest
    best = min(gains, key=lambda i: (-round(gains[i], 2), float(loss[i])))
    equals = [i for i in gains if i != best and round(gains[i], 2) == round(gains[best], 2)]
    worst = int(np.nanargmax(share[best])) if np.isfinite(loss[best]) else None
    return BestDefence(
        mechanism=defences.mechanisms[best],
        group_size=defences.table.group_sizes[case.size],
        period=defences.periods[case.period] if len(defences.periods) > 1 else "",
        gain=gains[best],
        n_priors=len(defences.attacked_priors(case)),
        measure=None if worst is None else defences.measures[worst],
        value=np.nan if worst is None else float(defences.utility[at][best, worst]),
        guess=np.nan if worst is None else float(defences.guess[at][worst]),
        equals=tuple(defences.mechanisms[i] for i in equals),
        same_loss=bool(np.allclose(loss[equals], loss[best], rtol=0, atol=5e-4)),
    )


def least_gains(defences: Defences) -> dict[str, float]:
    """Return the mean privacy gain of each mechanism where raw counts expose most.

    The gain is the smallest over attacks and priors. The result is empty if no gain is known.
    """
    if not defences.gains_known:
        return {}
    return {defences.mechanisms[i]: gain for i, gain in _compare(defences)[1].items()}


def largest_loss(defences: Defences, mechanism: str) -> tuple[float, Measure | None]:
    """Return the largest utility loss of a mechanism over all cases and measures, and the measure.

    The loss is relative to that of a random guess; NaN and None if utility was not measured.
    """
    index = defences.mechanisms.index(mechanism)
    shares = np.array([defences.relative_loss(case)[index] for case in defences.cases()])
    if not np.isfinite(shares).any():
        return float("nan"), None
    _, worst = np.unravel_index(np.nanargmax(shares), shares.shape)
    return float(np.nanmax(shares)), defences.measures[worst]


def _compare(audited: Defences) -> tuple[CaseIndex, dict[int, float]]:
    """Return the case where raw counts expose most, and the least gains of mechanisms there."""
    assert audited.raw_counts is not None
    raw = audited.mechanisms.index(audited.raw_counts)
    exposure = {
        case: max(audited.left(case, prior, raw) for prior in priors)
        for case in audited.cases()
        if (priors := audited.attacked_priors(case))
    }
    case = max(exposure, key=lambda case: exposure[case])
    priors = audited.attacked_priors(case)
    gains = {
        mechanism: float(np.min([mean(audited.gains(case, prior, mechanism)) for prior in priors]))
        for mechanism, name in enumerate(audited.mechanisms)
        if name != audited.raw_counts
    }
    return case, {mechanism: gain for mechanism, gain in gains.items() if np.isfinite(gain)}
