"""Messages about invalid values, and text for numbers, counts and ties."""

import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from difflib import get_close_matches
from functools import cache
from math import isfinite
from reprlib import Repr
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BaseModel, ValidationError

from clusterscale.errors import InputError

_MOST_NAMED = 3
_LONGEST_VALUE = 60
_LONGEST_WORD = 200  # characters, of a word that is compared with known ones
# pydantic's name of one alternative of a union that is no model, which is no key of a config
_ALTERNATIVE = re.compile(
    r"(function-\w+|tuple|list|dict|constrained-str|nullable|literal)\[.*\]|constrained-float",
    re.DOTALL,
)
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = _LONGEST_VALUE

Fault = dict[str, Any]


def quote(value: object) -> str:
    """Return the ``repr`` of a value, shortened to 60 characters."""
    text = _SHORT.repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def choices(given: str, known: Iterable[str]) -> str:
    """Return ``choose from a, b``, with the known name closest to ``given``, if one is close."""
    names = list(known)
    near = get_close_matches(given, names, n=1) if len(given) <= _LONGEST_WORD else []
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"choose from {', '.join(names)}{hint}"


def check_kinds(**given: tuple[object, type]) -> None:
    """Raise :class:`InputError` unless each argument, by name, is of the type given with it."""
    for name, (value, kind) in given.items():
        if not isinstance(value, kind):
            raise InputError(
                f"{name} is of type {type(value).__name__}, but should be of type {kind.__name__}"
            )


def find_ties(values: ArrayLike, *, lowest: bool = False) -> list[int]:
    """Return the indices of the highest value; several if they agree to three digits.

    ``values`` are float64, shape (n,); non-finite ones are ignored. With ``lowest``, the lowest
    value is found instead.
    """
    numbers = np.asarray(values, np.float64) * (-1 if lowest else 1)
    numbers = np.where(np.isfinite(numbers), numbers, -np.inf)
    if not numbers.size or np.isneginf(top := numbers.max()):
        return []
    # 5e-4: numbers that look the same with three digits
    return np.flatnonzero(numbers > top - 5e-4).tolist()


def name_best(names: Sequence[object], values: ArrayLike, *, lowest: bool = False) -> str:
    """Return the name of the highest value, or ``a or b or 3 more`` for a tie, without repeats.

    Parameters are those of :func:`find_ties`; ``names`` is as long as ``values``.
    """
    ties = list(dict.fromkeys(str(names[i]) for i in find_ties(values, lowest=lowest)))
    more = len(ties) - _MOST_NAMED
    return " or ".join(ties[:_MOST_NAMED] + ([f"{more} more"] if more > 0 else []))


