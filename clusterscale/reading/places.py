"""The identity of places: names of pairs, codes of names, and names that do not match."""

from collections.abc import Callable, Collection, Sequence
from itertools import permutations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clusterscale.contracts import Ints
from clusterscale.jit import kernel
from clusterscale.reading.decode import Ids
from clusterscale.validation_messages import plural

ARROW = " → "
"""Between the names of two places in the name of their pair."""

_FIRST = 1 << 10  # slots of an empty table
_LOW = (1 << 32) - 1


def pairs(first: Ids, second: Ids) -> Ids:
    """Return the names of pairs, ``FIRST → SECOND``; missing where one is."""
    bad = first.bad | second.bad
    n_second = max(len(second.names), 1)
    joint = np.where(bad, -1, first.codes * n_second + second.codes)
    known, codes = np.unique(joint, return_inverse=True)
    starts, ends = first.names.to_pylist(), second.names.to_pylist()
    names = [
        "" if pair < 0 else f"{starts[pair // n_second]}{ARROW}{ends[pair % n_second]}"
        for pair in known.tolist()
    ]
    codes = np.where(bad, -1, codes.reshape(bad.shape))
    return Ids(f"{first.name} or {second.name}", codes, pa.array(names, pa.string()))


class GrowingArray:
    """``n`` int64 values to which more are appended."""

    def __init__(self) -> None:
        self._buffer = np.empty(_FIRST, np.int64)
        self.n = 0

    @property
    def values(self) -> Ints:
        """The values, int64, shape (n,); a view."""
        return self._buffer[: self.n]

    def room(self, n_more: int) -> Ints:
        """Return a view of the values and of space for ``n_more``."""
        if self.n + n_more > len(self._buffer):
            larger = np.empty(2 * (self.n + n_more), np.int64)
            larger[: self.n] = self.values
            self._buffer = larger
        return self._buffer[: self.n + n_more]

    def append(self, values: Ints) -> None:
        """Append values, int64, shape (value,)."""
        self.room(len(values))[self.n :] = values
        self.n += len(values)


class IntegerCodes:
    """Codes of distinct integers, by a hash table; ``keys`` are the integers by code."""

    def __init__(self) -> None:
        self.keys = GrowingArray()
        self._slots = np.full(_FIRST, -1, np.int32)

    def encode(self, values: Ints) -> Ints:
        """Return the code of each value, int64, shape (value,); new values have new codes."""
        keys = self.keys.room(len(values))
        if 2 * len(keys) > len(self._slots):
            bits = int(2 * len(keys)).bit_length()
            self._slots = np.full(1 << bits, -1, np.int32)
            _encode(self.keys.values.copy(), keys, 0, self._slots, np.empty(self.keys.n, np.int64))
        codes = np.empty(len(values), np.int64)
        self.keys.n = _encode(values, keys, self.keys.n, self._slots, codes)
        return codes


class PlaceCodes:
    """Codes of places by their ``names``, without white space around them."""

    def __init__(self, total: str | None = None, strip: Callable[[str], str] = str.strip) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {} if total is None else {total: -1}
        self._strip = strip

    def encode(self, found: Ids) -> Ints:
        """Return the code of the place of each row, int64, shape (row,); −1 for totals."""
        codes = [self._code(self._strip(str(text))) for text in found.names.to_pylist()]
        return np.array([*codes, -1], np.int64)[found.codes]

    def _code(self, name: str) -> int:
        code = self._codes.setdefault(name, len(self.names))
        if code == len(self.names):
            self.names.append(name)
        return code


class PairCodes:
    """Codes of pairs of places by their ``names``, ``FIRST → SECOND``, each made once."""

    def __init__(self, total: str | None = None) -> None:
        self.names: list[str] = []
        self._total = None if total is None else f"{total}{ARROW}{total}"
        self._ends = PlaceCodes(strip=str.lstrip), PlaceCodes(strip=str.rstrip)
        self._pairs = IntegerCodes()
        self._codes = GrowingArray()
        self._by_name: dict[str, int] | None = None

    def encode(self, first: Ids, second: Ids) -> Ints:
        """Return the code of the pair of each row, int64, shape (row,); −1 for totals."""
        one, two = self._ends[0].encode(first), self._ends[1].encode(second)
        pairs = self._pairs.encode(one << 32 | two)
        new = self._pairs.keys.values[self._codes.n :]
        if len(new):
            self._codes.append(self._name(new.tolist()))
        return self._codes.values[pairs]

    def _name(self, pairs: list[int]) -> Ints:
        """Return the codes of new pairs, and append their names."""
        starts, ends = (end.names for end in self._ends)
        if self._by_name is None and any(ARROW.strip() in name for name in (*starts, *ends)):
            # "A → B" with "C" has the name of "A" with "B → C".
            self._by_name = {name: code for code, name in enumerate(self.names)}
        codes = []
        for pair in pairs:
            name = f"{starts[pair >> 32]}{ARROW}{ends[pair & _LOW]}".strip()
            code = len(self.names)
            if name == self._total:
                code = -1
            elif self._by_name is not None:
                code = self._by_name.setdefault(name, code)
            if code == len(self.names):
                self.names.append(name)
            codes.append(code)
        return np.array(codes, np.int64)


@kernel
def _encode(values: Ints, keys: Ints, n_keys: int, slots: NDArray[np.int32], codes: Ints) -> int:
    """Write the code of each value, and return the number of keys, to which new ones are added."""
    mask = len(slots) - 1
    for i in range(len(values)):
        value = values[i]
        # 0x9E3779B97F4A7C15: 2⁶⁴ divided by the golden ratio: spreads keys that follow each other
        slot = np.int64((np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
        while slots[slot] >= 0 and keys[slots[slot]] != value:
            slot = (slot + 1) & mask
        if slots[slot] < 0:
            slots[slot] = n_keys
            keys[n_keys] = value
            n_keys += 1
        codes[i] = slots[slot]
    return n_keys


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
