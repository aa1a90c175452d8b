"""Metadata of a published table: what it counts, when, how it was published, and where that stands.

Parquet and arrays have it in themselves, text in a file beside it, as CSV on the Web has it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from clusterscale import storage
from clusterscale.contracts import ConfigModel, Count, OptionalUnique, Positive, Values, hash_of
from clusterscale.errors import ConfigError, FormatError, InputError
from clusterscale.mechanisms import MECHANISMS
from clusterscale.reading.decode import Zone
from clusterscale.reading.sources import File
from clusterscale.reading.tables import is_parquet, open_parquet
from clusterscale.validation_messages import explain, quote

if TYPE_CHECKING:
    import pandas as pd

    from clusterscale.contracts import Mechanism


README = "-README.md"
"""What follows the address of a file in that of the page that explains it."""

RULES = "series.json"
"""Name of the file with the rules of a series, in its folder."""

Delta = Annotated[float, Field(strict=True, ge=0, lt=1)]
Seconds = Annotated[int, Field(strict=True)]


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
    rho
        ρ of zero-concentrated differential privacy, without a unit, of which releases with discrete
        normal noise spend the sum, e.g. ``0.005``; None of other noise.
    hidden_below
        Smallest value that is shown, in visits, where small ones are not, e.g. ``5``.
    hidden_as
        What is published instead of smaller values: ``zero``, ``hidden``, or a ``label`` for those
        above 0, e.g. ``zero``.
    content
        Digest of the values and the other metadata, e.g. ``4c00f8dff67ceeefbc354164ac7d2aff``.
    explained
        Digests of the texts that explain the release, none in releases of earlier versions, e.g.
        ``['4c00f8dff67ceeefbc354164ac7d2aff']``.
    stored
        Digest of all bytes of its files, none in releases of earlier versions, e.g.
        ``4c00f8dff67ceeefbc354164ac7d2aff``; see :func:`digest_files`.
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
    rho: Positive | None = None
    hidden_below: Count | None = None
    hidden_as: Literal["zero", "hidden", "label"] | None = None
    content: str
    explained: Annotated[tuple[str, ...], Field(strict=False)] = ()
    stored: str = ""
    run: str
    rules: str
    previous: str = ""
    seal: str = ""

    def sealed(self) -> Self:
        """Return the entry with the digest of all other fields."""
        absent = {name for name in ("explained", "stored", "rho") if not getattr(self, name)}
        fields = self.model_dump(mode="json", exclude={"seal", *absent})
        return self.model_copy(update={"seal": hash_of(fields)})

    @property
    def is_sealed(self) -> bool:
        """Whether the entry is what was written."""
        return self.seal == self.sealed().seal


def digest_files(files: Mapping[str, bytes], entry: LedgerEntry) -> str:
    """Return the digest of all bytes of a release, which contains its entry with this digest.

    Parameters
    ----------
    files
        Content of each file, by its path from the address of the release.
    entry
        The entry in them. Its ``stored`` and its ``seal``, which follows from that, count as zeros.

    Returns
    -------
    str
        32 hexadecimal digits.
    """
    digest = blake2b(digest_size=16)
    for path, content in sorted(files.items()):
        for own in filter(None, (entry.stored, entry.seal)):
            content = content.replace(own.encode(), b"0" * len(own))
        digest.update(f"{path}:{len(content)}:".encode() + content)
    return digest.hexdigest()


class Accuracy(ConfigModel):
    """How far the values of a release are from what was counted.

    Attributes
    ----------
    noise
        Standard deviation of what was drawn, in visits, at most, e.g. ``1.96``.
    margin
        Distance, in visits, that is not exceeded with probability ``share``, e.g. ``5.0``.
    share
        Least probability of that, e.g. ``0.957``.
    one_sided
        Whether values far below 0 have a flag, too; not in releases until 0.9.
    """

    noise: Annotated[float, Field(strict=True, ge=0)]
    margin: Annotated[float, Field(strict=True, ge=0)]
    share: Annotated[float, Field(strict=True, gt=0, le=1)]
    one_sided: bool = False

    def is_uncertain(self, values: Values) -> NDArray[np.bool_]:
        """Return which values are not above the margin."""
        size = values if self.one_sided else np.abs(values)
        return np.asarray((self.margin > 0) & (size <= self.margin))


URI_FIELDS = ("cube", "members")
"""Fields with URIs: a catalogue may set them, the attributes of a release may not."""

First = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
Size = Annotated[int, Field(strict=True, ge=2, lt=2**63)]
Text = Annotated[str, BeforeValidator(str)]  # of a file of others it may be anything
STATED = ("counted", "licence", "contact_point")
"""Fields that a publisher writes for readers."""


def as_several(names: Any) -> Any:
    """Return one name as several."""
    return (names,) if isinstance(names, str) else names


def _of_one_table(mechanism: Mechanism) -> Mechanism:
    if mechanism.n_tables > 1:
        raise ValueError("a release is one table: state each alone, and check them together")
    return mechanism


if TYPE_CHECKING:
    DeclaredMechanism = Mechanism
else:
    DeclaredMechanism = Annotated[MECHANISMS.field(), AfterValidator(_of_one_table)]


class ReleaseMetadata(ConfigModel):
    """Metadata of a release; each field may also be an attribute of its store.

    ``group_size``: number of users counted. ``population``: number of people among whom they were;
    an estimate is enough. If the cube has fewer, it has traces of only some of them. By default
    all are in the cube; if these are too few for the groups, twice as many as are counted, or more
    if an adversary needs them.
    ``mechanism``: how counts were published, as in an audit. ``first``: the first epoch of the
    release, in the cube; or ``start``, its ISO date and time in the time zone of the cube.
    ``epochs``: number of epochs of the cube, needed if the mechanism merges some. ``observed``:
    first epochs of past windows that adversaries have seen. ``null_roi``: whether users without an
    event are counted in a last ROI. ``series``: consecutive releases of one series are compared.
    ``accuracy``: how far values are from counts, before small ones are hidden.
    ``time_zone``: the zone of which its times are local ones.
    ``rows``: whether places and epochs are public, or those of the records, so that a single visit
    may add one. ``subset_of``: tables that count everyone whom this one counts, and others.
    ``ledger``: what ``clusterscale publish`` has entered in the budget ledger.

    Attributes
    ----------
    group_size
        Number of users counted, e.g. ``300``.
    population
        Number of people among whom these were, e.g. ``5000``.
    mechanism
        How counts were published, e.g. ``{name: exact}``.
    first
        Number of the first epoch in the cube, e.g. ``0``.
    start
        Date and time of the first epoch, instead, e.g. ``'2010-03-01T00:00'``.
    epochs
        Number of epochs of the cube, e.g. ``168``.
    observed
        First epochs of past windows that were observed, e.g. ``[0, 168]``.
    null_roi
        Whether users without an event are counted in a last ROI, e.g. ``true``.
    series
        Name of the series of releases, e.g. ``stations``.
    guarantee
        ε and δ of a unit and what they mean for a person, in words, as ``clusterscale publish``
        writes them; nothing follows from it, e.g. ``ε 1 per user``.
    accuracy
        How far values are from what was counted, as ``clusterscale publish`` writes it, e.g.
        ``{noise: 1.96, margin: 5.0, share: 0.957}``.
    time_zone
        Zone of local times, days and months, e.g. ``Europe/London``.
    counted
        What was counted, in the plural, e.g. ``cards``; by default it is not known.
    licence
        Its name or URL, e.g. ``CC-BY-4.0``.
    contact_point
        Whom readers ask, e.g. ``data@example.org``.
    rows
        What places and epochs follow from: ``public`` lists, or ``records``, e.g. ``public``.
    subset_of
        Names of tables that count everyone whom this one counts, e.g. ``[all.csv]``.
    ledger
        Entry of the budget ledger, which ``clusterscale publish`` writes, e.g. ``{number: 1,
        period: week-01, start: 1267401600, stop: 1268006400, first_day: 733832, last_day: 733838,
        unit: none, content: 4c00, run: c1b8, rules: 92ce}``.
    """

    group_size: Size | None = None
    population: Size | None = None
    mechanism: DeclaredMechanism | None = None
    first: First | None = None
    start: str | None = None
    epochs: Count | None = None
    observed: Annotated[tuple[First, ...], *OptionalUnique] = ()
    null_roi: bool | None = None
    series: str = ""
    guarantee: str = ""
    accuracy: Accuracy | None = None
    time_zone: Zone | None = None
    counted: Text = ""
    licence: Text = ""
    contact_point: Text = ""
    rows: Literal["public", "records"] | None = None
    subset_of: Annotated[tuple[str, ...], BeforeValidator(as_several), *OptionalUnique] = ()
    ledger: LedgerEntry | None = None

    @model_validator(mode="after")
    def _one_beginning(self) -> Self:
        if self.first is not None and self.start is not None:
            raise ValueError("give first or start, not both")
        return self

    def or_else(self, other: ReleaseMetadata) -> dict[str, Any]:
        """Return the fields that are set here, and else those that are set in ``other``."""
        fields = set(ReleaseMetadata.model_fields)
        mine = {
            name: getattr(self, name) for name in self.model_fields_set & {*fields, *URI_FIELDS}
        }
        theirs = {name: getattr(other, name) for name in other.model_fields_set & fields}
        if mine.keys() & {"first", "start"}:
            theirs = {key: value for key, value in theirs.items() if key not in ("first", "start")}
        return theirs | mine


def read_metadata(
    attributes: Mapping[str, Any], uri: str
) -> tuple[ReleaseMetadata, dict[str, str]]:
    """Return metadata and URIs among attributes; raises ConfigError if one is invalid."""
    fields = {
        name: _plain(attributes[name])
        for name in ReleaseMetadata.model_fields
        if name in attributes
    }
    # NetCDF has numbers instead of booleans and of lists with one item.
    if isinstance(fields.get("null_roi"), int) and fields["null_roi"] in (0, 1):
        fields["null_roi"] = bool(fields["null_roi"])
    if isinstance(fields.get("observed"), int):
        fields["observed"] = (fields["observed"],)
    uris = {key: str(attributes[key]) for key in URI_FIELDS if key in attributes}
    try:
        return ReleaseMetadata.model_validate(fields), uris
    except ValidationError as error:
        lines = explain(error, ReleaseMetadata).splitlines()
        raise ConfigError("\n".join(f"{uri}: attribute {line}" for line in lines)) from None


def _plain(value: Any) -> Any:
    """Return an attribute as a Python value; text may be JSON, because NetCDF has no mappings."""
    if isinstance(value, np.ndarray):
        return tuple(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str) and value[:1] in "{[":
        try:
            return json.loads(value)
        except ValueError:
            return value
    return tuple(value) if isinstance(value, list) else value


_NOTES = "clusterscale"
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of texts that spreadsheets run as formulas."""


