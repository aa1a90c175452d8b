"""A group and a part of it are found, and noise that was reused; strangers are let be."""

from dataclasses import replace

import numpy as np
import pytest
from consistency.tables import EVENT, UP_TO, bound, chain, draw_visits, find, released, table
from loops import for_each, mostly_slow
from scipy import stats

from clusterscale.release.checks.table import smallest_shown

EXACT, LAPLACE = bound("exact"), bound(**EVENT)
VISITS = draw_visits(1, 120)


def counts_of(members, visits=VISITS):
    return visits[members].sum(axis=0).astype(np.int32)


def of(members, declared=EXACT, name="week 1", first=0, values=None, seed=5):
    counts = counts_of(members)[:, first:]
    size = len(VISITS[members])
    values = released(declared, counts, seed, size) if values is None else values
    return table(declared, counts, values, size=size, name=name, first=first)


WHOLE, FEWER = slice(0, 60), slice(0, 58)


@pytest.mark.parametrize("turned", [False, True])
def test_two_people_who_left(turned):
    pair = [of(WHOLE), of(FEWER, name="week 2")]
    found = find(
        "differencing", *(pair[::-1] if turned else pair)[:1], pair[:1] if turned else pair[1:]
    )
    n = (counts_of(WHOLE) != counts_of(FEWER)).sum()
    assert (found.level, found.measured, found.n_cells) == ("inconsistent", n, 192)
    assert (
        f"subtracting shows where 2 people were, and {n} of 192 cells count fewer than 5"
        in found.text
    )


def test_a_part_of_which_more_left_shows_in_its_small_cells():
    found = find("differencing", of(WHOLE), [of(slice(0, 40))])
    away = counts_of(WHOLE) - counts_of(slice(0, 40))
    assert (found.level, found.measured) == ("inconsistent", ((away > 0) & (away < 5)).sum())
    found = find("differencing", of(WHOLE), [of(slice(0, 40))], small=2)
    assert (found.level, found.measured) == ("inconsistent", (away == 1).sum())


def test_epochs_are_those_of_the_cube():
    later = of(FEWER, name="week 2", first=10)
    found = find("differencing", of(WHOLE), [later])
    assert (found.level, found.n_cells) == ("inconsistent", 8 * 14)
    shifted = table(EXACT, counts_of(FEWER), size=58, first=1, name="week 2")
    assert find("differencing", of(WHOLE), [shifted]).level == "consistent"


@for_each(("one", "other"), [(60, 60), (60, 59), (60, 57), (60, 50), (60, 12), (10, 9)])
def test_groups_apart_are_let_be(one, other):
    """Two draws without regard to each other, which may share members."""
    for seed in range(40):
        rng = np.random.default_rng([seed, one, other])
        first, second = (rng.choice(120, n, replace=False) for n in (one, other))
        found = find("differencing", of(first), [of(second, name="week 2")])
        assert found.level != "inconsistent", found.text
        assert found.level == "consistent" or min(one, other) < 20


def test_groups_apart_of_people_who_hardly_move_are_let_be():
    """Cells of a ROI are then one fact, not as many as there are epochs."""
    visits = draw_visits(3, 400, shape=(6, 200), share=0.97)
    calls = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        apart = rng.permutation(400)
        first, second = (counts_of(each, visits) for each in (apart[:210], apart[210:400]))
        pair = table(EXACT, first, size=210), table(EXACT, second, size=190)
        calls += find("differencing", pair[0], [pair[1]]).level == "inconsistent"
    assert calls == 0


@pytest.mark.parametrize("declared", [EXACT, LAPLACE, bound(**EVENT, integers="round")])
def test_the_same_values_twice_add_nothing(declared):
    found = find("differencing", of(WHOLE, declared), [of(WHOLE, declared, name="week 2")])
    assert found.level == "consistent"
    assert "have equal values in 192 shared cells" in found.text


def test_a_single_epoch_is_enough_where_there_are_many_places():
    visits = draw_visits(5, 120, shape=(60, 1), share=1.0)
    counts = [visits[:n].sum(axis=0) for n in (119, 118, 90)]
    one, two, three = (
        table(EXACT, each, size=n) for each, n in zip(counts, (119, 118, 90), strict=True)
    )
    assert find("differencing", one, [two], least=1).level == "inconsistent"
    assert find("differencing", one, [three]).level == "inconsistent"


