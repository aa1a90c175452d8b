"""The users that a release counts: all of a cube, or those of a list."""

from __future__ import annotations

import numpy as np

from clusterscale.contracts import Ints
from clusterscale.cube import TraceCube
from clusterscale.errors import InputError
from clusterscale.groups.member_lists import find_users
from clusterscale.reading.tables import read_column


def read_population(uri: str, cube: TraceCube) -> Ints:
    """Return the rows of the users of a list, increasing, int64, shape (user,).

    Parameters
    ----------
    uri
        Parquet or CSV file with a column ``user``, as the cube names them; others are not read.
    cube
        The cube of the users.

    Raises
    ------
    MissingError, StoreError
        If there is no such file, or it cannot be read.
    FormatError
        If it is not such a table.
    InputError
        If fewer than two users are listed, one is listed twice or is not in the cube. Messages
        name no users.
    """
    rows = find_users(cube, read_column(uri, "user"))
    if n_unknown := int((rows < 0).sum()):
        raise InputError(f"{uri}: {n_unknown:,} of {len(rows):,} users are not in the cube")
    if n_twice := len(rows) - len(np.unique(rows)):
        raise InputError(f"{uri}: {n_twice:,} users are listed twice")
    if len(rows) < 2:
        raise InputError(f"{uri}: {len(rows)} users are listed; a release counts at least 2")
    return np.sort(rows)