def beside(uri: str) -> str:
    """Return the address of the description of a file (W3C, CSV on the Web, §5.3)."""
    return f"{uri.rstrip('/')}-metadata.json"


def read_beside(uri: str) -> tuple[ReleaseMetadata, Mapping[str, str], tuple[str, ...]]:
    """Return the metadata of a file, the URIs that these name, and descriptions of columns.

    All are empty if there are none.

    Raises FormatError if the description is not JSON, and ConfigError if a field is invalid.
    """
    attributes: Any = None
    if is_parquet(uri):
        attributes, where = _in_parquet(uri), uri
    else:
        where = beside(uri)
        if storage.exists(where):
            attributes = _parse(storage.read(where), where)
    if attributes is None:
        return ReleaseMetadata(), {}, ()
    notes = attributes.get("notes", attributes) if isinstance(attributes, dict) else None
    notes = notes.get(_NOTES, {}) if isinstance(notes, dict) else None
    if not isinstance(notes, dict):
        raise FormatError(f"{where}: `notes` should be a mapping with {_NOTES!r}")
    schema = attributes.get("tableSchema")
    columns = schema.get("columns") if isinstance(schema, dict) else None
    described = [each for each in columns if isinstance(each, dict)] if columns else []
    texts = tuple(str(each["dc:description"]) for each in described if "dc:description" in each)
    return *read_metadata(notes, where), texts