def test_ranges_of_one_count_are_counts():
    one, two = (of(each, bound("fixed_ranges", size=1)) for each in (WHOLE, FEWER))
    assert find("differencing", one, [two]).level == "inconsistent"
    mixed = find("differencing", one, [of(FEWER)])
    assert mixed.measured == (counts_of(WHOLE) != counts_of(FEWER)).sum()


def test_nothing_shared_nothing_told():
    other = table(EXACT, np.ones((3, 24)), name="other places")
    for others in ([], [other]):
        found = find("differencing", of(WHOLE), others)
        assert (found.level, found.n_cells) == ("consistent", 0)
    blank = table(EXACT, counts_of(FEWER), np.full((8, 24), np.nan), size=58)
    assert find("differencing", of(WHOLE), [blank]).level == "unknown"


def test_the_worst_of_several_is_told():
    others = [of(slice(60, 120), name="others"), of(FEWER, name="week 2"), of(WHOLE, name="again")]
    assert "week 1 and week 2" in find("differencing", of(WHOLE), others).text


def test_suppressed_cells_are_not_subtracted_but_others_are():
    hides = bound("suppress_small", up_to=2)
    found = find("differencing", of(WHOLE, hides), [of(FEWER, hides, name="week 2")], least=5)
    counts, fewer = counts_of(WHOLE), counts_of(FEWER)
    seen = (counts > 2) & (fewer > 2)
    assert found.level == "inconsistent"
    assert (found.n_cells, found.measured) == (seen.sum(), (seen & (counts != fewer)).sum())


def test_ranges_hide_differences():
    ranges = bound("fixed_ranges", size=5)
    found = find("differencing", of(WHOLE, ranges), [of(FEWER, ranges)])
    assert (found.level, found.n_cells) == ("unknown", 0)


NOISY = [
    LAPLACE,
    bound(**EVENT, clip=True),
    bound(**EVENT, integers="round"),
    bound(**EVENT, clip=True, integers="floor"),
    bound("laplace", epsilon=1.0, discrete=True),
    bound("laplace", epsilon=0.05, unit="event"),
    bound("gaussian"),
    chain(EVENT, UP_TO),
    chain(EVENT, {"name": "fixed_ranges", "size": 3}),
]


@mostly_slow("declared", NOISY, ids=lambda declared: declared.label)
def test_noise_that_is_drawn_twice_protects(declared):
    for seed in range(20):
        for members in (FEWER, WHOLE, slice(60, 120)):
            pair = of(WHOLE, declared, seed=[1, seed]), of(members, declared, seed=[2, seed])
            assert find("differencing", *pair[:1], pair[1:]).level == "consistent"


@pytest.mark.parametrize("name", ["randomized_response", "fourier", "perturb_small"])
def test_of_noise_without_a_law_nothing_is_known(name):
    pair = of(WHOLE, bound(name), seed=1), of(FEWER, bound(name), seed=2)
    assert find("differencing", pair[0], pair[1:]).level == "unknown"


@pytest.mark.parametrize("declared", NOISY[:1] + NOISY[5:7] + NOISY[7:8], ids=lambda one: one.label)
def test_noise_that_is_reused_is_found_by_its_fractions(declared):
    """The same seed, week after week."""
    pair = of(WHOLE, declared), of(FEWER, declared, name="week 2")
    found = find("differencing", pair[0], pair[1:])
    assert found.level == "inconsistent"
    assert "reuse the same noise" in found.text


@pytest.mark.parametrize("declared", NOISY[2:5:2], ids=lambda declared: declared.label)
def test_whole_noise_that_is_reused_is_found_by_what_does_not_vary(declared):
    pair = of(WHOLE, declared), of(FEWER, declared, name="week 2")
    found = find("differencing", pair[0], pair[1:])
    assert found.level == "inconsistent"
    assert found.measured < found.expected


def test_noise_reused_with_two_decimals():
    noise = np.round(released(LAPLACE, counts_of(WHOLE)) - counts_of(WHOLE), 2)
    pair = [of(group, LAPLACE, values=counts_of(group) + noise) for group in (WHOLE, FEWER)]
    assert find("differencing", pair[0], pair[1:]).level == "inconsistent"


