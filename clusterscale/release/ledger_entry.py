"""An entry of the budget ledger of a series, which a release carries in its metadata."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, Strict

from clusterscale.contracts import ConfigModel, Count, Positive, hash_of

RULES = "series.json"
"""Name of the file with the rules of a series, in its folder."""

Delta = Annotated[float, Strict(), Field(ge=0, lt=1)]
Seconds = Annotated[int, Strict()]


def entry_address(folder: str, number: int) -> str:
    """Return the address of the copy of an entry, in the folder of its series."""
    return f"{folder}/ledger/{number:08d}.json"


class LedgerEntry(ConfigModel):
    """What one release of a series is, and what it spends of the privacy budget of the series.

    Entries are chained: each has the seal of the one before, so one that is changed or moved, or
    removed while a later one exists, is noticed. That the newest is removed is noticed by the
    records outside the folder of the series, as long as one of them exists.

    Attributes
    ----------
    number
        Number of the release in its series, from 1, e.g. ``1``.
    period
        Name of the period, e.g. ``week-01``.
    start, stop
        Beginning and end of the period, in seconds since 1970 UTC, e.g. ``1267401600``.
    first_day, last_day
        Number of the first and the last local day of the period, from the year 1, e.g. ``733832``.
    unit
        Privacy unit of the guarantee: ``event``, ``user_day`` or ``user``; ``none`` without one,
        e.g. ``user``.
    epsilon
        ε of the guarantee, for one unit that is added or removed, e.g. ``1.0``; None without one.
    delta
        δ of the guarantee, a probability.
    hidden_below
        Smallest value that is shown, in visits, where small ones are not, e.g. ``5``.
    hidden_as
        What is published instead of smaller values: ``zero``, ``hidden``, or a ``label`` for those
        above 0, e.g. ``zero``.
    content
        Digest of the values and the other metadata, e.g. ``4c00f8dff67ceeefbc354164ac7d2aff``.
    run
        Random name of the run that published it, e.g. ``c1b83434ed16f91dce97926a1251aad5``.
    rules
        Digest of the rules of the series, such as its budget, e.g.
        ``92cea779a02e2ac6778682dd63ee4977``.
    previous
        Seal of the entry before, e.g. ``29340e8514da116ee2a441da35906b89``; empty for the first.
    seal
        Digest of all other fields, e.g. ``29340e8514da116ee2a441da35906b89``.
    """

    number: Count
    period: Annotated[str, Field(min_length=1)]
    start: Seconds
    stop: Seconds
    first_day: Count
    last_day: Count
    unit: Literal["event", "user_day", "user", "none"]
    epsilon: Positive | None = None
    delta: Delta = 0.0
    hidden_below: Count | None = None
    hidden_as: Literal["zero", "hidden", "label"] | None = None
    content: str
    run: str
    rules: str
    previous: str = ""
    seal: str = ""

    def sealed(self) -> Self:
        """Return the entry with the digest of all other fields."""
        fields = self.model_dump(mode="json", exclude={"seal"})
        return self.model_copy(update={"seal": hash_of(fields)})

    @property
    def is_sealed(self) -> bool:
        """Whether the entry is what was written."""
        return self.seal == self.sealed().seal
