"""What mechanisms buy and cost, as plain arrays: beside the bare counts, or there is nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.report.section import breakable, fill
from clusterscale.report.summary import Cases, Floats, cases, mean
from clusterscale.schema import RAW_COUNTS, find_mechanism
from clusterscale.utility import NEARLY_EMPTY
from clusterscale.validation_messages import find_ties

__all__ = [
    "BROKEN",
    "CaseIndex",
    "Defences",
    "Measure",
    "Tried",
    "defences",
    "emptiness",
]
__all__ += ["list_float_noise", "name_mechanism", "tried"]

"""Label of the mechanism that publishes the counts as they are."""

BROKEN = "broken"
"""Verdict on a promise of which more ε was seen than is promised."""

_WORST_FIRST = {BROKEN: 0, "too few samples": 1, "consistent": 2, "nothing promised": 3, "": 4}


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of utility: its name, its words, and its value when counts are untouched."""

    name: str
    title: str
    ideal: float
    kind: str = ""

    @property
    def relative(self) -> bool:
        """Whether its loss can exceed 1."""
        return self.kind != ""

    @property
    def is_total(self) -> bool:
        """Whether it is the share of all events that is kept."""
        return self.kind == "total"


@dataclass(frozen=True, slots=True)
class CaseIndex:
    """A period and a group size, by their indices, and how to tell them from the others."""

    period: int
    size: int
    label: str


@dataclass(frozen=True, slots=True)
class Defences:
    """The numbers of an audit by mechanism.

    ``auc`` and ``gain`` are on the axes (period, prior, mechanism, group_size, attack, target),
    NaN wherever a case did not finish; ``utility`` and ``spread`` on (period, group_size,
    mechanism, measure), ``released_share`` on (period, group_size, mechanism), ``guess`` on
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
    gain: Floats
    utility: Floats
    spread: Floats
    released_share: Floats
    guess: Floats

    @property
    def any(self) -> bool:
        """Whether counts were published in any other way than bare."""
        return any(mechanism != self.raw_counts for mechanism in self.mechanisms)

    @property
    def gains_known(self) -> bool:
        """Whether what a defence buys is known: it was tried, and so were bare counts."""
        others = [i for i, mechanism in enumerate(self.mechanisms) if mechanism != self.raw_counts]
        return bool(self.raw_counts is not None and np.isfinite(self.gain[:, :, others]).any())

    @property
    def loss(self) -> Floats:
        """Utility loss, shape (period, group_size, mechanism, measure): distance to the ideal."""
        return np.asarray(np.abs(self.utility - self._ideals))

    @property
    def guess_loss(self) -> Floats:
        """Utility loss of values drawn without any data, shape (period, group_size, measure)."""
        return np.asarray(np.abs(self.guess - self._ideals))

    @property
    def _ideals(self) -> Floats:
        return np.array([measure.ideal for measure in self.measures], dtype=np.float64)

    def places(self) -> Iterator[CaseIndex]:
        """Yield every period and group size, named by what varies."""
        for period, name in enumerate(self.periods):
            for size, group_size in enumerate(self.table.group_sizes):
                parts = [name] if len(self.periods) > 1 else []
                yield CaseIndex(period, size, " · ".join([*parts, f"Groups of {group_size:,}"]))

    def emptiness(self, place: CaseIndex, mechanism: int) -> str:
        """Return ``empty`` or ``nearly empty`` for what a mechanism releases at a place, or ""."""
        return emptiness(float(self.released_share[place.period, place.size, mechanism]))

    def emptiest(self, mechanism: str) -> str:
        """Return the same for a mechanism where it releases least."""
        shares = self.released_share[..., self.mechanisms.index(mechanism)]
        return emptiness(float(np.min(shares, initial=np.inf, where=np.isfinite(shares))))

    def strongest(self, place: CaseIndex, prior: int) -> list[int]:
        """Return the attacks with the highest mean AUC on bare counts; empty where there is none.

        Several where their means agree to three digits.
        """
        if self.raw_counts is None:
            return []
        raw = self.mechanisms.index(self.raw_counts)
        bare = self.auc[place.period, prior, raw, place.size]
        return find_ties([mean(values) for values in bare])

    def gains(self, place: CaseIndex, prior: int, mechanism: int) -> Floats:
        """Return the known privacy gains of targets against the strongest attack on bare counts.

        Of several strongest attacks, against the one with the lowest mean gain.
        """
        attacks = self.strongest(place, prior)
        gains = self.gain[place.period, prior, mechanism, place.size]
        known = [each[np.isfinite(each)] for each in gains[attacks]]
        return min((each for each in known if each.size), key=mean, default=np.empty(0))

    def left(self, place: CaseIndex, prior: int, mechanism: int) -> float:
        """Return the highest mean AUC that any attack still has; NaN when none is known."""
        means = [mean(values) for values in self.auc[place.period, prior, mechanism, place.size]]
        return float(np.nanmax(means)) if np.isfinite(means).any() else float("nan")


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of trying the promise of a mechanism in a period, over all group sizes.

    The ``verdict`` is the worst, empty where none is known; ``seen`` is the largest lower bound on
    ε and ``trials`` the releases of each side, among the ``sizes`` with that verdict, ascending.
    """

    mechanism: str
    period: str
    unit: str
    promised: float
    verdict: str
    seen: float
    trials: float
    sizes: tuple[int, ...]


