"""Tables are checked alone and against each other; what cannot be done is said, never passed."""

from dataclasses import replace

import numpy as np
import pytest
from loops import for_each, mostly_slow

from clusterscale.errors import ConfigError
from clusterscale.mechanisms import create as mechanism
from clusterscale.release import PublishedTotals, RawRelease, ReleaseMetadata
from clusterscale.release.checks import CHECKS, PublishedTable, compare_tables, create, worst_level
from clusterscale.release.checks.count_intervals import count_bounds, fill_suppressed

EXACT, HIDDEN = mechanism("exact"), mechanism("threshold", k=5, shown="hidden")
EVERY = [create(name) for name in CHECKS]
HOURS = np.datetime64("2026-03-02T00:00:00", "s") + np.arange(30) * 3600


def table(name, values, *, places=None, epochs=HOURS, totals=None, **metadata):
    values = np.asarray(values, float)
    places = tuple(f"zone {i}" for i in range(len(values))) if places is None else places
    said = ReleaseMetadata(**metadata)
    axis = epochs[: values.shape[1]] if epochs is not None else None
    return RawRelease(values, places, axis, totals or PublishedTotals(), said, name=name)


def found(findings, check):
    return next(one for one in findings.results if one.check == check)


def counts(seed=1, shape=(6, 30), mean=8):
    return np.random.default_rng(seed).poisson(mean, shape).astype(float)


def test_a_wrong_threshold_is_found():
    honest, wrong = (np.where(counts() < k, np.nan, counts()) for k in (5, 4))
    first, second = compare_tables(
        [table("a", honest), table("b", wrong)], [], EVERY, mechanism=HIDDEN, group_size=400
    )
    assert first.verdict == "pass"
    assert second.verdict == "fail"
    shown, small = int((counts() >= 4).sum()), int((counts() == 4).sum())
    text = f"{small} of {shown} published values, such as 4, can never be published"
    assert found(second, "possible_values").text.startswith(text)


def test_a_threshold_after_expansion_is_found_where_one_before_it_is_declared():
    steps = [{"name": "threshold", "k": 5}, {"name": "expand", "factor": 5.13}]
    before, after = (mechanism("chain", steps=some) for some in (steps, steps[::-1]))
    rng = np.random.default_rng(1)
    values = after.release(counts(mean=3).astype(np.int32), group_size=400, rng=rng)
    (result,) = compare_tables([table("a", values)], [], EVERY, mechanism=before)
    assert result.verdict == "fail"
    (result,) = compare_tables([table("a", values)], [], EVERY, mechanism=after)
    assert result.verdict == "pass"


def test_values_may_be_rounded_to_the_decimals_that_are_published():
    expand = mechanism("expand", factor=5.137)
    values = np.round(counts() * 5.137, 2)
    assert compare_tables([table("a", values)], [], EVERY, mechanism=expand)[0].verdict == "pass"
    values[0, 0] += 0.01
    assert compare_tables([table("a", values)], [], EVERY, mechanism=expand)[0].verdict == "fail"


def test_people_rounded_to_whole_numbers_are_told_the_step_that_does_it():
    steps = [{"name": "expand", "factor": 5.13}, {"name": "threshold", "k": 10}]
    declared, values = mechanism("chain", steps=steps), np.floor(counts(mean=8) * 5.13 + 0.5)
    values[values < 10] = 0
    (result,) = compare_tables([table("a", values)], [], EVERY, mechanism=declared)
    text = found(result, "possible_values").text
    assert text.endswith(
        "; if they were rounded, add round_to_base(base=1, rule='nearest') after it"
    )
    rounds = {"name": "round_to_base", "base": 1, "rule": "nearest"}
    declared = mechanism("chain", steps=[steps[0], rounds, steps[1]])
    assert compare_tables([table("a", values)], [], EVERY, mechanism=declared)[0].verdict == "pass"
    values[0, 0] += 1
    assert compare_tables([table("a", values)], [], EVERY, mechanism=declared)[0].verdict == "fail"


@pytest.mark.parametrize("base", [3, 5])
def test_random_rounding_and_cell_keys_publish_what_they_can(base):
    rng = np.random.default_rng(2)
    for declared in (
        mechanism("round_to_base", base=base),
        mechanism("cell_key", deviation=3, variance=2.0, blocked=2),
    ):
        values = declared.release(counts().astype(np.int32), group_size=400, rng=rng)
        honest, wrong = values.copy(), values.copy()
        wrong[0, 0] = 1
        results = compare_tables(
            [table("a", honest), table("b", wrong)], [], EVERY, mechanism=declared
        )
        assert [found(one, "possible_values").level for one in results] == [
            "consistent",
            "inconsistent",
        ]


