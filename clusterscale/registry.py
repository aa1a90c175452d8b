"""Registries of named classes, plug-ins included."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, reduce
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from inspect import isabstract
from operator import or_
from pkgutil import iter_modules, resolve_name
from threading import RLock
from typing import Annotated, Any, Generic, Self, TypeVar, get_args

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import core_schema

from clusterscale.errors import (
    ConfigError,
    InputError,
    PackageError,
    UnknownNameError,
)
from clusterscale.foreign import contained
from clusterscale.validation_messages import choices, explain, forget_schemas, quote

T = TypeVar("T")
_LOCK = RLock()  # of no registry, so that a registry can be pickled


class Registry(Generic[T]):
    """Named classes of one kind, each a frozen pydantic model with a literal ``name`` field.

    The fields of the model are its constructor's keywords and its config keys: one definition
    serves Python, YAML and the published JSON schema. What a config can name is looked up when it
    is read, so classes that are registered later are known as well.

    Parameters
    ----------
    kind
        What messages call an entry, e.g. ``mechanism``.
    classes
        The classes of this package.
    base
        Class from which all entries derive, if others can be registered.
    plugins
        Group of entry points whose classes are entries. They are loaded when the registry is first
        asked for all its entries or for one that this package does not have. One that cannot be
        loaded is an error only where it, or all entries, are asked for.
    """

    def __init__(
        self, kind: str, *classes: type[T], base: type[Any] | None = None, plugins: str = ""
    ) -> None:
        self.kind, self.base, self._package, self._plugins = kind, base, "", plugins
        self._classes = {_name_of(cls): cls for cls in classes}
        self._broken: dict[str, str] = {}  # why plug-ins cannot be loaded, by their names
        self.absent: dict[str, str] = {}  # usual names of what there is no entry for, and what is

    @classmethod
    def of_package(cls, kind: str, package: str, base: type[Any], *, plugins: str = "") -> Self:
        """Return all subclasses of ``base`` with a name of their own in the modules of a package.

        A class is therefore registered where it is defined. The modules are imported when the
        registry is first used.
        """
        registry = cls(kind, base=base, plugins=plugins)
        registry._package = package
        return registry

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._complete()))

    def __contains__(self, name: object) -> bool:
        """Return whether there is such a name; raise PackageError if it cannot be loaded."""
        with suppress(UnknownNameError):
            return bool(self[str(name)])
        return False

    @property
    def classes(self) -> tuple[type[T], ...]:
        """The registered classes; raises PackageError if a plug-in cannot be loaded."""
        return tuple(self._complete().values())

    @property
    def loaded(self) -> Mapping[str, type[T]]:
        """The registered classes by name, without plug-ins that cannot be loaded."""
        self._load_all()
        return self._own()

    def __getitem__(self, name: str) -> type[T]:
        """Return the class called ``name``.

        Raises UnknownNameError, which lists the known names and the closest match, if there is
        none, and PackageError if it is a plug-in that cannot be loaded.
        """
        try:
            found = self._own().get(name)
            found = found or self.loaded.get(name)
        except TypeError:
            found = None
        if found is None and str(name) in self._broken:
            raise PackageError(self._broken[str(name)])
        if found is None:
            others = "".join(f"; {why}" for why in self._broken.values())
            instead = self.absent.get(str(name)) or choices(str(name), sorted(self.loaded))
            raise UnknownNameError(f"unknown {self.kind} {quote(name)}: {instead}{others}")
        return found

    def create(self, name: str, **params: Any) -> T:
        """Build the entry called ``name``, a frozen pydantic model, from its constructor fields.

        Raises UnknownNameError if there is no such entry, and ConfigError if a parameter is
        missing, unknown, of the wrong type or out of range.
        """
        cls: Any = self[name]
        try:
            return cls.model_validate(params)  # type: ignore[no-any-return]
        except ValidationError as error:
            raise ConfigError(explain(error, cls, prefix=(self.kind, name))) from None

    def field(self, only: type[Any] | None = None, *, skip: str = "") -> Any:
        """Return the type of a config value that names an entry: ``{name: …, <fields>}``.

        A name alone is the entry with its default settings.

        In Python it may also be an object of any other class that derives from the ``base`` of the
        registry, such as a third party's. ``only`` is a narrower base; the entry ``skip`` is left
        out.
        """
        return Annotated[Any, self.entry(only, skip=skip)]

    def entry(self, only: type[Any] | None = None, *, skip: str = "") -> Any:
        """Return the same as metadata of a type: ``Annotated[Mechanism, MECHANISMS.entry()]``."""
        return _Entry(self, only, skip)

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of a config value of this kind."""
        return TypeAdapter(self.field()).json_schema()

    def add(self, cls: type[Any]) -> None:
        """Register a class; one of the same module and name, such as an older version, is replaced.

        Raises InputError if the class is not a complete subclass of the base with a literal
        name, or another class has that name.
        """
        called = f"{cls.__module__}.{cls.__qualname__}"
        if not _is_entry(cls, self.base or BaseModel):
            base = self.base or BaseModel
            raise InputError(
                f"{called} is no {self.kind}: it must derive from {base.__module__}."
                f"{base.__name__}, and have a literal name: "
                'name: Literal["my_name"] = "my_name"'
            )
        if isabstract(cls):
            missing = ", ".join(sorted(cls.__abstractmethods__))
            raise InputError(f"{called} is no complete {self.kind}: it must define {missing}")
        name = _name_of(cls)
        other = self._own().get(name)
        if other is not None and (taken := f"{other.__module__}.{other.__qualname__}") != called:
            raise InputError(f"{called} cannot be the {self.kind} {name!r}, which {taken} is")
        self._classes[name] = cls
        forget_schemas()

    def discard(self, cls: type[Any]) -> None:
        """Remove a class that was registered, if it is there: for tests."""
        self._classes = {name: one for name, one in self._classes.items() if one is not cls}

    def _own(self) -> dict[str, type[T]]:
        """Return the classes so far, those of the package included."""
        with _LOCK:
            package, self._package = self._package, ""
            try:
                found = _find_entries(package, self.base or BaseModel) if package else []
            except BaseException:
                self._package = package  # the next use tries again, and has the same error
                raise
            self._classes = {_name_of(cls): cls for cls in found} | self._classes
        return self._classes

    def _complete(self) -> dict[str, type[T]]:
        """Return all classes, plug-ins included; raise PackageError if one cannot be loaded."""
        found = dict(self.loaded)
        for why in self._broken.values():
            raise PackageError(why)
        return found

    def _load_all(self) -> None:
        """Load the plug-ins, once."""
        self._own()
        with _LOCK:
            group, self._plugins = self._plugins, ""  # a plug-in may use the registry meanwhile
            try:
                for point in entry_points(group=group) if group else ():
                    self._load(point)
            except BaseException:
                self._plugins = group
                raise

    def _load(self, point: EntryPoint) -> None:
        try:
            with contained(f"the import of {point.value}"):
                cls = point.load()
            self.add(cls)
        except Exception as fault:
            ended = isinstance(fault.__cause__, SystemExit | GeneratorExit)
            error = fault.__cause__ if ended else fault
            owner = f"{point.dist.name} {point.dist.version}" if point.dist else "a package"
            reason = (
                str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            )
            self._broken[point.name] = (
                f"the plug-in {point.name} = {point.value} ({point.group}) of {owner} cannot be "
                f"loaded: {reason}; correct or uninstall {owner.partition(' ')[0]}"
            )


