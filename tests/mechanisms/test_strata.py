"""Categories of a place and their total: the evidence of each table, against an enumeration.

A group of few members is enumerated: each is in the place as a woman, as a man, or elsewhere. All
probabilities are exact, so nothing here depends on random numbers.
"""

import json
from itertools import product

import numpy as np
import pytest
from loops import for_each
from mechanisms.published import refusal

from clusterscale.attacks import create as attack
from clusterscale.contracts import CellCoordinates, Reference, Traces
from clusterscale.cube.bounds import bounds_before
from clusterscale.errors import ClusterscaleError, ConfigError
from clusterscale.mechanisms import create
from clusterscale.release.metadata import read_metadata

SIZE = 3
SMALL = {"name": "suppress_small", "below": 2}
NOISY = {"name": "laplace", "epsilon": 0.8, "unit": "event", "discrete": True}
TOTAL = {"name": "coarsen_space", "strata": "sex"}
TABLES = [(SMALL, SMALL), (NOISY, NOISY), (SMALL, NOISY), (NOISY, SMALL)]
SHARES = [(0.3, 0.2), (0.05, 0.6), (0.5, 0.01), (0.02, 0.03)]  # of women and men who are there


def frame(*places, strata=("F", "M")):
    names = tuple(f"{place} (sex {sex})" for place in places for sex in strata)
    at = np.repeat(np.arange(len(places)) / 9, len(strata))
    return CellCoordinates(np.zeros(1, np.int64), at, at, None, names)


def tables(strata, total):
    """The mechanism, bound to one place: its cells are those of women, of men, and of all."""
    steps = [TOTAL, total]
    both, where = create("tables", tables=[strata, {"name": "chain", "steps": steps}]), frame("A")
    traces = Traces(np.array([0, 1]), np.array([0], np.int32), 2, 1)
    seen, after = both.apply(traces, where, rng=np.random.default_rng(0))
    assert (seen.n_rois, seen.cells.tolist()) == (3, [0, 2]), "a woman is one of all"
    return both.bind(bounds_before((both,), (where, after), traces=seen))


def counts(shares, *, inside):
    """The probability of each pair of counts, by all places where each member may be."""
    women, men = shares
    states = [((1, 0), women), ((0, 1), men), ((0, 0), 1 - women - men)]
    found = {}
    for members in product(states, repeat=SIZE - inside):
        pair = tuple(sum(each[i] for each, _ in members) + inside * (i == 0) for i in range(2))
        found[pair] = found.get(pair, 0.0) + np.prod([chance for _, chance in members])
    return found


def outputs(published):
    """The values of a table, and the probability of each for each count, (count, value)."""
    if published is SMALL:
        return np.arange(SIZE + 1), np.diag(np.ones(SIZE + 1))[[0, 0, 2, 3]]
    values = np.arange(-24, SIZE + 25)
    fade = np.exp(-NOISY["epsilon"])
    distance = np.abs(values - np.arange(SIZE + 1)[:, None])
    return values, (1 - fade) / (1 + fade) * fade**distance


def releases(strata, total, shares, *, inside):
    """The probability of each release, shape (women, men, all), members' draws taken together."""
    (_, own), (_, sums) = outputs(strata), outputs(total)
    found = 0.0
    for (women, men), chance in counts(shares, inside=inside).items():
        found += chance * np.multiply.outer(np.outer(own[women], own[men]), sums[women + men])
    return found


def auc(scores, within, without):
    """The probability that a release with the target has the higher score; ties count half."""
    _, level = np.unique(np.round(scores, 9), return_inverse=True)
    within, without = (np.bincount(level.ravel(), weights=law.ravel()) for law in (within, without))
    return within @ (np.cumsum(without) - without / 2)


