"""Read YAML text as plain values, within bounds of size, depth, aliases and digits."""

import math
import re
import unicodedata
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import Node, ScalarNode

from clusterscale.errors import ClusterscaleError, ConfigError, MissingError
from clusterscale.storage.address import check_address
from clusterscale.validation_messages import quote

MOST_BYTES = 2**20
_MOST_VALUES = 100_000  # aliases count as what they stand for
_DEEPEST = 50
_CORE = "tag:yaml.org,2002:"
_TEXT = f"{_CORE}str"


def read_text(path: str | Path) -> str:
    """Return the text of a config.

    Raises
    ------
    MissingError
        If there is no such file.
    InputError
        If it may not be opened; see :func:`~clusterscale.storage.address.check_address`.
    ConfigError
        If it is not UTF-8 text of at most 1 MiB.
    """
    try:
        check_address(str(path))
        path = Path(path)
        if not path.exists() or path.is_dir():
            raise MissingError(f"{path}: there is no such config file")
        with path.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except PermissionError:
        raise ConfigError(f"{path}: this file may not be read") from None
    except (OSError, ValueError) as error:  # a name that is too long, or has a NUL
        if isinstance(error, ClusterscaleError):
            raise
        raise MissingError(f"{quote(str(path))}: there is no such config file") from None
    if len(content) > MOST_BYTES:
        raise ConfigError(f"{path}: a config has at most {MOST_BYTES:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: this is not UTF-8 text") from None


def content_of(text: str, where: str) -> Any:
    """Return the plain values of a YAML text; dates are text.

    Raises
    ------
    ConfigError
        If it is not YAML, has a tag, a value that YAML 1.1 and 1.2 read differently, a key twice,
        an infinite or overlong number or a control character, or is too large or too deeply
        nested; begins with ``where``.
    """
    if len(text) > MOST_BYTES:
        raise ConfigError(f"{where}: a config has at most {MOST_BYTES:,} characters")
    try:
        return yaml.load(text, Loader=_StrictLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: {_first_problem(error)}") from None


class _StrictLoader(yaml.SafeLoader):
    """Loader of plain values, which rejects what YAML would silently change or expand."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = self._n_values = 0
        self._sizes: dict[int, int] = {}  # values of a complete node, aliases expanded

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        before = self._n_values
        if isinstance(event, yaml.AliasEvent):
            node = super().compose_node(parent, index)
            if id(node) not in self._sizes:
                raise _problem("an alias stands for a value that contains it", event)
            self._n_values += self._sizes[id(node)]
        else:
            if event.tag not in (None, "!", _TEXT):
                raise _problem(f"the tag {quote(event.tag)} is not allowed", event)
            self._depth += 1
            self._n_values += 1
            if self._depth > _DEEPEST:
                raise _problem(f"values are nested more than {_DEEPEST} deep", event)
            node = super().compose_node(parent, index)
            self._depth -= 1
            if event.tag is not None and isinstance(node, ScalarNode):
                node.style = '"'  # as in quotes
            self._sizes[id(node)] = self._n_values - before
        if self._n_values > _MOST_VALUES:
            raise _problem(f"a config has at most {_MOST_VALUES:,} values", event)
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        keys: set[Any] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, ScalarNode):
                raise _problem("a key is text, not a list or a mapping", key_node)
            key = self.construct_object(key_node, deep=True)
            if key in keys:
                raise _problem(f"key {quote(key)} is listed twice", key_node)
            keys.add(key)
        return super().construct_mapping(node, deep=deep)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """Return a value; refuse one that is another in YAML 1.2 than in 1.1, which is read."""
        value = super().construct_object(node, deep)
        if isinstance(node, ScalarNode) and node.style is None:
            other = _in_core_schema(node.value)
            if (type(other), other) != (type(value), value):
                raise _problem(
                    f"{node.value[:40]} is {value!r:.40} in YAML 1.1 and {other!r:.40} in 1.2: "
                    "write the one that is meant; a text in quotes",
                    node,
                )
        return value

    def construct_scalar(self, node: Any) -> Any:
        text = super().construct_scalar(node)
        if isinstance(text, str) and any(
            unicodedata.category(letter) in ("Cc", "Cs") and letter not in "\n\r\t"
            for letter in text
        ):
            raise _problem("a control character is not allowed", node)
        return text

    def construct_number(self, node: Any) -> int | float:
        """Return a finite number."""
        if len(node.value) > 40:  # characters of a number
            raise _problem(f"the number {quote(node.value)} has too many digits", node)
        read = self.construct_yaml_int if node.tag == f"{_CORE}int" else self.construct_yaml_float
        try:
            number: int | float = read(node)
        except (ValueError, OverflowError):
            raise _problem(f"{quote(node.value)} is not a number", node) from None
        if not math.isfinite(number):
            raise _problem(f"{quote(node.value)} is not a finite number", node)
        return number


def _in_core_schema(text: str) -> Any:
    """Return what YAML 1.2 reads where 1.1 reads a finite value."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text.lower() == "true"
    if re.fullmatch(r"[-+]?[0-9]{1,40}|0o[0-7]{1,40}|0x[0-9a-fA-F]{1,40}", text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    number = re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", text)
    return float(text) if number else text


# Dates stay text: a setting that is a date is written as text.
_StrictLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != f"{_CORE}timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _kind in ("int", "float"):
    _StrictLoader.add_constructor(f"{_CORE}{_kind}", _StrictLoader.construct_number)


def _problem(words: str, where: Any) -> ConstructorError:
    return ConstructorError(None, None, words, where.start_mark)


def _first_problem(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.reader.ReaderError):
        return f"character {error.position + 1}: a control character is not allowed"
    mark = getattr(error, "problem_mark", None)
    position = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    problem = str(getattr(error, "problem", None) or "this is not YAML")
    return f"{position}{problem if len(problem) < 200 else problem[:200] + '…'}"