def _in_parquet(uri: str) -> Any:
    filesystem, path = storage.connect(uri)
    if filesystem.isdir(path):
        return None
    with open_parquet(File(uri, uri, 0)) as file:
        found = file.metadata.metadata or {}
    text = found.get(_NOTES.encode())
    return None if text is None else {_NOTES: _parse(text, uri)}


def _parse(content: bytes, where: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise FormatError(f"{where} is not JSON") from None


def describe(metadata: ReleaseMetadata) -> dict[str, Any]:
    """Return the metadata that are set, as plain values."""
    return metadata.model_dump(mode="json", include=metadata.model_fields_set)


def write_beside(
    uri: str,
    table: pd.DataFrame,
    metadata: ReleaseMetadata,
    *,
    columns: Mapping[str, Mapping[str, Any]] | None = None,
    delimiter: str = ",",
    decimal: str = ".",
) -> None:
    """Write a table as Parquet or CSV, by the ending of ``uri``, with its metadata.

    ``columns`` has further properties of columns, by name, for CSV on the Web.
    """
    notes = describe(metadata)
    if is_parquet(uri):
        import pyarrow as pa
        import pyarrow.parquet as pq

        arrow = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None)
        buffer = io.BytesIO()
        with pq.ParquetWriter(buffer, arrow.schema) as writer:
            writer.write_table(arrow)
            if notes:  # not in the schema, of which the file has an encoded copy
                writer.add_key_value_metadata({_NOTES: json.dumps(notes)})
        storage.put(uri, buffer.getvalue())
        return
    storage.put(uri, to_csv(table, delimiter=delimiter, decimal=decimal).encode())
    if notes:
        described = {
            "@context": ["http://www.w3.org/ns/csvw", {"@language": "en"}],
            "url": uri.rstrip("/").rpartition("/")[2],
            "dialect": {"delimiter": delimiter},
            "tableSchema": {
                "columns": [
                    _column(table[name], decimal) | {**(columns or {}).get(str(name), {})}
                    for name in table
                ]
            },
            "notes": {_NOTES: notes},
            **({"dc:license": metadata.licence} if metadata.licence else {}),
            **({"dcat:contactPoint": metadata.contact_point} if metadata.contact_point else {}),
        }
        storage.put(beside(uri), json.dumps(described, indent=1).encode())


