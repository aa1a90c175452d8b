"""What an ingest reads besides records: a key of pseudonyms, named points, weights of users."""

import csv
import io
import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clusterscale import storage
from clusterscale.contracts import Weights
from clusterscale.cube.regions import Points, Regions
from clusterscale.errors import InputError, MissingError, SourceError
from clusterscale.ingestion.records import LIMITS
from clusterscale.reading import decode, tables
from clusterscale.reading.sources import reading
from clusterscale.reading.tables import TextLayout
from clusterscale.validation_messages import plural

DIGEST_BYTES = 16  # two of a billion users collide with probability 10⁻²¹
_ACCEPTS = (
    "points are read from text in UTF-8, comma-separated, whose first line names the columns name, "
    "lat and lon; positions in decimal degrees"
)


def read_key(path: str) -> bytes:
    """Return the key in a file: its raw bytes, 16 to 64 of them.

    Create one with ``head -c 32 /dev/urandom > KEYFILE``. Raises MissingError if there is no such
    file, and InputError if its length is wrong, it repeats few bytes, or another user of this
    machine owns it or can read it.
    """
    if not storage.exists(path):
        raise MissingError(f"{path}: there is no such key file")
    _check_private(path)
    with storage.open_file(path) as stream:
        key = bytes(stream.read(1 << 16))
    check_key(key, where=path)
    return key


def _check_private(path: str) -> None:
    if os.name != "posix" or storage.is_remote(path):
        return
    local = storage.local_path(path)
    status = local.stat()
    if status.st_uid not in (os.geteuid(), 0):
        raise InputError(f"{path}: this key file belongs to another user: create your own")
    if status.st_mode & 0o077:
        raise InputError(
            f"{path}: others can use this key file: chmod 600 {shlex.quote(str(local))}"
        )


def check_key(key: bytes, *, where: str) -> None:
    """Raise :class:`InputError` unless a key has 16 to 64 bytes, eight of them different."""
    if not 16 <= len(key) <= 64:
        raise InputError(f"{where}: a key has 16 to 64 bytes, this one has {len(key)}")
    if len(set(key)) < 8:  # by chance once in 10¹¹ keys, or more rarely
        raise InputError(f"{where}: this key repeats few bytes, so it can be guessed")


def pseudonyms(users: Iterable[str], key: bytes) -> list[str]:
    """Return the keyed BLAKE2b hash of each id, 32 hexadecimal digits.

    >>> pseudonyms(["ann"], b"0123456789abcdef")
    ['ba6f61e1790fb1cc3c1f3bced18a4f25']
    """
    return [blake2b(user.encode(), key=key, digest_size=DIGEST_BYTES).hexdigest() for user in users]


def read_points(path: str, cutoff: float | None = None) -> Points:
    """Read points from a CSV file with the columns ``name``, ``lat`` and ``lon`` (degrees).

    Parameters
    ----------
    path
        Local path or fsspec URL.
    cutoff
        Maximum distance in metres from a position to its point; None for no limit.

    Returns
    -------
    Points
        In the order of the file.

    Raises
    ------
    MissingError
        If there is no such file.
    SourceError
        If a column is missing or a line is invalid; names the line, column and value.
    InputError
        If the cut-off is not positive.
    """
    if not storage.exists(path):
        raise MissingError(f"{path}: there is no such file of points")
    try:
        return Points(_read(path), np.inf if cutoff is None else cutoff)
    except SourceError as error:
        raise SourceError(f"{error}\n{_ACCEPTS}") from None


def _read(path: str) -> Regions:
    raw = storage.read(path)
    try:
        reader = csv.DictReader(io.StringIO(raw.decode("utf-8-sig"), newline=""))
    except UnicodeDecodeError:
        raise SourceError(f"{path} is not UTF-8 text") from None
    reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
    for name in ("name", "lat", "lon"):
        if name not in reader.fieldnames:
            has = ", ".join(reader.fieldnames) or "none"
            raise SourceError(f"{path} has no column {name}: its columns are {has}")
    points: dict[str, tuple[float, float]] = {}
    for row in reader:
        line = f"{path}, line {reader.line_num}"
        name = (row["name"] or "").strip()
        if not name:
            raise SourceError(f"{line}: the point has no name")
        if name in points:
            raise SourceError(f"{line}: an earlier point has the same name")
        points[name] = (_degrees(row["lat"], "lat", line), _degrees(row["lon"], "lon", line))
    if not points:
        raise SourceError(f"{path} contains no points")
    lat, lon = np.array(list(points.values())).T
    return Regions(tuple(points), lat.copy(), lon.copy())


