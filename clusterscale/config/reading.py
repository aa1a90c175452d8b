"""Read YAML configs with strict checks of keys and types, and precise error messages."""

from __future__ import annotations

import json
from collections.abc import Hashable
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from clusterscale.config.releases import ReleasesConfig
from clusterscale.config.run import Config
from clusterscale.contracts import ConfigModel
from clusterscale.errors import ConfigError, MissingError
from clusterscale.reaudit import Policy
from clusterscale.storage.address import check_address
from clusterscale.validation_messages import explain

__all__ = ["CONFIGS", "QUICKSTART", "built_in", "content_of", "load", "load_either"]
__all__ += [
    "load_policy",
    "load_releases",
    "parse",
    "parse_releases",
    "read_text",
    "schema",
    "validate",
]

QUICKSTART = "quickstart.yaml"

_PACKAGED = Path(str(files("clusterscale"))) / "configs"
CONFIGS = _PACKAGED if _PACKAGED.is_dir() else Path(__file__).parents[2] / "configs"
"""Folder of the built-in configs: in the package, or next to it in an editable install."""

T = TypeVar("T", bound=ConfigModel)


def load(path: str | Path) -> Config:
    """Read the config of a run.

    Raises
    ------
    MissingError
        If there is no such file.
    ConfigError
        If it is not YAML, or a key is unknown, missing, of the wrong type or out of range; names
        every fault with the path of its key.
    """
    return parse(read_text(path), where=str(path))


def load_releases(path: str | Path) -> ReleasesConfig:
    """Read the config of a catalogue of releases; errors are those of :func:`load`."""
    return parse_releases(read_text(path), where=str(path))


def load_policy(path: str | Path) -> Policy:
    """Read a policy from its own file, or from the config of a catalogue.

    Errors are those of :func:`load`.
    """
    text = read_text(path)
    content = content_of(text, str(path))
    if isinstance(content, dict) and content.keys() & {"policy", "releases", "audit"}:
        return parse_releases(text, where=str(path)).policy
    return validate(content, Policy, str(path))


def load_either(path: str | Path) -> Config | ReleasesConfig:
    """Read the config of a catalogue, which has a policy or releases, or else of a run."""
    text = read_text(path)
    content = content_of(text, str(path))
    catalogue = isinstance(content, dict) and content.keys() & {"policy", "releases"}
    return parse_releases(text, where=str(path)) if catalogue else parse(text, where=str(path))


def parse(text: str, *, where: str = "config") -> Config:
    """Read the text of a config; errors are those of :func:`load` and begin with ``where``."""
    return validate(content_of(text, where), Config, where)


def parse_releases(text: str, *, where: str = "config") -> ReleasesConfig:
    """Read the text of the config of a catalogue, like :func:`parse`."""
    return validate(content_of(text, where), ReleasesConfig, where)


def built_in(name: str = QUICKSTART) -> str:
    """Return the text of a built-in config."""
    return (CONFIGS / name).read_text(encoding="utf-8")


def schema(model: type[ConfigModel] = Config) -> str:
    """Return the JSON schema of config files, for editors and checks, as text."""
    return json.dumps(model.model_json_schema(), indent=2)


def read_text(path: str | Path) -> str:
    """Return the text of a config; errors are those of :func:`load`."""
    check_address(str(path))
    try:
        return Path(path).read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError):
        raise MissingError(f"{path}: there is no such config file") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: this is not UTF-8 text") from None


def content_of(text: str, where: str) -> Any:
    """Return the plain values of a YAML text; errors are those of :func:`load`."""
    try:
        return yaml.load(text, Loader=_StrictLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: {_first_problem(error)}") from None


def validate(content: Any, model: type[T], where: str) -> T:
    """Return ``content`` as a model; errors are those of :func:`load` and begin with ``where``."""
    if not isinstance(content, dict):
        keys = ", ".join(model.model_fields)
        raise ConfigError(f"{where}: a config is a mapping with keys {keys}")
    try:
        return model.model_validate(content)
    except ValidationError as error:
        lines = explain(error, model).splitlines()
        raise ConfigError("\n".join(f"{where}: {line}" for line in lines)) from None


class _StrictLoader(yaml.SafeLoader):
    """Loader of plain values that rejects duplicate keys, which YAML would silently overwrite."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        keys: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable):  # of others, YAML says so
                if key in keys:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"key {key!r} is listed twice", key_node.start_mark
                    )
                keys.add(key)
        return super().construct_mapping(node, deep=deep)


def _first_problem(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    position = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return f"{position}{getattr(error, 'problem', None) or 'this is not YAML'}"
