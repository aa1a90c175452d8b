"""The published schema describes every key, and editors that use it accept what a run accepts."""

import json
import re
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator, Draft202012Validator
from pydantic import ValidationError

from clusterscale.config import Config, ReleasesConfig, schema
from clusterscale.contracts import ConfigModel
from clusterscale.release.publication import Publication

FILES = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
UNITS = re.compile(
    r"number|epoch|visit|share|probability|second|AUC|privacy loss|seed|ε|δ|limit on"
    r"|in days|in the unit|without a unit|deviation",
    re.IGNORECASE,
)


@pytest.fixture(scope="module")
def schemas():
    return {model: json.loads(schema(model)) for model in (Config, ReleasesConfig, Publication)}


@pytest.fixture(scope="module")
def definitions(schemas):
    """Return the schema of each model that a config can contain, by its name."""
    found = {}
    for model, tree in schemas.items():
        found |= tree["$defs"] | {model.__name__: tree}
    return found


@pytest.fixture(scope="module")
def models(definitions):
    def below(cls):
        for child in cls.__subclasses__():
            yield child
            yield from below(child)

    ours = (cls for cls in below(ConfigModel) if cls.__module__.startswith("clusterscale."))
    found = {cls.__name__: cls for cls in ours if cls.__name__ in definitions}
    assert found.keys() == definitions.keys()
    return found


def fields_of(definitions):
    for name, tree in definitions.items():
        for key, field in tree.get("properties", {}).items():
            yield name, key, field


def kinds_of(field):
    """Return the JSON types of a field, and of the items of a list."""
    parts = [field, *field.get("anyOf", ()), field.get("items", {})]
    return {part.get("type") for part in parts}


def test_every_field_has_a_description_a_default_and_an_example(definitions):
    found = list(fields_of(definitions))
    assert len(found) > 400
    bare = [
        f"{name}.{key}"
        for name, key, field in found
        if not field.get("description")
        or not field.get("examples")
        or ("default" not in field and key not in definitions[name].get("required", ()))
    ]
    assert not bare


def test_every_number_has_a_unit(definitions):
    bare = [
        f"{name}.{key}: {field['description']}"
        for name, key, field in fields_of(definitions)
        if kinds_of(field) & {"integer", "number"} and not UNITS.search(field["description"])
    ]
    assert not bare


def test_every_example_is_valid(definitions, models):
    examples = {
        name: {key: field["examples"][0] for key, field in tree.get("properties", {}).items()}
        for name, tree in definitions.items()
    }
    for name, key, field in fields_of(definitions):
        needed = {key: examples[name][key] for key in definitions[name].get("required", ())}
        for example in field["examples"]:
            Draft202012Validator({**field, "$defs": definitions}).validate(example)
            faults = faults_of(models[name], {**needed, key: example})
            if (name, key) == ("Config", "analyses"):  # none is part of this package
                faults -= {("analyses", 0)}
            assert faults <= {()}, f"{name}.{key}"  # (): it excludes another field, or needs one


def faults_of(model, content):
    try:
        model.model_validate(content)
    except ValidationError as error:
        return {fault["loc"] for fault in error.errors()}
    return set()


@pytest.mark.parametrize("validator", [Draft7Validator, Draft202012Validator])
def test_the_schema_is_valid_in_the_dialects_of_editors(schemas, validator):
    content = yaml.safe_load((FILES[0].parent / "quickstart.yaml").read_text())
    for tree in schemas.values():
        validator.check_schema(tree)
    validator(schemas[Config]).validate(content)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_editors_accept_the_shipped_configs(schemas, path):
    validator = Draft202012Validator(schemas[ReleasesConfig if path.stem == "releases" else Config])
    content = yaml.safe_load(path.read_text())
    validator.validate(content)
    assert not validator.is_valid(content | {"ouptut": "runs"})
