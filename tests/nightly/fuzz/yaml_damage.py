"""Damage to YAML: to its values, to its text, and to the bytes of its file."""

from __future__ import annotations

import datetime
import random
import string
from collections.abc import Callable
from typing import Any

import yaml

__all__ = ["change_number", "damage_bytes", "damage_text", "damage_values"]

_ADDRESSES = (
    "/dev/zero", "/dev/stdin", "/proc/self/environ", "/proc/1/root/etc", "/sys/kernel", "file:///proc",
    "fifo", "../../..", "~root", "simplecache::http://127.0.0.1:9/x", "zip://a::file:///etc/passwd",
    "http://127.0.0.1:9/x", "ftp://ann:geheim@127.0.0.1/x", "s3://AKIAABCDEFGHIJKLMNOP:x@bucket/x",
    "https://h/x?X-Amz-Signature=abc", "data:text/plain,abc", "reference://", "memory://", "://",
    "github://a:b@c", "sftp://", "a" * 5_000, "a/" * 3_000, "bad\u202ename", "{name}", "*", "[", "",
    " ", "\ud7ff\ufffe", "-", "--force",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, -(10**6), 2, 3, 7, 49, 10**6, 2**31, 2**63, 2**64, 10**30, 10**39,
    -(10**39), 0.5, -0.5, 1e-320, 1e308, -1e308, float("nan"), float("inf"), -float("inf"),
    "nan",
    ".inf", "1e-3", "1", "yes", "", "x", "exact", "serial", "all", "2024-02-30", "24:00", "1h",
    "[red]markup[/]", "[/]", "%s %(x)s {0}", "a\nb\nc", "é" * 70, "x" * 10_000, [], {}, [[]],
    [None],
    [1] * 300, {"": 0}, {"name": None}, {"name": "exact"}, {"name": ["exact"]}, {"name": {"a": 1}},
    {1: 2}, {None: 1}, {True: 1}, {1.5: []}, {"x" * 3_000: 1}, {"a\nb": 1}, {"[red]": 1},
    datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1, 1), b"bytes", ["a", "a"],
)  # fmt: skip
_INTEGERS = (1, 2, 3, 5, 7, 20, 24, 40, 41, 48, 49, 100, 1_000, 10**5, 10**6, 10**9, 2**31 - 1,
             2**31,
             2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**20)  # fmt: skip
_FLOATS = (5e-324, 1e-300, 1e-9, 1e-3, 0.1, 0.25, 0.5, 0.75, 0.999, 1.0, 2.0, 10.0, 1e3, 1e9, 1e300)
_TAGS = ("!!python/object/apply:os.system [ls]", "!!python/name:os.system", "!!binary aGk=",
         "!!set {a, b}", "!!omap [a: 1]", "!!timestamp 2024-01-01", "!local x", "!<tag:x> y",
         "!!float x", "!!int 1.5", "!!null x", "!!map []", "! x")  # fmt: skip
_BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(9)
)
_LITERALS = ("0x" + "f" * 9_000, "1" * 9_000, "0b11", "0o17", "1_000", "190:20:30", "1e999", ".NaN",
             "-.inf", "~", "=", "<<", "{a: b", "'", '"', "|", ">", "@x", "`x", "%x", "&x", "*x",
             "*x [*x]", "&x [*x]", "&x {<<: *x}", "? x", "- x", "\t", "[" * 60 + "]" * 60,
             "{a: " * 60 + "}" * 60, "[" * 5_000, '"\\x1b[2J"', '"\\0"', '"\\ud800"', '"\\u202e"',
             '"\\uFFFF"', "\x85", "\ufeff", "\u2028", "2024-13-45", "2001-01-01t00:00:00z",
             *_TAGS)  # fmt: skip


def _places(content: Any) -> list[tuple[Any, Any]]:
    """Return the containers and keys of every value."""
    pairs = (
        list(content.items()) if isinstance(content, dict)
        else list(enumerate(content)) if isinstance(content, list) else []
    )  # fmt: skip
    return [place for key, value in pairs for place in ((content, key), *_places(value))]


def damage_values(rng: random.Random, content: Any, other: Any) -> str:
    """Change one value or key of a config, in place; return what was done."""
    places = _places(content)
    if not places:
        return "nothing"
    container, key = rng.choice(places)
    acts: list[Callable[..., str]] = [_replace, _replace, _replace, _address, _remove, _retype]
    acts += [_misspell_key, _misspell_key, _add_key] if isinstance(container, dict) else [_repeat]
    if isinstance(container[key], str):
        acts += [_misspell]
    if isinstance(container[key], int | float):
        acts += [_number, _number]
    return rng.choice([*acts, _graft])(rng, container, key, other)


def change_number(rng: random.Random, content: Any) -> str:
    """Set one number of a config to another of the same type, which may be absurd but valid."""
    numbers = [
        (container, key)
        for container, key in _places(content)
        if isinstance(container[key], int | float) and not isinstance(container[key], bool)
    ]
    if not numbers:
        return "nothing"
    container, key = rng.choice(numbers)
    small = isinstance(container[key], float)
    container[key] = rng.choice(_FLOATS if small else _INTEGERS)
    return f"{key!r} is {container[key]}"


