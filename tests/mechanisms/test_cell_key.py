"""Cell keys: the published tables of probabilities, the lookup of another program, and the law."""

import json

import numpy as np
import pandas as pd
import pytest
from cell_key_perturbation.create_perturbed_table import create_perturbed_table
from hypothesis import given, settings
from hypothesis import strategies as st
from loops import for_each
from scipy import stats

from clusterscale.contracts import Support, hash_of
from clusterscale.errors import ConfigError
from clusterscale.mechanisms import create
from clusterscale.mechanisms.cell_key import perturbation_table


def row(table, count, least, most):
    """Return the probabilities of published values."""
    middle = table.shape[1] // 2
    return table[count, least - count + middle : most - count + middle + 1]


def test_tables_are_those_that_the_package_ptable_publishes():
    """The vignette of ptable 1.0 prints these, in four digits."""
    table = perturbation_table(2, 1.0)
    assert row(table, 0, 0, 0) == pytest.approx([1])
    assert row(table, 1, 0, 3) == pytest.approx([0.3665, 0.3665, 0.1676, 0.0995], abs=5e-5)
    assert row(table, 2, 0, 0) == pytest.approx([0.0638], abs=5e-5)
    assert row(table, 2, 2, 2) == pytest.approx([0.383], abs=5e-4)
    assert table[1] @ np.arange(-2, 3) ** 2 == pytest.approx(0.932, abs=5e-4)
    blocked = perturbation_table(2, 1.08, 1)
    assert row(blocked, 1, 0, 3) == pytest.approx([0.5133, 0, 0.46, 0.0267], abs=5e-5)


@pytest.mark.slow
@given(st.integers(1, 8), st.floats(0.05, 12), st.integers(0, 3))
@settings(max_examples=20)
def test_a_table_satisfies_its_constraints(deviation, variance, blocked):
    fields = {"deviation": deviation, "variance": variance, "blocked": blocked}
    least = max((c * (blocked + 1 - c) for c in range(1, blocked + 1)), default=0)
    if deviation <= blocked or variance < least * 1.001:
        if deviation <= blocked or variance < least * 0.999:
            with pytest.raises(ConfigError, match=r"must be above blocked|choose a larger"):
                create("cell_key", **fields)
        return
    table = perturbation_table(deviation, variance, blocked)
    steps = np.arange(-deviation, deviation + 1)
    assert table.sum(axis=1) == pytest.approx(np.ones(len(table)), abs=1e-12)
    assert (table >= 0).all()
    assert np.abs(table @ steps).max() < 1e-5
    assert (table @ steps**2).max() < variance + 1e-5
    for count, probabilities in enumerate(table):
        target = count + steps
        assert not probabilities[(target < 0) | ((target >= 1) & (target <= blocked))].any()
        left = probabilities[(target >= 0) & ~((target >= 1) & (target <= blocked)) & (steps <= 0)]
        if count > blocked:
            assert (np.diff(left) > -1e-5).all()


def test_perturbations_are_those_of_the_office_for_national_statistics():
    """Its program looks up the sum of integer record keys; the same people, to the bit."""
    mechanism, rng = (
        create("cell_key", deviation=5, variance=3.0, blocked=2),
        np.random.default_rng(7),
    )
    n, keys = 5_000, 256
    people = pd.DataFrame(
        {
            "place": rng.choice(40, n, p=rng.dirichlet(np.full(40, 0.3))).astype(str),
            "hour": rng.integers(0, 24, n).astype(str),
            "key": rng.integers(0, keys, n),
        }
    )
    counts, cell_keys = np.arange(1, 751), np.arange(keys)
    perturbed = mechanism.perturb(
        np.repeat(counts, keys).reshape(750, keys), np.tile(cell_keys / keys, (750, 1))
    )
    table = pd.DataFrame(
        {
            "pcv": np.repeat(counts, keys),
            "ckey": np.tile(cell_keys, 750),
            "pvalue": (perturbed - counts[:, None]).astype(int).ravel(),
        }
    )
    theirs = create_perturbed_table(people, table, ["place"], ["hour"], "key", threshold=0)
    cells = people.groupby(["place", "hour"])["key"].agg(["size", "sum"])
    ours = mechanism.perturb(cells["size"].to_numpy(), (cells["sum"].to_numpy() / keys) % 1.0)
    expected = theirs.set_index(["place", "hour"])["count"].reindex(cells.index)
    assert len(cells) > 300
    assert ours.tolist() == expected.astype(float).tolist()


def test_perturbations_have_the_probabilities_of_the_table():
    """χ² over 40,000 draws of each of ten counts; a sound one fails once in 100,000."""
    mechanism, n = create("cell_key", deviation=3, variance=2.0, blocked=1), 40_000
    counts = np.repeat(np.arange(10), n).reshape(10, n)
    values = mechanism.release(counts, group_size=50, rng=np.random.default_rng(3))
    law, statistic, degrees = mechanism.law(50), 0.0, 0
    for count in range(10):
        published = np.arange(14.0)[:, None]
        expected = n * law.likelihood(published, np.array([[count]]))[:, 0, 0]
        found = np.bincount(values[count].astype(int), minlength=14)
        assert not found[expected == 0].any()
        kept = expected > 0
        statistic += ((found[kept] - expected[kept]) ** 2 / expected[kept]).sum()
        degrees += kept.sum() - 1
        mean, variance = law.moments(np.array([count]))
        assert mean[0] == pytest.approx(count, abs=1e-5)
        assert variance[0] == pytest.approx(((np.arange(14) - count) ** 2 @ expected) / n)
    assert stats.chi2.sf(statistic, df=degrees) > 1e-5


