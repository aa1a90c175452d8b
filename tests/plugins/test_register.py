"""Classes that are registered later are valid by name wherever a config names one."""

import json
import pickle
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Literal

import pytest
import yaml
from acme_privacy.attack import MatchingCells
from acme_privacy.measure import LargestError
from acme_privacy.mechanism import UniformNoise
from pydantic import TypeAdapter

import clusterscale as cs
from clusterscale.analyses.audit import AuditPlan
from clusterscale.attacks import ATTACKS
from clusterscale.contracts import Mechanism
from clusterscale.errors import ConfigError, InputError, PackageError, UnknownNameError
from clusterscale.mechanisms import MECHANISMS, create
from clusterscale.registry import Registry
from clusterscale.release.checks import CHECKS, Check, CheckResult
from clusterscale.study.foreign_code import Package, packages_of
from clusterscale.testing import registered


@pytest.fixture
def plugins():
    with registered(UniformNoise, MatchingCells, LargestError):
        yield


@pytest.fixture
def fields(plan_fields):
    return plan_fields | {
        "mechanisms": [{"name": "exact"}, {"name": "uniform_noise", "width": 3.0}],
        "attacks": [{"name": "matching_cells"}],
        "utility": {"groups": 4, "measures": [{"name": "largest_error"}]},
        "verdict": {"trials": 1000},
    }


@pytest.mark.slow
def test_they_are_named_in_a_plan_and_its_results(plugins, fields, cube, tmp_path):
    plan = AuditPlan(**fields)
    assert plan == pickle.loads(pickle.dumps(plan))
    results = cs.audit(plan, cube, tmp_path / "run", progress=False).load()
    assert results.mechanism_label.values.tolist() == ["exact", "uniform_noise(width=3.0)"]
    assert results.attack.values.tolist() == ["matching_cells"]
    assert results.measure_name.values.tolist() == ["largest_error"]


def test_they_are_in_the_schema_and_among_the_choices(plugins, fields):
    text = json.dumps(AuditPlan.model_json_schema())
    assert all(name in text for name in ("UniformNoise", "MatchingCells", "LargestError"))
    fields["mechanisms"][1]["name"] = "uniform_noice"
    with pytest.raises(ConfigError, match=r"mechanisms\.1: .*did you mean 'uniform_noise'\?"):
        AuditPlan(**fields)


def test_a_fault_in_a_field_has_its_path(plugins, fields):
    fields["mechanisms"][1] |= {"width": -1.0, "widht": 1.0}
    with pytest.raises(ConfigError) as caught:
        AuditPlan(**fields)
    assert str(caught.value).splitlines() == [
        "AuditPlan.mechanisms.1.uniform_noise.width: is -1.0, but should be greater than 0",
        "AuditPlan.mechanisms.1.uniform_noise.widht: is not a known key: "
        "choose from title, name, width; did you mean 'width'?",
    ]


def test_config_show_has_their_defaults(plugins, fields):
    fields["mechanisms"][1] = {"name": "uniform_noise"}
    shown = yaml.safe_load(yaml.safe_dump(AuditPlan(**fields).model_dump(mode="json")))
    assert shown["mechanisms"][1] == {"title": "", "name": "uniform_noise", "width": 2.0}


def test_what_was_registered_in_a_test_is_gone(fields):
    with pytest.raises(ConfigError, match=r"mechanisms\.1: 'uniform_noise' is not known"):
        AuditPlan(**(fields | {"attacks": ["projection"]}))
    with pytest.raises(UnknownNameError):
        create("uniform_noise")
    assert "UniformNoise" not in json.dumps(AuditPlan.model_json_schema())


def test_an_attack_is_a_candidate_of_cross_validation(plugins):
    attack = ATTACKS.create("cross_validated", candidates=[{"name": "matching_cells"}])
    assert attack.candidates == (MatchingCells(),)
    with pytest.raises(ConfigError, match="'cross_validated' is not known"):
        ATTACKS.create("cross_validated", candidates=[{"name": "cross_validated"}])


class Quiet(Check):
    """A check that finds nothing."""

    name: Literal["quiet"] = "quiet"
    compares = False

    def check(self, table, others, *, rng):
        return CheckResult.of_faults(self.name, 0, table.values.size, "nothing was found")


def test_the_base_decides_the_kind():
    with registered(Quiet):
        assert "quiet" in list(CHECKS)
        assert "quiet" not in list(MECHANISMS)


class Laplace(UniformNoise):
    """A mechanism whose name is taken."""

    name: Literal["laplace"] = "laplace"


class Halfway(Mechanism):
    """A mechanism without a guarantee."""

    name: Literal["halfway"] = "halfway"

    def release(self, counts, *, group_size, rng):
        return counts / 2


class Unnamed(UniformNoise):
    """A mechanism without a literal name."""

    name: str = "unnamed"


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (
            Laplace,
            r"\.Laplace cannot be the mechanism 'laplace', which "
            r"clusterscale\.mechanisms\.noisy_counts\.Laplace is$",
        ),
        (Halfway, r"\.Halfway is no complete mechanism: it must define guarantee$"),
        (Unnamed, r"\.Unnamed is no mechanism: it must .* have a literal name: name: Literal"),
        (dict, r"builtins\.dict has no kind: derive it from one of the classes"),
    ],
)
def test_what_cannot_be_registered(cls, message):
    before = list(MECHANISMS)
    with pytest.raises(InputError, match=message):
        cs.register(cls)
    assert list(MECHANISMS) == before


