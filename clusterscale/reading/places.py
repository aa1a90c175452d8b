"""The identity of places: names of pairs, codes of names, and names that do not match."""

from collections.abc import Collection, Sequence
from itertools import permutations

import numpy as np
import pyarrow as pa

from clusterscale.contracts import Ints
from clusterscale.reading.decode import Ids
from clusterscale.validation_messages import plural

ARROW = " → "
"""Between the names of two places in the name of their pair."""

_LOW = (1 << 32) - 1


def pairs(first: Ids, second: Ids) -> Ids:
    """Return the names of pairs, ``FIRST → SECOND``; missing or undecoded where one is."""
    bad = first.bad | second.bad
    n_second = max(len(second.names), 1)
    joint = np.where(bad, -1, first.codes * n_second + second.codes)
    known, codes = np.unique(joint, return_inverse=True)
    starts, ends = first.names.to_pylist(), second.names.to_pylist()
    names = [
        "" if pair < 0 else f"{starts[pair // n_second]}{ARROW}{ends[pair % n_second]}"
        for pair in known.tolist()
    ]
    codes = np.where(bad, np.minimum(first.codes, second.codes), codes.reshape(bad.shape))
    return Ids(f"{first.name} or {second.name}", codes, pa.array(names, pa.string()))


class IntegerCodes:
    """Codes of distinct integers; ``keys`` are the integers by code, int64, shape (code,)."""

    def __init__(self) -> None:
        self.keys = np.empty(0, np.int64)
        self._sorted, self._codes = self.keys, self.keys  # the keys, increasing, and their codes

    def encode(self, values: Ints) -> Ints:
        """Return the code of each value, int64, shape (value,); new values have new codes."""
        distinct, each = np.unique(values, return_inverse=True)
        at = np.searchsorted(self._sorted, distinct)
        new = np.searchsorted(self._sorted, distinct, side="right") == at
        self._codes = np.insert(self._codes, at[new], len(self.keys) + np.arange(new.sum()))
        self._sorted = np.insert(self._sorted, at[new], distinct[new])
        self.keys = np.append(self.keys, distinct[new])
        return self._codes[np.searchsorted(self._sorted, distinct)][each]


class PlaceCodes:
    """Codes of places by their ``names``, without white space around them."""

    def __init__(self, total: str | None = None) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {} if total is None else {total: -1}

    def encode(self, found: Ids) -> Ints:
        """Return the code of the place of each row, int64, shape (row,); −1 for totals."""
        codes = [self.code(str(text).strip()) for text in found.names.to_pylist()]
        return np.array([*codes, -1], np.int64)[found.codes]

    def code(self, name: str) -> int:
        """Return the code of a name, which has a new one if it is new."""
        code = self._codes.setdefault(name, len(self.names))
        if code == len(self.names):
            self.names.append(name)
        return code


class PairCodes:
    """Codes of pairs of places by their ``names``, ``FIRST → SECOND``, each made once."""

    def __init__(self, total: str | None = None) -> None:
        # By name: "A → B" with "C" has the name of "A" with "B → C".
        self._named = PlaceCodes(None if total is None else f"{total}{ARROW}{total}")
        self.names = self._named.names
        self._starts, self._ends = PlaceCodes(), PlaceCodes()
        self._pairs = IntegerCodes()
        self._codes = np.empty(0, np.int64)  # by that of the pair of places

    def encode(self, first: Ids, second: Ids) -> Ints:
        """Return the code of the pair of each row, int64, shape (row,); −1 for totals."""
        pairs = self._pairs.encode(self._starts.encode(first) << 32 | self._ends.encode(second))
        new = self._pairs.keys[len(self._codes) :].tolist()
        starts, ends = self._starts.names, self._ends.names
        names = (f"{starts[pair >> 32]}{ARROW}{ends[pair & _LOW]}" for pair in new)
        self._codes = np.append(self._codes, np.array([*map(self._named.code, names)], np.int64))
        return self._codes[pairs]


_SHOWN = 3


def match_codes(names: Sequence[str], known: Collection[str]) -> tuple[tuple[str, ...], str]:
    """Return names as the known codes of which each is another form, and a clause on these.

    Forms of one code differ in leading zeros or ".0", or one is the integer of an H3 cell. Where a
    code has more than two, or both are names or known, they stay as they are.
    """
    forms: dict[tuple[str, ...], list[str]] = {}
    for code in {*names, *known}:
        forms.setdefault(tuple(map(_shortest, code.split(ARROW))), []).append(code)
    unknown, missing = set(names) - set(known), set(known) - set(names)
    codes = {
        name: code
        for same in forms.values()
        if len(same) == 2
        for name, code in permutations(same)
        if name in unknown and code in missing
    }
    few = sorted(codes)[:_SHOWN]
    more = ", …" if len(codes) > len(few) else ""
    read_as = ", ".join(codes[name] for name in few)
    note = f"places {', '.join(few)}{more} were read as {read_as}{more}" if codes else ""
    return tuple(codes.get(name, name) for name in names), note


def _shortest(code: str) -> str:
    """Return a code without leading zeros and ".0", that of an H3 cell in hexadecimal digits."""
    short = code.removesuffix(".0").lstrip("0") or "0"
    is_cell = short.isdecimal() and len(short) < 20 and int(short) >> 59 == 1
    return f"{int(short):x}" if is_cell else short


def describe_mismatch(names: Collection[str], known: Collection[str], where: str) -> str:
    """Return which names do not match those that ``where`` has."""
    unknown, missing = sorted(set(names) - set(known)), sorted(set(known) - set(names))
    text = (
        f"{plural(len(missing), 'place')} of {where} have no row, such as {', '.join(missing[:1])}"
    )
    if unknown:
        text = f"{', '.join(unknown[:_SHOWN])} {'is' if len(unknown) == 1 else 'are'} not named in "
        text += f"{where}, which has {', '.join(missing[:_SHOWN])}"
    return f"{text}: places are matched by name, and only rows without names go by their position"