def test_a_margin_that_gives_a_cell_away_is_found():
    values = counts()
    totals = PublishedTotals(values.sum(axis=1), values.sum(axis=0))
    shown = np.where(values < 5, np.nan, values)
    (result,) = compare_tables([table("a", shown, totals=totals)], [], EVERY, mechanism=HIDDEN)
    assert found(result, "totals").level == "inconsistent"


def test_two_tables_whose_difference_is_one_person():
    """The second table has other places too, in another order, and begins a day later."""
    larger = counts(shape=(6, 30), mean=20)
    smaller = larger.copy()
    smaller[2, 5:] -= 1
    more = np.concatenate([smaller[::-1], counts(9, (1, 30))])
    names = (*(f"zone {i}" for i in range(5, -1, -1)), "zone 9")
    one = table("week", larger, group_size=300)
    two = table("without one", more[:, 4:], places=names, epochs=HOURS[4:], group_size=299)
    results = compare_tables([one, two], [], EVERY, mechanism=EXACT)
    assert [found(result, "differencing").level for result in results] == ["inconsistent"] * 2
    (alone,) = compare_tables([one], [two], EVERY, mechanism=EXACT)
    assert found(alone, "differencing").level == "inconsistent"


@pytest.mark.parametrize(
    ("stated", "given"),
    [({"subset_of": "all"}, None), ({}, {"part": ["all.csv"]}), ({}, {"part.csv": ["all"]})],
)
def test_a_declared_subset_is_inconsistent_and_an_undeclared_one_inconclusive(stated, given):
    whole, fewer = counts(mean=40), counts(mean=40)
    fewer[2, 5] -= 1
    pair = [table("d/all.csv", whole[:, 5:6], group_size=300)]
    few = table("d/part.csv", fewer[:, 5:6], group_size=240, **stated)
    for result in compare_tables([*pair, few], [], EVERY, mechanism=EXACT, subset_of=given):
        assert found(result, "differencing").level == result_level(result) == "inconsistent"
    few = table("d/part.csv", fewer[:, 5:6], group_size=240)
    for result in compare_tables([*pair, few], [], EVERY, mechanism=EXACT):
        assert found(result, "differencing").level == result_level(result) == "unknown"
        assert result.verdict == "warn"
    with pytest.raises(ConfigError, match=r"subset_of: al is none of the tables: d/all.csv, d/par"):
        compare_tables([*pair, few], [], EVERY, mechanism=EXACT, subset_of={"part": ["al"]})


def result_level(findings):
    """Return the level by Python, whose function is also the command's."""
    return worst_level(findings.results, findings.undecided)


@for_each(
    ("other", "reason"),
    [
        ({"epochs": HOURS[:30] + 1800}, "begin at other times"),
        ({"epochs": HOURS[0] + np.arange(30) * 900}, "differ in length"),
        ({"epochs": None}, "not all tables state their times"),
        ({"places": tuple("uvwxyz")}, "no place in common"),
        ({"group_size": None}, "the number of people in a table is not stated"),
    ],
)
def test_what_cannot_be_compared_is_said_and_is_no_pass(other, reason):
    one = table("a", counts(), group_size=300)
    settings = {"group_size": 200} | other
    size = settings.pop("group_size")
    two = table("b", counts(3), **settings, **({} if size is None else {"group_size": size}))
    results = compare_tables([one, two], [], EVERY, mechanism=EXACT)
    for result in results:
        assert result.verdict == "warn"
        assert reason in result.omitted
        assert found(result, "differencing").level == "unknown"
        assert found(result, "possible_values").level == "consistent"


def test_places_are_compared_by_any_form_of_their_codes():
    """Two tables whose difference is one person, whatever happened to their zeros."""
    few = counts()
    few[2, 3] -= 1
    full = ("00043", "00812", "01001", "8928308280fffff", "x", "y")
    short = ("43.0", "812", "1001", str(0x8928308280FFFFF), "x", "y")
    for codes, others in ((full, short), (short, full)):
        results = compare_tables(
            [table("a", counts(), places=codes, group_size=300)],
            [table("b", few, places=others, group_size=299)],
            EVERY,
            mechanism=EXACT,
        )
        assert results[0].verdict == "fail"
        (note,) = results[0].notes
        first = sorted(zip(others, codes, strict=True))[:3]
        assert note.startswith(f"b: places {', '.join(one for one, _ in first)}, … were read as ")
        assert note.endswith(f"{', '.join(other for _, other in first)}, …")