def _degrees(text: str | None, column: str, line: str) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = np.nan
    if not abs(value) <= LIMITS[column]:
        limit = f"±{LIMITS[column]:.0f}"
        raise SourceError(f"{line}: {column} is not a number within {limit}")
    return value


_PIECE = 1 << 24  # bytes of text decoded at a time


@dataclass(frozen=True, slots=True)
class UserWeights:
    """Weights by user: the number of people for whom each counts.

    ``where`` names the table; ``users`` are different ids or pseudonyms, Arrow strings, shape
    (user,); ``weights`` are float64, positive, shape (user,).
    """

    where: str
    users: Any
    weights: Weights

    def of(self, users: Any) -> Weights:
        """Return float64 weights, (user,), of Arrow ids; raises InputError if one is absent."""
        rows = pc.index_in(users.cast(pa.large_string()), value_set=self.users)
        if rows.null_count:
            n_users = plural(len(users), "user")
            raise InputError(
                f"{self.where}: {rows.null_count:,} of {n_users} of the records have no weight: "
                "give every user one, 1 for those who count as one person"
            )
        return np.asarray(self.weights[rows.to_numpy(zero_copy_only=False)])


def read_weights(
    path: str, user: str = "user", *, delimiter: str = ",", key: bytes | None = None
) -> UserWeights:
    """Read a table with a row for each user, and the columns ``user`` and ``weight``.

    It is a Parquet or CSV file or a folder of one kind; ``user`` is named as in the records, and
    its ids are replaced by pseudonyms if there is a ``key``. Raises MissingError without such a
    file, and SourceError, without naming users, if a column is missing, a row cannot be read, a
    weight is not a positive number, or a user has two different ones.
    """
    names, weights = [], []
    with reading(path):
        for piece in tables.pieces(path, _PIECE):
            for batch in tables.batches(piece, [user, "weight"], TextLayout(delimiter)):
                where, columns = piece.file.name, batch.columns
                ids = decode.ids(user, columns[user], where=where)
                n_bad = batch.malformed.count + int(ids.bad.sum())
                if n_bad:
                    raise SourceError(
                        f"{where}: {plural(n_bad, 'row')} cannot be read: a row has "
                        f"a {user} and a weight"
                    )
                names.append(ids.names.take(pa.array(ids.codes)).cast(pa.large_string()))
                weights.append(decode.numbers("weight", columns["weight"], where=where).values)
    if not names:
        raise SourceError(f"{path} contains no weights")
    return _distinct(path, pa.concat_arrays(names), np.concatenate(weights), key)


def _distinct(path: str, names: Any, weights: Weights, key: bytes | None) -> UserWeights:
    """Return one weight for each user, after checking that rows of the same user agree."""
    coded = names.dictionary_encode()
    codes, users = coded.indices.to_numpy(), coded.dictionary
    n_wrong = len(np.unique(codes[~(np.isfinite(weights) & (weights > 0))]))
    if n_wrong:
        raise SourceError(
            f"{path}: the weights of {n_wrong:,} of {plural(len(users), 'user')} are not positive "
            "numbers"
        )
    low, high = np.full(len(users), np.inf), np.zeros(len(users))
    np.minimum.at(low, codes, weights)
    np.maximum.at(high, codes, weights)
    n_differing = int((low < high).sum())
    if n_differing:
        raise SourceError(
            f"{path}: {n_differing:,} of {plural(len(users), 'user')} have two different weights: "
            "give each user one"
        )
    if key is not None:
        users = pa.array(pseudonyms(users.to_pylist(), key), pa.large_string())
    return UserWeights(path, users, high)
