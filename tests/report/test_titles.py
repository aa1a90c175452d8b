"""Mechanisms and priors in words: on a page titles, everywhere else labels."""

import json
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from loops import for_each
from report.made import make_screen, make_traits
from report.page import Page
from running import run

from clusterscale import SerialExecutor, screen
from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.recovery.priors import BELIEFS
from clusterscale.errors import ConfigError
from clusterscale.mechanisms import MECHANISMS
from clusterscale.priors import PRIORS
from clusterscale.reporting import Run, render
from clusterscale.reporting.notebook import shorten
from clusterscale.reporting.render import entitle

TITLES = [
    ("exact", {}, "exact"),
    ("laplace", {"epsilon": 1.0}, "Laplace noise, ε 1 per user"),
    (
        "laplace",
        {"epsilon": 0.1, "unit": "user_day", "clip": True, "integers": "round"},
        "Laplace noise, ε 0.1 per user and day, rounded, from 0 to the group size",
    ),
    (
        "laplace",
        {"epsilon": 0.5, "unit": "event", "discrete": True, "sensitivity": 2.0},
        "discrete Laplace noise, ε 0.5 per event, sensitivity 2",
    ),
    (
        "gaussian",
        {"epsilon": 1.0, "delta": 1e-5, "integers": "floor"},
        "Gaussian noise, ε 1 and δ 1e-05 per user, rounded down",
    ),
    (
        "fourier",
        {"epsilon": 1.0, "coefficients": 20},
        "first 20 Fourier coefficients with noise, ε 1 per user and place",
    ),
    (
        "unscaled_fourier",
        {"epsilon": 1.0, "coefficients": 1},
        "first 1 Fourier coefficient with too little noise, stated ε 1",
    ),
    (
        "enhanced_fourier",
        {"epsilon": 1.0, "delta": 0.1},
        "cosine coefficients with noise, ε 1 and δ 0.1 per user and place",
    ),
    (
        "truncated_laplace",
        {"epsilon": 1.0},
        "Laplace noise truncated to integers, stated ε 1 per event",
    ),
    ("randomized_response", {"p": 0.29}, "randomised response, false yes with probability 29 %"),
    ("perturb_small", {"below": 5, "epsilon": 1.0}, "Laplace noise of ε 1 on counts below 5"),
    ("suppress_small", {"below": 5}, "counts below 5 set to 0"),
    ("suppress_small", {"up_to": 5}, "counts up to 5 set to 0"),
    (
        "suppress_unpopular",
        {"fraction": 0.1},
        "quietest 10 % of places set to 0 at the quietest 10 % of times",
    ),
    ("sample_events", {"remove": 0.4}, "40 % of events removed"),
    ("sample_traces", {"remove": 0.125}, "12.5 % of events removed, the same in all releases"),
    ("round_to_base", {"base": 3}, "counts rounded at random, base 3"),
    ("top_code", {"at": 1000}, "values above 1,000 shown as 1,000"),
    ("bottom_code", {"at": 4, "least": 2}, "values from 2 to 4 shown as 4, lower ones set to 0"),
    (
        "bottom_code",
        {"at": 4, "shown": "hidden"},
        "values from 1 to 4 shown as 4, lower ones hidden",
    ),
    ("share_of_total", {}, "shares of the total of each epoch"),
    ("share_of_total", {"of": "release"}, "shares of the total of the release"),
    ("expand", {"factor": 5.13}, "values multiplied by 5.13"),
    ("threshold", {"k": 5}, "values below 5 set to 0"),
    ("threshold", {"k": 5, "shown": "hidden"}, "values below 5 hidden"),
    ("threshold", {"k": 5, "shown": "label"}, "values from 1 to 4 shown as “<5”"),
    ("dominance", {"share": 0.8}, "cells hidden of which one person makes up over 80 %"),
    ("dominance", {"n": 2, "share": 0.8}, "cells hidden of which 2 people make up over 80 %"),
    ("dominance", {"percent": 10.0}, "cells hidden by the p-percent rule, p = 10"),
    ("cell_key", {"deviation": 5, "variance": 3.0}, "cell keys, at most ±5, variance 3"),
    (
        "cell_key",
        {"deviation": 5, "variance": 3.0, "blocked": 2},
        "cell keys, at most ±5, variance 3, never 1 to 2",
    ),
    ("fixed_ranges", {"size": 10}, "ranges of 10, shown by their middle"),
    (
        "fixed_ranges",
        {"size": 10, "integers": "floor"},
        "ranges of 10, shown by their middle rounded down",
    ),
    ("adaptive_ranges", {"ranges": 4}, "4 ranges per place, shown by their median"),
    ("coarsen_space", {"factor": 2}, "places merged by a factor of 2"),
    ("coarsen_space", {"groups": [[0, 1], [2, 3]]}, "places merged in 2 listed groups"),
    ("coarsen_time", {"factor": 24}, "epochs merged by a factor of 24"),
    (
        "tables",
        {"tables": [{"name": "threshold", "k": 5}, {"name": "coarsen_time", "factor": 24}]},
        "tables together: values below 5 set to 0; epochs merged by a factor of 24",
    ),
    ("cap_contributions", {"per_day": 1}, "at most 1 event per user and day"),
    (
        "chain",
        {"steps": [{"name": "sample_events", "remove": 0.4}]},
        "40 % of events removed",
    ),
    (
        "chain",
        {
            "steps": [
                {"name": "laplace", "epsilon": 1.0, "unit": "event"},
                {"name": "suppress_small", "up_to": 2},
            ]
        },
        "Laplace noise, ε 1 per event, then counts up to 2 set to 0",
    ),
    ("known_subset", {"alpha": 0.2}, "adversary knows 20 % of users, trains on 400 groups"),
    (
        "known_subset",
        {"alpha": 0.6, "training": 1200, "known_fraction": 0.5, "sampling": "paired"},
        "adversary knows 60 % of users and 50 % of the target’s visits, trains on 1,200 groups, "
        "in pairs",
    ),
    (
        "known_subset",
        {"alpha": 0.2, "knows": "rois", "top_rois": 1, "times": "random"},
        "adversary knows 20 % of users and the target’s 1 most visited place, trains on 400 "
        "groups, times at random",
    ),
    ("same_groups", {}, "adversary saw past releases of the same 150 groups"),
    ("different_groups", {}, "adversary saw past releases of 300 other groups"),
    (
        "perfect",
        {},
        "adversary knows all about 400 groups except the noise, trains on noisy counts",
    ),
    (
        "perfect",
        {"adversary": "passive"},
        "adversary knows all about 400 groups except the noise, trains on raw counts",
    ),
    (
        "zero_knowledge",
        {},
        "adversary knows only the target’s trace, trains on 400 groups",
    ),
    (
        "zero_knowledge",
        {"knows": "rois", "top_rois": 3, "activity": {"name": "lognormal"}},
        "adversary knows only the target’s 3 most visited places, trains on 400 groups, "
        "log-normal (σ 1) activity",
    ),
    (
        "zero_knowledge",
        {"positions": "unknown"},
        "adversary knows only the target’s trace, trains on 400 groups, positions of places "
        "unknown",
    ),
]


