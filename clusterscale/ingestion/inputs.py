"""What an ingest reads besides records: a key of pseudonyms, named points, weights of users."""

import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clusterscale import storage
from clusterscale.contracts import Values, Weights
from clusterscale.cube.regions import Points, Regions
from clusterscale.errors import InputError, MissingError, SourceError
from clusterscale.ingestion.readers import Events
from clusterscale.ingestion.records import LIMITS, Reader
from clusterscale.phrases import option
from clusterscale.reading import decode, tables
from clusterscale.reading.decode import Numbers
from clusterscale.reading.sources import reading
from clusterscale.reading.tables import TextLayout
from clusterscale.reading.values import located_batches, names_of, text_of
from clusterscale.validation_messages import plural, quote

DIGEST_BYTES = 16  # two of a billion users collide with probability 10⁻²¹
_POINTS = Events(roi="name")


def read_key(path: str) -> bytes:
    """Return the key in a file: its raw bytes, 16 to 64 of them.

    Create one with ``head -c 32 /dev/urandom > KEYFILE``. Raises MissingError if there is no such
    file, and InputError if its length is wrong, it repeats few bytes, or another user of this
    machine owns it or can read it.
    """
    if not storage.exists(path):
        raise MissingError(
            f"{path}: there is no such key file; make one that only you can read: "
            f"(umask 077; head -c 32 /dev/urandom > {shlex.quote(str(path))})"
        )
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


def read_points(path: str, cutoff: float | None = None, reader: Events = _POINTS) -> Points:
    """Read points from a table with the columns ``name``, ``lat`` and ``lon`` (degrees).

    Parameters
    ----------
    path
        Parquet or CSV, a local path or fsspec URL.
    cutoff
        Maximum distance in metres from a position to its point; None for no limit.
    reader
        How the table is laid out: its delimiter, encoding and lines to skip, and the columns of
        names (``roi``) and positions, as in ``Events(roi="station", delimiter=";")``.

    Returns
    -------
    Points
        In the order of the file.

    Raises
    ------
    MissingError
        If there is no such file.
    SourceError
        If a column is missing or a line is invalid; names the line and column.
    InputError
        If the cut-off is not positive.
    """
    if not storage.exists(path):
        raise MissingError(f"{path}: there is no such file of points")
    columns = reader.roi or "name", reader.lat, reader.lon
    try:
        with reading(path):
            found = _read(path, reader, columns)
    except SourceError as error:
        raise SourceError(
            f"{error}\npoints are {tables.ACCEPTS}, with the columns {', '.join(columns)}, in "
            f"degrees; another delimiter, encoding or column is set by {option('reader')}"
        ) from None
    return Points(found, np.inf if cutoff is None else cutoff)


def _refuse_degrees(found: Numbers, limit: float, row: int) -> str:
    """Return what is wrong with a value, which may be shown: points are no records of people."""
    given = quote(found.raw[row].as_py())
    return f"{given} is not a number within ±{limit:.0f}: write degrees, as in 51.5308 or -0.1238"


def _read(path: str, reader: Events, columns: tuple[str, str, str]) -> Regions:
    points, commas = dict[str, list[float]](), reader.delimiter != ","
    for batch, spot in located_batches(reader.pieces(path, _PIECE), columns, reader.layout):
        named, *raw = (batch.columns[name] for name in columns)
        names_of(columns[0], named, spot)  # which refuses what is not text
        ids, at = names_of(columns[0], text_of(named), spot), list[Values]()
        for name, column, limit in zip(columns[1:], raw, LIMITS.values(), strict=True):
            found = decode.numbers(name, column, where=spot.file, decimal_comma=commas)
            at.append(found.values)
            spot.refuse(~(np.abs(at[-1]) <= limit), name, partial(_refuse_degrees, found, limit))
        names = np.array(ids.names.to_pylist(), object)[ids.codes]
        for row, (name, *place) in enumerate(zip(names, *at, strict=True)):
            if name in points:
                where = spot.name(row, columns[0])
                raise SourceError(f"{where}: an earlier point has the same name")
            points[name] = place
    if not points:
        raise SourceError(f"{path} contains no points")
    lat, lon = np.array(list(points.values())).T
    return Regions(tuple(points), lat.copy(), lon.copy())


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


def read_weights(path: str, reader: Reader, key: bytes | None) -> UserWeights:
    """Read a table with a row for each user, and the columns of users and ``weight``.

    It is a Parquet or CSV file or a folder of one kind, with the column of users and the delimiter
    of the ``reader`` of records; ids are replaced by pseudonyms if there is a ``key``. Raises
    MissingError without such a file, and SourceError, without naming users, if a column is missing,
    a row cannot be read, a weight is not a positive number, or a user has two different ones.
    """
    names, weights, user = [], [], getattr(reader, "user", "user")
    layout = TextLayout(getattr(reader, "delimiter", ","))
    with reading(path):
        for piece in tables.pieces(path, _PIECE):
            for batch in tables.batches(piece, [user, "weight"], layout):
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
