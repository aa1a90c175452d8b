"""Read one component from text: a name, YAML, a label, or a file."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from clusterscale.config.plain_yaml import content_of, read_text
from clusterscale.errors import ConfigError
from clusterscale.registry import Registry
from clusterscale.validation_messages import quote

_LABEL = re.compile(r"^([a-z]\w*)\((.*)\)$", re.DOTALL)


def parse_entry(registry: Registry[Any], text: str) -> Any:
    """Return an entry of a registry.

    Parameters
    ----------
    registry
        Such as :data:`clusterscale.mechanisms.MECHANISMS`.
    text
        A name, ``exact``; a label, ``laplace(epsilon=1.0)``; YAML, ``{name: laplace, epsilon:
        1.0}``; or the path of a YAML file with such a mapping.

    Returns
    -------
    ConfigModel
        The entry.

    Raises
    ------
    ConfigError, UnknownNameError
        If it is none of these, or does not describe an entry.
    """
    label = _LABEL.match(text.strip())
    if label is not None:
        return registry.create(label[1], **_settings(label[2], text))
    where = registry.kind
    if text.lower().endswith((".yaml", ".yml")) or Path(text).is_file():
        text, where = read_text(text), text
    content = content_of(text, where)
    if isinstance(content, str):
        return registry.create(content)
    if not isinstance(content, dict) or not isinstance(content.get("name"), str):
        raise ConfigError(
            f"{where}: {quote(content)} is not a {registry.kind}: give its name, or "
            "{name: …, <settings>}"
        )
    settings = {str(key): value for key, value in content.items() if key != "name"}
    return registry.create(content["name"], **settings)


def _settings(text: str, label: str) -> dict[str, Any]:
    """Return the settings of a label, ``a=1, b='x'``."""
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        if call.args:
            raise ValueError
        return {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise ConfigError(f"{quote(label)} is not like name(setting=value)") from None
