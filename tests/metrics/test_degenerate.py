"""What every public function answers where there is little or nothing to go by."""

from dataclasses import astuple

import numpy as np
import pytest
from loops import for_each

from clusterscale import metrics
from clusterscale.errors import InputError
from clusterscale.metrics import (
    Drift,
    accuracy,
    auc,
    auc_ceiling,
    auc_degrees,
    auc_interval,
    auc_lower_limit,
    auc_p_values,
    auc_tail,
    calibrated_counts,
    claim_verdict,
    compare_exposure,
    epsilon_lower_bound,
    is_testable,
    largest_bound,
    mean_interval,
    off_cells,
    pool_exposure,
    pooled_epsilon_lower_bound,
    pooled_resolvable_fpr,
    pooled_tpr_at_fpr,
    privacy_gain,
    privacy_loss,
    reject_holm,
    resolvable_fpr,
    tpr_at_fpr,
    weak_cells,
    worst_interval,
)

NAN, INF = np.nan, np.inf
HALF = np.arange(8) % 2 == 0
ROWS = {
    "all inside": ([True, True, True, True], [1.0, 2.0, 3.0, 4.0]),
    "all outside": ([False, False, False, False], [1.0, 2.0, 3.0, 4.0]),
    "no rows": (np.array([], bool), []),
    "NaN": (HALF, [0.0, 1.0, NAN, 3.0, 4.0, 5.0, 6.0, 7.0]),
    "perfect": (HALF, HALF.astype(float)),
    "perfect, infinite": (HALF, np.where(HALF, INF, -INF)),
    "wrong way": (HALF, -HALF.astype(float)),
    "tied": (HALF, np.zeros(8)),
    "tied at infinity": (HALF, np.full(8, INF)),
    "two rows": ([True, False], [1.0, 0.0]),
    "two rows, tied": ([True, False], [0.0, 0.0]),
    "one inside": ([True, False, False, False], [2.0, 3.0, 1.0, 0.0]),
    "one outside": ([False, True, True, True], [2.0, 3.0, 1.0, 0.0]),
}
REFUSED = dict.fromkeys(["all inside", "all outside", "no rows", "NaN"], InputError)
QUARTER = 0.025**0.25


def last(level, n):
    return [n if i == level else 0 for i in range(metrics.N_PVALUE_BINS)]


ON_ROWS = {
    accuracy: (
        {"threshold": 0.5},
        {
            "perfect": 1.0,
            "perfect, infinite": 1.0,
            "wrong way": 0.5,
            "tied": 0.5,
            "tied at infinity": 0.5,
            "two rows": 1.0,
            "two rows, tied": 0.5,
            "one inside": 0.5,
            "one outside": 0.5,
        },
    ),
    auc: (
        {},
        {
            "perfect": 1.0,
            "perfect, infinite": 1.0,
            "wrong way": 0.0,
            "tied": 0.5,
            "tied at infinity": 0.5,
            "two rows": 1.0,
            "two rows, tied": 0.5,
            "one inside": 2 / 3,
            "one outside": 1 / 3,
        },
    ),
    auc_interval: (
        {},
        {
            "perfect": (QUARTER, 1.0),
            "perfect, infinite": (QUARTER, 1.0),
            "wrong way": (0.0, 1 - QUARTER),
            "tied": (QUARTER / 2, 1 - QUARTER / 2),
            "tied at infinity": (QUARTER / 2, 1 - QUARTER / 2),
            "two rows": (0.025, 1.0),
            "two rows, tied": (0.0125, 0.9875),
            "one inside": (0.05 / 3, 1 - 0.025 / 3),
            "one outside": (0.025 / 3, 1 - 0.05 / 3),
        },
    ),
    tpr_at_fpr: (
        {"fpr": 0.25},
        {
            "perfect": 1.0,
            "perfect, infinite": 1.0,
            "wrong way": 0.0,
            "tied": 0.0,
            "tied at infinity": 0.0,
            "two rows": NAN,
            "two rows, tied": NAN,
            "one inside": NAN,
            "one outside": NAN,
        },
    ),
    epsilon_lower_bound: (
        {"confidence": 0.05},
        {
            # Two rows of a class judge: each limit is √.475 from its end.
            "perfect": np.log(0.475**0.5 / (1 - 0.475**0.5)),
            "perfect, infinite": np.log(0.475**0.5 / (1 - 0.475**0.5)),
            "wrong way": np.log(0.475**0.5 / (1 - 0.475**0.5)),
            "tied": 0.0,
            "tied at infinity": 0.0,
            "two rows": InputError,
            "two rows, tied": InputError,
            "one inside": InputError,
            "one outside": InputError,
        },
    ),
    calibrated_counts: (
        {},
        {
            # Two calibrate: p is 1/3, 2/3 or 1, in levels 8, 16 and 24 of 25.
            "perfect": (last(8, 4), last(24, 2)),
            "perfect, infinite": (last(8, 4), last(24, 2)),
            "wrong way": (last(24, 4), last(24, 2)),
            "tied": (last(24, 4), last(24, 2)),
            "tied at infinity": (last(24, 4), last(24, 2)),
            "two rows": InputError,
            "two rows, tied": InputError,
            "one inside": (last(16, 1), last(16, 1)),
            "one outside": InputError,
        },
    ),
}