def component(name, fields):
    return (MECHANISMS if name in list(MECHANISMS) else PRIORS).create(name, **fields)


@for_each(("name", "fields", "title"), TITLES)
def test_titles_are_short_phrases(name, fields, title):
    assert component(name, fields).heading == title
    assert len(title) <= 110


def test_every_mechanism_and_prior_has_a_title_of_its_own():
    assert {name for name, _, _ in TITLES} == {*MECHANISMS, *PRIORS}
    titles = [belief().heading for belief in BELIEFS.classes]
    assert len(set(titles)) == len(titles)
    assert not any("_" in title for title in titles)


TABLES = ("i;j;p\n0;0;1\n1;0;0.5\n1;2;0.5", "i;j;p\n0;0;1\n1;0;0.25\n1;1;0.5\n1;2;0.25")


def drawn(schema, kinds):
    """Return a strategy of plain values that keep a JSON schema."""
    if "$ref" in schema:
        schema = kinds[schema["$ref"].rsplit("/", 1)[-1]]
    if several := schema.get("anyOf") or schema.get("oneOf"):
        return st.one_of([drawn(each, kinds) for each in several])
    if "const" in schema or "enum" in schema:
        return st.sampled_from(schema.get("enum") or [schema["const"]])
    kind, low, most = schema["type"], schema.get("minimum", 0), schema.get("maximum", 10_000)
    if kind == "object":
        known = dict(schema["properties"])
        known.pop("title", None)
        if "factor" in known:  # lists in its place are counted in a title, not spelled out
            known.pop("groups", None)
            known.pop("parents", None)
        fields = {name: drawn(each, kinds) for name, each in known.items()}
        if "strata" in fields:
            fields["strata"] = st.sampled_from([None, "sex", "age"])
        needed = {"name": fields.pop("name")} | {
            name: fields.pop(name) for name in schema.get("required", ()) if name in fields
        }
        return st.fixed_dictionaries(needed, optional=fields)
    if kind == "integer":
        step = schema.get("multipleOf", 1)
        return st.integers(-(-low // step), most // step).map(lambda n: n * step)
    if kind == "number":
        top = schema.get("exclusiveMaximum", most)
        return st.floats(0, top, exclude_min=True, exclude_max=top == 1)
    if kind == "array":
        return st.lists(drawn(schema["items"], kinds), min_size=1, max_size=2)
    if kind == "string":  # the only text without choices is a perturbation table
        return st.sampled_from(["", *TABLES])
    return {"boolean": st.booleans(), "null": st.none()}[kind]


def created(cls, fields):
    try:
        return cls(**fields)
    except ConfigError:  # fields that do not go together
        return None


@pytest.mark.slow
@pytest.mark.parametrize(
    "cls", [*MECHANISMS.classes, *PRIORS.classes], ids=lambda cls: cls.__name__
)
@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data())
def test_other_settings_have_another_title(cls, data):
    schema = cls.model_json_schema()
    wanted = drawn(schema, schema.get("$defs", {}))
    first, second = (data.draw(wanted) for _ in range(2))
    one = created(cls, first)
    assume(one is not None)
    assert one.heading
    assert len(one.heading.splitlines()) == 1
    assert one.heading == one.label == "exact" or not re.search(r"\w=|['_]", one.heading)
    for name in second:
        two = created(cls, first | {name: second[name]})
        assert two is None or (one == two) == (one.heading == two.heading)


@pytest.fixture(scope="module")
def plan(shared_plan_fields):
    """A small audit with two mechanisms beside raw counts."""
    day = {"name": "laplace", "epsilon": 0.1, "unit": "user_day", "integers": "round"}
    fields = shared_plan_fields | {
        "targets": {"random": 2},
        "group_sizes": [6],
        "mechanisms": [*shared_plan_fields["mechanisms"], day],
        "attacks": [{"name": "projection"}],
        "screen": {"groups": 60},
        "verdict": {"trials": 200},
        "control": False,
        "utility": {"groups": 4},
    }
    return AuditPlan(**fields)


SETTINGS = {
    "Laplace noise, ε 1 per event": "laplace(epsilon=1.0, unit='event')",
    "Laplace noise, ε 0.1 per user and day, rounded": (
        "laplace(epsilon=0.1, unit='user_day', integers='round')"
    ),
    "adversary knows 50 % of users, trains on 40 groups, 20 challenges": (
        "known_subset(alpha=0.5, training=40, challenges=20)"
    ),
}


def settings_of(html):
    found = re.search(r'<script type="application/json" class="settings">(.*?)</script>', html)
    return json.loads(found[1]) if found else {}


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_a_page_shows_titles_and_lists_what_they_stand_for(plan, cube, tmp_path):
    results = run(plan, cube, tmp_path, SerialExecutor()).compute()
    before = results.copy(deep=True)
    html = render(results)
    assert html == render(results)
    assert settings_of(html) == SETTINGS
    page = Page(html)
    table = page.tables["Mechanisms and priors, described and as configured"]
    assert {tuple(row) for row in table[1:]} == set(SETTINGS.items())
    told = page.text[: page.text.index("Mechanisms and priors, described and as configured")]
    for title, label in SETTINGS.items():
        assert title in told
        assert label not in told
    mechanisms = [row[0] for row in page.tables["Worst case for each publication method"][1:]]
    assert mechanisms == ["exact", *list(SETTINGS)[:2]]
    assert results.identical(before)
    assert list(SETTINGS.values())[1] in shorten(results).facts["mechanisms"]


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_a_screen_records_the_settings_of_its_mechanisms(plan, cube, tmp_path):
    html = render(screen(plan, cube, tmp_path, SerialExecutor()))
    assert set(settings_of(html)) == set(list(SETTINGS)[:2])
    assert "All users, least exposed: Laplace noise, ε 0.1 per user and day" in Page(html).text


LABELS = ("exact", "laplace(epsilon=1.0)", "laplace(epsilon=2.0)")


@pytest.mark.usefixtures("no_figures")
def test_results_without_titles_show_labels(make_results):
    """Those of older versions, whose coordinates are the labels."""
    results = make_results(mechanisms=LABELS)
    html = render(results.drop_vars([f"{dim}_title" for dim in ("mechanism", "prior")]))
    assert not settings_of(html)
    page = Page(html)
    assert "described and as configured" not in page.text
    assert [row[0] for row in page.tables["Worst case for each publication method"][1:]] == list(
        LABELS
    )


def merged(*groups):
    return {"name": "coarsen_space", "groups": groups}


def test_labels_stay_where_titles_would_be_the_same(make_results):
    mechanisms = [merged([0, 1]), merged([2, 3]), {"name": "laplace", "epsilon": 1.0}]
    labels = [MECHANISMS.create(**each).label for each in mechanisms]
    results = make_results(mechanisms=labels, plan=json.dumps({"mechanisms": mechanisms}))
    (shown,) = entitle([Run.of([results])])
    title = "Laplace noise, ε 1 per user"
    assert shown.audit.mechanism.values.tolist() == [*labels[:2], title]
    assert shown.titles == {labels[2]: title}


def test_runs_on_a_page_use_the_same_titles(make_results):
    """What two runs call by the same words is told apart, though neither has both."""
    runs = []
    for groups in ([0, 1], [2, 3]):
        mechanisms = [merged(groups), {"name": "sample_events", "remove": 0.5}]
        labels = [MECHANISMS.create(**each).label for each in mechanisms]
        plan = json.dumps({"mechanisms": mechanisms})
        runs.append(Run.of([make_results(mechanisms=labels, plan=plan)], name=str(groups)))
    shown = entitle(runs)
    for before, after in zip(runs, shown, strict=True):
        kept = before.audit.mechanism.values[0]
        assert after.audit.mechanism.values.tolist() == [kept, "50 % of events removed"]


def test_traits_are_named_by_titles_too(make_results):
    (shown,) = entitle([Run.of([make_results(), make_traits(), make_screen()])])
    title = "adversary knows 20 % of users, trains on 400 groups"
    assert shown.audit.prior.values.tolist() == [title]
    assert shown.traits.compared_prior.values.tolist() == [title, "", title]
    assert shown.traits.view_prior.values.tolist() == [title]
    assert set(shown.screen.mechanism.values) == {"exact", "laplace(epsilon=0.1)"}
    np.testing.assert_array_equal(shown.screen.auc, make_screen().auc)