@dataclass(frozen=True, eq=False)
class _Entry:
    """Type of a config value that names an entry; the registry is asked when one is validated."""

    registry: Registry[Any]
    only: type[Any] | None
    skip: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self._validate, serialization=core_schema.simple_ser_schema("any")
        )

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        if not (classes := self._classes()):
            return {"type": "object"}
        found, required = handler(_adapter(classes).core_schema), FieldInfo.is_required
        names = [
            _name_of(cls) for cls in classes if not any(map(required, cls.model_fields.values()))
        ]
        if "oneOf" in found:
            return {**found, "oneOf": [*found["oneOf"], {"enum": names}]}
        return {"anyOf": [found, {"enum": names}]} if names else found

    def _classes(self) -> tuple[type[Any], ...]:
        return tuple(
            cls
            for name, cls in self.registry.loaded.items()
            if name != self.skip and issubclass(cls, self.only or object)
        )

    def _validate(self, value: Any) -> Any:
        """Return the entry; an object of an unregistered class if it derives from the base."""
        classes, base = self._classes(), self.only or self.registry.base
        if not classes and not isinstance(value, BaseModel):
            raise ValueError(f"no {self.registry.kind} is installed or registered")
        if isinstance(value, str):
            value = {"name": value}
        if self.registry._broken and isinstance(value, Mapping) and "name" in value:
            self.registry[value["name"]]  # which may be a plug-in that cannot be loaded
        if base is None or not isinstance(value, BaseModel) or type(value) in classes:
            return _adapter(classes).validate_python(value)
        if not isinstance(value, base) or getattr(value, "name", "") == self.skip:
            raise ValueError(
                f"{type(value).__name__} is no {self.registry.kind}: it does not derive from "
                f"{base.__module__}.{base.__name__}"
            )
        return value


