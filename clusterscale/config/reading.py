"""Read YAML configs with strict checks of keys and types, and precise error messages."""

import ast
import json
import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from os.path import isfile
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema

from clusterscale.analyses.audit import AuditPlan, AuditTemplate
from clusterscale.config.plain_yaml import content_of, read_text
from clusterscale.config.releases import ReleasesConfig
from clusterscale.config.run import Config
from clusterscale.contracts import ConfigModel
from clusterscale.errors import ConfigError
from clusterscale.reauditing import Policy, ReauditPlan
from clusterscale.registry import Registry
from clusterscale.release.publication import Publication
from clusterscale.validation_messages import explain, quote

QUICKSTART = "quickstart.yaml"

_PACKAGED = Path(str(files("clusterscale"))) / "configs"
CONFIGS = _PACKAGED if _PACKAGED.is_dir() else Path(__file__).parents[2] / "configs"
"""Folder of the built-in configs: in the package, or next to it in an editable install."""

T = TypeVar("T", bound=ConfigModel)


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
    if text.lower().endswith((".yaml", ".yml")) or isfile(text):
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
        raise ConfigError(f"{quote(label)} is not like name(setting=value, other='text')") from None


def load(path: str | Path, *, mechanism: Mapping[str, Any] | None = None) -> Config:
    """Read the config of a run.

    Parameters
    ----------
    path
        A local YAML file.
    mechanism
        Settings of the mechanism to publish, which the config then does not state.

    Returns
    -------
    Config
        With every default filled in.

    Raises
    ------
    MissingError
        If there is no such file.
    ConfigError
        If it is not YAML, or a key is unknown, missing, of the wrong type or out of range; names
        every fault with the path of its key.
    """
    content = _read(path)
    section = _without_mechanism(content)
    if mechanism is None and section is not None:
        raise ConfigError(
            f"{path}: publish.mechanism: is missing: state it, or publish that of a finished audit "
            "or advice by --from RUN --mechanism TITLE"
        )
    if mechanism is not None:
        if section is None:
            raise ConfigError(
                f"{path}: publish: should be a section without mechanism, which --from takes over"
            )
        section["mechanism"] = dict(mechanism)
    return validate(content, Config, str(path))


def _without_mechanism(content: Any) -> dict[str, Any] | None:
    """Return the section of a release that states no mechanism, None if there is none."""
    section = content.get("publish") if isinstance(content, dict) else None
    return section if isinstance(section, dict) and "mechanism" not in section else None


def _read(path: str | Path) -> Any:
    return content_of(read_text(path), str(path))


def load_releases(path: str | Path) -> ReleasesConfig:
    """Read the config of a catalogue of releases.

    Parameters
    ----------
    path
        A local YAML file.

    Returns
    -------
    ReleasesConfig
        With every default filled in.

    Raises
    ------
    MissingError, ConfigError
        As :func:`load`.
    """
    return validate(_read(path), ReleasesConfig, str(path))


def load_publication(path: str | Path) -> Publication:
    """Read which tables are published together.

    Parameters
    ----------
    path
        A local YAML file.

    Returns
    -------
    Publication
        With every default filled in. Relative addresses are those beside the file, if one of them
        is there; else of the current folder.

    Raises
    ------
    MissingError, ConfigError
        As :func:`load`.
    """
    return validate(_read(path), Publication, str(path)).in_folder(str(Path(path).parent))


def load_policy(path: str | Path) -> Policy:
    """Read a policy from its own file, or from the config of a catalogue.

    Parameters
    ----------
    path
        A local YAML file.

    Returns
    -------
    Policy
        With every default filled in.

    Raises
    ------
    MissingError, ConfigError
        As :func:`load`.
    """
    content = _read(path)
    if isinstance(content, dict) and content.keys() & {"policy", "releases", "audit"}:
        return validate(content, ReleasesConfig, str(path)).policy
    return validate(content, Policy, str(path))


def load_gate(path: str | Path, audit: AuditPlan | None) -> ReauditPlan:
    """Read the audit and the policy that a release must pass before it is published.

    Parameters
    ----------
    path
        A local YAML file: a policy, a plan of re-audits, or the config of a catalogue.
    audit
        The audit of a run, whose settings are those of the gate if the file has only a policy.

    Returns
    -------
    ReauditPlan
        With every default filled in.

    Raises
    ------
    MissingError, ConfigError
        As :func:`load`; also if there are no settings of an audit.
    """
    content = _read(path)
    if isinstance(content, dict) and "audit" in content:
        if "output" in content:
            return validate(content, ReleasesConfig, str(path)).plan
        return validate(content, ReauditPlan, str(path))
    policy = load_policy(path)
    if audit is None:
        raise ConfigError(
            f"{path}: audit is missing; set how releases are audited there, or in the config"
        )
    template = {name: getattr(audit, name) for name in AuditTemplate.model_fields}
    return ReauditPlan(audit=AuditTemplate(**template), policy=policy)


def load_either(
    path: str | Path, *, mechanism: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
) -> Config | ReleasesConfig:
    """Read the config of a catalogue, which has a policy or releases, or else of a run.

    Parameters
    ----------
    path
        A local YAML file.
    mechanism
        Returns the settings of the mechanism of a release for a section that does not state it;
        None: it has to.

    Returns
    -------
    Config or ReleasesConfig
        With every default filled in.

    Raises
    ------
    MissingError, ConfigError
        As :func:`load`.
    """
    content = _read(path)
    if isinstance(content, dict) and content.keys() & {"policy", "releases"}:
        return validate(content, ReleasesConfig, str(path))
    section = _without_mechanism(content)
    return load(path, mechanism=mechanism(section) if mechanism and section is not None else None)


def parse(text: str, *, where: str = "config") -> Config:
    """Read the text of a config.

    Parameters
    ----------
    text
        YAML.
    where
        Beginning of each line of a message, such as the path of the file.

    Returns
    -------
    Config
        With every default filled in.

    Raises
    ------
    ConfigError
        As :func:`load`.
    """
    return validate(content_of(text, where), Config, where)


def parse_releases(text: str, *, where: str = "config") -> ReleasesConfig:
    """Read the text of the config of a catalogue.

    Parameters
    ----------
    text, where
        As for :func:`parse`.

    Returns
    -------
    ReleasesConfig
        With every default filled in.

    Raises
    ------
    ConfigError
        As :func:`load`.
    """
    return validate(content_of(text, where), ReleasesConfig, where)


def built_in(name: str = QUICKSTART) -> str:
    """Return the text of a built-in config.

    Parameters
    ----------
    name
        File in the folder of built-in configs.

    Returns
    -------
    str
        YAML.

    Raises
    ------
    FileNotFoundError
        If there is none of that name.
    """
    return (CONFIGS / name).read_text(encoding="utf-8")


def schema(model: type[ConfigModel] = Config) -> str:
    """Return the JSON schema of config files, for editors and checks.

    Parameters
    ----------
    model
        :class:`Config`, or :class:`ReleasesConfig` for a catalogue.

    Returns
    -------
    str
        JSON, indented by 2.
    """
    dialect = GenerateJsonSchema.schema_dialect
    return json.dumps({"$schema": dialect, **model.model_json_schema()}, indent=2)


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
