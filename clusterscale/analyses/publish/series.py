"""The releases of a series in one folder, each with its entry in the budget ledger.

A release and its entry are one store, which the metadata of the release contain, so one exclusive
write commits both; its number is in its name, so only one of several publishers can take it. Copies
of entries in ``ledger/`` are written afterwards: they show if a release is removed later. The
newest release is also recorded outside the folder of the series: beside it, and in the folder of
the run. Each release is also noted beside the cube, for other series and for copies of the folder.
If all of that is removed too, nothing shows that it was published.
"""

import re
from bisect import bisect_right
from collections.abc import Mapping
from datetime import date
from typing import Any

import numpy as np

from clusterscale import errors, storage
from clusterscale.analyses.publish.noted import NotedRelease
from clusterscale.analyses.publish.plan import ENDINGS, PublishPlan
from clusterscale.analyses.publish.spending import TOLERANCE, compose, spent_by, spent_on_person
from clusterscale.contracts import Mechanism, hash_of
from clusterscale.errors import DamagedError, RefusedError
from clusterscale.phrases import privacy_unit, round_up
from clusterscale.release import RULES, LedgerEntry, entry_address, read_table
from clusterscale.storage.files import put_new_files, put_new_folder, refuse_broken_link
from clusterscale.storage.manifest import read_sealed, to_sealed
from clusterscale.validation_messages import plural

_ROOT, _BESIDE, _NEWEST = "zarr.json", "-metadata.json", ".newest.json"
_MOST_RELEASES = 1000  # that are added up to find how many fit into a budget


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
    cube
        Address of the cube, beside which all releases of it are noted; None: they are not read.

    Attributes
    ----------
    uri
        Folder of the series.
    entries
        The ledger, in order.
    mechanisms
        Mechanisms of the releases that were read.
    elsewhere
        Releases of the cube in other folders: of other series, and of copies of this one.

    Raises
    ------
    ConfigError
        If the series was begun with another budget, format or time zone.
    DamagedError
        If an entry or a release is missing, or is not what was written; or a record outside the
        folder names a newer release.
    """

    def __init__(
        self, plan: PublishPlan, timezone: str, run: str | None = None, *, cube: str | None = None
    ) -> None:
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
        own = {entry.seal for entry in self.entries}
        noted = [] if cube is None else [*NotedRelease.read_all(cube)]
        self.elsewhere = [
            one for one in noted if one.entry.seal not in own and one.folder != self.uri
        ]

    def address(self, number: int) -> str:
        """Return the address of the release with a number."""
        return f"{self.uri}/{self.name(number)}{ENDINGS[self.plan.format]}"

    def name(self, number: int) -> str:
        """Return the name of the release with a number."""
        return f"{self.plan.series}-{number:04d}"

    def spent(self, *more: LedgerEntry, days: tuple[int, int] | None = None) -> float:
        """Return the ε that the releases, and ``more``, spend together; 0 without a budget.

        Releases of copies of the series spend of the same budget.
        """
        budget, first = self.plan.budget, [entry.seal for entry in self.entries[:1]]
        if budget is None:
            return 0.0
        copies = [one.entry for one in self.elsewhere if one.first in first]
        return spent_by([*self.entries, *copies, *more], budget.unit, budget.delta, days)

    def describe_others(self, entry: LedgerEntry, mechanism: Mechanism) -> str:
        """Return which releases elsewhere count days of a release, and the ε of all for a person.

        Empty if there are none. Where a guarantee is for a user, all days count.
        """
        others = [
            one
            for one in self.elsewhere
            if "user" in (entry.unit, one.entry.unit)
            or (one.entry.first_day <= entry.last_day and entry.first_day <= one.entry.last_day)
        ]
        if not others:
            return ""
        before = zip(self.entries, self.mechanisms, strict=False)
        own = [*(one for one in before if one[0].seal != entry.seal), (entry, mechanism)]
        epsilon, delta = spent_on_person(own, self.plan.budget.delta if self.plan.budget else 0.0)
        bounds = [(np.inf if one.epsilon is None else one.epsilon, one.delta) for one in others]
        delta += sum(each for _, each in bounds)
        epsilon = compose([(epsilon, delta), *bounds], delta) if delta < 1 else np.inf
        spent = f"up to ε {round_up(epsilon):.6g}, δ {round_up(delta):.6g}"
        lost = f"a person who is in all loses {spent if np.isfinite(epsilon) else 'any ε'}"
        where = ", ".join(sorted({f"{one.series} in {one.folder}" for one in others}))
        n = plural(len(others), "release")
        return f"{n} elsewhere ({where}) counted days of the same people: {lost}"

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
            budget.epsilon * (1 + TOLERANCE),
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
            raise errors.ExistsError(
                f"publish.period.name: {self.address(same[0].number)} is the release of "
                f"{entry.period}; a further one spends again: give it another name"
            )
        budget = self.plan.budget
        if self.plan.other_series == "refuse" and (
            others := self.describe_others(entry, self.plan.mechanism)
        ):
            raise RefusedError(f"publish.other_series: refuse, and there is {others}")
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
        return budget is not None and epsilon > budget.epsilon * (1 + TOLERANCE)

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
            raise errors.ExistsError(f"{uri}: another process publishes it; repeat the command")
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
        except (DamagedError, errors.StoreError):
            raise
        except errors.ClusterscaleError as error:
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
                raise errors.ConfigError(
                    f"{where}: series {self.plan.series} was begun with "
                    f"{_words(kept.get(key))}, not {_words(mine)}: state the same, or begin "
                    "another series"
                )
        return True


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {item}" for key, item in value.items()) + "}"
    return "none" if value is None else str(value)
