"""Registries of named classes."""

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Annotated, Any, Generic, TypeVar, get_args

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from clusterscale.errors import ConfigError, UnknownNameError
from clusterscale.validation_messages import choices, explain

__all__ = ["Registry"]

T = TypeVar("T")


class Registry(Generic[T]):
    """Named classes of one kind, each a frozen pydantic model with a literal ``name`` field.

    The fields of the model are its constructor's keywords and its config keys: one definition
    serves Python, YAML and the published JSON schema.
    """

    def __init__(self, kind: str, *classes: type[T]) -> None:
        self.kind = kind
        self._classes = {_name_of(cls): cls for cls in classes}

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._classes))

    @property
    def classes(self) -> tuple[type[T], ...]:
        """The registered classes."""
        return tuple(self._classes.values())

    def __getitem__(self, name: str) -> type[T]:
        """Return the class called ``name``.

        Raises
        ------
        UnknownNameError
            If there is none; the message lists the known names and the closest match.
        """
        try:
            return self._classes[name]
        except (KeyError, TypeError):
            raise UnknownNameError(self._unknown(name)) from None

    def create(self, name: str, **params: Any) -> T:
        """Build the entry called ``name`` from its constructor fields.

        Raises
        ------
        UnknownNameError
            If there is no such entry.
        ConfigError
            If a parameter is missing, unknown, of the wrong type or out of range.
        """
        cls: Any = self[name]
        try:
            return cls.model_validate(params)  # type: ignore[no-any-return]
        except ValidationError as error:
            raise ConfigError(explain(error, cls, prefix=(self.kind, name))) from None

    def field(self) -> Any:
        """Return the type of a config value that names an entry: ``{name: …, <fields>}``."""
        union: Any = reduce(or_, self._classes.values())
        return Annotated[union, Field(discriminator="name")] if len(self._classes) > 1 else union

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of a config value of this kind."""
        return TypeAdapter(self.field()).json_schema()

    def _unknown(self, name: object) -> str:
        return f"unknown {self.kind} {name!r}: {choices(str(name), list(self))}"


def _name_of(cls: type[Any]) -> str:
    if not issubclass(cls, BaseModel):
        raise TypeError(f"{cls.__name__} is not a pydantic model")
    (name,) = get_args(cls.model_fields["name"].annotation)
    return str(name)
