"""A table is what it says, or is refused; and what counts can be behind its cells."""

import numpy as np
import pytest
from consistency.tables import EVENT, UP_TO, bound, chain, table
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from loops import for_each

from clusterscale.errors import InputError
from clusterscale.release.checks import PublishedTable
from clusterscale.release.checks.count_intervals import count_bounds, fill_suppressed
from clusterscale.release.checks.pairs import SharedCells
from clusterscale.release.checks.table import suppressed_up_to

EXACT = bound("exact")
FIELDS = {
    "name": "week 1",
    "values": np.ones((2, 3)),
    "group_size": 4,
    "mechanism": EXACT,
    "first_epoch": 0,
    "counts": np.ones((2, 3), np.int32),
}


def test_a_table_keeps_what_it_is_given():
    made = PublishedTable(
        **FIELDS, roi_totals=np.array([3.0, np.nan]), epoch_totals=np.full(3, 2.0)
    )
    assert made.values is FIELDS["values"]
    assert made.published.all()
    with pytest.raises(AttributeError):
        made.name = "other"
    assert made != PublishedTable(**FIELDS)


@for_each(
    ("field", "value", "message"),
    [
        ("values", np.ones(3), "values have shape (3,), but should be (roi, epoch)"),
        ("values", np.ones((2, 3), np.float32), "values are float32 (2, 3), not float64 (2, 3)"),
        ("values", np.full((2, 3), np.inf), "6 values are infinite"),
        ("counts", np.ones((3, 2), np.int32), "counts are int32 (3, 2), not int32 (2, 3)"),
        ("counts", np.ones((2, 3), np.int64), "counts are int64 (2, 3), not int32 (2, 3)"),
        (
            "counts",
            np.full((2, 3), 5, np.int32),
            "counts are from 5 to 5, but should be from 0 to the group size, 4",
        ),
        ("counts", np.full((2, 3), -2, np.int32), "counts are from -2 to -2, but should be from 0"),
        ("values", [[1.0, 1.0, 1.0]] * 2, "values are of type list, not an array of float64"),
        ("values", np.ones((0, 3)), "values have shape (0, 3), which has no cell"),
        ("values", None, "values have shape (), but should be (roi, epoch)"),
        ("counts", None, "counts are of type NoneType, not an array of int32"),
        ("roi_totals", [3.0, 3.0], "roi_totals are of type list, not an array of float64"),
        ("group_size", 4.5, "group_size is 4.5, but should be a whole number"),
        ("group_size", True, "group_size is True, but should be a whole number"),
        ("first_epoch", "0", "first_epoch is '0', but should be a whole number"),
        ("mechanism", "exact", "mechanism is 'exact', but should be a mechanism"),
        ("group_size", 0, "group_size is 0, but should be at least 1"),
        ("first_epoch", -1, "first_epoch is -1, but should be at least 0"),
        ("roi_totals", np.ones(3), "roi_totals are float64 (3,), not float64 (2,)"),
        ("epoch_totals", np.ones(2), "epoch_totals are float64 (2,), not float64 (3,)"),
        ("epoch_totals", np.array([1, 2, np.inf]), "1 epoch_totals are infinite"),
    ],
)
def test_bad_tables_are_refused(field, value, message):
    with pytest.raises(InputError) as caught:
        PublishedTable(**FIELDS | {field: value})
    assert str(caught.value).startswith(f"week 1: {message}")


@pytest.mark.parametrize("name", ["", 3, None])
def test_a_table_needs_a_name(name):
    with pytest.raises(InputError, match="the name of a table is"):
        PublishedTable(**FIELDS | {"name": name})


@given(first=st.integers(0, 6), other=st.integers(0, 6), n=st.integers(1, 5), m=st.integers(1, 5))
def test_overlap_is_that_of_sets_of_epochs(first, other, n, m):
    one, two = (
        table(EXACT, np.tile(np.arange(start, start + size), (2, 1)), first=start)
        for start, size in ((first, n), (other, m))
    )
    shared = sorted({*range(first, first + n)} & {*range(other, other + m)})
    found = SharedCells.of(one, two)
    if not shared:
        assert found is None
        return
    for values in found.values:
        np.testing.assert_array_equal(values, [shared, shared])


def test_tables_of_other_places_share_no_cells():
    assert SharedCells.of(table(EXACT, np.zeros((2, 3))), table(EXACT, np.zeros((3, 3)))) is None


def test_what_is_suppressed():
    assert suppressed_up_to(EXACT) is None
    assert suppressed_up_to(bound("suppress_small", up_to=3)) == 3
    assert suppressed_up_to(bound("suppress_small", below=3)) == 2
    assert suppressed_up_to(chain(EVENT, UP_TO, {"name": "suppress_small", "below": 5})) == 4


