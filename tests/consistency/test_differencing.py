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
    """In ranges, differences of less than two ranges may be those of few people."""
    least = "consistent" if "fixed_ranges" not in declared.label else "unknown"
    for seed in range(20):
        for members in (FEWER, WHOLE, slice(60, 120)):
            pair = of(WHOLE, declared, seed=[1, seed]), of(members, declared, seed=[2, seed])
            assert find("differencing", *pair[:1], pair[1:]).level in ("consistent", least)


def small_pair(seed, *, reused, cells=(6, 101)):
    """Two tables of few cells with noise of whole numbers, of which one lacks some people."""
    rng = np.random.default_rng([seed, 41])
    n, people, size = rng.integers(*cells), int(rng.integers(1, 6)), int(rng.integers(100, 400))
    declared = bound(
        "laplace",
        epsilon=float(rng.choice([0.1, 0.3, 0.5, 1.0, 2.0])),
        sensitivity=1.0,
        discrete=True,
        clip=bool(rng.random() < 0.3),
    )
    left, came = rng.binomial(people, rng.choice([0.0, 0.2]), (2, n))
    swapped = seed % 3 == 0
    whole = left + rng.poisson(rng.choice([1, 5, 20]), n)
    whole[0] += 45  # a cell that is not cut to 0, so that no table repeats another
    part = whole - left + came * swapped
    part[0] += swapped and (part == whole).all()
    pair = []
    for counts, fewer in ((whole, 0), (part, people * (not swapped))):
        values = released(declared, counts[None], [seed, fewer * (not reused), 8], size - fewer)
        pair.append(table(declared, counts[None], values, size=size - fewer, name=f"-{fewer}"))
    if swapped and not reused:
        values = released(declared, part[None], [seed, 9], size)
        pair[1] = replace(pair[1], values=values)
    return pair[0], replace(pair[1], name="week 2")


@mostly_slow("first", range(0, 300, 30))
def test_reused_noise_of_whole_numbers_is_never_consistent(first):
    """300 pairs of 6 to 100 cells; of as many with noise of their own, none is inconsistent.

    All tests of a pair together alarm falsely with probability .001 at most, so for 300 pairs with
    .26 at most; bounds are for the least favourable counts, and here the rate is lower by far.
    """
    levels = {True: list[str](), False: list[str]()}
    for seed in range(first, first + 30):
        for reused, of_kind in levels.items():
            one, other = small_pair(seed, reused=reused)
            of_kind.append(find("differencing", one, [other], seed=seed).level)
    assert "consistent" not in levels[True]
    assert levels[True].count("inconsistent") > 10
    assert "inconsistent" not in levels[False]
    assert levels[False].count("consistent") > 10


def test_equal_values_are_counted_by_the_law_of_the_noise():
    """Noise of ε 1 is 0 with probability tanh(½), so 12 values are equal with at most 9e-5."""
    declared = bound("laplace", epsilon=1.0, sensitivity=1.0, discrete=True)
    values = np.arange(10.0, 22.0)[None]
    whole = table(declared, np.full((1, 12), 9), values, size=60)
    part = table(declared, np.full((1, 12), 9), values, size=59, name="week 2")
    share, tests = np.tanh(0.5), 3  # 0, 0 to 1, and ±1: more are as likely as not
    for chance, level in ((1.01, "inconsistent"), (0.99, "unknown")):
        found = find("differencing", whole, [part], chance=share**12 * tests * chance)
        assert found.level == level
    assert find("differencing", whole, [part]).text.endswith(
        "12 of 12 differences are 0, as at most 46.21% of independent noise"
    )


def test_what_no_test_would_detect_is_unknown():
    """Noise that is nearly always 0, and tables of six cells."""
    for epsilon, n in ((8.0, 100), (1.0, 6)):
        declared = bound("laplace", epsilon=epsilon, sensitivity=1.0, discrete=True)
        counts = np.arange(n)[None]
        one, other = (
            table(declared, counts, released(declared, counts, seed, 300), size=300, name=str(seed))
            for seed in (1, 2)
        )
        other.values[0, :2] += (9, -9)  # people certainly differ, but noise may be the same
        assert find("differencing", one, [other], least=6).level == "unknown"


def test_a_declared_subset_that_counts_more_has_noise_of_its_own():
    declared = bound("laplace", epsilon=0.1, sensitivity=1.0, discrete=True)
    counts = np.full((1, 40), 30)
    pair = [
        table(declared, counts, released(declared, counts, [seed, 3], size), size=size, name=name)
        for seed, name, size in ((1, "whole", 300), (2, "part", 299))
    ]
    pair[1] = replace(pair[1], subset_of=("whole",))
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
