"""Values that cannot be are found, all that can be are let pass."""

import numpy as np
import pytest
from consistency.tables import EVENT, UP_TO, bound, chain, draw_counts, find, released, table
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from loops import for_each, mostly_slow

from clusterscale.mechanisms import MECHANISMS
from clusterscale.mechanisms.chain import steps_of

DISCRETE = EVENT | {"discrete": True}
CLIP, ROUND = {"clip": True}, {"integers": "round"}
DROP = {"name": "sample_events", "remove": 0.3}
RANGES = {"name": "fixed_ranges", "size": 4}
UNKNOWN = dict.fromkeys(["fourier", "enhanced_fourier", "unscaled_fourier", "tables"], "unknown")
MORE = [
    bound(**EVENT, **CLIP),
    bound(**EVENT, **ROUND),
    bound(**EVENT, **CLIP, integers="floor"),
    bound(**DISCRETE),
    bound(**DISCRETE, **CLIP),
    bound("laplace", epsilon=40.0, sensitivity=1.0),
    bound("laplace", epsilon=0.001, sensitivity=1.0, integers="round"),
    bound("truncated_laplace", epsilon=0.3, clip=True),
    chain(DISCRETE, RANGES),
    chain(EVENT, UP_TO),
    chain(EVENT | CLIP, UP_TO, RANGES),
    chain(DROP, UP_TO),
    chain(DROP, EVENT | ROUND, UP_TO),
    chain({"name": "sample_events", "remove": 0.5}),
]
EVERY = [*(bound(name) for name in MECHANISMS), *MORE]


@mostly_slow("mechanism", EVERY, n_quick=18, ids=lambda mechanism: mechanism.label)
@given(seed=st.integers(0, 2**32), hidden=st.sampled_from([0.0, 0.3]))
def test_what_a_mechanism_publishes_is_possible(mechanism, seed, hidden):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 20, (8, 24), endpoint=True).astype(np.int32)
    values = mechanism.release(counts, group_size=20, rng=rng)
    blank = rng.random(values.shape) < hidden
    if getattr(steps_of(mechanism)[-1], "hidden", "") == "hidden" and blank.any():
        blank |= values == 0  # the number that stands for what is hidden
    values[blank] = np.nan
    found = find("possible_values", table(mechanism, np.full_like(counts, -1), values))
    assert found.level == UNKNOWN.get(mechanism.name, "consistent")
    assert found.n_cells == np.isfinite(values).sum()


WEIGHTS = {"name": "expand", "factor": "weights"}
MADE = {
    "bottom code, 3 and 1 shown": (bound("bottom_code", at=4, least=2), [0, 4, 5, 3, 1], 2),
    "bottom code after sampling": (
        chain(DROP, {"name": "bottom_code", "at": 4, "least": 2}), [0, 4, 5, 3, 1], 2),
    "k after weights": (chain(WEIGHTS, {"name": "threshold", "k": 5}), [0, 5.5, 4.9, 12], 1),
    "k after randomized responses": (
        chain({"name": "randomized_response", "p": 0.5}, UP_TO), [0, 2.5, 2, 1], 2),
    "k after a factor": (
        chain({"name": "expand", "factor": 5.13}, {"name": "threshold", "k": 10}),
        [0, 10.26, 5.13], 1),
    "half a device": (bound("expand", factor=0.5), [0, 0.5, 4.5, 0.25], 1),
}  # fmt: skip


@for_each("name", MADE)
def test_values_below_a_threshold_are_found_after_other_steps(name):
    declared, values, n = MADE[name]
    found = find("possible_values", table(declared, np.full((1, len(values)), -1), [values]))
    assert (found.level, found.measured) == ("inconsistent", n)


