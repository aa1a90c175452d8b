"""Stable ids: they key everything that is random or kept, and labels change no bit."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import run, screen

from clusterscale import open_screen
from clusterscale.analyses.audit import AuditPlan, Period, open_results
from clusterscale.attacks import ATTACKS
from clusterscale.contracts import ConfigModel, NamedModel
from clusterscale.errors import ConfigError
from clusterscale.mechanisms import MECHANISMS, create
from clusterscale.priors import PRIORS
from clusterscale.runtime import SerialExecutor
from clusterscale.schema import find_mechanism, with_labels
from clusterscale.utility import UTILITIES

KEPT = {
    "exact": {},
    "laplace-ffdae4bf5dc5": {"epsilon": 1.0},
}
"""Ids that results and ledgers hold: they may never change."""


class Before(NamedModel):
    name: Literal["noise"] = "noise"
    scale: float
    clip: bool = False


class After(Before):
    """A later version: a field more, and another default."""

    _first_defaults: ClassVar[dict[str, object]] = {"clip": False}

    clip: bool = True
    tails: Literal["exact", "cut"] = "exact"


@given(st.floats(0.1, 9), st.booleans())
def test_a_new_field_or_default_changes_no_id(scale, clip):
    assert Before(scale=scale, clip=clip).id == After(scale=scale, clip=clip).id
    assert After(scale=scale, clip=clip, tails="cut").id != After(scale=scale, clip=clip).id


@given(st.floats(0.1, 9), st.text(max_size=80))
def test_a_title_changes_the_label_alone(epsilon, title):
    plain, titled = (
        create("laplace", epsilon=epsilon),
        create("laplace", epsilon=epsilon, title=title),
    )
    assert titled.id == plain.id
    assert titled.digest == plain.digest
    assert titled.label == (title or plain.label)
    assert titled.heading == (title or plain.heading)


@given(st.floats(0.1, 9), st.floats(0.1, 9))
def test_other_settings_have_another_id(one, other):
    ids = [create("laplace", epsilon=epsilon).id for epsilon in (one, other)]
    assert (ids[0] == ids[1]) == (one == other)


@pytest.mark.parametrize(("key", "fields"), KEPT.items())
def test_ids_are_those_of_earlier_versions(key, fields):
    assert create(key.partition("-")[0], **fields).id == key


def test_defaults_have_the_name_alone():
    for registry in (MECHANISMS, ATTACKS, PRIORS, UTILITIES):
        for cls in registry.classes:
            if not any(
                field.is_required() for name, field in cls.model_fields.items() if name != "name"
            ):
                try:
                    made = cls()
                except ConfigError:  # exactly one of several fields must be given
                    continue
                assert made.id == made.name


def test_nested_settings_count_by_what_they_differ_in():
    def steps(**fields):
        return create("chain", steps=[{"name": "laplace", "epsilon": 1.0, **fields}])

    assert steps().id == steps(title="noise").id == steps(clip=False).id
    assert steps().id != steps(clip=True).id


def test_a_period_is_its_epochs():
    first, renamed = Period(name="week 1"), Period(name="first week of May")
    assert first.id == renamed.id == "0-168"
    assert first.digest == renamed.digest
    assert Period(name="week 1", first=168, observed=(0,)).id.startswith("168-336-")


def test_plans_ignore_titles_and_names_of_periods(shared_plan_fields):
    plan = AuditPlan(**shared_plan_fields)
    assert AuditPlan(**titled(shared_plan_fields)).digest == plan.digest
    assert isinstance(plan, ConfigModel)


def titled(fields):
    """Return the same fields with other names for people."""
    named = {
        key: [{**each, "title": f"{key} {i}"} for i, each in enumerate(fields[key])]
        for key in ("mechanisms", "attacks", "priors")
    }
    return fields | named | {"periods": [{**each, "name": "other"} for each in fields["periods"]]}


@pytest.fixture(scope="module")
def plans(shared_plan_fields):
    """The same plan twice, the second with other names for people, and little to compute."""
    fields = shared_plan_fields | {"verdict": {"trials": 40}, "utility": {"groups": 2}}
    return [AuditPlan(**fields), AuditPlan(**titled(fields))]


@pytest.fixture(scope="module")
def folders(plans, cube, tmp_path_factory):
    """A folder for each plan, with its audit and its screen."""
    root = tmp_path_factory.mktemp("ids")
    for i, plan in enumerate(plans):
        for verb in (run, screen):
            verb(plan, cube, root / str(i), SerialExecutor())
    return [root / "0", root / "1"]


@pytest.mark.slow
def test_renaming_changes_no_bit(folders, plans, cube):
    """Not in an audit, not in a screen; and a renamed run is resumed, not started again."""
    for read in (open_results, open_screen):
        plain, other = map(read, folders)
        for name, values in plain.data_vars.items():
            if name != "seconds" and not name.endswith(("_label", "_title")):
                np.testing.assert_array_equal(values, other[name])
        assert list(plain.mechanism.values) == list(other.mechanism.values)
        assert list(other.mechanism_label.values) == ["mechanisms 0", "mechanisms 1"]
        assert list(other.attack_label.values) == list(with_labels(other).attack.values)
    told = []
    run(plans[1], cube, folders[0], SerialExecutor(), on_progress=told.append)
    assert told[0].n_done == told[0].n_tasks


@pytest.mark.slow
def test_raw_counts_are_found_by_id(folders):
    results = open_results(folders[1])
    assert find_mechanism(results, "exact") == "exact"
    assert find_mechanism(with_labels(results), "exact") == "mechanisms 0"
    assert find_mechanism(results, "fourier") is None
    shown = with_labels(results)
    assert with_labels(shown) is shown
    assert list(shown.mechanism_id.values) == list(results.mechanism.values)


def test_two_of_one_id_or_one_label_are_refused(shared_plan_fields):
    twice = [{"name": "exact"}, {"name": "exact", "title": "raw"}]
    with pytest.raises(ConfigError, match="mechanisms: exact, raw is listed twice"):
        AuditPlan(**shared_plan_fields | {"mechanisms": twice})
    same = [{"name": "exact", "title": "a"}, {"name": "laplace", "epsilon": 1.0, "title": "a"}]
    with pytest.raises(ConfigError, match="mechanisms: a is listed twice"):
        AuditPlan(**shared_plan_fields | {"mechanisms": same})
