"""Check that every worker can read the cube and has the packages of third parties in a plan."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from cloudpickle import list_registry_pickle_by_value

from clusterscale.cube.blocks import Source, open_source
from clusterscale.errors import PackageError
from clusterscale.study.foreign_code import classes_in, digest_of_files, owner_of


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
            found = version(self.name) if self.name else ""
        except PackageNotFoundError:
            return f"{self.name} is absent there and {self.version} here: {remedy}"
        if found != self.version:
            return f"{self.name} is {found} there and {self.version} here: {remedy}"
        try:
            import_module(self.module)
        except (Exception, SystemExit) as error:  # a third party's module may raise anything
            reason = f"module {self.module} cannot be imported there ({error})"
            return f"{reason}: {remedy}" if self.name else f"{reason}: install it as a package"
        if self.digest and digest_of_files(self.module) != self.digest:
            reason = f"the code of {self.name or self.module} is another there than here"
            return f"{reason}: {remedy}" if self.name else f"{reason}: install it as a package"
        return ""


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