def _column(values: pd.Series[Any], decimal: str) -> dict[str, Any]:
    """Return the name and type of a column, as CSV on the Web has them."""
    column: dict[str, Any] = {"name": str(values.name), "titles": str(values.name)}
    if values.dtype.kind not in "if":
        return column
    if (values.isna() | is_whole(values)).all():
        return column | {"datatype": "integer", "null": ""}
    number = {"base": "number", "format": {"decimalChar": decimal}}
    return column | {"datatype": number, "null": ""}


def is_whole(values: pd.Series[Any]) -> pd.Series[bool]:
    """Return which numbers are whole, and exact as such."""
    return (values % 1 == 0) & (values.abs() < 2**53)


def to_csv(table: pd.DataFrame, *, delimiter: str = ",", decimal: str = ".") -> str:
    """Return a table as CSV; whole numbers without a decimal point, others in full.

    Raises InputError if a text begins like a formula: a spreadsheet would run it.
    """
    refuse_formulas(map(str, table.columns))
    for name in table.columns:
        if table[name].dtype.kind not in "fiub":
            refuse_formulas(map(str, table[name].unique()))

    def number(value: float) -> str:
        is_whole_number = value.is_integer() and abs(value) < 1e15
        return str(int(value)) if is_whole_number else repr(float(value)).replace(".", decimal)

    layout: dict[str, Any] = {"sep": delimiter, "lineterminator": "\n", "float_format": number}
    return str(table.to_csv(index=False, **layout))


def refuse_formulas(texts: Iterable[str]) -> None:
    """Raise :class:`InputError` if a text of a CSV file begins like a formula of a spreadsheet."""
    for text in texts:
        if text.startswith(FORMULA):
            raise InputError(
                f"{quote(text)} begins with {text[0]!r}, so a spreadsheet would run it as a "
                "formula: choose another format than CSV, such as parquet, or rename it"
            )
