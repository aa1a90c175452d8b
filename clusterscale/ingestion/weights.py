"""Read a table with a weight for each user: the number of people for whom a user counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clusterscale.contracts import Weights
from clusterscale.errors import InputError, SourceError
from clusterscale.ingestion.clean import pseudonyms
from clusterscale.reading import decode, tables
from clusterscale.reading.sources import reading
from clusterscale.validation_messages import plural

_PIECE = 1 << 24  # bytes of text decoded at a time


@dataclass(frozen=True, slots=True)
class UserWeights:
    """Weights by user.

    Attributes
    ----------
    where
        The table, for messages.
    users
        Ids or pseudonyms, Arrow strings, shape (user,), all different.
    weights
        float64, shape (user,): people for whom each user counts, positive.
    """

    where: str
    users: Any
    weights: Weights

    def of(self, users: Any) -> Weights:
        """Return the weights of some users, float64, shape (user,).

        Parameters
        ----------
        users
            Ids or pseudonyms, Arrow strings, shape (user,).

        Raises
        ------
        InputError
            If some have no weight.
        """
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

    Parameters
    ----------
    path
        Parquet or CSV file, or a folder of one kind, a local path or fsspec URL.
    user
        Name of the column with the ids of users, as in the records; other columns but ``weight``
        are not read.
    delimiter
        Field separator of a CSV file.
    key
        Key of the pseudonyms; None if ids are kept.

    Returns
    -------
    UserWeights
        By id, or by pseudonym.

    Raises
    ------
    MissingError
        If there is no such file.
    SourceError
        If a column is missing, a row cannot be read or has no user, a weight is not a positive
        number, or a user has two different weights. It says how many, but not which users.
    """
    names, weights = [], []
    with reading(path):
        for piece in tables.pieces(path, _PIECE):
            for batch in tables.batches(piece, [user, "weight"], delimiter=delimiter):
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
