"""Totals that tell of hidden cells, or that no table has."""

import numpy as np
import pytest
from consistency.tables import EVENT, bound, draw_counts, find, table
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each

EXACT, HIDES = bound("exact"), bound("suppress_small", up_to=3)
COUNTS = draw_counts(4)


def totals(counts):
    return {"roi_totals": counts.sum(axis=1), "epoch_totals": counts.sum(axis=0)}


def test_no_totals():
    for none in ({}, {"roi_totals": np.full(8, np.nan)}):
        found = find("totals", table(EXACT, COUNTS, **none))
        assert (found.level, found.n_cells) == ("consistent", 0)
        assert "no totals" in found.text


def test_one_redacted_cell_of_a_row():
    values = COUNTS.astype(float)
    values[2, 3] = np.nan
    assert COUNTS[2, 3] > 0
    found = find("totals", table(EXACT, COUNTS, values, roi_totals=COUNTS.sum(axis=1)))
    assert (found.level, found.measured, found.expected) == ("inconsistent", 1, 0)
    assert found.text.startswith("1 of 1 hidden cell follows from the totals; ")
    values[2, 5] = np.nan
    by_epoch = COUNTS.sum(axis=0).astype(float)
    by_epoch[5] = np.nan
    found = find("totals", table(EXACT, COUNTS, values, epoch_totals=by_epoch))
    assert found.text.startswith("1 of 3 hidden cells follows from the totals; ")
    assert find(
        "totals", table(EXACT, COUNTS, values, epoch_totals=COUNTS.sum(axis=0))
    ).text.startswith("2 of 2 hidden cells follow from the totals; ")


@pytest.mark.parametrize(("count", "words"), [(1, "1 of them counts"), (9, "0 of them count")])
def test_one_small_cell_counts_and_others_count(count, words):
    counts = np.array([[count, 7, 9], [8, 6, 7]])
    values = counts.astype(float)
    values[0, 0] = np.nan
    found = find("totals", table(EXACT, counts, values, roi_totals=counts.sum(axis=1)))
    assert found.text == f"1 of 1 hidden cell follows from the totals; {words} 1 to 4 people"


def test_a_second_redaction_in_row_and_column_protects():
    values, counts = COUNTS.astype(float), np.full_like(COUNTS, 3)
    values[...] = counts
    values[np.ix_([2, 4], [3, 7])] = np.nan
    found = find("totals", table(EXACT, counts, values, **totals(counts)))
    assert (found.level, found.measured) == ("consistent", 0)
    values[2, 3] = 3
    assert find("totals", table(EXACT, counts, values, **totals(counts))).measured == 3


def test_suppressed_cells_that_must_all_be_as_large_as_can_be():
    counts = np.array([[3, 3, 9], [8, 0, 7]])
    found = find("totals", table(HIDES, counts, roi_totals=[15, 15]))
    assert (found.level, found.measured) == ("inconsistent", 3)  # and the 0 beside 8 and 7
    assert "2 of them count 1 to 3 people" in found.text
    assert find("totals", table(HIDES, counts, roi_totals=[15, 15]), small=3).text.endswith(
        "0 of them count 1 to 2 people"
    )


def test_a_hidden_zero_follows_like_any_other_count():
    """Whoever was in a place at a time when its total is that of the others is in these."""
    counts = np.array([[0, 5, 9], [8, 2, 7]])
    found = find("totals", table(HIDES, counts, roi_totals=[14, 17]))
    assert (found.level, found.measured) == ("inconsistent", 2)
    assert "1 of them counts 1 to 3 people" in found.text


def test_a_total_of_0_may_be_suppressed_itself():
    counts = np.array([[1, 0], [8, 7]])
    found = find("totals", table(HIDES, counts, roi_totals=[0, 15], epoch_totals=[9, np.nan]))
    assert found.measured == 1  # by the other total of it


@pytest.mark.parametrize("declared", [bound(**EVENT), HIDES, bound("fixed_ranges"), EXACT])
def test_sums_of_what_is_published_add_nothing(declared):
    values = table(declared, COUNTS).values.copy()
    values[1, 1] = np.nan
    sums = {"roi_totals": np.nansum(values, axis=1), "epoch_totals": np.nansum(values, axis=0)}
    found = find("totals", table(declared, COUNTS, values, **sums))
    assert (found.level, found.measured) == ("consistent", 0)
    assert "only sums of published cells" in found.text


@pytest.mark.parametrize("name", ["laplace", "perturb_small", "suppress_unpopular"])
def test_what_totals_add_to_noise_is_not_known(name):
    found = find("totals", table(bound(name), COUNTS, **totals(COUNTS)))
    assert found.level == "unknown"
    assert np.isnan(found.measured)


@for_each("off", [1, -1, 0.5])
@for_each("axis", ["roi_totals", "epoch_totals"])
def test_totals_that_no_table_has(off, axis):
    wrong = totals(COUNTS)
    wrong[axis] = wrong[axis] + off * (np.arange(len(wrong[axis])) == 2)
    found = find("totals", table(EXACT, COUNTS, **wrong))
    assert found.level == "inconsistent"
    assert "no counts" in found.text
    wide = find("totals", table(bound("fixed_ranges", size=9), COUNTS, **wrong))
    assert wide.level == "inconsistent"  # rows and columns differ in sum, whatever the cells


def test_larger_values_that_are_hidden_too_are_declared_exact():
    counts = np.array([[2, 9, 20], [1, 8, 15]], dtype=np.int32)
    values = np.where(counts < 10, np.nan, counts)  # 9 and 8 protect 2 and 1
    given = {"roi_totals": counts.sum(axis=1)}
    found = find("totals", table(bound("threshold", k=5, shown="hidden"), counts, values, **given))
    assert found.level == "inconsistent"
    assert "to protect others, declare exact" in found.text
    assert find("totals", table(EXACT, counts, values, **given)).level == "consistent"


@given(seed=st.integers(0, 2**32), hidden=st.floats(0, 0.6), secret=st.floats(0, 0.5))
def test_what_is_said_to_follow_is_the_truth(seed, hidden, secret):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(2, (5, 7)).clip(0, 20)
    values = np.where(rng.random(counts.shape) < hidden, np.nan, counts)
    told = {
        key: np.where(rng.random(len(given)) < secret, np.nan, given)
        for key, given in totals(counts).items()
    }
    found = find("totals", table(EXACT, counts, values, **told))
    alone = np.isnan(values) & ~np.isnan(told["roi_totals"])[:, None]
    alone &= (np.isnan(values).sum(axis=1) == 1)[:, None]
    if found.level == "inconsistent":
        n_totals = sum(np.isnan(some).sum() for some in told.values())
        assert alone.sum() <= found.measured <= np.isnan(values).sum() + n_totals
    else:
        assert not counts[alone].any()
