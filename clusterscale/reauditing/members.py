"""Users whose membership in a release is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clusterscale.analyses.audit.targets import find_users
from clusterscale.contracts import Ints
from clusterscale.cube import TraceCube
from clusterscale.errors import FormatError, InputError
from clusterscale.reading.tables import read_frame
from clusterscale.seeds import stream

_WORDS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}


@dataclass(frozen=True, slots=True, eq=False)
class Membership:
    """Rows of users in the cube, increasing, int64, shape (user,): known inside, known outside."""

    inside: Ints
    outside: Ints

    def among(self, chosen: NDArray[np.bool_]) -> Membership:
        """Return the users that are ``chosen``, bool, shape (user of the cube,)."""
        return Membership(self.inside[chosen[self.inside]], self.outside[chosen[self.outside]])

    def draw(self, most: int, seed: int) -> tuple[Ints, np.ndarray]:
        """Return up to ``most`` users, half of them inside, and their labels (True inside).

        Both have shape (user,), sorted by row; they are empty if one side is empty.
        """
        rng = stream(seed, "published targets")
        n_side = min(most // 2, len(self.inside), len(self.outside))
        sides = [rng.choice(side, n_side, replace=False) for side in (self.inside, self.outside)]
        users, labels = np.concatenate(sides), np.repeat([True, False], n_side)
        order = np.argsort(users)
        return users[order], labels[order]


NO_MEMBERS = Membership(np.zeros(0, np.int64), np.zeros(0, np.int64))
"""No user has a known membership."""


def read_members(content: bytes, uri: str, cube: TraceCube, group_size: int) -> Membership:
    """Read a table with columns ``user``, as the cube names them, and ``inside``.

    Parameters
    ----------
    content, uri
        Bytes of a Parquet or CSV file, and its URI, for messages.
    cube
        The cube of the users.
    group_size
        Number of users that the release counts.

    Raises
    ------
    FormatError
        If it is not such a table, or has other columns.
    InputError
        If a user is listed twice or is not in the cube, if ``inside`` is neither true nor
        false, or if more users are inside than the release counts. Messages name no users.
    """
    table = read_frame(content, uri)
    if sorted(map(str, table.columns)) != ["inside", "user"]:
        raise FormatError(f"{uri} must have the columns user and inside")
    words = table["inside"].astype(str).str.lower().map(_WORDS)
    if words.isna().any():
        raise InputError(f"{uri}: {int(words.isna().sum())} values of inside are not true or false")
    names = table["user"].astype(str).tolist()
    rows, labels = find_users(cube, names), words.to_numpy(bool)
    if (rows < 0).any():
        raise InputError(f"{uri}: {int((rows < 0).sum())} of {len(rows)} users are not in the cube")
    n_twice = len(rows) - len(np.unique(rows))
    if n_twice:
        raise InputError(f"{uri}: {n_twice} users are listed twice")
    if labels.sum() > group_size:
        raise InputError(f"{uri}: {int(labels.sum())} users are inside a group of {group_size}")
    return Membership(np.sort(rows[labels]), np.sort(rows[~labels]))
