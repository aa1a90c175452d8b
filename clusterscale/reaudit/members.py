"""Of whom it is known whether they are among those a release counts."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clusterscale.audit.targets import find_users
from clusterscale.contracts import Ints
from clusterscale.cube import TraceCube
from clusterscale.errors import FormatError, InputError
from clusterscale.seeds import stream

__all__ = ["Membership", "read_members"]

_WORDS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}


@dataclass(frozen=True, slots=True, eq=False)
class Membership:
    """Rows of users in the cube, increasing, int64, shape (user,): known inside, known outside."""

    inside: Ints
    outside: Ints

    def among(self, chosen: NDArray[np.bool_]) -> Membership:
        """Return those who are ``chosen``, bool, one of each user of the cube."""
        return Membership(self.inside[chosen[self.inside]], self.outside[chosen[self.outside]])

    def draw(self, most: int, seed: int) -> tuple[Ints, np.ndarray]:
        """Return up to ``most`` users, as many of either side, and who of them is inside.

        Both have shape (user,), by row. There are none where one side is empty.
        """
        rng = stream(seed, "published targets")
        each = min(most // 2, len(self.inside), len(self.outside))
        sides = [rng.choice(side, each, replace=False) for side in (self.inside, self.outside)]
        users, labels = np.concatenate(sides), np.repeat([True, False], each)
        order = np.argsort(users)
        return users[order], labels[order]


NOBODY = Membership(np.zeros(0, np.int64), np.zeros(0, np.int64))
"""Nothing is known of anybody."""


def read_members(content: bytes, uri: str, cube: TraceCube, group_size: int) -> Membership:
    """Read a table with columns ``user``, as the cube names them, and ``inside``.

    Parameters
    ----------
    content, uri
        A Parquet or CSV file, and where it is from, for messages.
    cube
        Whose users they are.
    group_size
        How many people the release counts.

    Raises
    ------
    FormatError
        If it is no such table, or has other columns.
    InputError
        If a user is listed twice or is not in the cube, if ``inside`` is neither true nor
        false, or if more are inside than are counted. No user is named.
    """
    import pandas as pd

    try:
        if content[:4] == b"PAR1":
            table = pd.read_parquet(io.BytesIO(content))
        else:  # text as it stands: 007 is not 7
            table = pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)
    except Exception as error:
        raise FormatError(f"{uri} is neither Parquet nor CSV: {type(error).__name__}") from None
    if sorted(map(str, table.columns)) != ["inside", "user"]:
        # Which it has is not said: without a header they are a user.
        raise FormatError(f"{uri} has other columns than user and inside")
    words = table["inside"].astype(str).str.lower().map(_WORDS)
    if words.isna().any():
        raise InputError(f"{uri}: {int(words.isna().sum())} values of inside are not true or false")
    names = table["user"].astype(str).tolist()
    rows, labels = find_users(cube, names), words.to_numpy(bool)
    if (rows < 0).any():
        raise InputError(f"{uri}: {int((rows < 0).sum())} of {len(rows)} users are not in the cube")
    n_twice = len(rows) - len(np.unique(rows))
    if n_twice:
        raise InputError(f"{uri}: {n_twice} users stand there twice")
    if labels.sum() > group_size:
        raise InputError(f"{uri}: {int(labels.sum())} users are inside a group of {group_size}")
    return Membership(np.sort(rows[labels]), np.sort(rows[~labels]))
