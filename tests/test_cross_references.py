"""Names that docstrings refer to exist, so that a renamed function is renamed there too."""

import builtins
import re
from contextlib import suppress
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest
from loops import for_each

import clusterscale
from clusterscale import errors, metrics

pytestmark = pytest.mark.dask  # the modules of all clusters are imported

FOLDER = Path(clusterscale.__file__).parent
ROLE = re.compile(r":(?:func|class|meth|data|attr|mod):`~?([\w.]+)`")
OTHERS = ("numpy.", "xarray.")  # libraries


def modules():
    """Yield the name of every module of the package that has a cross-reference, and the names."""
    for path in sorted(FOLDER.rglob("*.py")):
        if names := set(ROLE.findall(path.read_text())):
            parts = path.relative_to(FOLDER.parent).with_suffix("").parts
            yield ".".join(parts).removesuffix(".__init__"), names


def find(name):
    """Return what a dotted name of the package means; raise an error if it means nothing."""
    parts = name.split(".")
    for n_parts in range(len(parts), 0, -1):
        try:
            module = import_module(".".join(parts[:n_parts]))
        except ModuleNotFoundError:
            continue
        return reduce(member, parts[n_parts:], module)
    raise AttributeError(name)


def member(owner, name):
    """Return an attribute, or the field of a model or dataclass."""
    fields = {**getattr(owner, "model_fields", {}), **getattr(owner, "__dataclass_fields__", {})}
    return fields[name] if name in fields else getattr(owner, name)


def is_known(module, name):
    """Return whether a name exists: in full, or in the module, one of its classes or errors."""
    if name.startswith("clusterscale."):
        find(name)
        return True
    if name.startswith(OTHERS):
        return True
    classes = [value for value in vars(module).values() if isinstance(value, type)]
    first, *rest = name.split(".")
    places = [module, errors, metrics, builtins, clusterscale.contracts, *classes]
    owners = [place for place in places if hasattr(place, first)]
    return any(reduce(member, rest, member(owner, first)) is not None for owner in owners)


@for_each(("name", "references"), modules())
def test_they_exist(name, references):
    with suppress(ImportError):  # a package that the module needs is not installed
        module = import_module(name)
        assert [one for one in sorted(references) if not is_known(module, one)] == []
