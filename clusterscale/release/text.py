"""What formats of text share: how they state values, hidden ones, times and epochs."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, Strict, model_validator

from clusterscale.cube.calendar import Step
from clusterscale.errors import InputError
from clusterscale.reading.clock import Clock
from clusterscale.reading.decode import Zone
from clusterscale.reading.places import ARROW
from clusterscale.reading.tables import Delimiter, Encoding, TextLayout
from clusterscale.reading.values import (
    HIDDEN,
    HIDDEN_STATUS,
    Codes,
    Marks,
    flags_after,
    text_of,
    without_flags,
)
from clusterscale.release.content import RawRelease, TableFormat
from clusterscale.release.metadata import ReleaseMetadata
from clusterscale.release.rows import Rows
from clusterscale.validation_messages import quote

TOTAL = "Total"
LIKE_TOTAL = re.compile(
    r"(.*\W)?(grand|overall)?(tot|total\w*|sum|summe|(ins)?gesamt|somme|ensemble|totaal)(\W.*)?"
    r"|(all|alle|toutes?|tous|tutt[ei]|tod[ao]s)(\W.*)?|_t|合計",
    re.IGNORECASE,
)
"""Names that are usual for totals."""
LIKE_ALL = re.compile(r"t|both(\W.*)?|beide(\W.*)?|persons", re.IGNORECASE)
"""Names of further categories that are usual for all."""


def _step(text: str) -> str:
    Step.parse(text)
    return text


def _one_group(pattern: str) -> str:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    if groups != 1:
        raise ValueError(f"{pattern!r} has {groups} groups: the time is one, as in '(.*)[.]csv'")
    return pattern


StepText = Annotated[str, AfterValidator(_step)]
Absent = Literal["zero", "hidden", "not_covered"]
Pattern = Annotated[str, AfterValidator(_one_group)]
Mark = Literal[".", ",", "'", " "]


class TextTable(TableFormat):
    """A format in which values and times may be text.

    Attributes
    ----------
    hidden
        Values that stand for a hidden one, e.g. ``['-1']``; "<5" and the like always do.
    not_covered
        Values, or statuses of values, that were not collected, e.g. ``[NO_DATA]``.
    secondary
        Values, or statuses of values, that the table would show and that were hidden so that no
        other follows from them, e.g. ``[D]``. Where small values are hidden, none of them is 0.
    flags
        Flags that follow values which are shown, e.g. ``[b, e, p]`` for ``1188 p``.
    hidden_flags
        Flags of hidden values, if there are ``flags``, e.g. ``[c]`` for ``: c``.
    timezone
        Time zone of times without one, e.g. ``Europe/Madrid``; by default they are refused.
    time_format
        Format of times as of Python's ``strptime``, e.g. ``'%d/%m/%Y %H:%M'``.
    slots
        Whether times are numbers of epochs.
    step
        Length of an epoch, e.g. ``1h``; ``1d``, ``1w`` and ``1mo`` are those of the calendar. By
        default the shortest time between two.
    decimal_comma
        Whether decimals follow a comma; then a dot is no decimal.
    thousands
        Mark between thousands, e.g. ``'.'``, which decimals then follow a comma; a space stands for
        all kinds of spaces.
    in_doubt
        What ``clusterscale init --table`` left open, e.g. ``['thousands: is 1.204 a decimal?']``;
        with it, no table is read.
    """

    hidden: Codes = HIDDEN
    not_covered: Codes = ()
    secondary: Codes = ()
    flags: Codes = ()
    hidden_flags: Codes = HIDDEN_STATUS
    timezone: Zone | None = None
    time_format: str | None = None
    slots: bool = False
    step: StepText | None = None
    decimal_comma: bool = False
    thousands: Mark | None = None
    in_doubt: Codes = ()

    _flag_codes: dict[str, int] | None = None

    @model_validator(mode="after")
    def _is_decided(self) -> Self:
        if self.in_doubt:
            raise ValueError(f"in_doubt: decide this, and delete the line: {self.in_doubt[0]}")
        if self.thousands == self.marks.decimal:
            raise ValueError(f"thousands: {self.thousands!r} is the decimal mark")
        return self

    @property
    def marks(self) -> Marks:
        """How numbers are stated."""
        comma = self.decimal_comma or self.thousands == "."
        return Marks("," if comma else ".", self.thousands or "")

    @property
    def codes(self) -> dict[str, Any]:
        """How values are stated, as arguments of ``decode_values``."""
        codes = {"not_covered": self.not_covered, "secondary": self.secondary}
        return {"hidden": self.hidden, "marks": self.marks, **codes}

    def read_flags(self, uri: str) -> NDArray[np.str_] | None:
        """Return the flags and statuses of the values of a table, None if the format has none.

        They have shape (roi, epoch), as values have, and are joined by a space where there are
        several; those of a value without any are empty. Errors are those of :meth:`read`.
        """
        settings = type(self).model_fields
        if not (self.flags or getattr(self, "status", None)) or getattr(self, "add_rows", False):
            return None
        plain: dict[str, Any] = {"hidden": (), "not_covered": (), "absent": "zero"}
        plain["secondary"] = ()
        plain |= {"decimal_comma": False, "thousands": None}
        coded = self.model_copy(update={key: plain[key] for key in plain if key in settings})
        coded._flag_codes = {"": 0}
        codes = coded.read(uri).values
        return np.array([*coded._flag_codes])[codes.astype(np.int64)]

    def _unflagged(self, texts: Any, *statuses: Any) -> Any:
        """Return values without flags; or numbers for flags and statuses, if these are read."""
        known, nested = self._flag_codes, pa.types.is_nested(texts.type)
        if known is None:
            if not self.flags or nested:
                return texts
            return without_flags(texts, self.flags, self.hidden_flags)
        parts = [text_of(status) for status in statuses]
        if self.flags and not nested:
            parts.insert(0, flags_after(texts, self.flags, self.hidden_flags))
        joined = pc.utf8_trim_whitespace(
            pc.binary_join_element_wise(*parts, " ", null_handling="skip")
        )
        codes = [str(known.setdefault(text, len(known))) for text in joined.to_pylist()]
        return pa.array(codes, pa.string())

    @property
    def clock(self) -> Clock:
        """How times are stated."""
        return Clock(self.timezone, self.time_format, self.slots, step=self.step)

    def lay_out(
        self, rows: Rows, *, absent: str | None = None, about: ReleaseMetadata | None = None
    ) -> RawRelease:
        """Return rows over places and epochs of the length that is set, or stated in metadata.

        Places with the name of a total are reported, unless a series or the format says what they
        are.
        """
        about = about or ReleaseMetadata()
        step = None if self.step is None else Step.parse(self.step)
        if step is None and about.ledger is not None and rows.n_times == 1:
            step = Step(about.ledger.stop - about.ledger.start)
        zone = self.timezone or about.time_zone or "UTC"
        release = rows.lay_out(step=step, absent=absent, timezone=zone)
        total = getattr(self, "total", None)
        is_null = total is None and "total" in self.model_fields_set
        if about.ledger is not None or is_null or "total" not in type(self).model_fields:
            return release
        ends = {end for place in rows.places for end in place.split(ARROW)}
        doubts = tuple(
            f"{quote(name)} is read as a place: set `total: {name}` of the format if it is a "
            "total, `total: null` if it is not"
            if name != total
            else f"{quote(name)} is the total of trips from all places to all: those from or to "
            "one place are a table of their own, with `margins_of`"
            for name in sorted(name for name in ends if name == total or LIKE_TOTAL.fullmatch(name))
        )
        return replace(release, changes=(*doubts, *release.changes))

    def names_of(self, release: RawRelease) -> tuple[list[str], list[Any]]:
        """Return the names of places, and the times as local ISO text or as numbers of epochs.

        Raises InputError if it has none, or values that are not covered or would be read as hidden.
        """
        gaps = release.not_covered is not None or release.secondary is not None
        if release.rois is None or release.epochs is None or gaps:
            raise InputError(
                f"{self.name}: the table needs the names of places, the times of epochs and all "
                "values"
            )
        codes = [float(code) for code in self.hidden if code.lstrip("-").isdigit()]
        if np.isin(release.values, codes).any():
            raise InputError(f"{self.name}: a value of the table is a code of `hidden`")
        return list(release.rois), _stated(release.epochs, release.timezone)


class LineTable(TextTable):
    """A format of text whose lines are rows, separated into fields.

    Attributes
    ----------
    delimiter
        Field separator of a CSV file, e.g. ``;``.
    encoding
        Encoding of a CSV file, e.g. ``latin-1``.
    skip
        Number of lines above the line of column names, e.g. 3.
    notes
        Beginnings of lines that are no rows, e.g. ``['Source:']``.
    """

    delimiter: Delimiter = ","
    encoding: Encoding = "utf-8"
    skip: Annotated[int, Strict(), Field(ge=0, le=10_000)] = 0
    notes: Codes = ()

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def layout(self) -> TextLayout:
        """How lines are laid out."""
        return TextLayout(self.delimiter, (), self.encoding, self.skip, self.notes)

    @property
    def is_only_read(self) -> bool:
        """Whether a file that is written would not be read as the same table."""
        return self.encoding != "utf-8" or self.skip > 0 or bool(self.notes)


def _stated(epochs: NDArray[Any], timezone: str) -> list[Any]:
    if epochs.dtype.kind == "M":
        zone = ZoneInfo(timezone)
        seconds = epochs.astype("datetime64[s]").astype(np.int64).tolist()
        times = [datetime.fromtimestamp(second, zone).isoformat() for second in seconds]
        return [time.replace("+00:00", "Z") for time in times] if timezone == "UTC" else times
    return [int(number) for number in epochs]
