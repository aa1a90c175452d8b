"""Names that are known, names that are not, and fields that are wrong."""

from __future__ import annotations

import pickle
from typing import Literal

import pytest
from jsonschema import Draft202012Validator
from loops import for_each
from pydantic import BaseModel, TypeAdapter

from clusterscale.contracts import ConfigModel, Count, Positive
from clusterscale.errors import ConfigError, InputError, UnknownNameError
from clusterscale.registry import Registry


class Rounding(ConfigModel):
    name: Literal["rounding"] = "rounding"
    base: Count = 10


class Gauss(ConfigModel):
    name: Literal["gauss"] = "gauss"
    sigma: Positive
    unit: Literal["event", "user"] = "event"


NOISES: Registry[ConfigModel] = Registry("noise", Rounding, Gauss)


def test_names_in_order():
    assert list(NOISES) == ["gauss", "rounding"]
    assert NOISES["gauss"] is Gauss
    assert NOISES.kind == "noise"


def test_create():
    made = NOISES.create("gauss", sigma=2.0)
    assert made == Gauss(sigma=2.0, unit="event")
    assert hash(made) == hash(pickle.loads(pickle.dumps(made)))
    assert made.label == "gauss(sigma=2.0)"
    assert NOISES.create("rounding").label == "rounding"


@for_each(
    ("name", "hint"),
    [("gaus", "; did you mean 'gauss'?"), ("zzz", ""), ("", ""), (None, ""), (["gauss"], "")],
)
@for_each("ask", [NOISES.create, NOISES.__getitem__])
def test_unknown_names(ask, name, hint):
    with pytest.raises(UnknownNameError) as caught:
        ask(name)
    if isinstance(name, str):
        assert str(caught.value) == f"unknown noise {name!r}: choose from gauss, rounding{hint}"
    assert isinstance(caught.value, InputError)


@for_each(
    ("name", "fields", "message"),
    [
        ("gauss", {}, "noise.gauss.sigma: is missing"),
        ("gauss", {"sigma": 0.0}, "noise.gauss.sigma: is 0.0, but should be greater than 0"),
        (
            "gauss",
            {"sigma": float("inf")},
            "noise.gauss.sigma: is inf, but should be a finite number",
        ),
        ("gauss", {"sigma": "2"}, "noise.gauss.sigma: is '2', but should be a number"),
        (
            "gauss",
            {"sigma": 1.0, "unit": "day"},
            "noise.gauss.unit: is 'day', but should be 'event' or 'user'",
        ),
        ("rounding", {"base": True}, "noise.rounding.base: is True, but should be a whole number"),
        ("rounding", {"base": 2.0}, "noise.rounding.base: is 2.0, but should be a whole number"),
        (
            "rounding",
            {"base": 0},
            "noise.rounding.base: is 0, but should be greater than or equal to 1",
        ),
    ],
)
def test_wrong_fields(name, fields, message):
    with pytest.raises(ConfigError) as caught:
        NOISES.create(name, **fields)
    assert str(caught.value).partition(": write ")[0] == message


def test_every_fault_is_told():
    with pytest.raises(ConfigError) as caught:
        NOISES.create("gauss", sigm=1.0, unit=3)
    lines = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "noise.gauss.sigma",
        "noise.gauss.unit",
        "noise.gauss.sigm",
    ]


def test_what_is_made_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        NOISES.create("rounding").base = 3


def test_the_type_of_a_config_value():
    parse = TypeAdapter(NOISES.field()).validate_python
    assert parse({"name": "rounding", "base": 5}) == Rounding(base=5)
    assert parse({"name": "gauss", "sigma": 1.0}) == Gauss(sigma=1.0)
    alone: Registry[ConfigModel] = Registry("noise", Rounding)
    for named in (NOISES, alone):
        assert TypeAdapter(named.field()).validate_python("rounding") == Rounding()
        with pytest.raises(ValueError, match="'rounding'"):
            TypeAdapter(named.field()).validate_python("rouding")
        editor = Draft202012Validator(named.schema())
        known = ["rounding", {"name": "rounding"}]
        assert [one for one in (*known, "gauss", "rouding") if editor.is_valid(one)] == known
    assert TypeAdapter(alone.field()).validate_python({"base": 5}) == Rounding(base=5)
    assert set(NOISES.schema()["discriminator"]["mapping"]) == {"gauss", "rounding"}


def test_only_models_are_registered():
    class Plain:
        name: Literal["plain"] = "plain"

    with pytest.raises(TypeError, match="Plain is not a pydantic model"):
        Registry("noise", Plain)
    with pytest.raises(KeyError):
        Registry("noise", BaseModel)


def test_a_class_is_registered_where_it_is_defined(tmp_path, monkeypatch):
    package = tmp_path / "noises"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "uniform.py").write_text(
        "from typing import Literal\n"
        "from clusterscale.contracts import ConfigModel\n"
        "class Base(ConfigModel):\n"
        "    name: str\n"
        "class Uniform(Base):\n"
        "    name: Literal['uniform'] = 'uniform'\n"
    )
    (package / "cut.py").write_text(
        "from typing import Literal\n"
        "from noises.uniform import Base, Uniform\n"
        "class Cut(Uniform):\n"
        "    name: Literal['cut'] = 'cut'\n"
        "class Other:\n"
        "    name: Literal['other'] = 'other'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = Registry.of_package("noise", "noises", ConfigModel)
    assert list(found) == ["cut", "uniform"]
    assert [cls.__name__ for cls in found.classes] == ["Cut", "Uniform"]


def test_an_object_of_another_class_is_taken_if_it_derives_from_the_base():
    class Mine(Gauss):
        name: Literal["mine"] = "mine"

    parse = TypeAdapter(Registry("noise", Rounding, Gauss, base=Gauss).field())
    mine = Mine(sigma=1.0)
    assert parse.validate_python(mine) is mine
    assert parse.validate_python({"name": "gauss", "sigma": 1.0}) == Gauss(sigma=1.0)
    assert parse.dump_python(mine) == {"name": "mine", "sigma": 1.0, "unit": "event"}
    with pytest.raises(ValueError, match="Alien is no noise: it does not derive from"):
        parse.validate_python(Alien())
    assert TypeAdapter(NOISES.field()).json_schema() == parse.json_schema()


class Alien(ConfigModel):
    name: Literal["alien"] = "alien"