def evidence(strata, total, shares):
    """What the likelihood attack makes of each value of each cell, for a woman who was there."""
    mechanism, women = tables(strata, total), np.array([*shares, sum(shares)])
    reference = Reference(women, 10**9, SIZE, None, tables=mechanism.table_laws(SIZE, (3, 1)))
    score = attack("likelihood").cell_score(reference)
    shown = [outputs(each)[0] for each in (strata, strata, total)]
    found = []
    for cell, values in enumerate(shown):
        column, here = values[:, None].astype(float), cell != 1
        found.append(score.cell_evidence(column, np.array([cell]), here=here)[:, 0])
    together = np.array([[values[len(values) // 2] for values in shown]], float)
    sums = [each[len(each) // 2] for each in found]
    total_score = score.total(together, np.arange(3), np.array([True, False, True]))
    np.testing.assert_allclose(total_score, [sum(sums)])
    return found


@for_each(("pair", "shares"), list(product(TABLES, SHARES)))
def test_the_evidence_of_each_table_is_the_ratio_of_its_probabilities(pair, shares):
    laws = [releases(*pair, shares, inside=inside) for inside in (True, False)]
    for cell, found in enumerate(evidence(*pair, shares)):
        others = tuple({0, 1, 2} - {cell})
        within, without = (law.sum(axis=others) for law in laws)
        seen = without > 1e-9  # values that a group has
        expected = np.log(np.maximum(within[seen], 1e-300)) - np.log(without[seen])
        found = np.maximum(found[seen], np.log(1e-300) - np.log(without[seen]))
        np.testing.assert_allclose(found, expected, atol=1e-6)


@for_each(("pair", "shares"), list(product(TABLES, SHARES)))
def test_strata_and_total_give_away_more_than_the_total_and_no_more_than_all_there_is(pair, shares):
    within, without = (releases(*pair, shares, inside=inside) for inside in (True, False))
    women, men, total = evidence(*pair, shares)
    added = women[:, None, None] + men[:, None] + total
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.log(within) - np.log(without)
    best = np.where(within + without > 0, best, 0.0)
    alone = auc(total, within.sum(axis=(0, 1)), without.sum(axis=(0, 1)))
    together = auc(added, within, without)
    assert alone - 1e-9 <= together <= auc(best, within, without) + 1e-9
    assert alone > 0.5


def test_categories_are_merged_into_places_and_places_into_regions():
    where, rng = frame("A", "B", "C"), np.random.default_rng(0)
    # a user in A as F and as M, and in C as M
    traces = Traces(np.array([0, 3]), np.array([0, 1, 5], np.int32), 6, 1)
    space = create("coarsen_space", strata="sex")
    places, at = space.apply(traces, where, rng=rng)
    assert (places.cells.tolist(), at.names) == ([0, 2], ("A", "B", "C"))
    np.testing.assert_allclose(at.lat, np.arange(3) / 9)
    regions = create("coarsen_space", parents={"C": "West", "B": "West", "A": "East", "D": "East"})
    merged, at = regions.apply(places, at, rng=rng)
    assert (merged.cells.tolist(), at.names) == ([0, 1], ("East", "West"))
    values = np.arange(3.0)[:, None]
    np.testing.assert_array_equal(space.expand(values, where).ravel(), [0, 0, 1, 1, 2, 2])


def test_parents_are_pairs_or_a_mapping_and_never_a_file(tmp_path):
    """A release of others states its mechanism, and must not have files of ours read."""
    found = create("coarsen_space", parents={"A": "East", "007": "West"})
    assert found.parents == (("A", "East"), ("007", "West"))
    assert found.label == f"{found.id} (places merged in 2 regions)"
    assert found == create("coarsen_space", parents=[["A", "East"], ["007", "West"]])
    assert create("coarsen_space", parents={"A": "East"}).id != found.id
    assert "parents.0.1: is ''" in refusal("coarsen_space", parents={"A": ""})
    path = tmp_path / "parents.csv"
    path.write_text("place,parent\nA,East\n")
    assert refusal("coarsen_space", parents=str(path)).startswith("parents: ")
    stated = json.dumps({"name": "coarsen_space", "parents": str(path)})
    with pytest.raises(ClusterscaleError, match="parents"):
        read_metadata({"mechanism": stated, "group_size": 5}, "release.nc")


REFUSED = {
    "no category": ([{"strata": "age"}], "4 of 4 ROIs have no category of age, such as A (sex F)"),
    "merged twice": ([{"strata": "sex"}] * 2, "2 of 2 ROIs have no category of sex, such as A"),
    "no parent": ([{"strata": "sex"}, {"parents": {"A": "East"}}], "1 of 2 ROIs have no parent, s"),
    "no names": ([{"factor": 2}, {"strata": "sex"}], "ROIs that were merged by a factor or groups"),
}


@for_each("case", REFUSED)
def test_what_cannot_be_merged_by_name(case):
    params, message = REFUSED[case]
    traces, where = Traces(np.array([0, 1]), np.array([0], np.int32), 4, 1), frame("A", "B")
    *steps, last = (create("coarsen_space", **each) for each in params)
    for step in steps:
        traces, where = step.apply(traces, where, rng=np.random.default_rng(0))
    with pytest.raises(ConfigError) as caught:
        last.apply(traces, where, rng=np.random.default_rng(0))
    assert str(caught.value).startswith(f"coarsen_space: {message}")


def test_a_place_is_in_one_region():
    message = refusal("coarsen_space", parents=[["A", "East"], ["B", "East"], ["A", "West"]])
    assert message == "parents: A is in two regions"