def register(cls: type[T]) -> type[T]:
    """Register a mechanism, prior, attack, measure, reader, check or other class by its name.

    It can then be named in configs, and appears in the JSON schema, plans and reports. A package
    that is installed registers its classes by entry points instead. Can be used as a decorator.

    Parameters
    ----------
    cls
        Derives from ``clusterscale.contracts.Mechanism``, ``Prior`` or ``Attack``,
        ``clusterscale.utility.Utility``, ``clusterscale.ingestion.Reader``,
        ``clusterscale.release.TableFormat``, ``clusterscale.release.checks.Check``,
        ``clusterscale.runtime.Cluster`` or ``clusterscale.study.AnalysisPlan``, which decides its
        kind, and has a literal ``name``.

    Returns
    -------
    type
        The class.

    Raises
    ------
    InputError
        If it derives from none of these, has no literal name, is abstract, or its name is taken.
    """
    home = getattr(cls, "_registry", "")
    if not home:
        raise InputError(
            f"{cls.__module__}.{cls.__qualname__} has no kind: derive it from one of the classes "
            "that help(clusterscale.register) lists"
        )
    resolve_name(home).add(cls)
    return cls


@lru_cache(maxsize=64)
def _adapter(classes: tuple[type[Any], ...]) -> TypeAdapter[Any]:
    """Return what validates ``{name: …, <fields>}`` as an object of one of the classes."""
    union: Any = reduce(or_, classes)
    if len(classes) > 1:
        union = Annotated[union, Field(discriminator="name")]
    return TypeAdapter(union)


def _name_of(cls: type[Any]) -> str:
    if not issubclass(cls, BaseModel):
        raise TypeError(f"{cls.__name__} is not a pydantic model")
    (name,) = get_args(cls.model_fields["name"].annotation)
    return str(name)


def _is_entry(value: Any, base: type[Any]) -> bool:
    """Return whether ``value`` is a class with a literal name of its own."""
    if not (isinstance(value, type) and issubclass(value, base)):
        return False
    name = getattr(value, "model_fields", {}).get("name")
    return name is not None and len(get_args(name.annotation)) == 1


def _find_entries(package: str, base: type[Any]) -> list[type[Any]]:
    """Return the entries that the modules of a package define, by the names of the classes."""
    found = {}
    for info in iter_modules(import_module(package).__path__):
        module = import_module(f"{package}.{info.name}")
        for key, value in vars(module).items():
            home = f"{getattr(value, '__module__', '')}."
            if home.startswith(f"{module.__name__}.") and _is_entry(value, base):
                found[key] = value
    return [found[key] for key in sorted(found)]