def test_a_small_part_of_a_large_group_cannot_be_told():
    whole, part = of(slice(0, 120)), of(slice(0, 3), name="part")
    found = find("differencing", whole, [part])
    assert found.level == "unknown"
    assert "declare it with `subset_of`" in found.text
    found = find("differencing", whole, [replace(part, subset_of=("week 1",))])
    assert found.level == "inconsistent"


def pair_of(whole, part, sizes, declared=False, mechanism=EXACT):
    """Return two tables of a ROI per count, at one epoch."""
    subset_of = ("whole",) if declared else ()
    one = table(mechanism, np.array([whole]).T, size=sizes[0], name="whole")
    two = table(mechanism, np.array([part]).T, size=sizes[1], name="part")
    return one, replace(two, subset_of=subset_of)


@for_each("turned", [False, True])
@for_each(
    ("whole", "part", "sizes", "undeclared", "declared"),
    [
        ([9], [8], (300, 299), "unknown", "inconsistent"),
        ([9], [9], (300, 299), "unknown", "inconsistent"),  # the person was not there
        ([40] * 12, [40] * 11 + [39], (300, 299), "inconsistent", "inconsistent"),
        ([40] * 12, [39] * 12, (300, 300), "unknown", "inconsistent"),  # one size for all
        ([40, 40], [20, 37], (300, 200), "unknown", "inconsistent"),
        ([40, 40], [20, 30], (300, 200), "unknown", "consistent"),
        ([40, 40], [41, 39], (300, 299), "unknown", "inconsistent"),  # one came, one left
        ([40, 40], [44, 31], (300, 299), "consistent", "inconsistent"),
        ([40, 40], [40, 40], (300, 200), "unknown", "unknown"),
        ([40, 40], [40, 40], (300, 300), "consistent", "consistent"),
    ],
)
def test_few_cells_are_unknown_unless_a_subset_is_declared(
    whole, part, sizes, undeclared, declared, turned
):
    for states, level in ((False, undeclared), (True, declared)):
        pair = pair_of(whole, part, sizes, states)[:: -1 if turned else 1]
        assert find("differencing", pair[0], pair[1:]).level == level


def test_a_hidden_cell_of_a_declared_subset_shows_one_person():
    hides = bound("threshold", k=5, shown="hidden")
    pair = pair_of([5, 3], [4, 3], (300, 299), True, hides)
    found = find("differencing", pair[0], pair[1:])
    assert (found.level, found.n_cells) == ("unknown", 0)  # 5 minus 0 to 4
    pair = pair_of([5, 9, 3], [4, 9, 3], (300, 299), True, hides)
    assert find("differencing", pair[0], pair[1:]).level == "inconsistent"


@for_each(
    ("declared", "small"),
    [
        (bound("bottom_code", at=4, least=2), 5),
        (chain({"name": "expand", "factor": 0.1}, {"name": "threshold", "k": 2}), 20),
        (chain({"name": "expand", "factor": 5.13}, {"name": "threshold", "k": 10}), 10),
        (chain({"name": "threshold", "k": 3}, {"name": "expand", "factor": 0.1}), 3),
    ],
)
def test_few_are_fewer_than_what_a_table_never_tells_apart(declared, small):
    """A tenth of a device each: k = 2 hides 19 devices."""
    assert smallest_shown(None, table(declared, [[0]])) == small
    levels = []
    for more in (small - 1, small):
        whole, part = pair_of([43, 40 + more], [43, 40], (300, 260), True, declared)
        levels.append(find("differencing", whole, [part]).level)
    assert levels == ["inconsistent", "consistent"]


def test_the_bound_on_coincidence_is_the_binomial_one():
    """Each of 12 ROIs has 5 visits each epoch: none of 3 to the larger, or all 5, 2 and 3."""
    larger, smaller = np.full((12, 4), 3), np.full((12, 4), 2)
    pair = table(EXACT, larger, size=11), table(EXACT, smaller, size=10)
    likely = stats.binom.pmf(2, 5, 10 / 21)
    for chance, due in ((likely**12 * 1.01, "inconsistent"), (likely**12 * 0.99, "unknown")):
        assert find("differencing", pair[0], pair[1:], chance=chance).level == due


def test_what_is_few():
    hides = table(bound("suppress_small", up_to=7), np.zeros((1, 1)))
    bare = table(EXACT, np.zeros((1, 1)))
    assert smallest_shown(None, bare) == 5
    assert smallest_shown(None, bare, hides) == 8
    assert smallest_shown(3, bare, hides) == 3
