"""Descriptions of the fields of models: in docstrings, in ``help`` and in signatures."""

import re
from collections.abc import Mapping
from inspect import Parameter, Signature, cleandoc
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python
from yaml import YAMLError, safe_load

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)

__all__ = ["SETTINGS", "ModelType", "example_in", "list_settings", "read_descriptions"]
__all__ += ["signature_of"]

SETTINGS = "Settings\n--------\n"
"""Head of the section that :func:`list_settings` writes."""

_SECTION = "Attributes\n----------\n"
_EXAMPLE = re.compile(r"\be\.g\. ``(.+?)``")  # a value as YAML
_LONGEST = 24  # characters of a default that a signature shows


class ModelType(ModelMetaclass):
    """Type of models whose ``help`` and completion leave out the members of pydantic."""

    def __dir__(cls) -> list[str]:
        *models, _ = (base for base in cls.__mro__ if isinstance(base, ModelType))
        names = {name for base in models for name in vars(base)}
        return sorted(name for name in names if name[0] != "_" and not hasattr(BaseModel, name))


def read_descriptions(docstring: str | None) -> tuple[str, dict[str, str]]:
    """Return a docstring without its section ``Attributes``, and what that says of each field."""
    text, _, section = cleandoc(docstring or "").partition(_SECTION)
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        if line.startswith(" "):
            for name in names:
                found[name] = f"{found.get(name, '')} {line.strip()}".strip()
        elif line:
            names = line.split(", ")
            found |= dict.fromkeys(names, "")
    return text.rstrip(), found


def example_in(description: str) -> Any:
    """Return the example in a description; None if there is none that is YAML."""
    found = _EXAMPLE.search(description)
    try:
        return to_jsonable_python(safe_load(found[1])) if found else None
    except YAMLError:  # in the docstring of a plug-in, which nothing has tested
        return None


class _Default:
    """Default of a parameter in a signature; a long one is not shown."""

    def __init__(self, field: FieldInfo) -> None:
        self._field = field

    def __repr__(self) -> str:
        text = repr(self._field.get_default(call_default_factory=True))
        return text if len(text) <= _LONGEST else "…"


class _Signature(Signature):
    """A signature in one line; Python 3.13 and later break long ones."""

    def format(self, **options: Any) -> str:
        return str(super().format())  # type: ignore[misc,unused-ignore]


def signature_of(fields: Mapping[str, FieldInfo]) -> Signature:
    """Return the signature of a model without the types, which are long."""
    kind, empty = Parameter.KEYWORD_ONLY, Parameter.empty
    return _Signature(
        [
            Parameter(name, kind, default=empty if field.is_required() else _Default(field))
            for name, field in fields.items()
        ]
    )


def list_settings(signature: Signature, descriptions: Mapping[str, str]) -> str:
    """Return a section of a docstring with a line for each field, and its default."""
    lines = []
    for name, parameter in signature.parameters.items():
        about = f": {descriptions[name]}" if name in descriptions else ""
        lines.append(str(parameter).replace("=", " = ", 1) + about)
    return SETTINGS + "\n".join(lines)
