"""One body over every measure: what an audit needs of it, what it refuses, what it promises."""

import inspect
import pickle
from math import isnan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from loops import for_each

from clusterscale import utility
from clusterscale.errors import ConfigError, InputError, UnknownNameError
from clusterscale.utility import UTILITIES, Utility

NAMES = list(UTILITIES)
WITH_TOP = [name for name in NAMES if "top" in UTILITIES[name].model_fields]
RAW = np.random.default_rng(8).poisson(6, (30, 24))
RELEASED = RAW + np.random.default_rng(9).laplace(0, 2, RAW.shape)


def test_names():
    assert sorted(NAMES) == [
        "busiest_relative_error",
        "events_kept",
        "hotspot_f1",
        "hotspot_tau",
        "hotspot_tau_listwise",
        "jensen_shannon",
        "jensen_shannon_distance",
        "mean_relative_error",
        "pearson",
        "suppressed_share",
        "total_variation",
    ]


@for_each("name", NAMES)
def test_entry_is_a_frozen_picklable_value_that_config_can_name(name):
    entry = utility.create(name)
    assert isinstance(entry, Utility)
    assert entry.name == entry.label == name
    copy = pickle.loads(pickle.dumps(entry))
    assert copy == entry
    assert hash(copy) == hash(entry)
    assert type(entry).model_validate(entry.model_dump(mode="json")) == entry
    with pytest.raises(ValueError, match="frozen"):
        entry.name = "other"
    assert type(entry).__doc__
    assert entry.heading
    assert entry.ideal in (0.0, 1.0)


def test_titles_are_distinct():
    assert len({cls.phrase for cls in UTILITIES.classes}) == len(NAMES)


@for_each("name", NAMES)
def test_entry_has_the_keywords_and_defaults_of_its_function(name):
    parameters = inspect.signature(getattr(utility, name)).parameters.values()
    keywords = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert utility.create(name).model_dump(exclude={"name", "title"}) == keywords


@for_each("name", NAMES)
def test_entry_measures_as_its_function_does(name):
    function, settings = getattr(utility, name), {"top": 0.4, "floor": 0.2}
    fields = utility.create(name).model_dump(exclude={"name", "title"})
    given = {key: value for key, value in settings.items() if key in fields}
    entry = utility.create(name, **given)
    found = entry.measure(RAW, RELEASED)
    assert type(found) is float
    assert found == function(RAW, RELEASED, **given)
    if given:
        assert found != function(RAW, RELEASED)


@for_each("name", [name for name in NAMES if name != "suppressed_share"])  # noise hides nothing
def test_ideal_is_reached_and_noise_takes_away_from_it(name):
    measure = utility.create(name)
    raw = RAW + np.linspace(0, 0.5, RAW.size).reshape(RAW.shape)  # without ties
    assert measure.measure(raw, raw) == pytest.approx(measure.ideal, abs=1e-12)
    rng = np.random.default_rng(0)
    slight, heavy = (
        abs(measure.measure(raw, raw + rng.normal(0, scale, raw.shape)) - measure.ideal)
        for scale in (0.5, 8)
    )
    assert 0 < slight < heavy