def exported(table):
    """Return a table as ptable's export for other programs: eight digits, and where keys end."""
    middle = table.shape[1] // 2
    rows = ["i;j;p;v;p_int_ub"]
    for count, row in enumerate(table):
        for column in np.flatnonzero(row):
            shift, end = column - middle, row[: column + 1].sum()
            rows.append(f"{count:2d};{count + shift:2d};{row[column]:.8f};{shift:2d};{end:.8f}")
    return "\n".join(rows) + "\n"


@for_each("marks", [(";", ";"), (";", ","), ("i;j;p;v", '"i";"j";"p";"v"'), ("\n", "\r\n")])
def test_an_own_table_is_as_one_with_the_same_probabilities(marks):
    ours = create("cell_key", deviation=3, variance=2.0, blocked=1)
    theirs = create("cell_key", table=exported(perturbation_table(3, 2.0, 1)).replace(*marks))
    assert theirs.probabilities() == pytest.approx(ours.probabilities(), abs=1e-7)
    assert theirs.probabilities().sum(axis=1) == pytest.approx(np.ones(6), abs=1e-12)
    counts, keys = np.random.default_rng(1).integers(0, 20, (2, 40, 50))
    keys = keys / 20 + 0.01
    assert (theirs.perturb(counts, keys) == ours.perturb(counts, keys)).all()
    before = Support(0.0, 20.0, 1.0)
    assert theirs.support(before, 20) == ours.support(before, 20)
    moments = (mechanism.law(20).moments(np.arange(20)) for mechanism in (theirs, ours))
    for one, other in zip(*moments, strict=True):
        assert one == pytest.approx(other, abs=1e-6)


def test_the_content_of_a_table_decides_its_identity():
    """Also where the settings are read from JSON; the file that they came from is not needed."""
    text = exported(perturbation_table(2, 1.0))
    one, other = create("cell_key", table=text), create("cell_key", table=text.replace(";", ","))
    assert one.id != other.id
    assert one.phrase != other.phrase
    assert one.label == f"cell_key(table={hash_of(text)[:8]})"
    assert one.phrase == f"cell keys by table {hash_of(text)[:8]}, at most ±2"
    again = create(**json.loads(json.dumps(one.model_dump(mode="json"))))
    assert again == one
    assert again.id == one.id
    biased = create("cell_key", table="i,j,p\n0,0,1\n1,0,0.2\n1,2,0.8")
    assert biased.phrase.endswith("at most ±1, means of up to 0.6 instead of 0")


def test_the_largest_count_of_a_table_stands_for_all_above_it():
    law = create("cell_key", table="i,j,p\n0,0,1\n1,0,.5\n1,2,.5\n2,2,.75\n2,4,.25").law(20)
    for count, due in (
        (0, [1, 0, 0]),
        (1, [0, 0.5, 0]),
        (2, [0.75, 0, 0.25]),
        (9, [0.75, 0, 0.25]),
    ):
        values = np.array([[count, count + 1, count + 2]])
        assert law.likelihood(values, np.full((3, 1), count))[0, :, 0].tolist() == due


HEAD = "i;j;p\n0;0;1\n"
WRONG = {
    "ptable.csv": "give the content of a ptable, not its name",
    "i;j\n0;0": "line 2 needs new counts i and j with a probability p",
    HEAD + "1;0.5;1": "line 3 needs new counts i and j",
    HEAD + "1;-1;1": "line 3 needs new counts i and j",
    HEAD + "1;0;-0.5\n1;2;1.5": "line 3 needs new counts i and j",
    HEAD + "1;0;0,5": "line 3 needs new counts i and j",
    HEAD + "1;0;nan": "line 3 needs new counts i and j",
    HEAD + "1;0;0.5\n1;0;0.5": "line 4 needs new counts i and j",
    HEAD + "1;0;0.5\n1;2;0.4": "probabilities of a count of 1 add up to 0.9",
    HEAD + "2;1;0.5\n2;3;0.5": "rows for all counts from 0 to the largest",
    HEAD: "rows for all counts from 0 to the largest",
    HEAD + "1;1;1": "0 must stay 0, and changes be from 1 to 50 visits",
    "i;j;p\n0;0;0\n1;1;0": "0 must stay 0, and changes be from 1 to 50 visits",
    HEAD + "1;52;1": "0 must stay 0, and changes be from 1 to 50 visits",
    "i;j;p\n0;1;1\n1;0;0.5\n1;2;0.5": "0 must stay 0",
}


@for_each("text", WRONG)
def test_a_wrong_table_is_refused(text):
    with pytest.raises(ConfigError, match=WRONG[text]):
        create("cell_key", table=text)


def test_a_table_decides_what_parameters_decide_otherwise():
    text = exported(perturbation_table(2, 1.0))
    for fields in ({"deviation": 2}, {"variance": 1.0}, {"blocked": 1}):
        with pytest.raises(ConfigError, match="give deviation and variance, or only table"):
            create("cell_key", table=text, **fields)
    for fields in ({}, {"deviation": 2}, {"variance": 1.0}):
        with pytest.raises(ConfigError, match="give deviation and variance, or only table"):
            create("cell_key", **fields)


def test_the_same_people_get_the_same_perturbation_in_every_table():
    mechanism, rng = create("cell_key", deviation=2, variance=1.0), np.random.default_rng(5)
    keys = rng.random(30)
    group = rng.integers(0, 2, (6, 30)).astype(bool)
    counts, cell_keys = group.sum(axis=1), (group @ keys) % 1.0
    first = mechanism.perturb(counts, cell_keys)
    order = rng.permutation(6)
    assert (mechanism.perturb(counts[order], cell_keys[order]) == first[order]).all()