def plural(n: int, noun: str) -> str:
    """Return a count with its noun, with thousands separators."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


_ALL_DIGITS = 1e15  # below which floats have all whole numbers


def exact_number(value: float) -> str:
    """Return a number in the fewest digits that identify it; whole ones with all their digits."""
    if value % 1 == 0 and abs(value) < _ALL_DIGITS:
        return f"{value:,.0f}"
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def exact_percent(share: float) -> str:
    """Return a share in per cent with all its digits, e.g. ``12.5 %``."""
    digits = f"{100 * Decimal(repr(share)):f}"
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits} %"


def explain(error: ValidationError, model: type[BaseModel], *, prefix: tuple[str, ...] = ()) -> str:
    """Return one line per fault: the path of the key, what is wrong, and what is valid.

    Of many faults the first are described, and the last line counts the others. The schema of
    ``model``, which failed to validate, gives the known keys; each path starts with ``prefix``.
    """
    lines: list[str] = []
    n_joined = 0
    faults = [fault for fault in error.errors(include_url=False) if not _follows(dict(fault))]
    for fault in faults[:8]:
        parts = (str(part) for part in (*prefix, *fault["loc"]))
        path = ".".join(
            _shorten(part, _LONGEST_VALUE) for part in parts if not _ALTERNATIVE.fullmatch(part)
        )
        line = f"{path or 'the top level'}: {_describe(dict(fault), model)}"
        line = _shorten(" ".join(line.split()), 600)  # characters
        start, should, expected = line.partition(", but should ")
        if should and lines and lines[-1].startswith(start + should):  # an alternative
            lines[-1] += f" or {expected.removeprefix('be ')}"
            n_joined += 1
            continue
        if lines and sum(map(len, lines)) + len(line) > 900:
            break
        lines.append(line)
    if more := len(faults) - len(lines) - n_joined:
        lines.append(f"and {more:,} more")
    return "\n".join(lines)


def _follows(fault: Fault) -> bool:
    """Return whether a list is called too short only because its elements are invalid."""
    return fault["type"] == "too_short" and bool(len(fault["input"]) >= fault["ctx"]["min_length"])


def _shorten(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _describe(fault: Fault, model: type[BaseModel]) -> str:
    kind = fault["type"]
    if kind == "extra_forbidden":
        *parent, key = fault["loc"]
        known = _keys(model, parent)
        return "is not a known key" + (f": {choices(str(key), known)}" if known else "")
    if kind in _MESSAGES:
        return _MESSAGES[kind](fault)
    expected = _EXPECTED.get(kind) or re.sub(r"^\w+ should ", "", fault["msg"])
    return f"is {quote(fault['input'])}, but should {expected}{_hint(fault)}"


_MESSAGES: dict[str, Callable[[Fault], str]] = {
    "missing": lambda fault: "is missing",
    "invalid_key": lambda fault: "is not text, as keys are",
    "too_short": lambda fault: f"give at least {fault['ctx']['min_length']}",
    "value_error": lambda fault: str(fault["ctx"]["error"]),
    "literal_error": lambda fault: (
        f"is {quote(fault['input'])}, but should be {fault['ctx']['expected']}"
    ),
    "union_tag_not_found": lambda fault: "needs a name",
    "union_tag_invalid": lambda fault: (
        f"{quote(fault['ctx']['tag'])} is not known: "
        + choices(fault["ctx"]["tag"], sorted(re.findall("'(.*?)'", fault["ctx"]["expected_tags"])))
    ),
}
_EXPECTED = {
    "model_type": "be a mapping of keys to values",
    "model_attributes_type": "be a mapping with a name",
    "tuple_type": "be a list",
    "bool_type": "be true or false",
    "int_type": "be a whole number",
    "int_from_float": "be a whole number",
    "int_parsing_size": "be a whole number of fewer digits",
    "float_type": "be a number",
    "string_type": "be text",
}


def _hint(fault: Fault) -> str:
    """Suggest an unquoted number: YAML 1.1 reads numbers such as 1e-3 as text."""
    if fault["type"] != "float_type" or not isinstance(fault["input"], str):
        return ""
    try:
        number = float(fault["input"])
    except ValueError:
        return ""
    return f": write {number}, without quotes" if isfinite(number) else ""


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def forget_schemas() -> None:
    """Forget which keys are known, because a registry has changed."""
    _schema.cache_clear()


def _keys(model: type[BaseModel], path: list[str | int]) -> list[str]:
    """Return the known keys at ``path`` of ``model``."""
    schema = _schema(model)
    kinds = schema.get("$defs", {})

    def resolve(node: Any) -> Any:
        # of "a model or None", or "a list or text", take the model or the list
        options = (*node.get("anyOf", ()), *node.get("allOf", ()))
        node = next((option for option in options if "$ref" in option or "items" in option), node)
        return kinds[node["$ref"].rsplit("/", 1)[-1]] if "$ref" in node else node

    node = schema
    for part in path:
        node = resolve(node)
        if isinstance(part, int):
            node = node.get("items", {})
        elif part in node.get("properties", {}):
            node = node["properties"][part]
        elif mapped := node.get("discriminator", {}).get("mapping", {}).get(part):
            node = {"$ref": mapped}
        elif part in kinds:  # the name of an alternative, which is no key
            node = {"$ref": f"#/$defs/{part}"}
    return list(resolve(node).get("properties", ()))