def _replace(rng: random.Random, container: Any, key: Any, _other: Any) -> str:
    container[key] = rng.choice(_VALUES)
    return f"{key!r} is {container[key]!r:.40}"


def _number(rng: random.Random, container: Any, key: Any, _other: Any) -> str:
    changes = (
        lambda x: -x,
        lambda x: x * 1000,
        lambda x: x + 0.5,
        lambda x: 10**12,
        lambda x: str(x),
    )
    container[key] = rng.choice(changes)(container[key])
    return f"{key!r} is {container[key]!r:.40}"


def _address(rng: random.Random, container: Any, key: Any, _other: Any) -> str:
    container[key] = rng.choice(_ADDRESSES)
    return f"{key!r} is the address {container[key]!r:.40}"


def _remove(_rng: random.Random, container: Any, key: Any, _other: Any) -> str:
    del container[key]
    return f"without {key!r}"


def _retype(rng: random.Random, container: Any, key: Any, _other: Any) -> str:
    value = container[key]
    container[key] = rng.choice(([value], {"name": value}, str(value), [value, value]))
    return f"{key!r} is of another type"


def _misspell(rng: random.Random, container: Any, key: Any, _other: Any) -> str:
    container[key] = _typo(rng, container[key])
    return f"{key!r} is misspelled {container[key]!r:.40}"


def _misspell_key(rng: random.Random, container: Any, key: Any, _other: Any) -> str:
    container[_typo(rng, str(key))] = container.pop(key)
    return f"key {key!r} is misspelled"


def _add_key(rng: random.Random, container: Any, _key: Any, _other: Any) -> str:
    new = rng.choice(
        ("extra", "name", "seed", 5, None, True, 1.5, "__class__", "x\x85y", "k" * 5_000)
    )
    container[new] = rng.choice(_VALUES)
    return f"a further key {new!r:.40}"


def _repeat(rng: random.Random, container: Any, key: Any, _other: Any) -> str:
    container.extend([container[key]] * rng.choice((1, 5, 200)))
    return f"element {key} is repeated"


def _graft(rng: random.Random, container: Any, key: Any, other: Any) -> str:
    places = _places(other)
    source, name = rng.choice(places)
    if isinstance(container, dict) and isinstance(source, dict):
        key = name
    container[key] = source[name]
    return f"{key!r} of another config"


def _typo(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    letter = rng.choice(string.ascii_letters + " _-.\u00e9\u0430")
    return rng.choice(
        (text[:at] + letter + text[at:], text[:at] + text[at + 1 :], text.upper(), text[::-1])
    )


def damage_text(rng: random.Random, text: str) -> tuple[str, str]:
    """Return what was done to the text of a config, and the text."""
    lines = text.splitlines(keepends=True) or [""]
    at = rng.randrange(len(lines))
    key, colon, _ = lines[at].partition(":")
    act = rng.choice(("literal", "literal", "repeat", "indent", "bomb", "swap", "insert", "flow"))
    if act == "literal" and colon:
        literal = rng.choice(_LITERALS)
        lines[at] = f"{key}: {literal}\n"
        act = f"literal {literal!r:.40}"
    elif act == "repeat":
        lines.insert(at, lines[at])
    elif act == "indent":
        lines[at] = rng.choice((" ", "\t", "  - ", "? ")) + lines[at]
    elif act == "bomb":
        lines = [_BOMB, *lines] if rng.random() < 0.5 else [*lines, "x: &x [*x, *x]\n"]
    elif act == "swap":
        lines[at], lines[0] = lines[0], lines[at]
    elif act == "flow":
        return act, rng.choice(
            ("{" * 2_000, "[" * 60_000, "- " * 3_000, "a: " * 1_000, "? " * 2_000)
        )
    else:
        lines.insert(at, rng.choice(("---\n", "...\n", "%YAML 9.9\n", "# \x1b\n", "x\n", "\0\n")))
    return act, "".join(lines)


def damage_bytes(rng: random.Random, text: str) -> tuple[str, bytes]:
    """Return what was done to the bytes of a config, and the bytes."""
    raw = bytearray(text.encode())
    at = rng.randrange(len(raw) + 1)
    choices: dict[str, bytes] = {
        "a UTF-8 mark": b"\xef\xbb\xbf" + raw,
        "UTF-16": text.encode("utf-16"),
        "UTF-32": text.encode("utf-32"),
        "Latin-1": (text + "# \xe9").encode("latin-1", "replace"),
        "a NUL": bytes(raw[:at] + b"\0" + raw[at:]),
        "cut": bytes(raw[:at]),
        "empty": b"",
        "white space": b" \n\n\t ",
        "random bytes": rng.randbytes(300),
        "carriage returns": bytes(raw.replace(b"\n", b"\r")),
        "too large": bytes(raw) + b"#" * 2**20,
        "doubled": bytes(raw + b"\n---\n" + raw),
        "inserted bytes": bytes(raw[:at] + rng.randbytes(4) + raw[at:]),
    }
    for _ in range(rng.choice((1, 1, 2, 5))):
        if raw:
            raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    choices["flipped bits"] = bytes(raw)
    name = rng.choice([*choices, "flipped bits", "flipped bits", "flipped bits"])
    return name, choices[name]


def dump(content: Any) -> str:
    """Return the YAML text of any content."""
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