def test_blanks_are_zeros_of_a_suppression_that_writes_none():
    hides = bound("suppress_small", up_to=2)
    counts = np.full((1, 3), -1)
    blank = table(hides, counts, [[np.nan, 3, 4]])
    np.testing.assert_array_equal(fill_suppressed(blank), [[0, 3, 4]])
    for other in (table(hides, counts, [[np.nan, 0, 4]]), table(EXACT, counts, [[np.nan, 3, 4]])):
        assert fill_suppressed(other) is other.values


MECHANISMS = [
    EXACT,
    bound("suppress_small", up_to=2),
    bound("suppress_small", below=4),
    bound("bottom_code", at=4, least=2),
    bound("fixed_ranges", size=3),
    bound("fixed_ranges", size=4),
    bound("cap_contributions"),
    chain(UP_TO, {"name": "fixed_ranges", "size": 2}),
    chain({"name": "fixed_ranges", "size": 5}, {"name": "suppress_small", "below": 6}),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.label)
@given(counts=hnp.arrays(np.int32, (2, 3), elements=st.integers(0, 9)))
def test_counts_behind_are_all_that_are_published_alike(mechanism, counts):
    made = table(mechanism, counts, size=9)
    low, high = count_bounds(made)
    every = np.arange(10, dtype=np.int32)[None]
    of_each = mechanism.release(every, group_size=9, rng=np.random.default_rng(0))[0]
    for value, least, most in zip(made.values.flat, low.flat, high.flat, strict=True):
        np.testing.assert_array_equal(np.flatnonzero(of_each == value), np.arange(least, most + 1))


@given(
    shown=st.sampled_from(["hidden", "label"]),
    k=st.integers(2, 5),
    base=st.integers(2, 6),
    rule=st.sampled_from(["nearest", "random"]),
    hides_first=st.booleans(),
)
def test_blank_cells_have_hidden_counts_and_others_have_the_others(
    shown, k, base, rule, hides_first
):
    """A value that is shown may be rounded to the number that stands for hidden ones."""
    hide, rounds = {"name": "threshold", "k": k, "shown": shown}, {"name": "round_to_base"}
    rounds |= {"base": base, "rule": rule}
    steps = (hide, rounds) if hides_first else (rounds, hide)
    down, up = np.arange(10) // base * base, -(np.arange(10) // -base) * base
    if rule == "nearest":
        down = up = np.where(np.arange(10) - down < up - np.arange(10), down, up)
    # What each count may be published as: its possible values, or blank.
    published = []
    for count in range(10):
        kept = {count} if hides_first else {int(down[count]), int(up[count])}
        hidden = {value for value in kept if value < k and (shown == "hidden" or value)}
        kept -= hidden
        if hides_first:
            kept = {int(end[value]) for value in kept for end in (down, up)}
        published.append((kept, bool(hidden)))
    if not any(blank for _, blank in published):
        return
    values = sorted({value for found, _ in published for value in found})
    made = table(chain(*steps), np.full((1, len(values) + 1), -1), [[*values, np.nan]], size=9)
    low, high = count_bounds(made, drawn=True)
    of_each = [[n for n in range(10) if value in published[n][0]] for value in values]
    of_each.append([n for n in range(10) if published[n][1]])
    assert low[0].tolist() == [min(counts) for counts in of_each]
    assert high[0].tolist() == [max(counts) for counts in of_each]


@given(
    counts=hnp.arrays(np.int32, (2, 3), elements=st.integers(0, 9)),
    factor=st.floats(0.05, 6),
    n_decimals=st.integers(0, 3),
    up=st.booleans(),
)
def test_counts_behind_rounded_values_are_all_that_round_to_them(counts, factor, n_decimals, up):
    """Half goes up, or to the even digit, as programs differ."""
    expand, unit = bound("expand", factor=factor), 10.0**-n_decimals
    values = np.floor(counts * factor / unit + 0.5) * unit if up else counts * factor
    values = np.round(values, n_decimals)
    low, high = count_bounds(table(expand, counts, values, size=9))
    assert ((low <= counts) & (counts <= high)).all()
    decided = (low > 0) | (high < 9)
    for ends in (low, high):
        assert (np.abs(ends * factor - values)[decided] <= 0.501 * unit).all()


def test_a_zero_beside_blank_cells_is_a_hidden_count_too():
    hides = bound("threshold", k=5, shown="hidden")
    low, high = count_bounds(table(hides, np.full((1, 3), -1), [[0, np.nan, 7]], size=9))
    np.testing.assert_array_equal([low[0], high[0]], [[0, 0, 7], [4, 4, 7]])


def test_of_redacted_cells_and_of_what_is_never_published_any_count_is_possible():
    low, high = count_bounds(table(EXACT, np.full((1, 3), -1), [[np.nan, 1.5, 2]], size=9))
    np.testing.assert_array_equal([low[0], high[0]], [[0, 0, 2], [9, 9, 2]])


@for_each(
    "name", ["laplace", "gaussian", "fourier", "adaptive_ranges", "perturb_small", "sample_events"]
)
def test_of_noise_and_of_whole_series_no_counts_are_told(name):
    assert count_bounds(table(bound(name), np.full((8, 24), 3))) is None
