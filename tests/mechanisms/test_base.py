"""What every mechanism does with the form of counts, whatever it does to their values."""

import numpy as np
import pytest
from loops import for_each
from mechanisms.published import publish

from clusterscale import mechanisms
from clusterscale.errors import InputError
from clusterscale.mechanisms import MECHANISMS

SETTINGS = {
    "adaptive_ranges": {"ranges": 2},
    "bottom_code": {"at": 4, "least": 2},
    "cap_contributions": {"per_day": 2},
    "chain": {
        "steps": [
            {"name": "sample_events", "remove": 0.2},
            {"name": "perturb_small", "below": 3, "epsilon": 1.0},
            {"name": "suppress_unpopular", "fraction": 0.5},
            {"name": "adaptive_ranges", "ranges": 2},
        ]
    },
    "coarsen_space": {"factor": 2},
    "coarsen_time": {"factor": 2},
    "enhanced_fourier": {"epsilon": 1.0, "delta": 0.1, "l2_sensitivity": 1.0},
    "exact": {},
    "fixed_ranges": {"size": 3},
    "fourier": {"epsilon": 1.0, "coefficients": 1, "l2_sensitivity": 1.0},
    "gaussian": {"epsilon": 1.0, "delta": 0.1, "l2_sensitivity": 1.0},
    "cell_key": {"deviation": 2, "variance": 1.0},
    "dominance": {"n": 2, "share": 0.8},
    "expand": {"factor": 2.5},
    "laplace": {"epsilon": 1.0, "sensitivity": 1.0},
    "perturb_small": {"below": 3, "epsilon": 1.0},
    "randomized_response": {"p": 0.3},
    "round_to_base": {"base": 3},
    "sample_events": {"remove": 0.2},
    "sample_traces": {"remove": 0.2},
    "suppress_small": {"below": 3},
    "suppress_unpopular": {"fraction": 0.5},
    "tables": {
        "tables": [
            {"name": "laplace", "epsilon": 1.0, "sensitivity": 1.0},
            {"name": "suppress_small", "below": 3},
        ]
    },
    "share_of_total": {},
    "threshold": {"k": 3, "shown": "label"},
    "top_code": {"at": 4},
    "truncated_laplace": {"epsilon": 1.0},
    "unscaled_fourier": {"epsilon": 1.0, "coefficients": 1, "l2_sensitivity": 1.0},
}
COUNTS = np.random.default_rng(0).integers(0, 9, (4, 3, 6)).astype(np.int32)

every = pytest.mark.parametrize("name", list(MECHANISMS))


def make(name):
    return mechanisms.create(name, **SETTINGS[name])


LAYOUTS = {
    "fortran": np.asfortranarray(COUNTS),
    "transposed": np.ascontiguousarray(COUNTS.transpose(2, 0, 1)).transpose(1, 2, 0),
    "strided": np.repeat(COUNTS, 2, axis=2)[..., ::2],
    "reversed": np.ascontiguousarray(COUNTS[:, ::-1])[:, ::-1],
    "read only": np.frombuffer(COUNTS.tobytes(), np.int32).reshape(COUNTS.shape),
    "swapped bytes": COUNTS.astype(">i4"),
    **{
        kind: COUNTS.astype(kind)
        for kind in ("i1", "u1", "i2", "u4", "i8", "u8", "f4", "f8", "longdouble")
    },
}


@every
@for_each("layout", LAYOUTS)
def test_memory_and_type_of_counts_do_not_matter(name, layout):
    mechanism, counts = make(name), LAYOUTS[layout]
    before = counts.copy()
    values = publish(mechanism, counts)
    assert values.dtype == np.float64
    assert not np.shares_memory(values, counts)
    np.testing.assert_array_equal(values, publish(mechanism, COUNTS))
    np.testing.assert_array_equal(counts, before)


@every
@for_each("shape", [(2, 2, 3, 6), (1, 4, 3, 6), (4, 1, 3, 6)])
def test_a_batch_is_a_batch_in_any_shape(name, shape):
    mechanism = make(name)
    values = publish(mechanism, COUNTS.reshape(shape))
    np.testing.assert_array_equal(values.reshape(COUNTS.shape), publish(mechanism, COUNTS))


@every
@for_each("shape", [(0, 3, 6), (2, 0, 3, 6), (2, 2), (2, 3), (3, 2), (5, 2, 2), (40_000, 2, 2)])
def test_small_empty_and_large_shapes(name, shape):
    values = publish(make(name), np.full(shape, 4, np.int32))
    assert values.shape == shape
    assert np.isfinite(values).all()


@for_each("name", sorted(set(MECHANISMS) - {"suppress_unpopular", "chain", "tables"}))
@for_each("shape", [(1, 1), (1, 6), (6, 1), (3, 1, 1)])
def test_one_place_or_one_hour(name, shape):
    values = publish(make(name), np.full(shape, 4, np.int32))
    assert values.shape == shape
    assert np.isfinite(values).all()


@for_each("name", list(MECHANISMS))
def test_a_row_is_not_a_release(name):
    with pytest.raises(InputError) as caught:
        publish(make(name), np.zeros(4, np.int32))
    assert str(caught.value) == "counts must have shape (…, roi, epoch), not (4,)"


@for_each("name", list(MECHANISMS))
def test_nobody_is_not_a_group(name):
    with pytest.raises(InputError) as caught:
        publish(make(name), np.zeros((2, 3), np.int32), group_size=0)
    assert str(caught.value) == "group_size must be at least 1, not 0"


NOISY = ["laplace", "gaussian", "fourier", "enhanced_fourier", "randomized_response"]
NOISY += ["truncated_laplace"]


@for_each("name", NOISY)
def test_clipped_whole_numbers(name):
    mechanism = mechanisms.create(name, **SETTINGS[name], clip=True, integers="round")
    counts = np.tile([[0, 0, 0], [10, 10, 10]], (200, 1, 1)).astype(np.int32)
    values = publish(mechanism, counts)
    assert values.min() == 0
    assert values.max() == 10
    np.testing.assert_array_equal(values, np.rint(values))


@for_each("name", [*NOISY, "perturb_small", "sample_events", "chain"])
def test_another_stream_publishes_otherwise(name):
    mechanism = make(name)
    one, other = (publish(mechanism, COUNTS, seed=seed) for seed in (1, 2))
    assert (one != other).any()


@for_each(
    "name", ["adaptive_ranges", "exact", "fixed_ranges", "suppress_small", "suppress_unpopular"]
)
def test_revisions_draw_nothing(name):
    rng = np.random.default_rng(3)
    before = rng.bit_generator.state
    make(name).release(COUNTS, group_size=10, rng=rng)
    assert rng.bit_generator.state == before