def test_a_class_that_is_defined_again_replaces_the_older_one():
    def define():
        class Again(UniformNoise):
            """Defined twice, as in a notebook."""

            name: Literal["again"] = "again"

        return Again

    older, newer = define(), define()
    with registered(older, newer):
        assert MECHANISMS["again"] is newer


@pytest.fixture
def installed(monkeypatch):
    """Return what makes a registry with the given entry point of a distribution."""

    def make(value, name="plugin"):
        asked = []
        point = EntryPoint(name, value, "clusterscale.mechanisms")
        vars(point)["dist"] = SimpleNamespace(name="acme-privacy", version="1.0")

        def entry_points(group):
            asked.append(group)
            return [point]

        monkeypatch.setattr("clusterscale.registry.entry_points", entry_points)
        registry = Registry("mechanism", MECHANISMS["exact"], base=Mechanism, plugins="group")
        return registry, asked

    return make


def test_entry_points_are_loaded_when_they_are_first_needed(installed):
    registry, asked = installed("acme_privacy.mechanism:UniformNoise")
    kind = TypeAdapter(registry.field())
    assert registry.create("exact").name == "exact"
    assert asked == []
    assert kind.validate_python({"name": "uniform_noise"}) == UniformNoise()
    assert list(registry) == ["exact", "uniform_noise"]
    assert "UniformNoise" in kind.json_schema()["$defs"]
    assert asked == ["group"]


@contextmanager
def registered_in(registry, cls):
    registry.add(cls)
    yield
    registry.discard(cls)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("acme_privacy.absent:Nothing", "ModuleNotFoundError: No module named"),
        ("acme_privacy.mechanism:Nothing", "AttributeError: "),
        ("acme_privacy.measure:LargestError", r"\.LargestError is no mechanism: it must derive"),
        ("plugins.test_register:Laplace", ""),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_one_error_each_time(value, reason, installed):
    registry, _ = installed(value)
    if value.endswith("Laplace"):
        registry.add(MECHANISMS["laplace"])
        reason = r"\.Laplace cannot be the mechanism 'laplace', which clusterscale\."
    message = (
        rf"^the plug-in plugin = {value} \(clusterscale\.mechanisms\) of acme-privacy 1\.0 cannot "
        rf"be loaded: .*{reason}.*; correct or uninstall acme-privacy$"
    )
    field, known = TypeAdapter(registry.field()), MECHANISMS["exact"]
    for _ in range(2):
        for ask in (list, lambda one: one.create("plugin"), lambda one: one.classes):
            with pytest.raises(PackageError, match=message):
                ask(registry)
        with pytest.raises(PackageError, match=message):
            field.validate_python({"name": "plugin"})
        with pytest.raises(UnknownNameError, match=rf"unknown mechanism 'typo': .*{reason}"):
            registry.create("typo")
        with pytest.raises(ValueError, match=rf"unknown mechanism 'typo': .*{reason}"):
            field.validate_python({"name": "typo"})
        assert "typo" not in registry
    with registered_in(registry, known):  # what does not name it is not stopped
        assert field.validate_python("exact") == known()
        assert "exact" in json.dumps(registry.schema())
        assert "plugin" not in registry.loaded
        assert "exact" in registry
        assert registry.create("exact") == known()


def test_a_worker_without_the_package_is_named(plugins, fields, monkeypatch):
    (package,) = packages_of(AuditPlan(**fields | {"utility": {"groups": 4}}).attacks)
    assert package == Package("acme_privacy.attack", "", "", package.digest)
    monkeypatch.setattr(
        "clusterscale.study.foreign_code.owner_of", lambda module: ("acme-privacy", "1.0")
    )
    monkeypatch.setattr("clusterscale.study.foreign_code.metadata.version", lambda name: "1.0")
    packages = packages_of(AuditPlan(**fields))
    assert packages == tuple(
        Package(f"acme_privacy.{part}", "acme-privacy", "1.0", package.digest)
        for part in ("attack", "measure", "mechanism")
    )
    assert [package.fault() for package in packages] == ["", "", ""]
    assert replace(packages[0], digest="1").fault() == (
        "the code of acme-privacy is another there than here: install acme-privacy==1.0 where the "
        "workers run"
    )
    monkeypatch.setattr("clusterscale.study.foreign_code.metadata.version", lambda name: "1.1")
    assert packages[0].fault() == (
        "acme-privacy is 1.1 there and 1.0 here: install acme-privacy==1.0 where the workers run"
    )
    monkeypatch.undo()
    assert packages[0].fault() == (
        "acme-privacy is absent there and 1.0 here: install acme-privacy==1.0 where the workers run"
    )
    assert (
        Package("acme_privacy.absent", "", "")
        .fault()
        .startswith("module acme_privacy.absent cannot be imported there (No module named")
    )