def test_k_before_unknown_weights_is_not_decided():
    """Five devices may be any number of people, so that no value shows who is hidden."""
    for steps in ([{"name": "threshold", "k": 5}, WEIGHTS], [{"name": "threshold", "k": 5}, WEIGHTS,
                  {"name": "threshold", "k": 9}]):  # fmt: skip
        unknown = np.full((1, 3), -1)
        assert (
            find("possible_values", table(chain(*steps), unknown, [[0, 9.5, 12]])).level
            == "unknown"
        )
        found = find("possible_values", table(chain(*steps), unknown, [[0, -9.5, 12]]))
        assert found.level == "inconsistent"


BARE = draw_counts(mean=4)
SMALL = int(((BARE > 0) & (BARE <= 2)).sum())


@for_each(
    ("declared", "values", "n"),
    [
        (bound("exact"), BARE + 0.5, BARE.size),
        (bound("exact"), np.where(BARE == 3, 21, BARE), (BARE == 3).sum()),
        (bound("exact"), np.where(BARE == 3, -1, BARE), (BARE == 3).sum()),
        (bound("suppress_small", up_to=2), BARE, SMALL),
        (bound("suppress_small", below=3), BARE, SMALL),
        (bound("fixed_ranges", size=4), BARE, (BARE % 4 != 2).sum()),
        (bound(**DISCRETE), BARE + 0.25, BARE.size),
        (bound(**DISCRETE, **CLIP), BARE - 2, (BARE < 2).sum()),
        (bound(**EVENT, **CLIP), BARE - 2.25, (BARE <= 2).sum()),
        (bound(**EVENT, **CLIP), BARE + 18.25, (BARE >= 2).sum()),
        (bound(**EVENT, **ROUND), BARE + 0.25, BARE.size),
        (bound("perturb_small"), BARE - 1, (BARE == 0).sum()),
        (bound("perturb_small"), BARE + 0.25, BARE.size),
        (bound("truncated_laplace"), BARE + 0.25, BARE.size),
        (bound("sample_events"), BARE + 0.25, BARE.size),
        (bound("randomized_response", p=0.5), BARE + 17.5, (BARE > 2).sum()),
        (bound("adaptive_ranges"), BARE + 0.25, BARE.size),
        (chain(EVENT | CLIP, UP_TO), BARE / 2 + 0.25, (BARE < 4).sum()),
        (chain(DROP, UP_TO), BARE, SMALL),
    ],
)  # fmt: skip
def test_what_it_never_publishes_is_found(declared, values, n):
    found = find("possible_values", table(declared, np.full_like(BARE, -1), values))
    assert (found.level, found.measured, found.expected) == ("inconsistent", n, 0)
    assert found.n_cells == BARE.size
    assert f"{n} of 192 published values" in found.text


@given(
    values=hnp.arrays(np.float64, (2, 4), elements=st.integers(-8, 60).map(lambda n: n / 2)),
    size=st.integers(1, 25),
)
def test_bare_counts_are_whole_and_no_more_than_members(values, size):
    found = find("possible_values", table(bound("exact"), np.full((2, 4), -1), values, size=size))
    wrong = (values < 0) | (values > size) | (values != np.rint(values))
    assert found.measured == wrong.sum()


def test_whole_values_of_continuous_noise():
    cut = released(bound("truncated_laplace"), BARE)
    found = find("possible_values", table(bound(**EVENT), np.full_like(BARE, -1), cut))
    assert (found.level, found.measured) == ("inconsistent", BARE.size)
    mixed = np.where(np.arange(24) % 3 == 0, cut, released(bound(**EVENT), BARE))
    found = find("possible_values", table(bound(**EVENT), np.full_like(BARE, -1), mixed))
    assert (found.level, found.measured) == ("inconsistent", BARE.size / 3)


@pytest.mark.parametrize("places", [1, 2, 6])
def test_decimals_are_no_fault(places):
    noisy = np.round(released(bound(**EVENT), draw_counts(shape=(50, 200))), places)
    found = find("possible_values", table(bound(**EVENT), np.full_like(noisy, -1), noisy))
    assert found.level == "consistent"