FIRST, LAST = np.tile([8, 0, 0, 0], (4, 1)), np.tile([0, 0, 0, 8], (4, 1))
NONE = np.zeros((4, 4), int)
ONE = np.array([[1, 0], [1, 0]]), np.array([[0, 1], [0, 1]])
COUNTS = {
    "perfect": (FIRST, LAST),
    "wrong way": (LAST, FIRST),
    "tied": (LAST, LAST),
    "all inside": (FIRST, NONE),
    "all outside": (NONE, FIRST),
    "no rows": (NONE, NONE),
    "no targets": (NONE[:0], NONE[:0]),
    "NaN": (FIRST * NAN, LAST),
    "infinite": (FIRST, LAST + INF),
    "one target": (FIRST[:1], LAST[:1]),
    "one level": (FIRST[:, :1], LAST[:, 3:]),
    "two rows": ONE,
}
NO_COUNTS = dict.fromkeys(
    ["all inside", "all outside", "no rows", "no targets", "NaN", "infinite"], InputError
)
ON_COUNTS = {
    pooled_resolvable_fpr: (
        {},
        {
            "perfect": 0.25,
            "wrong way": 0.25,
            "tied": 1.0,
            "one target": 0.25,
            "one level": 1.0,
            "two rows": 0.5,
        },
    ),
    pooled_tpr_at_fpr: (
        {"fpr": 0.5},
        {
            "perfect": 1.0,
            "wrong way": 0.0,
            "tied": NAN,
            "one target": 1.0,
            "one level": NAN,
            "two rows": 1.0,
        },
    ),
    pooled_epsilon_lower_bound: (
        {},
        {
            # Sixteen rows of a class judge.
            "perfect": np.log(0.025 ** (1 / 16) / (1 - 0.025 ** (1 / 16))),
            "wrong way": np.log(0.025 ** (1 / 16) / (1 - 0.025 ** (1 / 16))),
            "tied": 0.0,
            "one target": InputError,
            "one level": 0.0,
            "two rows": 0.0,
        },
    ),
}
ON_NUMBERS = [
    (auc_ceiling, (0.0,), {}, 0.5),
    (auc_ceiling, (INF,), {}, 1.0),
    (auc_ceiling, (NAN,), {}, InputError),
    (auc_p_values, ([], [], []), {}, []),
    (auc_p_values, ([1.0], [NAN], [1.0]), {}, [1.0]),
    (auc_p_values, ([NAN], [0.9], [1.0]), {}, [1.0]),
    (auc_p_values, ([0.9], [0.9], [0.9]), {}, [1.0]),
    (auc_p_values, ([1.0], [0.025], [1.0]), {}, [0.75]),
    (auc_p_values, ([1.0], [1.0], [1.0]), {}, [0.0]),
    (auc_p_values, ([1.0], [0.9], [1.0]), {"limit": NAN}, InputError),
    (compare_exposure, (([], []), ([], [])), {"limit": 0.5}, (0, NAN, NAN, NAN, NAN, 0, 0)),
    (
        compare_exposure,
        (([3], [0.0]), ([3], [1.0])),
        {"limit": 0.5},
        (1, 1.0, -0.95, 1.0, 1.0, 1, 0),
    ),
    (compare_exposure, (([3], [1.0]), ([4], [0.0])), {"limit": 0.5}, (0, NAN, NAN, NAN, 1.0, 0, 0)),
    (compare_exposure, (([3], [NAN]), ([3], [1.0])), {"limit": 0.5}, (0, NAN, NAN, NAN, NAN, 0, 0)),
    (compare_exposure, (([3], [INF]), ([3], [1.0])), {"limit": 0.5}, InputError),
    (compare_exposure, (([3], [0.0]), ([3], [1.0])), {"limit": NAN}, InputError),
    (claim_verdict, (0.0, 0.0), {"largest": 0.0}, "too few samples"),
    (claim_verdict, (0.0, INF), {"largest": INF}, "consistent"),
    (claim_verdict, (NAN, 0.0), {"largest": 0.0}, InputError),
    (largest_bound, (1, 100), {}, InputError),
    (largest_bound, (0, 0), {}, InputError),
    (largest_bound, (2, 2), {}, 0.0),
    (largest_bound, (2, 2), {"delta": NAN}, InputError),
    (largest_bound, (2, 2), {"confidence": NAN}, InputError),
    (mean_interval, ([],), {}, (NAN, NAN)),
    (mean_interval, ([1.0],), {}, (0.025, 1.0)),
    (mean_interval, ([0.0],), {}, (0.0, 0.975)),
    (mean_interval, ([1.0, 1.0],), {}, (0.025**0.5, 1.0)),
    (mean_interval, ([1.0, NAN],), {}, InputError),
    (mean_interval, ([1.0, INF],), {}, InputError),
    (is_testable, (np.zeros((3, 0)),), {}, [False] * 3),
    (is_testable, ([[NAN, 0.5], [0.5, 0.5]],), {}, [False, True]),
    (off_cells, (), {}, []),
    (off_cells, (np.array([[1.0], [NAN]]),), {}, [[False, False]]),
    (off_cells, (np.full((1, 9), 0.5),), {}, [[False]]),
    (off_cells, (np.full((1, 9), 0.6),), {}, [[True]]),
    (pool_exposure, ([],), {}, ([], [], [], [])),
    (pool_exposure, ([([], [])],), {}, ([], [], [], [])),
    (pool_exposure, ([([3], [NAN]), ([3], [1.0])],), {}, ([3], [1.0], [NAN], [NAN])),
    (pool_exposure, ([([3], [INF])],), {}, InputError),
    (privacy_gain, (0.5, 0.5), {}, 0.0),
    (privacy_gain, (1.0, 0.0), {}, 1.0),
    (privacy_gain, (NAN, 0.5), {}, NAN),
    (privacy_gain, (INF, 0.5), {}, InputError),
    (privacy_loss, (0.0,), {}, 0.0),
    (auc_tail, (NAN, 10, 0.5), {}, 1.0),
    (auc_tail, (0.5, 10, 0.5), {}, 1.0),
    (auc_tail, (1.0, 10, 1.0), {}, 1.0),
    (auc_tail, (1.0, 10, 0.0), {}, 0.0),
    (auc_degrees, ([True, False], [1.0, 0.0], []), {}, INF),
    (auc_degrees, ([True, False], [1.0, 0.0], [0.5, 0.5, 0.5]), {}, INF),
    (auc_degrees, ([True, False], [1.0, 0.0], [0.5, 0.7, 0.6]), {}, 2.0),
    (auc_degrees, ([True, False], [1.0, 0.0], [NAN, 0.7, 0.6]), {}, 1.0),
    (auc_interval, ([True, False], [1.0, 0.0]), {"refits": [NAN, 1.0]}, (0.0, 1.0)),
    (auc_interval, ([True, False], [1.0, 0.0]), {"refits": [1.0, 1.0]}, (0.025, 1.0)),
    (worst_interval, ([], [], []), {}, (NAN, NAN)),
    (worst_interval, (NAN, NAN, NAN), {}, (NAN, NAN)),
    (worst_interval, (0.5, NAN, NAN), {}, (0.0, 1.0)),
    (worst_interval, ([0.5, 0.9], [0.4, 0.8], [0.95, 0.92]), {"confidence": NAN}, InputError),
    (auc_lower_limit, (NAN, 10, 0.05), {}, NAN),
    (auc_lower_limit, (0.0, 10, 0.05), {}, 0.0),
    (privacy_loss, (1.0,), {}, 1.0),
    (privacy_loss, (NAN,), {}, InputError),
    (privacy_loss, (INF,), {}, InputError),
    (reject_holm, ([],), {}, []),
    (reject_holm, ([NAN],), {}, InputError),
    (reject_holm, ([0.0, 1.0],), {}, [True, False]),
    (reject_holm, ([0.0],), {"risk": NAN}, InputError),
    (resolvable_fpr, (0,), {}, InputError),
    (resolvable_fpr, (1,), {}, 1.0),
    (resolvable_fpr, (2,), {}, 0.5),
    (weak_cells, (np.full((1, 9), 0.6), np.full((1, 9), 0.6)), {}, [True]),
    (weak_cells, (np.full((1, 9), 0.7), np.full((1, 9), 0.6)), {}, [False]),
    (weak_cells, (np.full((1, 1), 0.6), np.full((1, 1), 0.6)), {}, [False]),
]


def cases():
    """Yield every function with every input, its options and what it must answer."""
    for inputs, table, refused in ((ROWS, ON_ROWS, REFUSED), (COUNTS, ON_COUNTS, NO_COUNTS)):
        for function, (options, answers) in table.items():
            known = answers | refused
            for name, given in inputs.items():
                yield function, given, options, known[name]
    for function, given, options, answer in ON_NUMBERS:
        yield function, given, options, answer


@for_each(("function", "given", "options", "answer"), cases())
def test_answer(function, given, options, answer):
    if answer is InputError:
        with pytest.raises(InputError):
            function(*given, **options)
        return
    found = function(*given, **options)
    found = astuple(found) if isinstance(found, Drift) else found
    if isinstance(answer, str):
        assert found == answer
    else:
        np.testing.assert_allclose(found, answer, rtol=1e-7, atol=1e-12)


def test_no_public_function_is_left_out():
    tested = {function.__name__ for function in (*ON_ROWS, *ON_COUNTS)}
    tested |= {function.__name__ for function, *_ in ON_NUMBERS}
    values = {"EXPOSED_AUC", "N_PVALUE_BINS", "Drift", "UserLosses", "Verdict"}
    assert tested == set(metrics.__all__) - values