@for_each("name", NAMES)
@for_each("dtype", [np.bool_, np.uint8, np.int32, np.int64, np.float32])
def test_any_real_dtype_and_memory_order_and_nothing_is_written(name, dtype):
    measure = utility.create(name, **({"top": 0.5} if name.startswith("hotspot") else {}))
    raw, released = (RAW % 3).astype(dtype), ((RAW + 1) // 2 % 3).astype(dtype)
    before = raw.copy(), released.copy()
    found = measure.measure(raw, released)
    again = measure.measure(raw.astype(np.float64), released.astype(np.float64))
    np.testing.assert_equal(found, again)
    assert isnan(found) == (name == "hotspot_tau" and dtype == np.bool_)  # all hotspots tie
    assert found == pytest.approx(
        measure.measure(np.asfortranarray(raw), released.tolist()), abs=1e-12, nan_ok=True
    )
    np.testing.assert_array_equal(before, (raw, released))


@for_each("name", NAMES)
@for_each(
    ("raw", "released", "message"),
    [
        (np.ones((2, 3)), np.ones((2, 4)), "raw (2, 3) and released (2, 4)"),
        (np.ones(3), np.ones(3), "raw (3,) and released (3,)"),
        (np.ones((1, 2, 3)), np.ones((1, 2, 3)), "raw (1, 2, 3) and released (1, 2, 3)"),
        ([[1, -1, -2]], [[1, 1, 1]], "2 of 3 raw counts are negative or not finite"),
        ([[1, np.nan]], [[1, 1]], "1 of 2 raw counts are negative or not finite"),
        ([[1, np.inf]], [[1, 1]], "1 of 2 raw counts are negative or not finite"),
        ([[1, 2]], [[np.nan, -np.inf]], "2 of 2 released values are not finite"),
        ([[1j]], [[1]], "raw is complex128, not real numbers"),
        ([[1]], [["a"]], "released is <U1, not real numbers"),
    ],
)
def test_bad_input_is_refused(name, raw, released, message):
    if message.startswith("raw ("):
        message += " must have one shape (roi, epoch)"
    if name == "suppressed_share":  # NaN is a hidden value
        message = message.replace("2 of 2", "1 of 2")
    with pytest.raises(InputError) as caught:
        utility.create(name).measure(raw, released)
    assert str(caught.value) == message


@for_each("name", NAMES)
@for_each(
    ("raw", "released"),
    [([[0, 0]], [[1, 2]]), (*[np.ones((0, 4))] * 2,), (*[np.ones((4, 0))] * 2,)],
)
def test_nothing_to_measure_is_nan(name, raw, released):
    assert isnan(utility.create(name).measure(raw, released))


RAWS = arrays(
    np.int64,
    array_shapes(min_dims=2, max_dims=2, max_side=24),
    elements=st.one_of(st.just(0), st.integers(0, 3), st.integers(0, 10**6)),
)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60)
@given(raw=RAWS, top=st.sampled_from([0.05, 0.1, 0.5, 1.0]))
def test_raw_counts_reach_the_ideal_exactly_whatever_they_are(name, raw, top):
    settings_of = {"top": top} if name in WITH_TOP else {}
    measure = utility.create(name, **settings_of)
    for counts in (raw, np.zeros_like(raw), np.full_like(raw, 3), raw * (raw.sum(axis=0) > 5)):
        found = measure.measure(counts, counts)
        assert found == measure.ideal or isnan(found)
        if counts.any() and name not in ("pearson", "hotspot_tau", "hotspot_tau_listwise"):
            assert found == measure.ideal


@settings(max_examples=60)
@given(raw=RAWS, keep=st.floats(0, 1), seed=st.integers(0, 10**6))
def test_zeros_are_never_better_than_a_sampled_release(raw, keep, seed):
    sampled = np.random.default_rng(seed).binomial(raw, keep)
    worst_values = {"events_kept": 0, "total_variation": 1, "hotspot_f1": 0, "suppressed_share": 1}
    for name, worst in worst_values.items():
        measure = utility.create(name)
        zeros, found = (measure.measure(raw, values) for values in (0 * raw, sampled))
        if raw.any():
            assert zeros == worst
            assert 0 <= found <= 1
            assert abs(zeros - measure.ideal) >= abs(found - measure.ideal)
        else:
            assert isnan(zeros)


@for_each("name", [name for name in NAMES if "relative_error" not in name])
def test_zeros_are_worse_than_half_of_the_events_on_sparse_data(name):
    """Few cells have a count, so zeros are right nearly everywhere, and tell nothing."""
    rng = np.random.default_rng(3)
    raw = rng.poisson(rng.gamma(0.2, 0.4, (200, 1)), (200, 96))
    assert 0.01 < (raw > 0).mean() < 0.1
    settings_of = {"top": 0.1} if name in WITH_TOP else {}
    measure = utility.create(name, **settings_of)
    zeros, sampled = (
        abs(measure.measure(raw, values) - measure.ideal)
        for values in (np.zeros_like(raw), rng.binomial(raw, 0.5))
    )
    assert zeros > sampled


@for_each("name", WITH_TOP)
@for_each("top", [0.0, -0.1, 1.1, np.nan])
def test_top_is_a_share(name, top):
    with pytest.raises(InputError) as caught:
        getattr(utility, name)(RAW, RELEASED, top=top)
    assert str(caught.value) == f"top must be a share of the ROIs, above 0 and at most 1, not {top}"


@for_each(
    ("name", "fields"),
    [
        ("mean_relative_error", {"floor": 0.0}),
        ("mean_relative_error", {"top": 0.1}),
        ("hotspot_f1", {"top": 1.5}),
        ("hotspot_f1", {"top": "a tenth"}),
        ("pearson", {"floor": 0.1}),
    ],
)
def test_wrong_settings_are_refused(name, fields):
    with pytest.raises(ConfigError, match=next(iter(fields))):
        utility.create(name, **fields)


def test_unknown_name():
    with pytest.raises(UnknownNameError, match=r"unknown utility 'hotspot_f2': .*hotspot_f1"):
        utility.create("hotspot_f2")
