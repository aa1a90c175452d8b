"""Numbers of an audit as plain arrays and rows: by case, and by mechanism."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import xarray as xr
from markupsafe import Markup
from numpy.typing import NDArray

from clusterscale.metrics import mean_interval, privacy_gain
from clusterscale.reporting.section import breakable, fill_part
from clusterscale.schema import RAW_COUNTS, find_mechanism
from clusterscale.utility import emptiness
from clusterscale.validation_messages import find_ties, name_best

AUC_LEVELS = (0.6, 0.75, 0.9)
"""The AUC levels above which targets are counted."""

_AXES = ("period", "prior", "mechanism")
_ORDER = (*_AXES, "group_size", "attack", "target")

Floats = NDArray[np.float64]

# Dataset variable of each field of Cases.
_NUMBERS = {
    "auc": "auc",
    "loss": "privacy_loss",
    "accuracy": "accuracy",
    "control": "control_auc",
    "absent": "absent_auc",
    "naive": "naive_auc",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One period, prior and mechanism, under which attacks are compared."""

    period: str
    prior: str
    mechanism: str


@dataclass(frozen=True, slots=True)
class Cases:
    """All cases of an audit, on the axes (setting, group_size, attack, target).

    Numbers are NaN for cases that did not finish; ``varying`` names the parts of a setting that
    have more than one value.
    """

    settings: tuple[Setting, ...]
    group_sizes: tuple[int, ...]
    attacks: tuple[str, ...]
    varying: tuple[str, ...]
    auc: Floats
    loss: Floats
    accuracy: Floats
    control: Floats
    absent: Floats
    naive: Floats
    status: NDArray[np.str_]
    error: NDArray[np.str_]

    @property
    def n_targets(self) -> int:
        """Number of targets, finished or not."""
        return int(self.auc.shape[-1])

    @property
    def planned(self) -> NDArray[np.bool_]:
        """Which cases were run, whether done or failed."""
        return np.asarray(np.isin(self.status, ("done", "failed")))

    @property
    def finished(self) -> bool:
        """Whether any case has an AUC."""
        return bool(np.isfinite(self.auc).any())

    def label(self, setting: Setting) -> str:
        """Return a label of the parts of a setting that vary; empty if there is only one."""
        return " · ".join(getattr(setting, part) for part in self.varying)

    def shown(self) -> Iterator[tuple[int, Setting]]:
        """Yield the settings that have an AUC, with their index."""
        for index, setting in enumerate(self.settings):
            if np.isfinite(self.auc[index]).any():
                yield index, setting

    def strongest(self, setting: int, size: int) -> int | None:
        """Return the attack with the highest mean AUC at a setting and group size."""
        means = self._means(setting, size)
        return int(np.nanargmax(means)) if np.isfinite(means).any() else None

    def name_strongest(self, setting: int, size: int) -> str:
        """Return the name of that attack, or of all whose means are equal to three digits."""
        return name_best(self.attacks, self._means(setting, size))

    def _means(self, setting: int, size: int) -> list[float]:
        return [mean(values) for values in self.auc[setting, size]]


