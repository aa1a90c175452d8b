"""YAML into a run: strict about keys and types, and clear about what would be right."""

from __future__ import annotations

import json
from collections.abc import Hashable
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import yaml
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    Strict,
    ValidationError,
    model_validator,
)

from clusterscale.audit import AuditPlan
from clusterscale.contracts import Address, Component, Count
from clusterscale.cube import TraceCube
from clusterscale.cube.storage import exists
from clusterscale.cube.synthetic import PRESETS, synthesise
from clusterscale.errors import ConfigError, ExistsError, MissingError
from clusterscale.markup import list_facts
from clusterscale.recovery import RecoveryPlan
from clusterscale.runtime import CLUSTERS, Cluster, Local
from clusterscale.traits import TraitsPlan
from clusterscale.wording import choices, explain

__all__ = ["Config", "CubeSource", "built_in", "load", "parse", "schema"]

QUICKSTART = "quickstart.yaml"


class CubeSource(Component):
    """Where the traces are; a plain string is taken for a path.

    ``path``: a cube on disk or at any fsspec URL. With a ``preset``, synthetic ``users`` are
    written there first, unless the same ones are there already.
    """

    path: Address
    preset: str | None = None
    users: Count | None = None
    seed: Annotated[int, Strict()] = 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.preset is None and (self.users is not None or self.seed):
            raise ValueError("users and seed go with a preset")
        if self.preset is not None and self.preset not in PRESETS:
            raise ValueError(
                f"preset {self.preset!r} is not known: {choices(self.preset, sorted(PRESETS))}"
            )
        return self

    def open(self) -> TraceCube:
        """Open the cube, writing it first if it is a preset that is not there yet.

        Raises
        ------
        MissingError, FormatError, DamagedError
            If there is no cube at the path, or it cannot be used.
        ExistsError
            If another cube is where the preset's would go.
        """
        if self.preset is None:
            return TraceCube(self.path)
        if not exists(self.path):
            return synthesise(self.preset, self.path, users=self.users, seed=self.seed)
        cube = TraceCube(self.path)
        provenance = cube.attributes["provenance"]
        same = provenance.get("preset") == self.preset and provenance.get("seed") == self.seed
        if not same or (self.users is not None and cube.n_users != self.users):
            raise ExistsError(
                f"cube.path: {self.path} holds another cube than {self.preset} with "
                f"{self.users or 'all'} users and seed {self.seed}: choose another path"
            )
        return cube


def _from_text(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


if TYPE_CHECKING:
    Source = CubeSource
    Place = Cluster
else:
    Source = Annotated[CubeSource, BeforeValidator(_from_text)]
    Place = CLUSTERS.field()


class Config(Component):
    """A whole run: which cube, what to ask of it, where to work, where to keep the answer.

    ``audit`` asks who is a member, ``recovery`` where everybody was; either or both. ``traits``
    says how those are compared whom an audit has found, if `clusterscale traits` asks why.
    """

    cube: Source
    output: Address
    audit: AuditPlan | None = None
    recovery: RecoveryPlan | None = None
    traits: TraitsPlan = TraitsPlan()
    cluster: Place = Local()

    @model_validator(mode="after")
    def _asks(self) -> Self:
        if self.audit is None and self.recovery is None:
            raise ValueError("say what to ask: audit, recovery or both")
        return self

    def __repr__(self) -> str:
        asked = [str(plan) for plan in (self.audit, self.recovery) if plan is not None]
        return f"Config({self.cube.path!r} → {self.output!r} on {self.cluster.label}: {asked})"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        made = f", synthetic {self.cube.preset}" if self.cube.preset else ""
        run = {
            "cube": f"{self.cube.path}{made}",
            "output": self.output,
            "cluster": self.cluster.label,
        }
        plans = (plan._repr_html_() for plan in (self.audit, self.recovery) if plan is not None)
        return "".join([list_facts("Run", run), *plans])

    def the_audit(self) -> AuditPlan:
        """Return the plan of the audit.

        Raises
        ------
        ConfigError
            If there is none.
        """
        if self.audit is None:
            raise ConfigError("audit: missing; this config asks for a recovery only")
        return self.audit

    def the_recovery(self) -> RecoveryPlan:
        """Return the plan of the recovery.

        Raises
        ------
        ConfigError
            If there is none.
        """
        if self.recovery is None:
            raise ConfigError(
                "recovery: missing; say how many epochs are observed, e.g. "
                "recovery: {observed: 336}"
            )
        return self.recovery

    def check(self, cube: TraceCube) -> None:
        """Raise :class:`ConfigError`, naming the keys, if ``cube`` cannot answer."""
        for plan in (self.audit, self.recovery):
            if plan is not None:
                plan.check(cube)


def load(path: str | Path) -> Config:
    """Read a config file.

    Raises
    ------
    MissingError
        If there is no such file.
    ConfigError
        If it is not YAML, or a key is unknown, missing, of the wrong type or out of range; every
        fault is named with the path of its key.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError):
        raise MissingError(f"{path}: there is no such config file") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: this is not text in UTF-8") from None
    return parse(text, where=str(path))


def built_in(name: str = QUICKSTART) -> str:
    """Return the text of a config that comes with the package."""
    packaged = files("clusterscale") / "configs" / name
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    beside = Path(__file__).parents[1] / "configs" / name  # an editable install
    return beside.read_text(encoding="utf-8")


def parse(text: str, *, where: str = "config") -> Config:
    """Read the text of a config; errors begin with ``where``. Errors are those of :func:`load`."""
    try:
        content = yaml.load(text, Loader=_StrictLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: {_first_problem(error)}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{where}: a config is a mapping with keys {', '.join(_keys())}")
    try:
        return Config.model_validate(content)
    except ValidationError as error:
        lines = explain(error, Config).splitlines()
        raise ConfigError("\n".join(f"{where}: {line}" for line in lines)) from None


def schema() -> str:
    """Return the JSON schema of config files, for editors and checks, as text."""
    return json.dumps(Config.model_json_schema(), indent=2)


def _keys() -> list[str]:
    return list(Config.model_fields)


class _StrictLoader(yaml.SafeLoader):
    """Plain values only, and no key twice: YAML would let the second win in silence."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} stands there twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _first_problem(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return f"{place}{getattr(error, 'problem', None) or 'this is not YAML'}"
