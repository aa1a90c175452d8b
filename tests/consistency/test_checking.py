"""One body over every check: what asks for it needs of it; and all of them at once."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from consistency.tables import EVENT, bound, chain, draw_counts, draw_visits, find, table
from loops import for_each, mostly_slow

from clusterscale.errors import ConfigError, InputError, UnknownNameError
from clusterscale.mechanisms import MECHANISMS
from clusterscale.release.checks import CHECKS, Check, CheckResult, create, run_checks

COUNTS = draw_counts(6)


def test_names():
    assert list(CHECKS) == [
        *("complement", "differencing", "noise_law", "possible_counts", "possible_values", "totals")
    ]


@for_each("name", list(CHECKS))
def test_entry_is_a_frozen_picklable_value_that_config_can_name(name):
    entry = create(name)
    assert isinstance(entry, Check)
    assert entry.name == entry.label == name
    copy = pickle.loads(pickle.dumps(entry))
    assert copy == entry
    assert hash(copy) == hash(entry)
    assert type(entry).model_validate(entry.model_dump(mode="json")) == entry
    with pytest.raises(ValueError, match="frozen"):
        entry.name = "other"
    assert type(entry).__doc__


@mostly_slow("name", list(CHECKS))
@mostly_slow("mechanism", list(MECHANISMS))
def test_any_table_has_a_finding_and_nothing_is_written(name, mechanism):
    made = table(bound(mechanism), COUNTS, roi_totals=np.full(8, np.nan))
    other = table(bound(mechanism), draw_counts(7), name="week 2", first=3)
    before = made.values.copy(), other.values.copy()
    found = find(name, made, [other])
    assert isinstance(found, CheckResult)
    assert found.level != "inconsistent"
    assert type(found.measured) is type(found.expected) is float
    assert type(found.n_cells) is int
    assert 0 <= found.n_cells <= COUNTS.size
    assert np.isnan(found.measured) == (found.level == "unknown")
    np.testing.assert_array_equal(before, (made.values, other.values))


def test_a_table_without_cells_is_refused():
    with pytest.raises(InputError, match="which has no cell"):
        table(bound("exact"), np.zeros((0, 4)))


def test_each_check_draws_for_itself():
    made = table(bound(**EVENT), COUNTS)
    every = [create(name) for name in CHECKS]
    found = run_checks(made, [], every, seed=3, path=("week", 1))
    assert [each.check for each in found] == list(CHECKS)
    alone = [run_checks(made, [], [check], seed=3, path=("week", 1))[0] for check in every[::-1]]
    assert repr(alone[::-1]) == repr(found)
    noise = [create("noise_law")]
    findings = {
        repr(run_checks(made, [], noise, seed=seed, path=path))
        for seed, path in ((3, ("week", 1)), (4, ("week", 1)), (3, ("week", 2)), (3, ()))
    }
    assert len(findings) == 4


def test_a_release_with_all_faults_is_seen_by_all():
    """A suppression of which a part was forgotten, beside the tables of both halves of the group,
    another without one member, and totals and traces of others."""
    visits = draw_visits(9, 41, share=0.9)
    parts = {"all": slice(0, 40), "men": slice(0, 20), "women": slice(20, 40), "then": slice(0, 39)}
    counts = {name: visits[members].sum(axis=0) for name, members in parts.items()}
    values = np.where(counts["all"] > 4, counts["all"], 0.0)
    hidden = (counts["all"] > 0) & (values == 0)
    values[hidden & (np.cumsum(hidden, axis=1) == 1)] = 2  # what can never be published
    sums = {"epoch_totals": counts["all"].sum(axis=0) + 8 * 40}
    hides = bound("suppress_small", up_to=4)
    made = table(hides, counts["all"], values, name="all", size=40, **sums)
    nobody = np.zeros(values.shape, np.int64)  # traces in which nobody is anywhere
    made = replace(made, limits=(nobody, nobody))
    others = [
        table(bound("exact"), counts[name], name=name, size=n)
        for name, n in (("men", 20), ("women", 20), ("then", 39))
    ]
    checks = [create(name) for name in CHECKS]
    found = {each.check: each.level for each in run_checks(made, others, checks, seed=1)}
    assert found == dict.fromkeys(CHECKS, "inconsistent")
    honest = table(hides, counts["all"], name="all", size=40)
    for each in run_checks(honest, [], checks, seed=1):
        assert each.level == "consistent"


@for_each(
    ("name", "fields"),
    [
        ("noise_law", {"confidence": 1.0}),
        ("noise_law", {"trials": 5}),
        ("noise_law", {"least": 0}),
        ("differencing", {"small": 0}),
        ("differencing", {"chance": 0.0}),
        ("complement", {"least": 0.5}),
        ("totals", {"large": 1}),
    ],
)
def test_wrong_settings_are_refused(name, fields):
    with pytest.raises(ConfigError, match=next(iter(fields))):
        create(name, **fields)


def test_unknown_name():
    with pytest.raises(UnknownNameError, match=r"unknown check 'total': .*did you mean 'totals'"):
        create("total")


def test_a_chain_that_is_declared_is_named():
    declared = chain(EVENT, {"name": "suppress_small", "up_to": 2})
    assert declared.label in find("noise_law", table(declared, COUNTS)).text