def test_places_that_are_not_covered_are_not_compared_and_that_is_no_pass():
    """Where a table misses people, their absence shows nobody who is only in the other one."""
    whole, part = counts(), counts() - (np.arange(180).reshape(6, 30) == 47)
    for gap, verdict in ((None, "fail"), ((3, 2), "fail"), ((1, 2), "warn")):
        missing = np.zeros(part.shape, bool)
        if gap is not None:
            missing[gap] = True
        one = table("part", np.where(missing, np.nan, part))
        one = replace(one, not_covered=missing if gap else None, notes=("1 value",) if gap else ())
        results = compare_tables(
            [one, table("whole", whole)], [], EVERY, mechanism=EXACT, group_size=400,
            subset_of={"part": ["whole"]},
        )  # fmt: skip
        assert [result.verdict for result in results] == [verdict] * 2
        assert results[0].notes == one.notes
        if verdict == "warn":
            assert results[1].omitted == "places that a table does not cover are not compared"
    (alone,) = compare_tables([one], [], EVERY, mechanism=EXACT, group_size=400)
    assert alone.verdict == "pass"


def test_noise_is_not_expected_where_nothing_is_covered():
    """A count that is known to be 3 is hidden by a threshold of 5, not uncollected."""
    values = np.where(counts() < 5, np.nan, counts())
    missing = np.isnan(values) & (counts() == 3)
    told = PublishedTable(
        "a", values, 400, HIDDEN, 0, counts().astype(np.int32), not_covered=missing
    )
    low, high = count_bounds(told)
    assert (low[missing] == 0).all() & (high[missing] == 0).all()
    assert (high[np.isnan(values) & ~missing] == 4).all()
    assert np.isnan(fill_suppressed(told)[missing]).all()


def test_an_error_of_one_check_stops_no_other(monkeypatch):
    def fail(self, *rest, **options):
        raise ConfigError("no")

    monkeypatch.setattr(CHECKS["totals"], "check", fail)
    wrong = np.where(counts() < 4, np.nan, counts())
    honest = np.where(counts() < 5, np.nan, counts())
    results = compare_tables([table("a", wrong)], [], EVERY, mechanism=HIDDEN)
    results += compare_tables([table("b", honest)], [], EVERY, mechanism=HIDDEN)
    assert [result.verdict for result in results] == ["fail", "warn"]
    assert results[1].omitted == "totals cannot run: no"


def test_a_table_whose_method_is_not_known_is_refused():
    with pytest.raises(ConfigError, match="a: how this table was published is not known"):
        compare_tables([table("a", counts())], [], EVERY)


def test_nothing_decided_is_inconclusive():
    laplace = mechanism("laplace", epsilon=1.0, sensitivity=1.0)
    values = counts() + np.random.default_rng(1).laplace(0, 1, (6, 30))
    (result,) = compare_tables([table("a", values)], [], [create("totals")], mechanism=laplace)
    assert result.verdict == "warn"


LAPLACE = {"name": "laplace", "epsilon": 0.5, "sensitivity": 1.0}
METHODS = [
    {"name": "exact"},
    {"name": "threshold", "k": 5},
    {"name": "threshold", "k": 5, "shown": "label"},
    {"name": "bottom_code", "at": 4, "least": 2},
    {"name": "round_to_base", "base": 3},
    {"name": "round_to_base", "base": 5, "rule": "nearest"},
    {"name": "cell_key", "deviation": 3, "variance": 2.0, "blocked": 1},
    LAPLACE,
    LAPLACE | {"integers": "round", "clip": True},
    {"name": "chain", "steps": [{"name": "threshold", "k": 5}, {"name": "expand", "factor": 5.13}]},
    {"name": "chain", "steps": [{"name": "expand", "factor": 5.13}, {"name": "threshold", "k": 5}]},
]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_honest_tables_are_not_accused(method):
    """1,000 releases of each method: of two groups, 500 times."""
    declared = mechanism(**method)
    for seed in range(500):
        rng = np.random.default_rng(seed)
        some = [rng.poisson(rng.uniform(1, 12), (5, 20)).astype(np.int32) for _ in range(2)]
        pair = [
            table(name, declared.release(one, group_size=300, rng=rng), group_size=size)
            for name, one, size in zip("ab", some, (300, 280), strict=True)
        ]
        for result in compare_tables(pair, [], EVERY, mechanism=declared):
            assert result.verdict != "fail", (seed, result)


