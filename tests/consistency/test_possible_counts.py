"""Values that no group of the known users has are found; honest tables are never accused."""

import numpy as np
import pytest
from consistency.tables import EVENT, UP_TO, bound, chain, draw_visits, find, released
from hypothesis import given
from hypothesis import strategies as st

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