def by_attack(values: Floats) -> dict[int, Floats]:
    """Return the known values of each attack that has any, from shape (attack, target)."""
    known = ((attack, row[np.isfinite(row)]) for attack, row in enumerate(values))
    return {attack: row for attack, row in known if len(row)}


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One table row: an attack at a group size in a setting, summarised over its targets."""

    setting: Setting
    group_size: int
    attack: str
    n_done: int
    n_targets: int
    mean: float
    low: float
    high: float
    median: float
    above: tuple[float, ...]
    mean_loss: float
    worst_loss: float
    accuracy: float
    control: float
    absent: float
    naive: float

    @property
    def case(self) -> tuple[Setting, int, str]:
        """The setting, group size and attack."""
        return self.setting, self.group_size, self.attack


def cases(results: xr.Dataset) -> Cases:
    """Return the cases of ``results``, with group sizes ascending and unfinished cases NaN."""
    results = results.sortby("group_size")
    labels = {name: tuple(str(v) for v in results[name].values) for name in (*_AXES, "attack")}
    settings = tuple(Setting(*parts) for parts in product(*(labels[axis] for axis in _AXES)))

    def flat(name: str) -> NDArray[Any]:
        return by_setting(results, name)

    status, error = flat("status").astype(object), flat("error").astype(object)
    done = (status == "done") & np.isfinite(flat("auc"))
    numbers = {
        field: np.where(done, flat(name).astype(np.float64), np.nan)
        for field, name in _NUMBERS.items()
    }
    return Cases(
        settings=settings,
        group_sizes=tuple(int(size) for size in results["group_size"].values),
        attacks=labels["attack"],
        varying=tuple(axis for axis in _AXES if len(labels[axis]) > 1),
        **numbers,
        status=status,
        error=error,
    )


def by_setting(results: xr.Dataset, name: str) -> NDArray[Any]:
    """Return a variable on the axes (setting, group_size, attack) and, if it has it, target."""
    values = results[name].transpose(*_ORDER, missing_dims="ignore").values
    return np.reshape(values, (-1, *values.shape[len(_AXES) :]))


def rows(table: Cases) -> list[SummaryRow]:
    """Return a row for each setting, group size and attack that was run, followed by the best."""
    summary: list[SummaryRow] = []
    planned = np.asarray(table.planned.any(axis=-1))
    for setting, size in np.argwhere(planned.any(axis=-1)).tolist():
        attacks = np.flatnonzero(planned[setting, size]).tolist()
        summary += [row(table, setting, size, attack) for attack in attacks]
        best = best_row(table, setting, size)
        summary += [best] if best else []
    return summary


def strongest_rows(table: Cases) -> list[SummaryRow]:
    """Return, for each setting and group size, the row of the attack with the highest mean AUC.

    Attacks whose means are equal to three digits are named together.
    """
    return [
        replace(row(table, setting, size, attack), attack=table.name_strongest(setting, size))
        for setting, _ in table.shown()
        for size in range(len(table.group_sizes))
        if (attack := table.strongest(setting, size)) is not None
    ]


def row(table: Cases, setting: int, size: int, attack: int) -> SummaryRow:
    """Return the row of an attack at a group size in a setting, given by indices."""
    numbers = {name: getattr(table, name)[setting, size, attack] for name in _NUMBERS}
    return _row(table, setting, size, table.attacks[attack], numbers)


def best_row(table: Cases, setting: int, size: int) -> SummaryRow | None:
    """Return the row of the best attack for each target, or None with fewer than two attacks.

    This is NDSS18's "BEST": chosen with knowledge of the labels, so an upper bound for adversaries.
    """
    auc, loss = table.auc[setting, size], table.loss[setting, size]
    if np.isfinite(auc).any(axis=1).sum() < 2:
        return None
    known = np.isfinite(auc).any(axis=0)
    best, worst = (
        np.where(known, np.max(np.nan_to_num(values, nan=-1.0), axis=0), np.nan)
        for values in (auc, loss)
    )
    numbers = dict.fromkeys(_NUMBERS, np.full(table.n_targets, np.nan))
    numbers |= {"auc": best, "loss": worst}
    return _row(table, setting, size, "best for each target", numbers)


def _row(
    table: Cases, setting: int, size: int, attack: str, numbers: Mapping[str, Floats]
) -> SummaryRow:
    auc, loss = numbers["auc"], numbers["loss"]
    done = auc[np.isfinite(auc)]
    low, high = mean_interval(done)
    return SummaryRow(
        table.settings[setting],
        table.group_sizes[size],
        attack,
        len(done),
        table.n_targets,
        mean(done),
        low,
        high,
        float(np.median(done)) if len(done) else np.nan,
        tuple(mean(done > level) for level in AUC_LEVELS),
        mean(loss),
        float(np.nanmax(loss)) if np.isfinite(loss).any() else np.nan,
        **{name: mean(numbers[name]) for name in ("accuracy", "control", "absent", "naive")},
    )


def mean(values: NDArray[np.floating] | NDArray[np.bool_]) -> float:
    """Return the mean of the finite values, NaN if there are none."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


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
        return self.kind in ("relative", "total")


