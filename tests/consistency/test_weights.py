"""Tables of sums of weights are not accused, and what counts do not decide is said."""

import numpy as np
import pytest

from clusterscale.contracts import release_counts
from clusterscale.mechanisms import create as mechanism
from clusterscale.release import PublishedTotals, RawRelease, ReleaseMetadata
from clusterscale.release.checks import CHECKS, PublishedTable, compare_tables, create

EVERY = [create(name) for name in CHECKS]
EXPAND, HIDE = {"name": "expand", "factor": "weights"}, {"name": "threshold", "k": 5}
LAPLACE = {"name": "laplace", "epsilon": 0.5, "sensitivity": 1.0}
METHODS = [
    EXPAND,
    {"name": "chain", "steps": [HIDE, EXPAND]},
    {"name": "chain", "steps": [EXPAND, HIDE]},
    {"name": "chain", "steps": [HIDE | {"shown": "label"}, EXPAND]},
    {"name": "chain", "steps": [LAPLACE, EXPAND, {"name": "round_to_base", "base": 5}]},
]
SIZE = 60


def tables(declared, seed, even=False):
    """Return the tables of a group and of all its members but one, with their counts."""
    rng = np.random.default_rng(seed)
    dense = rng.random((SIZE, 5, 20)) < 0.2
    weights = np.full(SIZE, 2.5) if even else np.round(rng.lognormal(1.6, 0.5, SIZE), 2)
    for n_users in (SIZE, SIZE - 1):
        counts = dense[:n_users].sum(axis=0).astype(np.int32)
        sums = (dense[:n_users] * weights[:n_users, None, None]).sum(axis=0)
        yield release_counts(declared, counts, sums, group_size=SIZE, rng=rng), counts, sums


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_honest_tables_are_not_accused(method, even):
    declared = mechanism(**method)
    zones, hours = tuple("abcde"), np.datetime64("2026-03-02", "s") + np.arange(20) * 3600
    for seed in range(20):
        pair = []
        for values, _, sums in tables(declared, seed, even):
            totals = PublishedTotals(sums.sum(axis=1), sums.sum(axis=0))
            said = ReleaseMetadata(group_size=SIZE - len(pair))
            pair.append(RawRelease(values, zones, hours, totals, said, name=f"{len(pair)}"))
        for result in compare_tables(pair, [], EVERY, mechanism=declared):
            assert result.verdict != "fail", (seed, result)


@pytest.mark.parametrize("check", ["noise_law", "differencing", "possible_counts", "complement"])
def test_what_counts_do_not_decide_is_unknown(check):
    declared = mechanism(**METHODS[1])
    first, second = (
        PublishedTable(f"{i}", values, SIZE - i, declared, 0, counts)
        for i, (values, counts, _) in enumerate(tables(declared, 1))
    )
    result = create(check).check(first, [second], rng=np.random.default_rng(1))
    assert result.level == ("consistent" if check == "complement" else "unknown"), result.text


def test_negative_sums_are_impossible():
    zones, hours = tuple("abcde"), np.datetime64("2026-03-02", "s") + np.arange(20) * 3600
    release = RawRelease(np.full((5, 20), -1.5), zones, hours, name="a")
    declared = mechanism(**EXPAND)
    (result,) = compare_tables([release], [], EVERY, mechanism=declared, group_size=SIZE)
    assert result.verdict == "fail"
