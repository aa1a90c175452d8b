"""Registries of named classes, and lists of their objects in a config."""

from collections.abc import Callable, Iterator
from functools import reduce
from importlib import import_module
from operator import or_
from pkgutil import iter_modules
from typing import Annotated, Any, Generic, Self, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    SerializeAsAny,
    Strict,
    TypeAdapter,
    ValidationError,
    WrapValidator,
)

from clusterscale.errors import ConfigError, UnknownNameError
from clusterscale.validation_messages import choices, explain

__all__ = ["NonEmptyUnique", "OptionalUnique", "Registry", "distinct"]

T = TypeVar("T")


class Registry(Generic[T]):
    """Named classes of one kind, each a frozen pydantic model with a literal ``name`` field.

    The fields of the model are its constructor's keywords and its config keys: one definition
    serves Python, YAML and the published JSON schema.
    """

    def __init__(self, kind: str, *classes: type[T], base: type[Any] | None = None) -> None:
        self.kind, self._base = kind, base
        self._classes = {_name_of(cls): cls for cls in classes}

    @classmethod
    def of_package(cls, kind: str, package: str, base: type[Any], *, skip: str = "") -> Self:
        """Return all subclasses of ``base`` with a name of their own in the modules of a package.

        A class is therefore registered where it is defined. The module ``skip`` is left out.
        """
        modules = [
            import_module(f"{package}.{info.name}")
            for info in iter_modules(import_module(package).__path__)
            if info.name != skip
        ]
        found = {
            key: value
            for module in modules
            for key, value in vars(module).items()
            if getattr(value, "__module__", "") == module.__name__ and _is_entry(value, base)
        }
        return cls(kind, *(found[key] for key in sorted(found)), base=base)

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
        """Return the type of a config value that names an entry: ``{name: …, <fields>}``.

        In Python it may also be an object of any other class that derives from the ``base`` of the
        registry, such as a third party's.
        """
        union: Any = reduce(or_, self._classes.values())
        if len(self._classes) > 1:
            union = Annotated[union, Field(discriminator="name")]
        if self._base is None:
            return union
        return Annotated[union, SerializeAsAny(), WrapValidator(self._accept)]  # type: ignore[type-arg]

    def _accept(self, value: Any, validate: Callable[[Any], Any]) -> Any:
        """Return an object of an unregistered class unchanged, if it derives from the base."""
        if not isinstance(value, BaseModel) or type(value) in self._classes.values():
            return validate(value)
        if self._base is not None and not isinstance(value, self._base):
            raise ValueError(
                f"{type(value).__name__} is no {self.kind}: it does not derive from "
                f"{self._base.__module__}.{self._base.__name__}"
            )
        return value

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


def _is_entry(value: Any, base: type[BaseModel]) -> bool:
    """Return whether ``value`` is a class with a literal name of its own."""
    if not (isinstance(value, type) and issubclass(value, base)):
        return False
    name = value.model_fields.get("name")
    return name is not None and bool(get_args(name.annotation))


def distinct(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return ``items``; raise ValueError if there is none, or two share an id or a label."""
    if not items:
        raise ValueError("give at least one")
    labels = [str(getattr(item, "label", item)) for item in items]
    for keys in (labels, [getattr(item, "id", item) for item in items]):
        twice = sorted(
            {label for label, key in zip(labels, keys, strict=True) if keys.count(key) > 1}
        )
        if twice:
            raise ValueError(f"{', '.join(twice)} is listed twice")
    return items


NonEmptyUnique = [Strict(False), AfterValidator(distinct)]
OptionalUnique = [Strict(False), AfterValidator(lambda items: items and distinct(items))]