@dataclass(frozen=True, slots=True)
class CaseIndex:
    """Indices of a period and a group size, with a label."""

    period: int
    size: int
    label: str


@dataclass(frozen=True)
class Defences:
    """Results of an audit by mechanism.

    ``auc`` has the axes (period, prior, mechanism, group_size, attack, target), NaN for cases that
    did not finish; ``utility`` and ``spread`` (period, group_size, mechanism,
    measure), ``released_share`` and ``sum_ratio`` (period, group_size, mechanism), ``guess``
    (period, group_size, measure). ``raw_counts`` is the mechanism that publishes the counts
    themselves, None where it was not audited.
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
    sum_ratio: Floats
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

    @cached_property
    def worse(self) -> NDArray[np.bool_]:
        """Where a mechanism is worse than a random guess: (period, group_size, mechanism, measure).

        A measure that :meth:`relative_loss` does not compare with a guess is not.
        """
        lost = [self.relative_loss(case) > 1 for case in self.cases()]
        return np.array(lost, np.bool_).reshape(self.utility.shape)

    @property
    def _ideals(self) -> Floats:
        return np.array([measure.ideal for measure in self.measures], dtype=np.float64)

    def cases(self) -> Iterator[CaseIndex]:
        """Yield every period and group size, labelled by what varies."""
        for period, name in enumerate(self.periods):
            for size, group_size in enumerate(self.table.group_sizes):
                parts = [name] if len(self.periods) > 1 else []
                yield CaseIndex(period, size, " · ".join([*parts, f"Groups of {group_size:,}"]))

    def names(self, case: CaseIndex, prior: int, mechanism: int) -> tuple[str, str, int, str]:
        """Return the period, prior, group size and mechanism of a case."""
        size = self.table.group_sizes[case.size]
        return self.periods[case.period], self.priors[prior], size, self.mechanisms[mechanism]

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
        return fill_part("cells.mechanism", name=name, empty=self.emptiness(case, mechanism))

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
        """Return utility losses relative to a random guess's, shape (mechanism, measure).

        A loss that is a share of what is lost is returned as it is.
        """
        at = (case.period, case.size)
        lost, guessed = self.loss[at], self.guess_loss[at]
        # Events not kept are lost, even if a random guess, which adds many, is further off.
        kinds = np.array([measure.kind for measure in self.measures], np.str_)
        is_lost = (kinds == "total") & (self.utility[at] < 1)
        guessed = np.where(is_lost, np.minimum(guessed, 1), guessed)
        guessed = np.where(kinds == "share", 1.0, guessed)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = lost / guessed
        return np.where(np.isfinite(share), share, np.nan)

    def farthest(self, values: Floats, shown: Floats | None = None) -> Floats:
        """Return the value of each measure that is farthest from its ideal, shape (measure,).

        With ``shown``, an array of the same shape, return what that has in the place of this value.
        """
        flat = values.reshape(-1, len(self.measures))
        distance = np.where(np.isnan(flat), -1.0, np.abs(flat - self._ideals))
        chosen = flat if shown is None else shown.reshape(flat.shape)
        farthest: Floats = chosen[distance.argmax(axis=0), np.arange(flat.shape[1])]
        return farthest

    def attacked_priors(self, case: CaseIndex) -> list[int]:
        """Return the priors with an attack on raw counts."""
        return [prior for prior in range(len(self.priors)) if self.strongest(case, prior)]


def read_defences(results: xr.Dataset, table: Cases) -> Defences:
    """Return the numbers of ``results`` and of its cases by mechanism, group sizes ascending."""
    labels = {name: tuple(map(str, results[name].values)) for name in _AXES}
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
        sum_ratio=values("sum_ratio", *dims[:-1]),
        guess=values("random_guess", *dims[:2], dims[-1]),
    )
