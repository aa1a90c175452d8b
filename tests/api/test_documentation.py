"""Public functions say what goes in and out, and every field of a config says what it is."""

import inspect
import json
from importlib import import_module

import pytest

import clusterscale as cs
from clusterscale.config import Config, ReleasesConfig, schema

PACKAGES = (
    "api", "api.figures", "attacks", "audit", "config", "consistency", "cube", "dp_audit", "game",
    "groups", "ingest", "mechanisms", "metrics", "priors", "reaudit", "recovery", "report",
    "runtime", "screening", "storage", "study", "traits", "utility",
)  # fmt: skip
SUMMARISED = 3  # parameters up to which a short docstring without sections may suffice


def functions():
    """Return the public functions of the package and its subpackages."""
    modules = (cs, *(import_module(f"clusterscale.{name}") for name in PACKAGES))
    values = (getattr(module, name) for module in modules for name in module.__all__)
    found = (getattr(value, "_function", value) for value in values)
    return set(filter(inspect.isfunction, found))


@pytest.mark.dask
def test_public_functions_document_their_parameters():
    faults = []
    for function in functions():
        doc, parameters = inspect.getdoc(function) or "", inspect.signature(function).parameters
        name, ours = f"{function.__module__}.{function.__name__}", "clusterscale.api"
        refers = ":func:" in doc or ":class:" in doc or " as for " in doc.lower()
        if (len(parameters) > SUMMARISED or name.startswith(ours)) and not refers:
            faults += [f"{name}: {key}" for key in parameters if key not in doc]
        if function.__module__.startswith(ours):
            needed = ("Parameters", "Returns", "Raises")
            faults += [f"{name}: {part}" for part in needed if part not in doc.splitlines()]
    assert not faults


@pytest.mark.parametrize("model", [Config, ReleasesConfig])
def test_every_field_of_a_config_has_a_description(model):
    tree = json.loads(schema(model))
    models = {model.__name__: tree, **tree["$defs"]}
    bare = [
        f"{name}.{key}"
        for name, found in models.items()
        for key, field in found.get("properties", {}).items()
        if not field.get("description")
    ]
    assert not bare


def test_fields_that_are_described_exist():
    from clusterscale.contracts import ConfigModel
    from clusterscale.contracts.component import describe_fields

    def below(cls):
        for child in cls.__subclasses__():
            yield child
            yield from below(child)

    for cls in below(ConfigModel):
        if cls.__module__.startswith("clusterscale."):
            assert set(describe_fields(cls)) <= set(cls.model_fields), cls
