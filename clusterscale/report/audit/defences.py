"""Privacy gains and utility of mechanisms, and the best defence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.report.audit.cases import Cases, Floats, cases, mean
from clusterscale.report.section import breakable, fill
from clusterscale.schema import RAW_COUNTS, find_mechanism
from clusterscale.utility import NEARLY_EMPTY
from clusterscale.validation_messages import find_ties

__all__ = ["BROKEN", "Bargain", "CaseIndex", "Defences", "Measure", "Tried", "bargain"]
__all__ += ["defences", "emptiness", "least_gains", "list_float_noise", "name_mechanism"]
__all__ += ["price_of", "tried"]


"""Label of the mechanism that publishes the counts as they are."""

BROKEN = "broken"
"""Verdict on a guarantee whose declared ε is below the observed lower bound."""

_WORST_FIRST = {BROKEN: 0, "too few samples": 1, "consistent": 2, "nothing promised": 3, "": 4}


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

    @property
    def is_total(self) -> bool:
        """Whether it is the share of all events that is kept."""
        return self.kind == "total"


@dataclass(frozen=True, slots=True)
class CaseIndex:
    """Indices of a period and a group size, with a label."""

    period: int
    size: int
    label: str


@dataclass(frozen=True, slots=True)
class Defences:
    """Results of an audit by mechanism.

    ``auc`` and ``gain`` have the axes (period, prior, mechanism, group_size, attack, target), NaN
    for cases that did not finish; ``utility`` and ``spread`` (period, group_size, mechanism,
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
    gain: Floats
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
        others = [i for i, mechanism in enumerate(self.mechanisms) if mechanism != self.raw_counts]
        return bool(self.raw_counts is not None and np.isfinite(self.gain[:, :, others]).any())

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

    def places(self) -> Iterator[CaseIndex]:
        """Yield every period and group size, labelled by what varies."""
        for period, name in enumerate(self.periods):
            for size, group_size in enumerate(self.table.group_sizes):
                parts = [name] if len(self.periods) > 1 else []
                yield CaseIndex(period, size, " · ".join([*parts, f"Groups of {group_size:,}"]))

    def emptiness(self, place: CaseIndex, mechanism: int) -> str:
        """Return ``empty`` or ``nearly empty`` for the release of a mechanism in a case, or ""."""
        return emptiness(float(self.released_share[place.period, place.size, mechanism]))

    def emptiest(self, mechanism: str) -> str:
        """Return the same for a mechanism, in the case where it releases least."""
        shares = self.released_share[..., self.mechanisms.index(mechanism)]
        return emptiness(float(np.min(shares, initial=np.inf, where=np.isfinite(shares))))

    def strongest(self, place: CaseIndex, prior: int) -> list[int]:
        """Return the attacks with the highest mean AUC on raw counts; empty if there is none.

        There are several if their means are equal to three digits.
        """
        if self.raw_counts is None:
            return []
        raw = self.mechanisms.index(self.raw_counts)
        counted = self.auc[place.period, prior, raw, place.size]
        return find_ties([mean(values) for values in counted])

    def gains(self, place: CaseIndex, prior: int, mechanism: int) -> Floats:
        """Return the known privacy gains of targets against the strongest attack on raw counts.

        If several attacks are strongest, the one with the lowest mean gain is used.
        """
        attacks = self.strongest(place, prior)
        gains = self.gain[place.period, prior, mechanism, place.size]
        known = [values[np.isfinite(values)] for values in gains[attacks]]
        return min((values for values in known if values.size), key=mean, default=np.empty(0))

    def left(self, place: CaseIndex, prior: int, mechanism: int) -> float:
        """Return the highest remaining mean AUC of any attack; NaN if none is known."""
        means = [mean(values) for values in self.auc[place.period, prior, mechanism, place.size]]
        return float(np.nanmax(means)) if np.isfinite(means).any() else float("nan")


@dataclass(frozen=True, slots=True)
class Tried:
    """Result of testing the guarantee of a mechanism in a period, over all group sizes.

    ``verdict`` is the worst verdict, empty if none is known; ``sizes`` are the group sizes with
    that verdict, ascending. Among these, ``seen`` is the largest lower bound on ε and ``trials``
    the number of releases on each side.
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
    """Return the test result of each guarantee, mechanisms by period, in the order of results."""
    ordered = results.sortby("group_size").transpose("period", "mechanism", "group_size", ...)
    columns = (ordered[name].values for name in ("verdict", "epsilon_seen", "verdict_trials"))
    verdicts, seen, trials = columns
    outcomes = []
    for at in np.ndindex(verdicts.shape[:2]):
        words = [str(word) for word in verdicts[at]]
        worst = min(words, key=lambda word: _WORST_FIRST.get(word, -1))
        same = np.array([i for i, word in enumerate(words) if word == worst])
        highest = same[np.argmax(np.nan_to_num(seen[at][same], nan=-1.0))]
        outcomes.append(
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
    return outcomes


def list_float_noise(results: xr.Dataset, word: str = "yes") -> list[str]:
    """Return the labels of mechanisms that publish unrounded noise, in the order of the results.

    With ``word`` = ``""``, return those for which older results do not record it.
    """
    labels = [str(label) for label in results["mechanism"].values]
    if "float_noise" not in results:
        return [] if word else labels
    words = results["float_noise"].transpose("mechanism", "period").values
    return [label for label, answers in zip(labels, words, strict=True) if word in answers]


def emptiness(released_share: float) -> str:
    """Return ``empty``, ``nearly empty`` or "" for the released share of events.

    The result for NaN, an unknown share, is "" too.
    """
    if released_share == 0:
        return "empty"
    return "nearly empty" if released_share < NEARLY_EMPTY else ""


def name_mechanism(by_mechanism: Defences, place: CaseIndex, mechanism: int) -> Markup:
    """Return the label of a mechanism, marked in red if its release is nearly empty in a case."""
    name, empty = (
        breakable(by_mechanism.mechanisms[mechanism]),
        by_mechanism.emptiness(place, mechanism),
    )
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


@dataclass(frozen=True, slots=True)
class Bargain:
    """A mechanism with its privacy gain and utility loss where raw counts expose most.

    ``period`` is empty if there is only one. ``gain`` is the mean privacy gain, the lowest over
    ``n_priors`` priors. ``equals`` are other mechanisms with the same gain to two digits;
    ``same_price`` is whether their utility loss is the same to three digits. ``measure`` is the
    least favourable measure, in which the mechanism is closest to a random guess; its ``value`` and
    that of a ``guess`` are NaN if utility was not measured.
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
    same_price: bool = False


def bargain(by_mechanism: Defences) -> Bargain | None:
    """Return the mechanism with the highest gain, among equals the cheapest; None without gains.

    All mechanisms are compared for one period and group size, on the same targets: a mean over
    several would favour mechanisms that were only run on easy ones. The gain is the lowest over
    priors, as the defender cannot choose the adversary's. A mechanism whose release is nearly empty
    is never chosen, nor one for which that is unknown.
    """
    if not by_mechanism.gains_known:
        return None
    place, gains = _compare(by_mechanism)
    share = by_mechanism.released_share[place.period, place.size]
    gains = {i: gain for i, gain in gains.items() if share[i] >= NEARLY_EMPTY}
    if not gains:
        return None
    share = _shares(by_mechanism, place)
    price = np.max(np.nan_to_num(share, nan=-1.0), axis=1, initial=-1.0)
    price[price < 0] = np.inf  # an unknown price is not a low one
    # among gains that are equal as displayed, choose the cheapest
    best = min(gains, key=lambda i: (-round(gains[i], 2), float(price[i])))
    equals = [i for i in gains if i != best and round(gains[i], 2) == round(gains[best], 2)]
    worst = int(np.nanargmax(share[best])) if np.isfinite(price[best]) else None
    at = (place.period, place.size)
    return Bargain(
        mechanism=by_mechanism.mechanisms[best],
        group_size=by_mechanism.table.group_sizes[place.size],
        period=by_mechanism.periods[place.period] if len(by_mechanism.periods) > 1 else "",
        gain=gains[best],
        n_priors=len(_priors(by_mechanism, place)),
        measure=None if worst is None else by_mechanism.measures[worst],
        value=np.nan if worst is None else float(by_mechanism.utility[at][best, worst]),
        guess=np.nan if worst is None else float(by_mechanism.guess[at][worst]),
        equals=tuple(by_mechanism.mechanisms[i] for i in equals),
        same_price=bool(np.allclose(price[equals], price[best], rtol=0, atol=5e-4)),
    )


def least_gains(by_mechanism: Defences) -> dict[str, float]:
    """Return the mean privacy gain of each mechanism where raw counts expose most.

    The gain is the lowest over priors. The result is empty if no gain is known.
    """
    if not by_mechanism.gains_known:
        return {}
    _, gains = _compare(by_mechanism)
    return {by_mechanism.mechanisms[mechanism]: gain for mechanism, gain in gains.items()}


def price_of(by_mechanism: Defences, mechanism: str) -> tuple[float, Measure | None]:
    """Return the largest utility loss of a mechanism over all cases and measures, and the measure.

    The loss is relative to that of a random guess; NaN and None if utility was not measured.
    """
    index = by_mechanism.mechanisms.index(mechanism)
    shares = np.array([_shares(by_mechanism, place)[index] for place in by_mechanism.places()])
    if not np.isfinite(shares).any():
        return float("nan"), None
    _, worst = np.unravel_index(np.nanargmax(shares), shares.shape)
    return float(np.nanmax(shares)), by_mechanism.measures[worst]


def _compare(by_mechanism: Defences) -> tuple[CaseIndex, dict[int, float]]:
    """Return the case where raw counts expose most, and the gains of mechanisms there."""
    exposure = [(_exposure(by_mechanism, place), place) for place in by_mechanism.places()]
    known = [pair for pair in exposure if np.isfinite(pair[0])]
    _, place = max(known, key=lambda pair: pair[0])
    gains = {
        mechanism: gain
        for mechanism, name in enumerate(by_mechanism.mechanisms)
        if name != by_mechanism.raw_counts
        and np.isfinite(gain := _least_gain(by_mechanism, place, mechanism))
    }
    return place, gains


def _priors(by_mechanism: Defences, place: CaseIndex) -> list[int]:
    return [i for i in range(len(by_mechanism.priors)) if by_mechanism.strongest(place, i)]


def _shares(by_mechanism: Defences, place: CaseIndex) -> Floats:
    """Return utility losses relative to those of a random guess, shape (mechanism, measure)."""
    at = (place.period, place.size)
    lost, guessed = by_mechanism.loss[at], by_mechanism.guess_loss[at]
    # Events not kept are lost, even if a random guess, which adds many, is further off.
    is_total = np.array([measure.is_total for measure in by_mechanism.measures], np.bool_)
    guessed = np.where(is_total & (by_mechanism.utility[at] < 1), np.minimum(guessed, 1), guessed)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = lost / guessed
    return np.where(np.isfinite(share), share, np.nan)


def _exposure(by_mechanism: Defences, place: CaseIndex) -> float:
    """Return the highest mean AUC of any attack and prior on raw counts."""
    assert by_mechanism.raw_counts is not None
    raw = by_mechanism.mechanisms.index(by_mechanism.raw_counts)
    aucs = [by_mechanism.left(place, prior, raw) for prior in _priors(by_mechanism, place)]
    return max(aucs, default=float("nan"))


def _least_gain(by_mechanism: Defences, place: CaseIndex, mechanism: int) -> float:
    """Return the lowest mean gain over priors, NaN unless it is known for each."""
    means = [
        mean(by_mechanism.gains(place, prior, mechanism)) for prior in _priors(by_mechanism, place)
    ]
    return float(np.min(means))