def tried(results: xr.Dataset) -> list[Tried]:
    """Return what came of each promise, mechanisms by period, in the order of the results."""
    ordered = results.sortby("group_size").transpose("period", "mechanism", "group_size", ...)
    columns = (ordered[name].values for name in ("verdict", "epsilon_seen", "verdict_trials"))
    verdicts, seen, trials = columns
    found = []
    for at in np.ndindex(verdicts.shape[:2]):
        words = [str(word) for word in verdicts[at]]
        worst = min(words, key=lambda word: _WORST_FIRST.get(word, -1))
        same = np.array([i for i, word in enumerate(words) if word == worst])
        highest = same[np.argmax(np.nan_to_num(seen[at][same], nan=-1.0))]
        found.append(
            Tried(
                mechanism=str(ordered["mechanism"].values[at[1]]),
                period=str(ordered["period"].values[at[0]]),
                unit=str(ordered["guarantee_unit"].values[at]),
                promised=float(ordered["guarantee_epsilon"].values[at]),
                verdict=worst,
                seen=float(seen[at][highest]),
                trials=float(trials[at][highest]),
                sizes=tuple(int(size) for size in ordered["group_size"].values[same]),
            )
        )
    return found


def list_float_noise(results: xr.Dataset, word: str = "yes") -> list[str]:
    """Return the labels of mechanisms that publish unrounded noise, in the order of the results.

    ``word`` ``"yes"``: those that do; ``""``: those of which older results do not say.
    """
    labels = [str(label) for label in results["mechanism"].values]
    if "float_noise" not in results:
        return [] if word else labels
    words = results["float_noise"].transpose("mechanism", "period").values
    return [label for label, told in zip(labels, words, strict=True) if word in told]


def emptiness(released_share: float) -> str:
    """Return ``empty``, ``nearly empty`` or "" for a share of the events that is released.

    "" for NaN too: then nothing is known, which is not said to be good either.
    """
    if released_share == 0:
        return "empty"
    return "nearly empty" if released_share < NEARLY_EMPTY else ""


def name_mechanism(found: Defences, place: CaseIndex, mechanism: int) -> Markup:
    """Write the label of a mechanism, and in red if its release is nearly empty at a place."""
    name, empty = breakable(found.mechanisms[mechanism]), found.emptiness(place, mechanism)
    return fill("mechanism.html.j2", name=name, empty=empty)


def defences(results: xr.Dataset) -> Defences:
    """Return the numbers of ``results`` by mechanism, group sizes ascending."""
    table = cases(results)
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
    price = ("period", "group_size", "mechanism", "measure")
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
        gain=table.gain.reshape(by_setting),
        utility=values("utility", *price),
        spread=values("utility_sd", *price),
        released_share=values("released_share", *price[:-1]),
        guess=values("random_guess", "period", "group_size", "measure"),
    )
