"""Public functions and classes say what goes in and out."""

import ast
import inspect
import pydoc
import re
from dataclasses import fields, is_dataclass
from textwrap import dedent
from typing import Literal, get_args

import pytest
from loops import for_each

import clusterscale as cs
from clusterscale import contracts, testing
from clusterscale.analyses.audit import AuditPlan, AuditTemplate
from clusterscale.analyses.dp_audit.dp_test import VerdictPlan
from clusterscale.analyses.dp_audit.evaluation import UtilityPlan
from clusterscale.analyses.recovery import RecoveryPlan
from clusterscale.analyses.screening import ScreenPlan
from clusterscale.analyses.traits import TraitsPlan
from clusterscale.config import Config, ReleasesConfig
from clusterscale.contracts import ConfigModel, Mechanism, Share
from clusterscale.reauditing import Policy, ReauditPlan

DOORS = (cs, cs.api, contracts, testing)
"""Modules whose public names have full docstrings; inner functions have one sentence."""


def public(kind):
    """Return the functions or classes at the public door, with all models of configs."""
    found = [getattr(module, name) for module in DOORS for name in module.__all__]
    found += [cls for cls in below(ConfigModel) if cls.__module__.startswith("clusterscale.")]
    found = [one for one in found if not getattr(one, "__name__", "").startswith("_")]
    found = {one for one in found if kind(one) and not isinstance(one, type(list[int]))}
    return sorted(found, key=title)


def below(cls):
    for child in cls.__subclasses__():
        yield child
        yield from below(child)


def title(value):
    return f"{value.__module__}.{value.__qualname__}"


def sections(value):
    """Return the names that each NumPy section of a docstring documents."""
    found, names = {}, []
    lines = inspect.cleandoc(vars(value).get("__doc__") or value.__doc__ or " ").splitlines() or [
        ""
    ]
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if re.fullmatch("-{3,}", below) and len(line) == len(below):
            names = found[line] = []
        elif line and not line.startswith((" ", "-")):
            names += [name.strip(" *") for name in line.split(",")]
    return found


def raises(function):
    """Return whether the body of a function raises an error."""
    tree = ast.parse(dedent(inspect.getsource(inspect.unwrap(function))))
    return any(isinstance(node, ast.Raise) for node in ast.walk(tree))


def function_faults(function):
    """Yield the sections and parameters that the docstring of a function lacks or invents."""
    found, signature = sections(function), inspect.signature(function)
    yield from set(signature.parameters) ^ set(found.get("Parameters", []))
    returns = str(signature.return_annotation) not in ("None", str(inspect.Signature.empty))
    if returns and not {"Returns", "Yields"} & found.keys():
        yield "Returns"
    if raises(function) and "Raises" not in found:
        yield "Raises"


@pytest.mark.dask
def test_public_functions_document_parameters_results_and_errors():
    functions = public(inspect.isroutine)
    assert len(functions) > 40
    faults = {title(each): missing for each in functions if (missing := [*function_faults(each)])}
    assert not faults


def settings_of(cls):
    """Return the fields that a class defines itself, or the parameters of its constructor."""
    own = inspect.get_annotations(cls).keys()
    if issubclass(cls, tuple):
        return cls._fields
    if hasattr(cls, "model_fields"):  # a literal, such as the name of an entry, says it all
        every = cls.model_fields.items()
        return [k for k, v in every if k in own and get_args(v.annotation) != (v.default,)]
    if is_dataclass(cls):
        return [field.name for field in fields(cls) if field.init and field.name in own]
    built = inspect.isfunction(vars(cls).get("__init__"))
    return inspect.signature(cls).parameters if built else ()


def class_faults(cls):
    """Yield the settings that a docstring lacks, and the methods with parameters without one."""
    found = sections(cls)
    if not cls.__dict__.get("__doc__"):
        yield "docstring"
    if not getattr(cls, "_is_protocol", False):
        documented = {*found.get("Parameters", []), *found.get("Attributes", [])}
        documented |= getattr(cls, "_descriptions", {}).keys()
        yield from set(settings_of(cls)) - documented
    for name, value in vars(cls).items():
        function = getattr(value, "__func__", value)
        if inspect.isfunction(function) and not name.startswith("_"):
            takes_more = len(inspect.signature(function).parameters) > 1
            if takes_more and not inspect.getdoc(getattr(cls, name)):  # its own, or that of a base
                yield name


@pytest.mark.dask
def test_public_classes_document_settings_and_methods():
    classes = public(inspect.isclass)
    ours = [cls for cls in classes if cls.__module__.startswith("clusterscale.")]
    assert len(ours) > 150
    faults = {title(cls): missing for cls in ours if (missing := [*class_faults(cls)])}
    assert not faults


def test_fields_that_are_described_exist():
    for cls in below(ConfigModel):
        if cls.__module__.startswith("clusterscale."):
            assert cls._descriptions.keys() - {"name"} <= cls.model_fields.keys(), cls


PLANS = {
    AuditPlan: 60,
    AuditTemplate: 80,
    Config: 80,
    Policy: 80,
    ReauditPlan: 80,
    RecoveryPlan: 80,
    ReleasesConfig: 80,
    ScreenPlan: 80,
    TraitsPlan: 80,
    UtilityPlan: 80,
    VerdictPlan: 80,
}


@for_each("plan", PLANS)
def test_help_fits_a_screen_and_has_a_line_for_each_setting(plan):
    lines = pydoc.render_doc(plan, renderer=pydoc.plaintext).splitlines()
    assert len(lines) <= PLANS[plan]
    for name, field in plan.model_fields.items():
        (line,) = [line for line in lines if re.match(rf" \|  {name}( = .+)?: \S", line)]
        assert (" = " in line.partition(":")[0]) != field.is_required()


def test_members_of_pydantic_are_hidden_but_work():
    plan = ScreenPlan(groups=30)
    assert "model_dump" not in dir(ScreenPlan)
    assert ScreenPlan.model_validate(plan.model_dump()) == plan == plan.model_copy()
    assert "groups" in inspect.signature(ScreenPlan).parameters


def test_a_third_party_class_is_shown_with_its_settings():
    class Half(Mechanism):
        """Publish a share of each count.

        Attributes
        ----------
        share
            Share of a count, e.g. ``0.5``.
        """

        name: Literal["half"] = "half"
        share: Share
        offset: float = 1.0

    text = pydoc.render_doc(Half, renderer=pydoc.plaintext)
    assert " |  share: Share of a count, e.g. ``0.5``.\n |  offset = 1.0\n" in text
    assert " |  name = 'half': Name of the kind.\n" in text
    assert "model_dump" not in text
    assert Half.model_json_schema()["properties"]["share"]["examples"] == [0.5]
