"""Code of other packages in a plan: which distribution it is of, and a digest of what it does.

A digest covers the files of the package of a class, those of all modules that it imports and that
are not installed, the versions of installed ones, and the functions as they are in memory, which
may have been changed since they were imported.
"""

import ast
import os
import pickle
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, cached_property, lru_cache, partial
from hashlib import blake2b
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
from cloudpickle import list_registry_pickle_by_value
from pydantic import BaseModel

from clusterscale.cube.blocks import Source, open_source
from clusterscale.errors import PackageError
from clusterscale.foreign import is_foreign

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))
_WRAPPERS = type(lru_cache(abs))
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_INTERNAL = re.compile(r"__(?!init__|call__|post_init__|new__)|_abc_|model_config")


@dataclass(frozen=True, slots=True, order=True)
class Package:
    """A module of classes in a plan, its distribution and code; no name if it is not installed."""

    module: str
    name: str
    version: str
    digest: str = ""

    def fault(self) -> str:
        """Return what is wrong with the package in this process, ``""`` if nothing."""
        remedy = f"install {self.name}=={self.version} where the workers run"
        try:
            found = metadata.version(self.name) if self.name else ""
        except metadata.PackageNotFoundError:
            return f"{self.name} is absent there and {self.version} here: {remedy}"
        if found != self.version:
            return f"{self.name} is {found} there and {self.version} here: {remedy}"
        try:
            import_module(self.module)
        except (Exception, SystemExit) as error:  # a third party's module may raise anything
            reason = f"module {self.module} cannot be imported there ({error})"
        else:
            if not self.digest or digest_of_files(self.module) == self.digest:
                return ""
            reason = f"the code of {self.name or self.module} is another there than here"
        return f"{reason}: {remedy}" if self.name else f"{reason}: install it as a package"


@dataclass(frozen=True, slots=True)
class Probe:
    """Callable on each worker that raises if the worker lacks a package or cannot read the cube."""

    source: Source
    packages: tuple[Package, ...]

    def __call__(self) -> None:
        """Check the packages, then open the cube.

        Raises
        ------
        PackageError
            Naming each package that is absent, of another version or not importable.
        """
        if faults := [fault for package in self.packages if (fault := package.fault())]:
            raise PackageError("; ".join(faults))
        open_source(self.source)


def packages_of(plan: Any) -> tuple[Package, ...]:
    """Return the packages of the classes of third parties in a plan, such as plug-ins.

    Classes of scripts and notebooks, and of modules that cloudpickle pickles by value, travel with
    the tasks and are left out.
    """
    known = {"clusterscale", "__main__", *list_registry_pickle_by_value()}
    modules = {cls.__module__ for cls in classes_in(plan)} - known
    modules = {name for name in modules if name.partition(".")[0] not in known}
    return tuple(Package(name, *owner_of(name), digest_of_files(name)) for name in sorted(modules))


def code_of(*parts: Any) -> dict[str, dict[str, str]]:
    """Return distribution, version and digest of each class of other packages in some settings.

    A digest is empty if the code cannot be read, so that results must not be reused.
    """
    classes = {cls for part in parts for cls in classes_in(part) if is_foreign(cls)}
    return {
        f"{cls.__module__}:{cls.__qualname__}": _describe(cls) for cls in sorted(classes, key=str)
    }


