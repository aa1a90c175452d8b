"""The releases of a series in one folder, each with its entry in the budget ledger.

A release and its entry are one store, which the metadata of the release contain, so one exclusive
write commits both; its number is in its name, so only one of several publishers can take it. Copies
of entries in ``ledger/`` are written afterwards: they show if a release is removed later. The
newest release is also recorded outside the folder of the series: beside it, and in the folder of
the run. If all of that is removed too, nothing shows that it was published.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from clusterscale import storage
from clusterscale.analyses.publish.plan import ENDINGS, PublishPlan
from clusterscale.contracts import Guarantee, Mechanism, hash_of
from clusterscale.errors import (
    ClusterscaleError,
    ConfigError,
    DamagedError,
    ExistsError,
    RefusedError,
    StoreError,
)
from clusterscale.mechanisms.accounting import (
    LARGEST_ACCOUNTED,
    ApproximateLoss,
    concentrated_epsilon,
    divide_person,
    loss_step,
)
from clusterscale.phrases import privacy_unit, round_up
from clusterscale.release import RULES, LedgerEntry, entry_address, read_table
from clusterscale.storage.files import put_new_files, put_new_folder, refuse_broken_link
from clusterscale.storage.manifest import read_sealed, to_sealed
from clusterscale.validation_messages import plural

_ROOT, _BESIDE, _NEWEST = "zarr.json", "-metadata.json", ".newest.json"
_TOLERANCE = 1e-9  # of a sum of floating-point numbers, relative
_MOST_RELEASES = 1000  # that are added up to find how many fit into a budget


class Loss(NamedTuple):
    """What a release spends on a unit: ε and δ, and ρ if its noise is discrete normal, else 0."""

    epsilon: float
    delta: float
    rho: float = 0.0


def compose(losses: Iterable[tuple[float, ...]] | Counter[Loss], delta: float) -> float:
    """Return the smallest known ε at ``delta`` of several (ε, δ)-DP releases together.

    It is the smaller one of basic composition and of the composition of dominating privacy-loss
    distributions (Kairouz, Oh and Viswanath, ICML 2015; Sommer, Meiser and Mohammadi, PoPETs 2019),
    which holds also if a release is chosen after others are seen. Losses are rounded up. Releases
    with discrete normal noise compose by their ρ (Bun and Steinke, TCC 2016), if that is less.

    Parameters
    ----------
    losses
        ε and δ of each release, for the same unit, and ρ, as in a :class:`Loss`; or how many
        releases have each.
    delta
        δ of all together.

    Returns
    -------
    float
        Infinite if no ε is known at ``delta``; 0 without releases.
    """
    every = losses if isinstance(losses, Counter) else Counter(Loss(*each) for each in losses)
    pairs, rest = Counter[tuple[float, float]](), Counter[tuple[float, float]]()
    for one, n in every.items():
        pairs[one[:2]] += n
        rest[one[:2]] += 0 if one.rho else n
    found = _compose_pairs(pairs, delta)
    rho = sum(one.rho * n for one, n in every.items())
    share = delta - sum(each * n for (_, each), n in rest.items())  # that the others leave
    if not rho or share <= 0:
        return found
    share /= 1 + any(rest.values())
    rest[concentrated_epsilon(rho, share), share] += 1
    # no release alone spends less than it states
    return min(found, max(_compose_pairs(+rest, delta), *(one.epsilon for one in every)))


def _compose_pairs(pairs: Mapping[tuple[float, float], int], delta: float) -> float:
    """Return the smallest known ε at ``delta`` of so many (ε, δ)-DP releases of each pair."""
    if not pairs:
        return 0.0
    total = float(sum(epsilon * n for (epsilon, _), n in pairs.items()))
    total_delta = sum(each * n for (_, each), n in pairs.items())
    basic = total if total_delta <= delta else np.inf
    if delta == 0.0 or total > LARGEST_ACCOUNTED or sum(pairs.values()) == 1:
        return basic
    step = loss_step(total)
    composed = reduce(
        lambda one, other: one.compose(other),
        (
            ApproximateLoss(n, epsilon, each).distribution(step).self_compose(n)
            for (epsilon, each), n in pairs.items()
        ),
    )
    with np.errstate(over="ignore"):  # the loss of a tail of negligible mass is infinite
        return min(basic, float(composed.get_epsilon_for_delta(delta)))


def spent_by(
    entries: Sequence[LedgerEntry], unit: str, delta: float, days: tuple[int, int] | None = None
) -> float:
    """Return the ε that the releases of a series spend together on any one unit, at ``delta``.

    A user can be in all of them, so all compose. An event or a user's day is only in those that
    count its day, so the day with the largest sum decides.

    Parameters
    ----------
    entries
        The releases.
    unit
        Privacy unit of the series.
    delta
        δ of all together.
    days
        Only units of these local days, the first and the last; None: of any.

    Returns
    -------
    float
        Infinite if a release has no guarantee.
    """
    if any(entry.epsilon is None for entry in entries):
        return np.inf
    if unit == "user":
        return compose(map(_loss_of, entries), delta)
    first, last = days or (0, np.iinfo(np.int64).max)
    found = {
        tuple(sorted(_loss_of(one) for one in entries if one.first_day <= day <= one.last_day))
        for day in {entry.first_day for entry in entries} | {first}
        if first <= day <= last
    }
    return max((compose(losses, delta) for losses in found), default=0.0)


def _loss_of(entry: LedgerEntry) -> Loss:
    return Loss(entry.epsilon or 0.0, entry.delta, entry.rho or 0.0)


def guarantee_of(entry: LedgerEntry) -> Guarantee:
    """Return the guarantee of a release with its entry; ε is infinite without one."""
    epsilon = np.inf if entry.epsilon is None else entry.epsilon
    return Guarantee(entry.unit, epsilon, entry.delta, "add_remove", "its entry states it")


def spent_on_person(
    releases: Iterable[tuple[LedgerEntry, Mechanism]], delta: float
) -> tuple[float, float]:
    """Return ε and δ of releases together, for a person who is in all of them as often as possible.

    Parameters
    ----------
    releases
        The entry of each release, and its mechanism: trace steps may limit events, and noise may
        be independent on each day.
    delta
        Least δ of all together.

    Returns
    -------
    tuple[float, float]
        ε is infinite if a release has no guarantee, or does not limit what a person changes.
    """
    losses = Counter[Loss]()
    for entry, mechanism in releases:
        n_days = entry.last_day - entry.first_day + 1
        epsilon, own, n_parts = divide_person(guarantee_of(entry), n_days, mechanism)
        losses[Loss(epsilon, own, entry.rho or 0.0)] += n_parts
    delta = max(delta, sum(one.delta * n for one, n in losses.items()) * (1 + _TOLERANCE))
    return (compose(losses, delta), delta) if delta < 1 else (np.inf, 1.0)


class Series:
    """A series of releases, as it is now.

    Parameters
    ----------
    plan
        The release to be added: its series, budget, format and folder.
    timezone
        Time zone of the cube.
    run
        Output folder of the run that publishes; its record of the newest release is also kept.

    Attributes
    ----------
    uri
        Folder of the series.
    entries
        The ledger, in order.
    mechanisms
        Mechanisms of the releases that were read.

    Raises
    ------
    ConfigError
        If the series was begun with another budget, format or time zone.
    DamagedError
        If an entry or a release is missing, or is not what was written; or a record outside the
        folder names a newer release.
    """

    def __init__(self, plan: PublishPlan, timezone: str, run: str | None = None) -> None:
        self.plan, self.uri = plan, storage.absolute(plan.folder)
        name = f"{plan.series}{_NEWEST}"
        self._records = [f"{self.uri}{_NEWEST}", *([f"{run}/{name}"] if run else [])]
        stated = plan.model_dump(mode="json", include={"series", "budget", "format"})
        self._rules: dict[str, Any] = {**stated, "timezone": timezone}
        self.rules = hash_of(self._rules)
        self.begun = self._compare_rules()
        self.entries: list[LedgerEntry] = []
        self.mechanisms: list[Mechanism] = []
        names = set(storage.list_names(self.uri))
        copies = storage.list_names(entry_address(self.uri, 0).rpartition("/")[0])
        numbers = [
            int(found[1]) for name in copies if (found := re.fullmatch(r"(\d+)\.json", name))
        ]
        numbers += [n for name in names if (n := self._number_of(name)) and self._is_committed(n)]
        for number in range(1, max(numbers, default=0) + 1):
            self.entries.append(self._read(number))
        if self.entries and not self.begun:
            raise DamagedError(f"{self.uri}/{RULES} is missing, which says what may be spent")
        for record in self._records:
            self._compare_newest(record)

    def address(self, number: int) -> str:
        """Return the address of the release with a number."""
        return f"{self.uri}/{self.name(number)}{ENDINGS[self.plan.format]}"

    def name(self, number: int) -> str:
        """Return the name of the release with a number."""
        return f"{self.plan.series}-{number:04d}"

    def spent(self, *more: LedgerEntry, days: tuple[int, int] | None = None) -> float:
        """Return the ε that the releases, and ``more``, spend together; 0 without a budget."""
        budget = self.plan.budget
        if budget is None:
            return 0.0
        return spent_by([*self.entries, *more], budget.unit, budget.delta, days)

    def describe_spent(self, entry: LedgerEntry) -> str:
        """Return what is spent on the units of a release of the series, and what is left."""
        budget = self.plan.budget
        if budget is None:
            return "none"
        first, last = entry.first_day, entry.last_day
        spent = self.spent(days=(first, last))
        text = f"ε {round_up(spent):.6g} of {budget.epsilon:g} is spent for each "
        text += self.describe_units(entry)
        if budget.unit != "user":
            has_part = any(
                first < one.first_day <= last or first <= one.last_day < last
                for one in self.entries
            )
            return f"up to {text}" if has_part else text
        n_more = bisect_right(
            range(1, _MOST_RELEASES + 1),
            budget.epsilon * (1 + _TOLERANCE),
            key=lambda n: self.spent(*[entry] * n),
        )
        at_least = "at least " if n_more == _MOST_RELEASES else ""
        left = max(0.0, budget.epsilon - spent)
        more = f"{at_least}{plural(n_more, 'more release')} like this one"
        return f"{text}; about {left:.6g} is left, for {more}"

    def describe_units(self, entry: LedgerEntry) -> str:
        """Return for which privacy units the budget of a release is, and whether others have one.

        The text follows ``each``.
        """
        assert self.plan.budget is not None
        unit = self.plan.budget.unit
        if unit == "user":
            return "user, by all releases of the series"
        first, last = map(date.fromordinal, (entry.first_day, entry.last_day))
        days = f"on {first}" if first == last else f"from {first} to {last}"
        return f"{privacy_unit(unit)} {days}; other days have their own budget"

    def check(self, entry: LedgerEntry) -> None:
        """Check that a release may be added.

        Raises
        ------
        ExistsError
            If there is a release with the name of its period, or its address is a link to nothing.
        RefusedError
            If the budget would be exceeded.
        """
        refuse_broken_link(self.address(entry.number))
        same = [one for one in self.entries if one.period == entry.period]
        if same:
            raise ExistsError(
                f"publish.period.name: {self.address(same[0].number)} is the release of "
                f"{entry.period}; a further one spends again: give it another name"
            )
        budget = self.plan.budget
        if budget is None:
            return
        together = self.spent(entry)
        if self._exceeds(together):
            days = entry.first_day, entry.last_day
            left = max(0.0, budget.epsilon - self.spent(days=days))
            raise RefusedError(
                f"publish.budget: with this release, series {self.plan.series} would spend ε "
                f"{round_up(together):.6g} of {budget.epsilon:g} per {privacy_unit(budget.unit)}, "
                f"at δ {budget.delta:g}; about {left:.6g} is left: publish with a smaller ε, or not"
            )

    def _exceeds(self, epsilon: float) -> bool:
        budget = self.plan.budget
        return budget is not None and epsilon > budget.epsilon * (1 + _TOLERANCE)

    def spend_on_days(self, entry: LedgerEntry, days: range) -> dict[str, Any]:
        """Return what the series spends if further releases like one count all of some days.

        Parameters
        ----------
        entry
            The release that is next.
        days
            Local days. Those that neither the series nor the release counts are counted by
            releases of as many days, each of other ones.

        Returns
        -------
        dict[str, Any]
            The number of ``days`` and the least number of ``releases`` that count them, with the
            ones before; ε that is ``spent``, and whether this ``exceeds`` the budget.
        """
        length, every = entry.last_day - entry.first_day + 1, [*self.entries, entry]
        counted = {day for one in every for day in range(one.first_day, one.last_day + 1)}
        after = max(*counted, *days) + 1  # on which days they are does not matter
        firsts = [after + length * i for i in range(-(-len({*days} - counted) // length))]
        own = [{"first_day": first, "last_day": first + length - 1} for first in firsts]
        spent = self.spent(entry, *(entry.model_copy(update=fields) for fields in own))
        about = {"days": len(days), "releases": len(every) + len(own)}
        return about | {"spent": spent, "exceeds": self._exceeds(spent)}

    def next_entry(self, **fields: Any) -> LedgerEntry:
        """Return the entry of the next release, without a seal."""
        previous = self.entries[-1].seal if self.entries else ""
        number = len(self.entries) + 1
        return LedgerEntry(number=number, rules=self.rules, previous=previous, **fields)

    def begin(self) -> None:
        """Write the rules of a new series, once; and remove what an interrupted run has left."""
        if not self.begun:
            storage.put_new(f"{self.uri}/{RULES}", to_sealed(self._rules))
            self.begun = self._compare_rules()
        for name in storage.list_names(self.uri):
            number = self._number_of(name)
            leftover = number is not None and not self._is_committed(number)
            if leftover or re.fullmatch(r"\..+\.partial", name):
                self._remove_leftover(f"{self.uri}/{name}", number)

    def commit(self, files: Mapping[str, bytes], entry: LedgerEntry) -> str:
        """Store a release and its entry at once, and return its address.

        Parameters
        ----------
        files
            The content of each file of the release, by its path from the address.
        entry
            Its entry, which is in these files.

        Raises
        ------
        ExistsError
            If another process has published meanwhile; nothing was stored.
        """
        uri = self.address(entry.number)
        if "" in files:
            addressed = {f"{uri}{path}": content for path, content in files.items()}
            stored = put_new_files(addressed, last=uri)
        else:
            inside = {path.lstrip("/"): content for path, content in files.items()}
            stored = put_new_folder(uri, inside, last=_ROOT)
        if not stored:
            raise ExistsError(f"{uri}: another process publishes it; repeat the command")
        self.entries.append(entry)
        self.complete()
        return uri

    def find(self, run: str) -> LedgerEntry | None:
        """Return the entry that a run has made, None if it has not published."""
        return next((entry for entry in self.entries if entry.run == run), None)

    def complete(self) -> None:
        """Write the copies of entries, and the records of the newest release."""
        for entry in self.entries:
            uri = entry_address(self.uri, entry.number)
            storage.put_new(uri, entry.model_dump_json(indent=1).encode())
        for record in self._records if self.entries else []:
            newest = self.entries[-1]
            kept = {"folder": self.uri, "number": newest.number, "seal": newest.seal}
            kept["first"] = self.entries[0].seal
            storage.put(record, to_sealed(kept))

    def _compare_newest(self, record: str) -> None:
        """Check that the series has the release that a record outside its folder names."""
        if (kept := read_sealed(record)) is None:
            return
        number, beside = int(kept["number"]), record == self._records[0]
        moved = self.entries and self.entries[0].seal == kept["first"]
        if not beside and not moved and kept["folder"] != self.uri:
            return  # a series of the same name in another folder
        if number > len(self.entries) or self.entries[number - 1].seal != kept["seal"]:
            raise DamagedError(
                f"{record} records that {self.name(number)} was published, but {self.uri} does "
                "not have it: put this release and its entry back; what it has spent stays spent"
            )

    def _remove_leftover(self, uri: str, number: int | None) -> None:
        """Remove what an interrupted run has left, unless that run goes on and commits it."""
        content = storage.read(uri) if uri.endswith(_BESIDE) else None
        storage.remove(uri)
        if content is not None and number is not None and self._is_committed(number):
            storage.put_new(uri, content)

    def _number_of(self, name: str) -> int | None:
        """Return the number in the name of a release, or of a file beside it."""
        found = re.match(rf"{re.escape(self.plan.series)}-(\d{{4,}})\.", name)
        return int(found[1]) if found else None

    def _is_committed(self, number: int) -> bool:
        uri = self.address(number)
        return storage.exists(f"{uri}/{_ROOT}" if self.plan.format == "zarr" else uri)

    def _read(self, number: int) -> LedgerEntry:
        """Return an entry, checked against its release, its copy and the entry before."""
        uri = self.address(number)
        if not self._is_committed(number):
            raise DamagedError(
                f"{uri} is missing: put it back; what it has spent of the budget stays spent"
            )
        try:
            metadata = read_table(uri).metadata
        except (DamagedError, StoreError):
            raise
        except ClusterscaleError as error:
            raise DamagedError(f"{uri} is not a release of a series: {error}") from None
        entry, mechanism = metadata.ledger, metadata.mechanism
        previous = self.entries[-1].seal if self.entries else ""
        if entry is None or mechanism is None or entry.number != number:
            raise DamagedError(f"{uri} is not release {number} that was written")
        if entry.previous != previous or entry.rules != self.rules:
            raise DamagedError(f"{uri} does not follow the entry before it, or the series' rules")
        self.mechanisms.append(mechanism)
        return entry

    def _compare_rules(self) -> bool:
        """Return whether the series has begun, after its rules were compared with the plan."""
        if (kept := read_sealed(f"{self.uri}/{RULES}")) is None:
            return False
        for key, mine in self._rules.items():
            if kept.get(key) != mine:
                where = "cube" if key == "timezone" else f"publish.{key}"
                raise ConfigError(
                    f"{where}: series {self.plan.series} was begun with "
                    f"{_words(kept.get(key))}, not {_words(mine)}: state the same, or begin "
                    "another series"
                )
        return True


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {item}" for key, item in value.items()) + "}"
    return "none" if value is None else str(value)