@pytest.mark.parametrize(
    ("method", "change"),
    [
        (
            {"name": "round_to_base", "base": 5, "rule": "nearest"},
            lambda x: 5 * np.floor(x / 5 + 0.5),
        ),
        ({"name": "expand", "factor": 5.13}, lambda x: np.round(x * 5.13, 1)),
        ({"name": "top_code", "at": 9}, lambda x: np.minimum(x, 9)),
        (
            {"name": "bottom_code", "at": 4, "least": 2},
            lambda x: np.where(x < 2, 0, np.maximum(x, 4)),
        ),
    ],
    ids=["rounded", "expanded", "cut", "raised"],
)
def test_totals_that_are_changed_as_values_are_do_not_accuse(method, change):
    declared, true = mechanism(**method), counts(mean=5)
    values = declared.release(true.astype(np.int32), group_size=300, rng=np.random.default_rng(1))
    totals = PublishedTotals(change(true.sum(axis=1)), change(true.sum(axis=0)))
    (result,) = compare_tables([table("a", values, totals=totals)], [], EVERY, mechanism=declared)
    assert found(result, "totals").level == "unknown"
    assert result.verdict == "pass"


def keyed(counts, keys, method):
    """Publish counts by record keys, (place, hour); people of one place share all hours."""
    return method.perturb(counts.astype(np.int64), keys % 1)


@mostly_slow(
    ("method", "reused"),
    [
        (mechanism("cell_key", deviation=5, variance=3.0), "the key of the cell"),
        (mechanism("cell_key", deviation=3, variance=1.5, blocked=1), "the key of the cell"),
        (mechanism("laplace", epsilon=1.0, sensitivity=1.0, integers="round"), "the noise"),
    ],
    ids=["cell key", "blocked", "laplace"],
)
def test_noise_that_is_reused_without_one_person_is_found(method, reused):
    """The keys of a cell must follow from who is in it, not from the cell."""
    rng, accused = np.random.default_rng(5), 0
    for trial in range(50):
        everyone = rng.poisson(12, (8, 30))
        one = np.zeros((8, 30), bool)
        one[rng.integers(8, size=30), np.arange(30)] = True
        one &= everyone > 0
        keys, others = rng.random((2, 8, 30))
        for fault in (False, True):
            if method.name == "cell_key":
                second = keys if fault else keys - one * others  # the record keys of the person
                values = keyed(everyone, keys, method), keyed(everyone - one, second, method)
            else:
                noise = np.rint(rng.laplace(0, 1, (2, 8, 30)))
                values = everyone + noise[0], everyone - one + noise[0 if fault else 1]
            first, _ = compare_tables(
                [table("a", values[0], group_size=300), table("b", values[1], group_size=299)],
                [],
                [create("differencing")],
                mechanism=method,
                seed=trial,
            )
            (result,) = first.results
            accused += result.level == "inconsistent" and not fault
            assert not fault or result.level == "inconsistent", reused
    assert accused == 0
    assert "the difference is that of one person" in result.text or reused == "the noise"


@pytest.mark.parametrize(
    ("declared", "published"),
    [
        (LAPLACE, LAPLACE | {"integers": "round"}),
        ({"name": "round_to_base", "base": 5}, {"name": "round_to_base", "base": 3}),
        ({"name": "threshold", "k": 5, "shown": "label"}, {"name": "exact"}),
        ({"name": "cell_key", "deviation": 2, "variance": 1.0, "blocked": 1}, {"name": "exact"}),
        ({"name": "expand", "factor": 5.13}, {"name": "exact"}),
        ({"name": "top_code", "at": 9}, {"name": "exact"}),
        ({"name": "bottom_code", "at": 4, "least": 2}, {"name": "threshold", "k": 2}),
    ],
    ids=str,
)
def test_another_method_than_declared_is_found(declared, published):
    values = mechanism(**published).release(
        counts(mean=4).astype(np.int32), group_size=300, rng=np.random.default_rng(1)
    )
    (result,) = compare_tables([table("a", values)], [], EVERY, mechanism=mechanism(**declared))
    assert result.verdict == "fail"