def changed_code(code: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the classes whose code is another here and now than what :func:`code_of` returned."""
    changed = []
    for path, before in code.items():
        try:
            cls = resolve_name(path)
        except (ImportError, AttributeError, ValueError):
            changed.append(path)
        else:
            now = _describe(cls)
            if now != before or not now["digest"]:
                changed.append(path)
    return changed


def classes_in(value: Any) -> Iterator[type[Any]]:
    """Yield the classes of a setting and of all settings in it."""
    if isinstance(value, type):
        yield value
    elif isinstance(value, BaseModel):
        yield type(value)
        value = dict(value)
    elif is_dataclass(value):
        yield type(value)
        value = [getattr(value, one.name) for one in fields(value)]
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        for item in value:
            yield from classes_in(item)


def owner_of(module: str) -> tuple[str, str]:
    """Return name and version of the distribution of a module, empty if it is not installed."""
    name = next(iter(_owners().get(module.partition(".")[0], [])), "")
    try:
        return name, metadata.distribution(name).version if name else ""
    except metadata.PackageNotFoundError:
        return "", ""


@cache
def _owners() -> Mapping[str, list[str]]:
    """Return the distributions of each top-level module; an editable one lists no modules."""
    owners = dict(metadata.packages_distributions())  # reads the metadata of all distributions
    for one in metadata.distributions():
        for point in one.entry_points:
            if point.group.startswith("clusterscale."):
                owners.setdefault(point.module.partition(".")[0], [one.name])
    return owners


@cache
def _known() -> frozenset[str]:
    """Return the modules that are not foreign: those of Python, and what this package requires."""
    words = (re.match(r"[\w.-]+", line) for line in metadata.requires("clusterscale") or ())
    names = {_normal(word[0]) for word in words if word}
    ours = {top for top, owners in _owners().items() if names & set(map(_normal, owners))}
    return frozenset(sys.stdlib_module_names | ours | {"clusterscale"}) - {"__main__"}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_known(module: str | None) -> bool:
    return module is None or module.partition(".")[0] in _known()


def _describe(cls: type[Any]) -> dict[str, str]:
    walk, (name, version) = _Walk(), owner_of(cls.__module__)
    walk.add(cls)
    files = digest_of_files(cls.__module__, *walk.modules)
    digest = blake2b("\n".join([*walk.words, files]).encode(), digest_size=16).hexdigest()
    known = files and not walk.unknown
    return {"distribution": name, "version": version, "digest": digest if known else ""}


def digest_of_files(home: str, *others: str) -> str:
    """Return the digest of the files of a module's package and of all that is imported there.

    It is empty if the files of one cannot be listed or read, such as those in an archive.
    ``others`` are more modules. Of an installed package, other than its own, the list of files is
    read, unless it is editable or has none.
    """
    home = _package_of(home)
    total, left, done = blake2b(digest_size=16), [home, *sorted(map(_package_of, others))], set()
    while left:
        package = left.pop(0)
        if package in done or _is_known(package):
            continue
        done.add(package)
        name, places = owner_of(package)[0], _places(package)
        if places is None:
            return ""
        listed = name and package != home and not _is_editable(name)
        if listed and (record := metadata.distribution(name).read_text("RECORD")) is not None:
            total.update(repr((owner_of(package), record)).encode())
            continue
        try:
            for file in _files(places):
                stat = file.stat()
                digest, imports = _read(file, stat.st_mtime_ns, stat.st_size)
                total.update(repr((package, file.name, digest)).encode())
                left += imports
        except OSError:
            return ""
    return total.hexdigest()


def _is_editable(name: str) -> bool:
    about = metadata.distribution(name).read_text("direct_url.json") or ""
    return re.search(r'"editable":\s*true', about) is not None


def _package_of(module: str) -> str:
    """Return the outermost regular package of a module; of a namespace package, the first in it."""
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}".lstrip(".")
        if getattr(sys.modules.get(name), "__file__", None):
            return name
    return module


def _places(package: str) -> list[Path] | None:
    """Return the file or folders of a module, none if it is absent; None if they are unknown."""
    found = sys.modules.get(package)
    try:
        spec = None if found else find_spec(package)
    except (ImportError, ValueError):
        return None
    folders = getattr(found, "__path__", None) or (spec and spec.submodule_search_locations)
    file = getattr(found, "__file__", None) or (spec and spec.origin)
    if not folders and not file:  # a notebook has no file, and is read from memory
        return [] if package == "__main__" or not (found or spec) else None
    places = [Path(place) for place in folders or [file]]
    return places if all(map(Path.exists, places)) else None


def _files(places: Iterable[Path]) -> Iterator[Path]:
    """Yield files, and those in folders, in order; raise OSError if one cannot be listed."""

    def refuse(error: OSError) -> None:
        raise error

    for place in places:
        found = [place] if place.is_file() else []
        for folder, folders, names in [] if found else os.walk(place, onerror=refuse):
            if any(os.path.islink(f"{folder}/{name}") for name in folders):
                raise NotADirectoryError(folder)  # its files are elsewhere
            found += [Path(folder, name) for name in names]
        yield from sorted(
            path for path in found if path.is_file() and "__pycache__" not in path.parts
        )


@lru_cache(maxsize=4096)
def _read(file: Path, time: int, size: int) -> tuple[str, tuple[str, ...]]:
    """Return the digest of a file, and the modules that it imports if it is of Python."""
    if size > 1 << 26:  # bytes of a file of which only size and time are in a digest
        return f"{size} {time}", ()
    raw = file.read_bytes()
    digest = blake2b(raw, digest_size=16).hexdigest()
    if file.suffix != ".py":
        return digest, ()
    try:
        tree = ast.walk(ast.parse(raw))
    except (SyntaxError, ValueError):
        return digest, ()
    names = set[str]()
    for node in tree:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return digest, tuple(sorted({_package_of(name.partition(".")[0]) for name in names}))


@dataclass
class _Walk:
    """What functions, classes and data in memory do, in words that repeat in another process.

    Data of a file that may change, such as a cache, are not read: the file has their beginning.
    """

    modules: set[str] = field(default_factory=set)
    unknown: bool = False
    seen: set[int] = field(default_factory=set)
    words: list[str] = field(default_factory=list)

    def add(self, value: Any) -> None:
        """Add a value, and all that it uses."""
        while getattr(value, "_is_guarded", False) or isinstance(value, _WRAPPERS):
            value = value.__wrapped__
        value = getattr(value, "py_func", value)  # of a function that numba compiles
        if isinstance(value, _PLAIN):
            self.words.append(repr(value))
        elif id(value) not in self.seen:
            self.seen.add(id(value))
            self.words.append(f"{type(value).__module__}.{type(value).__qualname__}")
            self._add_new(value)

    def _add_new(self, value: Any) -> None:
        if isinstance(value, tuple | list):
            self._add_all(value)
        elif isinstance(value, set | frozenset):
            self._add_all(sorted(value, key=repr))
        elif isinstance(value, Mapping):
            self._add_all(value.items())
        elif isinstance(value, types.ModuleType):
            self._is_foreign(value.__name__)
        elif isinstance(value, types.CodeType):
            self.words.append(repr((value.co_code, value.co_names, value.co_varnames)))
            self._add_all(value.co_consts)
        elif isinstance(value, types.FunctionType):
            self._add_function(value)
        elif isinstance(value, type):
            self._add_class(value)
        elif isinstance(value, property | cached_property | classmethod | staticmethod):
            self._add_all(getattr(value, name, None) for name in ("fget", "func", "__func__"))
        elif isinstance(value, partial):
            self._add_all((value.func, value.args, value.keywords))
        elif isinstance(value, types.MethodType):
            self._add_all((value.__func__, value.__self__))
        else:
            self._add_object(value)

    def _add_all(self, values: Iterable[Any]) -> None:
        for value in values:
            self.add(value)

    def _is_foreign(self, module: str | None) -> bool:
        """Return whether a module is of other packages, and note it."""
        if module is None or _is_known(module):
            return False
        self.modules.add(module)
        return True

    def _add_function(self, function: types.FunctionType) -> None:
        self.words.append(f"{function.__module__}.{function.__qualname__}")
        if not self._is_foreign(function.__module__):
            return
        self._add_all((function.__code__, function.__defaults__, function.__kwdefaults__))
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # it is empty
                self.add(cell.cell_contents)
        names = _names(function.__code__)
        for name in names:
            value = function.__globals__.get(name)
            if isinstance(value, types.ModuleType) and self._is_foreign(value.__name__):
                for used in names:
                    self._add_named(used, vars(value).get(used), value.__name__)
            else:
                self._add_named(name, value, function.__module__)

    def _add_class(self, cls: type[Any]) -> None:
        self.words.append(f"{cls.__module__}.{cls.__qualname__}")
        for base in cls.__mro__:
            if not is_foreign(base) or not self._is_foreign(base.__module__):
                continue
            for name, value in sorted(vars(base).items()):
                if not _INTERNAL.match(name):
                    self._add_named(name, value, base.__module__)
            for name, known in getattr(base, "model_fields", {}).items():
                text = f"{name} {known.annotation!r} {known.default!r} {known.metadata!r}"
                self.words.append(_ADDRESS.sub("", text))

    def _add_named(self, name: str, value: Any, module: str) -> None:
        """Add a global or an attribute, unless it is data of a file that may change."""
        fixed = (*_PLAIN, tuple, frozenset, property, cached_property, classmethod, staticmethod)
        if value is not None and (
            module == "__main__" or isinstance(value, fixed) or callable(value)
        ):
            self.words.append(name)
            self.add(value)

    def _add_object(self, value: Any) -> None:
        if isinstance(value, np.ndarray) and value.dtype != object:
            self.words.append(f"{value.dtype} {value.shape} {blake2b(value.tobytes()).hexdigest()}")
        elif not _is_known(type(value).__module__) and hasattr(value, "__dict__"):
            self._add_all((type(value), vars(value)))
        elif not isinstance(value, types.MemberDescriptorType | types.GetSetDescriptorType):
            try:
                self.words.append(blake2b(pickle.dumps(value)).hexdigest())
            except Exception:  # a third party's object may raise anything
                self.unknown = True


def _names(code: types.CodeType) -> list[str]:
    """Return the names of globals and attributes in a code, those of inner functions included."""
    inner = (
        _names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)
    )
    return sorted(set(code.co_names).union(*inner))
