"""Values that no group of the known users has are found; honest tables are never accused."""

import numpy as np
import pytest
from consistency.tables import EVENT, UP_TO, bound, chain, draw_visits, find, released
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each, mostly_slow

from clusterscale.release.checks import PublishedTable

EXACT = [bound("exact"), bound("suppress_small", below=4), bound("fixed_ranges", size=3)]
EXACT += [chain(UP_TO, {"name": "fixed_ranges", "size": 4})]


def publish(declared, seed, n_members, *, change=None):
    """The table of some of 40 users, and the limits that all of their traces give."""
    visits = draw_visits(seed, 40)
    everyone = visits.sum(axis=0)
    counts = visits[:n_members].sum(axis=0).astype(np.int32)
    values = released(declared, counts, size=n_members)
    if change is not None:
        change(values, everyone)
    inside = visits[: n_members // 4].sum(axis=0)
    limits = np.maximum(inside, everyone - (40 - n_members)), np.minimum(everyone, n_members)
    unknown = np.full(counts.shape, -1, np.int32)
    return PublishedTable("week 1", values, n_members, declared, 0, unknown, limits=limits)


@pytest.mark.parametrize("declared", EXACT, ids=lambda declared: declared.label)
@given(seed=st.integers(0, 2**32), n_members=st.integers(5, 40))
def test_a_table_of_some_of_the_users_is_possible(declared, seed, n_members):
    result = find("possible_counts", publish(declared, seed, n_members))
    assert result.level == "consistent"
    assert result.n_cells == 8 * 24


@given(seed=st.integers(0, 2**32), n_members=st.integers(2, 39))
def test_one_more_than_all_users_is_impossible(seed, n_members):
    def change(values, everyone):
        cell = np.unravel_index(np.argmin(everyone), everyone.shape)
        values[cell] = everyone[cell] + 1

    result = find("possible_counts", publish(bound("exact"), seed, n_members, change=change))
    assert result.level == "inconsistent"
    assert result.measured == 1
    assert "are impossible for a group of" in result.text


def test_fewer_than_the_known_members_is_impossible():
    def change(values, everyone):
        values[:] = 0

    result = find("possible_counts", publish(bound("exact"), 1, 40, change=change))
    visited = draw_visits(1, 40).sum(axis=0) > 0
    assert result.measured == visited.sum()


def test_noise_and_no_knowledge_leave_it_unknown():
    assert find("possible_counts", publish(bound(**EVENT), 1, 20)).level == "unknown"
    bare = PublishedTable(
        "week 1", np.ones((2, 3)), 5, bound("exact"), 0, np.full((2, 3), -1, np.int32)
    )
    assert "neither traces nor counts" in find("possible_counts", bare).text


def test_rounded_values_of_a_factor_are_impossible_where_nobody_was():
    """51.3 is 10 devices; 10.3, which is 10.26, is 2 of them."""
    counts = np.array([[3, 0, -1]], np.int32)
    for values, n in (([[15.4, 0.0, 51.3]], 0), ([[15.4, 10.3, 51.3]], 1), ([[10.3, 5.1, 0]], 2)):
        table = PublishedTable(
            "week 1", np.array(values), 12, bound("expand", factor=5.13), 0, counts
        )
        assert find("possible_counts", table).measured == n


def test_known_counts_are_limits_themselves():
    counts = np.array([[3, -1]], np.int32)
    declared = bound("suppress_small", below=3)
    for values, n in (([[3.0, 5.0]], 0), ([[0.0, 5.0]], 1), ([[4.0, 0.0]], 1)):
        table = PublishedTable("week 1", np.array(values), 5, declared, 0, counts)
        assert find("possible_counts", table).measured == n


def perturbed(deviation, count):
    """Counts within the deviation, but 0 stays 0 and is the least."""
    return {max(count + n, 0) for n in range(-deviation, deviation + 1)} if count else {0}


# Mechanisms, and all values that each publishes of a count, None for a label.
BOUNDED = [
    (bound("round_to_base", base=3), lambda n: {n - n % 3, n + -n % 3}),
    (bound("round_to_base", base=5, rule="nearest"), lambda n: {(2 * n + 5) // 10 * 5}),
    (bound("round_to_base", base=6, rule="midpoint"), lambda n: {-(-n // 6) * 6 - 3 if n else 0}),
    (bound("fixed_ranges", size=5), lambda n: {n // 5 * 5 + 2.5}),
    (bound("cell_key", deviation=1, variance=0.5), lambda n: perturbed(1, n)),
    (bound("cell_key", deviation=5, variance=3.0), lambda n: perturbed(5, n)),
    (bound("top_code", at=15), lambda n: {min(n, 15)}),
    (bound("bottom_code", at=4, least=2), lambda n: {max(n, 4) if n > 1 else 0}),
    (bound("threshold", k=5, shown="label"), lambda n: {None if 0 < n < 5 else n}),
    (bound("sample_events", remove=0.3), lambda n: set(range(n + 1))),
    (
        chain({"name": "threshold", "k": 5}, {"name": "round_to_base", "base": 5}),
        lambda n: {n - n % 5, n + -n % 5} if n > 4 else {0},
    ),
    (
        chain({"name": "cell_key", "deviation": 2, "variance": 1.0}, {"name": "top_code", "at": 9}),
        lambda n: {min(value, 9) for value in perturbed(2, n)},
    ),
]


def numbers(values):
    return np.array([[np.nan if value is None else float(value) for value in values]])


@mostly_slow("seed", range(25))
@for_each(("declared", "values_of"), BOUNDED)
def test_one_impossible_value_of_a_known_count_is_told_and_named(declared, values_of, seed):
    """Of 300 tables with such a cell all are told, and none without: nothing is left to chance."""
    rng = np.random.default_rng([seed, 17])
    known = rng.poisson(rng.choice([1, 5, 20]), rng.integers(1, 40)).clip(0, 60)
    honest = [rng.choice(np.array([*values_of(n)], object)) for n in known.tolist()]
    cell = int(rng.integers(len(known)))
    others = {value for n in range(61) for value in values_of(n)} - values_of(int(known[cell]))
    faulty = [*honest]
    faulty[cell] = rng.choice(np.array([*others], object))
    counts = known[None].astype(np.int32)
    made = [
        PublishedTable("week 1", numbers(values), 60, declared, 0, counts)
        for values in (honest, faulty)
    ]
    assert find("possible_counts", made[0]).level == "consistent"
    assert find("possible_values", made[0]).level == "consistent"
    found = find("possible_counts", made[1])
    assert (found.level, found.measured) == ("inconsistent", 1)
    value = "a label" if faulty[cell] is None else f"{faulty[cell]:g}"
    named = f"{value} is published at ROI 0 and epoch {cell} for a count of {known[cell]:,}, but"
    assert named in found.text


def test_values_between_those_of_a_count_are_impossible_too():
    """By this table, 5 is published as 4 or 6, and 7 as 5 or 9."""
    rows = ["i;j;p", *(f"{n};{n};1" for n in (0, 1, 2, 3, 4, 6))]
    rows += [f"{n};{value};0.5" for n, value in ((5, 4), (5, 6), (7, 5), (7, 9))]
    declared, counts = bound("cell_key", table="\n".join(rows)), np.array([[5, 7]], np.int32)
    for value, level in ((4, "consistent"), (5, "inconsistent"), (6, "consistent")):
        made = PublishedTable("week 1", np.array([[value, 5.0]]), 9, declared, 0, counts)
        assert find("possible_counts", made).level == level


def test_cells_that_are_hidden_for_other_reasons_are_no_labels():
    declared = bound("threshold", k=5, shown="label")
    values, counts = np.array([[np.nan, 9.0]]), np.array([[20, 9]], np.int32)
    others = np.array([[True, False]])
    for marked, level in (
        ({}, "inconsistent"),
        ({"secondary": others}, "consistent"),
        ({"not_covered": others}, "consistent"),
    ):
        made = PublishedTable("week 1", values, 60, declared, 0, counts, **marked)
        assert find("possible_counts", made).level == level


def test_limits_of_a_group_bound_what_is_drawn():
    unknown = np.full((1, 1), -1, np.int32)
    limits = np.array([[3]]), np.array([[5]])
    for value, n in ((0, 1), (3, 0), (6, 0), (9, 1)):
        made = PublishedTable(
            "week 1", np.array([[float(value)]]), 60, bound("round_to_base", base=3), 0, unknown,
            limits=limits,
        )  # fmt: skip
        assert find("possible_counts", made).measured == n
