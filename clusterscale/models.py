"""Settings that a config can hold: identity, kinds of fields, descriptions and signatures."""

import json
import re
from collections import ChainMap, Counter
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from inspect import Parameter, Signature, cleandoc
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    Strict,
    ValidationError,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, to_jsonable_python

from clusterscale.errors import ConfigError
from clusterscale.foreign import Fault, guard, is_foreign
from clusterscale.redaction import check_url
from clusterscale.validation_messages import explain

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)

Address = Annotated[str, Field(min_length=1), AfterValidator(check_url)]
Positive = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Strict(), Field(gt=0, le=1)]
Probability = Annotated[float, Strict(), Field(gt=0, lt=1)]
Count = Annotated[int, Strict(), Field(ge=1, lt=2**63)]
Even = Annotated[int, Strict(), Field(ge=4, multiple_of=2, lt=2**63)]


def distinct(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Check that a list of settings is not empty, and that no two share an id or a label.

    Parameters
    ----------
    items
        Settings; those that have no ``id`` or ``label`` are compared themselves.

    Returns
    -------
    tuple
        ``items``.

    Raises
    ------
    ValueError
        If there is none, or two are alike.
    """
    if not items:
        raise ValueError("give at least one")
    labels = [str(getattr(item, "label", item)) for item in items]
    for keys in (labels, [getattr(item, "id", item) for item in items]):
        counts = Counter(keys)
        twice = sorted({label for label, key in zip(labels, keys, strict=True) if counts[key] > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)} is listed twice")
    return items


NonEmptyUnique = [Strict(False), AfterValidator(distinct)]
OptionalUnique = [Strict(False), AfterValidator(lambda items: items and distinct(items))]


def hash_of(value: Any) -> str:
    """Return the hash of plain values.

    Parameters
    ----------
    value
        What JSON can store.

    Returns
    -------
    str
        32 hexadecimal digits; equal values have the same.
    """
    text = json.dumps(value, sort_keys=True)
    return blake2b(text.encode(), digest_size=16).hexdigest()


SETTINGS = "Settings\n--------\n"
"""Head of the section that :func:`list_settings` writes."""

_EXAMPLE = re.compile(r"\be\.g\. ``(.+?)``")  # a value as YAML


class ModelType(ModelMetaclass):
    """Type of models whose ``help`` and completion leave out the members of pydantic."""

    def __dir__(cls) -> list[str]:
        *models, _ = (base for base in cls.__mro__ if isinstance(base, ModelType))
        names = {name for base in models for name in vars(base)}
        return sorted(name for name in names if name[0] != "_" and not hasattr(BaseModel, name))


def read_descriptions(
    docstring: str | None, head: str = "Attributes"
) -> tuple[str, dict[str, str]]:
    """Return a docstring without its section ``head``, and what that says of each name."""
    text, _, section = cleandoc(docstring or "").partition(f"{head}\n----------\n")
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
        return to_jsonable_python(yaml.safe_load(found[1])) if found else None
    except yaml.YAMLError:  # in the docstring of a plug-in, which nothing has tested
        return None


class _Dumper(yaml.SafeDumper):
    """Writes texts in quotes that YAML 1.1 or 1.2 would read as numbers."""


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0o[0-7]+)$"),
    list("-+.0123456789"),
)


def dump_yaml(value: Any, **options: Any) -> str:
    """Return plain values as YAML that its versions 1.1 and 1.2 read alike, keys in order.

    ``options`` are those of PyYAML.
    """
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, **options))


class _Default:
    """Default of a parameter in a signature; a long one is not shown."""

    def __init__(self, field: FieldInfo) -> None:
        self._field = field

    def __repr__(self) -> str:
        text = repr(self._field.get_default(call_default_factory=True))
        return text if len(text) <= 24 else "…"  # characters of a default that a signature shows


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


_NOTHING: tuple[Any, ...] = (None, "", [], {})


class ConfigModel(BaseModel, metaclass=ModelType):
    """Something a config can name: immutable, hashable, picklable, strict about its fields.

    A class describes its own fields in the section ``Attributes`` of its docstring. A description
    may have an example: ``e.g.`` and a value in double backticks, as in a config. ``help`` shows a
    line for each field in place of that section, also for those that a class inherits.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    _descriptions: ClassVar[Mapping[str, str]] = {"name": "Name of the kind."}
    """The description of each field, read from the docstrings."""

    _first_defaults: ClassVar[Mapping[str, Any]] = {}
    """The first default of each field whose default has changed since: it keeps ids stable."""

    _label_always: ClassVar[tuple[str, ...]] = ()
    """Fields that the label states even where they have their default."""

    _label_last: ClassVar[tuple[str, ...]] = ()
    """Fields that the label states after all others."""

    _boundary: ClassVar[Mapping[str, Fault | None]] = {}
    """Methods that another package may define, and what checks their values."""

    def __init__(self, /, **fields: Any) -> None:
        """Check the fields.

        Raises
        ------
        ConfigError
            If a field is missing, unknown, of the wrong type or out of range; the message names
            each, after the name of the class.
        """
        try:
            super().__init__(**fields)
        except ValidationError as error:
            model = type(self)
            raise ConfigError(explain(error, model, prefix=(model.__name__,))) from None

    # Pydantic then builds what is nested in another model without this method, as it does where
    # there is none, so that a fault there is reported with the path of its key.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Read the descriptions of the fields, and show them in ``help``."""
        super().__pydantic_init_subclass__(**options)
        text, own = read_descriptions(cls.__dict__.get("__doc__"))
        every = [vars(base).get("_descriptions", {}) for base in cls.__mro__[1:]]
        cls._descriptions = {**dict(ChainMap(*every)), **own}
        cls.__signature__ = signature_of(cls.model_fields)
        if text:
            cls.__doc__ = f"{text}\n\n{list_settings(cls.__signature__, cls._descriptions)}"
        if is_foreign(cls):
            guard(cls, cls._boundary)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the JSON schema, in which fields have the descriptions of the docstring.

        The example of a field is that of its description, or else its default.
        """
        schema = handler(core_schema)
        found = handler.resolve_ref_schema(schema)
        for name, field in found.get("properties", {}).items():
            if name in cls._descriptions:
                field.setdefault("description", cls._descriptions[name])
            example = example_in(field.get("description", ""))
            value = field.get("default") if example is None else example
            if value not in _NOTHING:
                field.setdefault("examples", [value])
        found["description"] = (cls.__doc__ or "").partition(SETTINGS)[0].strip()
        return schema

    @property
    def canonical(self) -> dict[str, Any]:
        """Settings that decide results and differ from their first default, as plain values.

        A field that is added later, with a default that changes no result, is therefore in no
        older identity. Titles decide nothing and are left out.
        """
        found = {}
        for key, field in type(self).model_fields.items():
            value = getattr(self, key)
            default = field.get_default(call_default_factory=True)
            if key == "name" or (
                key != "title" and value != self._first_defaults.get(key, default)
            ):
                found[key] = _plain(value)
        return found

    @property
    def digest(self) -> str:
        """Hash of the :attr:`canonical` settings: equal ones have equal digests."""
        return hash_of(self.canonical)

    @property
    def label(self) -> str:
        """The name with the fields that were set: ``laplace(epsilon=1.0)``."""
        return self._label

    @property
    def _label(self) -> str:
        given = self.model_dump(exclude={"name", "title"}, exclude_defaults=True)
        given |= {key: getattr(self, key) for key in self._label_always}
        given |= {key: given.pop(key) for key in self._label_last if key in given}
        fields = ", ".join(f"{key}={value!r}" for key, value in given.items())
        name = str(getattr(self, "name", type(self).__name__))
        return f"{name}({fields})" if fields else name


class Named(Protocol):
    """What an entry of a registry is called."""

    @property
    def name(self) -> str:
        """Key in the registry."""

    @property
    def id(self) -> str:
        """Stable id: keys random streams, journals and coordinates."""

    @property
    def label(self) -> str:
        """Title, or name with its settings: for people only."""


class NamedModel(ConfigModel):
    """A mechanism, attack, prior or measure: it has a stable id, and a label for people.

    ``title``, which the user may give, replaces the label; results do not depend on it.

    Attributes
    ----------
    title
        Title for people, in place of the settings in words, e.g. ``k = 5``; decides nothing.
    """

    title: Annotated[str, Field(max_length=80)] = ""
    if TYPE_CHECKING:
        name: str  # a literal, with itself as its default: the key in the registry

    @property
    def id(self) -> str:
        """The name, and a digest of the settings if any differs from its first default.

        It keys random streams, journals, coordinates and ledgers.
        """
        settings = self.canonical
        name = str(settings.pop("name", type(self).__name__))
        return f"{name}-{hash_of(settings)[:_ID_DIGITS]}" if settings else name

    @property
    def label(self) -> str:
        """The title, else the name with the fields that were set."""
        return self.title or self._label

    @property
    def heading(self) -> str:
        """The title, else the settings in words, for tables and figures."""
        return self.title or self.phrase

    @property
    def phrase(self) -> str:
        """The settings in words; other settings have another phrase."""
        return self._label


def names_of(dim: str, items: Iterable[Any]) -> dict[str, list[str]]:
    """Return the ids, labels and titles of components, by the variables that hold them.

    Parameters
    ----------
    dim
        Dimension of the components in a dataset.
    items
        The components.

    Returns
    -------
    dict[str, list[str]]
        ``dim``, ``<dim>_label`` and ``<dim>_title``.
    """
    every = list(items)
    return {
        dim: [item.id for item in every],
        f"{dim}_label": [item.label for item in every],
        f"{dim}_title": [item.heading for item in every],
    }


_ID_DIGITS = 12  # of the digest in an id: 48 bits


def _plain(value: Any) -> Any:
    if isinstance(value, ConfigModel):
        return value.canonical
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return to_jsonable_python(value)