def test_a_value_written_as_its_bound():
    """2.04 is published, 2 is not, and with one decimal either is 2.0."""
    declared, counts = chain(EVENT, UP_TO), draw_counts(shape=(50, 200))
    noisy = np.round(released(declared, counts), 1)
    assert (noisy == 2).any()
    assert find("possible_values", table(declared, counts, noisy)).level == "consistent"
    bare = np.round(released(bound(**EVENT), counts), 1)
    found = find("possible_values", table(declared, counts, bare))
    assert found.measured == ((bare < 2) & (bare != 0)).sum()


def test_more_ranges_than_declared():
    declared = bound("adaptive_ranges", ranges=3)
    found = find("possible_values", table(declared, BARE, BARE))
    many = np.array([len(np.unique(series)) > 3 for series in BARE])
    assert 0 < many.sum() < len(BARE)
    assert (found.level, found.measured) == ("inconsistent", many.sum() * 24)
    assert " are in a series of more than 3 values under adaptive_ranges" in found.text
    assert "only values possible" not in found.text


def test_values_that_are_impossible_in_any_series_are_named_first():
    declared = bound("adaptive_ranges", ranges=3)
    values = np.where(np.arange(24) < 12, 2.0, 4.0) * np.ones((8, 1))
    values[0] = np.arange(24) % 6
    values[1, 0] = 2.25
    found = find("possible_values", table(declared, np.full((8, 24), -1), values))
    assert (found.level, found.measured) == ("inconsistent", 25)
    assert (
        "are not multiples of ½ from 0 up to 20, the only values possible, or are in a series of "
        "more than 3 values under" in found.text
    )
    values[0] = 4.0
    found = find("possible_values", table(declared, np.full((8, 24), -1), values))
    assert (found.measured, "series" in found.text) == (1, False)


def test_a_table_of_many_members_and_values():
    rng = np.random.default_rng(5)
    counts = rng.integers(0, 2_000_000, (40, 500)).astype(np.int32)
    for declared in (bound(**EVENT), bound(**EVENT, **CLIP), bound(**DISCRETE), bound("exact")):
        assert (
            find("possible_values", table(declared, counts, size=2_000_000)).level == "consistent"
        )


def test_nothing_to_look_at():
    found = find("possible_values", table(bound("exact"), np.ones((1, 2)), [[np.nan] * 2]))
    assert (found.level, found.n_cells) == ("unknown", 0)
    assert np.isnan(found.measured)


@pytest.mark.parametrize(
    ("values", "shown", "level"),
    [
        ([[0, np.nan, 7]], "hidden", "inconsistent"),
        ([[0, np.nan, 7]], "label", "consistent"),
        ([[0, 6, 7]], "hidden", "consistent"),
        ([[6, np.nan, 7]], "hidden", "consistent"),
    ],
)
def test_no_0_is_published_beside_values_that_are_hidden_as_0_is(values, shown, level):
    method, values = bound("threshold", k=5, shown=shown), np.array(values, float)
    found = find("possible_values", table(method, np.full(values.shape, -1), values))
    assert found.level == level
    assert ("`shown` is another" in found.text) == (level == "inconsistent" and 0 in values)


@for_each(("rule", "values"), [("midpoint", [99, 45, 57, 63, 0]), ("nearest", [96, 42, 54])])
def test_values_that_another_rule_of_rounding_has_say_so(rule, values):
    """Values are those of rounding to the middle with base 6, as 3, 9, 15, or multiples of 6."""
    other = {"midpoint": "nearest", "nearest": "midpoint"}[rule]
    declared = [bound("round_to_base", base=6, rule=one) for one in (rule, other)]
    found = [find("possible_values", table(one, [values], [values], size=200)) for one in declared]
    assert [one.level for one in found] == ["consistent", "inconsistent"]
    assert found[1].text.endswith(f"; all are possible under round_to_base(base=6, rule='{rule}')")
    mixed = find("possible_values", table(declared[0], [values], [[*values[1:], 7]], size=200))
    assert "all are possible" not in mixed.text
