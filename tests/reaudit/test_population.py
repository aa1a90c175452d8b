"""Releases are audited with the traces of some people, or of nobody, and say what is left out."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
import scipy
from conftest import write_cube
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each
from oracles.releases import dataset, write
from oracles.verdicts import FOUND

from clusterscale.analyses.audit import AuditTemplate
from clusterscale.cube import TraceCube, blocks
from clusterscale.cube.blocks import TraceSource
from clusterscale.cube.regions import Regions
from clusterscale.cube.writer import new_cube
from clusterscale.errors import ConfigError
from clusterscale.groups import count_visits
from clusterscale.mechanisms import create
from clusterscale.priors.zero_knowledge import ZeroKnowledge
from clusterscale.reauditing import (
    Catalogue,
    Policy,
    Problem,
    Reaudit,
    ReauditPlan,
    ReleaseEntry,
    population,
)
from clusterscale.reauditing.known_counts import KnownCounts, TableTask, check_alone
from clusterscale.reauditing.known_part import KnownPart, fit_plan, knows_population
from clusterscale.reauditing.policy_evaluation import evaluate_policy
from clusterscale.reauditing.population import complete_population, simulate_people
from clusterscale.reauditing.release_analysis import ReleaseStore
from clusterscale.reauditing.release_metrics import Exposures, IntervalEstimate
from clusterscale.reauditing.resolved_release import resolve_release
from clusterscale.release import read_table
from clusterscale.runtime import SerialExecutor

PAST = {"name": "different_groups", "beta": 16}
KNOWN = {"name": "known_subset", "alpha": 0.5, "training": 20, "challenges": 10}
ZERO = {"name": "zero_knowledge", "training": 20, "challenges": 10, "refit": "shared"}
PLAN = {
    "seed": 3,
    "targets": {"random": 3},
    "priors": [KNOWN],
    "attacks": [{"name": "projection"}],
    "utility": {"measures": [{"name": "pearson"}]},
    "control": False,
}
SPAN = (24, 48)


@pytest.fixture(scope="module")
def panel(dense, tmp_path_factory):
    """A cube of 12 of the 60 users."""
    return write_cube(str(tmp_path_factory.mktemp("panel") / "cube.zarr"), dense[:12])


@pytest.fixture
def release(cube, tmp_path):
    """Counts of 40 users on one day, and the entry of a catalogue."""
    counts = count_visits(cube.traces(None, SPAN), np.arange(40)[None])[0]
    told = dataset(counts.astype(float), list(cube.regions.names))
    told.attrs = {"group_size": 40, "mechanism": {"name": "exact"}, "first": SPAN[0]}
    return ReleaseEntry(counts=write(told, tmp_path, name="day"))


def resolved(entry, cube, **changed):
    entry = entry.model_copy(update=changed)
    return resolve_release(
        entry.model_validate(entry.model_dump(exclude_unset=True) | changed),
        read_table(entry.counts, entry.table_format),
        cube,
        b"",
    )


def begin(entry, cube_uri, tmp_path, **changed):
    plan = ReauditPlan(audit=PLAN, published=4, **changed)
    output = str(tmp_path / "out")
    return Reaudit(plan, Catalogue((entry,), cube_uri, f"{output}/listed.json"), output)


def audited(entry, cube_uri, tmp_path, **changed):
    """Return the work and the row or problem of the one release."""
    work = begin(entry, cube_uri, tmp_path, **changed)
    assert not work.problems, work.problems[0].error
    (pending,) = work.pending()
    return work, work.evaluate(pending, SerialExecutor())


def reasons(row):
    return {why["check"]: why for why in row.why}


@given(spread=st.sampled_from([0.0, 1.0]), n=st.integers(0, 50))
def test_simulated_people_are_in_each_cell_at_most_once(spread, n):
    occupancy = np.array([[0.5, 0.0, 0.3], [0.9, 0.0, 0.0]])
    sizes, cells = simulate_people(n, occupancy, spread, rng=np.random.default_rng(1))
    assert (len(sizes), sizes.sum()) == (n, len(cells))
    for one in np.split(cells, np.cumsum(sizes)[:-1]):
        assert (np.diff(one) > 0).all()
    assert set(cells) <= {0, 2, 3}


def test_simulated_people_are_as_often_in_a_cell_as_asked():
    occupancy = np.random.default_rng(2).uniform(0, 0.9, (4, 6))
    n = 20_000
    _, cells = simulate_people(n, occupancy, 0.0, rng=np.random.default_rng(3))
    seen = np.bincount(cells, minlength=24)
    z = (seen - n * occupancy.ravel()) / np.sqrt(n * occupancy * (1 - occupancy)).ravel()
    assert scipy.stats.chi2.sf((z**2).sum(), 24) > 1e-3
    nobody = simulate_people(3, np.zeros((4, 6)), 0.0, rng=np.random.default_rng(3))
    assert nobody[0].tolist() == [0, 0, 0]


def test_simulated_people_who_differ_are_as_active_on_average():
    """The mean of a log-normal activity is 1, so sparse cells are visited as often as asked."""
    n, occupancy = 20_000, np.full((4, 25), 0.005)
    sizes, _ = simulate_people(n, occupancy, 0.8, rng=np.random.default_rng(4))
    assert abs(sizes.mean() - occupancy.sum()) < 4 * sizes.std() / np.sqrt(n) + 0.005


def test_known_people_are_the_first_of_a_population(panel, release, tmp_path):
    template = AuditTemplate.model_validate(PLAN)
    found, content = resolved(release, panel)
    assert found.n_people(panel.n_users) == 80
    one = complete_population(str(tmp_path / "a.zarr"), found, content, panel, template)
    assert (one.part.n_known, one.part.n_people, one.cube.n_users) == (12, 80, 80)
    assert one.cube.calendar == panel.calendar
    known, original = one.cube.block(0, 12, SPAN), panel.block(0, 12, SPAN)
    assert (known.cells == original.cells).all()
    assert (known.offsets == original.offsets).all()
    assert list(one.cube.pseudonyms(np.array([0, 11, 12]))) == ["row 0", "row 11", "simulated 0"]
    other = complete_population(str(tmp_path / "b.zarr"), found, content, panel, template)
    assert one.cube.fingerprint == other.cube.fingerprint
    again = complete_population(str(tmp_path / "a.zarr"), found, content, panel, template)
    assert again.cube.fingerprint == one.cube.fingerprint
    # As many visits as members of the group have; nothing outside its epochs.
    a_user = content.values.sum() / 40
    assert one.cube.n_events / 80 == pytest.approx(a_user, rel=0.15)
    assert one.cube.block(12, 80, (0, SPAN[0])).offsets[-1] == 0


def test_known_people_are_read_in_blocks(panel, release, tmp_path, monkeypatch):
    template = AuditTemplate.model_validate(PLAN)
    found, content = resolved(release, panel)
    monkeypatch.setattr(population, "_BLOCK", 5)
    whole = complete_population(str(tmp_path / "a.zarr"), found, content, panel, template)
    monkeypatch.setattr(blocks, "_MOST_USERS", 4)
    parts = complete_population(str(tmp_path / "b.zarr"), found, content, panel, template)
    assert parts.cube.fingerprint == whole.cube.fingerprint


def test_what_needs_more_traces_is_left_out(panel, cube, release):
    template = AuditTemplate.model_validate(PLAN | {"priors": [KNOWN, PAST, ZERO]})
    found, _ = resolved(release, panel, observed=(0,))
    plan, left_out = fit_plan(found, panel, template, 80)
    (prior,) = plan.priors
    assert isinstance(prior, ZeroKnowledge)
    assert (prior.crowd, prior.training) == ("counts", 20)
    assert len(left_out) == 2
    assert "needs traces of more people for groups of 40 than the 12 known ones" in left_out[0]
    assert "learns from past releases, which are not simulated" in left_out[1]
    assert len(plan.targets.listed) == 3
    enough, _ = fit_plan(
        resolved(release, cube, group_size=20, population=150)[0],
        cube,
        AuditTemplate.model_validate(PLAN | {"priors": [KNOWN, ZERO]}),
        150,
    )
    assert [prior.name for prior in enough.priors] == ["known_subset", "zero_knowledge"]


@pytest.mark.parametrize(
    ("targets", "n", "told"),
    [
        ({"random": 5}, 5, ""),
        ({"all": True}, 12, ""),
        ({"tertiles": 9}, 12, "9 requested"),
        ({"most_exposed": 4}, 4, "ranking would include simulated people"),
        ({"most_exposed": 0.25}, 3, "ranking would include simulated people"),
        ({"listed": ["u003"]}, 1, ""),
    ],
)
def test_targets_are_known_people(targets, n, told, panel, release):
    template = AuditTemplate.model_validate(PLAN | {"targets": targets, "priors": [ZERO]})
    plan, left_out = fit_plan(resolved(release, panel)[0], panel, template, 80)
    rows = [int(name.removeprefix("row ")) for name in plan.targets.listed]
    assert len(rows) == n
    assert max(rows) < 12
    assert told in "".join(left_out)
    assert bool(told) == bool(left_out)


def test_a_population_that_is_too_small_is_refused(panel, release):
    with pytest.raises(ConfigError, match="population is 30, but there are 40 people in the group"):
        resolved(release, panel, population=30)


@pytest.mark.slow
def test_a_panel_is_enough_for_a_verdict(panel, release, tmp_path):
    policy = {"worst_privacy_loss": 1.0, "share_exposed": 1.0}
    work, row = audited(release, panel.uri, tmp_path, policy=policy)
    assert row.n_targets == 3
    told = reasons(row)
    assert told["people"]["level"] == "unknown"
    assert told["people"]["text"] == (
        "traces of 12 of 80 people are known, 68 simulated from the published values"
    )
    assert told["left_out"]["text"].endswith("; zero_knowledge is used instead")
    assert told["worst_privacy_loss"]["level"] == "warn", "others may lose more"
    assert "12 users have a privacy loss" in told["share_exposed"]["text"]
    assert told["possible_counts"]["level"] == "pass"
    assert "simulated" not in row.verdict
    results, _ = ReleaseStore(f"{work.output}/{row.run}").open()
    assert all(name.startswith("row ") for name in results.pseudonym.values)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "population"),
    [(59, None), (59, 60), (60, 120)],
)
def test_releases_of_nearly_everyone_are_audited_among_simulated_others(
    size, population, cube, release, tmp_path
):
    """The adversary who knows half of the people needs four times as many as are counted."""
    counts = count_visits(cube.traces(None, SPAN), np.arange(size)[None])[0]
    told = dataset(counts.astype(float), list(cube.regions.names))
    told.attrs = {"group_size": size, "mechanism": {"name": "suppress_small", "below": 5}}
    told.attrs |= {"first": SPAN[0]} | ({"population": population} if population else {})
    entry = ReleaseEntry(counts=write(told, tmp_path, name="own"))
    policy = {"worst_privacy_loss": 1.0, "exposure": {"exposed": "pass"}}
    work, row = audited(entry, cube.uri, tmp_path, policy=policy, everyone=False)
    found = reasons(row)
    assert found["people"]["text"] == (
        f"traces of 60 of {4 * size} people are known, {4 * size - 60} simulated from the counts "
        "of these"
    )
    assert found["people"]["level"] == "unknown"
    assert "left_out" not in found
    assert found["worst_privacy_loss"]["level"] == "warn", "simulated people alone pass nothing"
    results, _ = ReleaseStore(f"{work.output}/{row.run}").open()
    assert results.group_size.values.tolist() == [size]
    assert results.prior.values[0].startswith("known_subset")
    assert all(name.startswith("row ") for name in results.pseudonym.values)


def test_others_of_an_own_release_are_simulated_from_its_exact_counts(cube, release, tmp_path):
    found, content = resolved(
        release, cube, group_size=60, mechanism={"name": "threshold", "k": 30}
    )
    hidden = replace(content, values=content.values * 0)
    template = AuditTemplate.model_validate(PLAN)
    one = complete_population(str(tmp_path / "all.zarr"), found, hidden, cube, template)
    assert (one.cube.n_users, one.part.doubt) == (240, "")
    a_user = cube.traces(None, SPAN).cells.size / 60
    assert one.cube.count_events(60, 240) / 180 == pytest.approx(a_user, rel=0.1)


def test_people_simulated_from_hidden_values_never_make_a_pass(panel, release, tmp_path):
    found, content = resolved(release, panel, mechanism={"name": "threshold", "k": 3})
    template = AuditTemplate.model_validate(PLAN)
    part = complete_population(str(tmp_path / "a.zarr"), found, content, panel, template).part
    (why,) = (
        why
        for why in evaluate_policy(Policy(), FOUND, IntervalEstimate(), part)
        if why.check == "people"
    )
    assert why.level == "warn"
    assert why.text.endswith("hidden or coarse: real people may be easier to recognise")


def test_nobodys_traces_never_pass(release, cube, tmp_path):
    lenient = {"exposure": {"exposed": "pass", "partly_exposed": "pass"}}
    work, row = audited(release, None, tmp_path, policy=lenient, everyone=False)
    assert row.verdict == "warn"
    told = reasons(row)["people"]
    assert told["level"] == "warn"
    assert told["text"] == "no traces are known: all 80 simulated from the published values"
    again = begin(release, None, tmp_path, policy=lenient, everyone=False)
    assert again.pending() == [], "its places and times are found again"
    names = ReleaseStore(f"{work.output}/{row.run}").open()[0].pseudonym.values
    assert all(name.startswith("simulated ") for name in names)


@pytest.mark.slow
def test_simulated_people_accuse_nobody(panel, cube, release, tmp_path):
    """An empty cell of a panel says nothing; a known member says that a count is at least one."""
    members = tmp_path / "members.csv"
    members.write_text("user,inside\nu000,1\nu001,1\nu002,1\nu011,0\n")
    entry = release.model_copy(update={"members": str(members)})
    _, row = audited(entry, panel.uri, tmp_path)
    levels = {name: why["level"] for name, why in reasons(row).items()}
    assert levels["possible_counts"] == levels["possible_values"] == "pass"
    values = read_table(release.counts, release.table_format).values
    values.flat[cube.traces(np.arange(1), SPAN).cells[0]] = 0
    told = dataset(values, list(cube.regions.names))
    told.attrs = {"group_size": 40, "mechanism": {"name": "exact"}, "first": SPAN[0]}
    write(told, tmp_path, name="day", mode="w")
    _, row = audited(entry, panel.uri, tmp_path)
    assert "1 of 192 published values are impossible" in reasons(row)["possible_counts"]["text"]


@given(data=st.data())
def test_limits_by_known_members_hold(data):
    visits = np.array(data.draw(st.lists(st.booleans(), min_size=2, max_size=12)))
    n_inside = data.draw(st.integers(0, len(visits)))
    inside = np.full((1, 1), visits[:n_inside].sum(), np.int32)
    known = KnownCounts(inside, np.zeros((1, 1), np.int64), None, n_inside)
    low, high = known.limits_of_members(len(visits), n_inside)
    assert low <= visits.sum() <= high
    assert (known.counts(complete=False, everyone=False) == -1).all()


DISCRETE = {"name": "laplace", "epsilon": 1.0, "sensitivity": 1.0, "discrete": True}


@for_each("mechanism", [{"name": "exact"}, DISCRETE])
@for_each(("size", "population"), [(60, None), (59, None), (60, 60), (60, 120)])
def test_counts_of_everyone_are_known_where_others_are_simulated(
    size, population, mechanism, cube, tmp_path_factory
):
    """A table of the day before is not that of the day, whatever groups are simulated from it."""
    folder = tmp_path_factory.mktemp("day")
    days = [
        count_visits(cube.traces(None, span), np.arange(size)[None])[0]
        for span in (SPAN, (SPAN[0] - 24, SPAN[1] - 24))
    ]
    knows = population in (None, size)
    for counts, level in zip(days, ("consistent", "inconsistent"), strict=True):
        rng = np.random.default_rng(4)
        values = create(**mechanism).release(counts, group_size=size, rng=rng)
        told = dataset(values, list(cube.regions.names))
        told.attrs = {"group_size": size, "mechanism": mechanism, "first": SPAN[0]}
        told.attrs |= {"population": population} if population else {}
        entry = ReleaseEntry(counts=write(told, folder, name=level))
        found, content = resolved(entry, cube)
        template = AuditTemplate.model_validate(PLAN)
        one = complete_population(str(folder / level), found, content, cube, template)
        assert one.cube.n_users > 60
        store = ReleaseStore(str(folder / f"{level}.store"))
        store.write_tables(content, np.empty(0, np.int64))
        source = TraceSource.of(one.cube, (SPAN,), null_roi=False, seed=1)
        task = TableTask(found, source, store.tables, knows_population(found, cube), cube.n_users)
        every = check_alone(task, ((0, one.cube.n_users),))
        known = reduce(every.combine, map(every.function, every.parts))
        results = {one.check: one.level for one in every.finish(task, known)[0]}
        check = "possible_counts" if mechanism["name"] == "exact" else "noise_law"
        if not knows:
            level = {"possible_counts": "consistent", "noise_law": "unknown"}[check]
        elif check == "noise_law" and size < 60:
            level = "unknown"  # known counts are those of cells without anybody
        assert results[check] == level


def test_cells_that_are_not_covered_are_no_labels_of_known_counts(cube, tmp_path):
    """A label of a place with more people is impossible; a place without a row is no label."""
    counts = count_visits(cube.traces(None, SPAN), np.arange(60)[None])[0].astype(float)
    values = np.where((counts > 0) & (counts < 3), np.nan, counts)
    kept = [4, 1, 7, 0, 2]
    busy = np.argwhere(counts[kept] >= 3)[0]
    shown = np.array([*values[kept]])
    for level in ("consistent", "inconsistent"):
        told = dataset(shown, [cube.regions.names[row] for row in kept])
        told.attrs = {"group_size": 60, "first": SPAN[0]}
        told.attrs["mechanism"] = {"name": "threshold", "k": 3, "shown": "label"}
        counted = write(told, tmp_path, name=level)
        entry = ReleaseEntry(counts=counted, absent_places="not_covered")
        found, content = resolved(entry, cube)
        assert (content.not_covered.all(axis=1) == ~np.isin(np.arange(8), kept)).all()
        store = ReleaseStore(str(tmp_path / f"{level}.store"))
        store.write_tables(content, np.empty(0, np.int64))
        source = TraceSource.of(cube, (SPAN,), null_roi=False, seed=1)
        every = check_alone(TableTask(found, source, store.tables), ((0, 60),))
        results, _ = every.finish(every.item, every.function(*every.parts))
        assert {one.check: one.level for one in results}["possible_counts"] == level
        shown[tuple(busy)] = np.nan


@pytest.mark.slow
def test_noise_by_the_largest_contribution_is_not_tested(panel, release, tmp_path):
    noise = {"name": "laplace", "epsilon": 1.0, "unit": "user", "integers": "round"}
    entry = ReleaseEntry.model_validate(
        release.model_dump(exclude_unset=True) | {"mechanism": noise}
    )
    _, row = audited(entry, panel.uri, tmp_path, everyone=False)
    told = reasons(row)
    assert "depends on the largest contribution" in told["left_out"]["text"]
    assert told["noise_law"]["level"] == "unknown"
    json.dumps(row.why)


def test_shares_are_a_problem_that_names_them(panel, release, tmp_path):
    entry = ReleaseEntry.model_validate(
        release.model_dump(exclude_unset=True) | {"mechanism": {"name": "share_of_total"}}
    )
    _, problem = audited(entry, panel.uri, tmp_path)
    assert isinstance(problem, Problem)
    assert "do not show how many visits" in str(problem.error)


def test_exposure_is_that_of_known_people():
    loss = np.array([0.1, 0.2, 0.9])
    found = Exposures(np.array([0, 5, 30]), loss, loss, loss, "projection", everyone=True)
    assert found.known(None) is found
    some = found.known(KnownPart(12, 80))
    assert some.users.tolist() == [0, 5]
    assert not some.everyone
    assert found.known(KnownPart(0, 80)).users.tolist() == [0, 5, 30]


def test_people_who_are_not_known_are_told():
    part = KnownPart(3, 9, ("a test",))
    told = list(evaluate_policy(Policy(), FOUND, IntervalEstimate(), part))
    assert [(why.check, why.level) for why in told if why.check in ("people", "left_out")] == [
        ("people", "unknown"),
        ("left_out", "warn"),
    ]


def test_a_cube_without_people_is_written_once(release, tmp_path):
    listed = str(tmp_path / "out" / "listed.json")
    for _ in range(2):
        (found,) = Catalogue((release,), None, listed).scan()
        assert not isinstance(found, Problem)
        assert TraceCube(found.cube).n_users == 0
    assert len(list((tmp_path / "out" / "places").iterdir())) == 1


@pytest.fixture
def narrow(dense, cube, tmp_path):
    """A cube of 12 of the 60 users in 3 of the 8 places."""
    uri, rows, old = str(tmp_path / "narrow.zarr"), [5, 0, 3], cube.regions
    regions = Regions(tuple(old.names[i] for i in rows), old.lat[rows], old.lon[rows])
    flat = dense[:12][:, rows].reshape(12, -1)
    with new_cube(uri, regions, cube.calendar, provenance={"source": "test"}) as writer:
        names = [f"u{i:03d}" for i in range(12)]
        writer.append(names, flat.sum(axis=1), np.nonzero(flat)[1])
        writer.weigh(np.arange(1.0, 13))
    return TraceCube(uri)


def test_places_where_nobody_of_a_panel_is_are_part_of_the_release(dense, cube, narrow, release):
    listed = f"{narrow.uri}-out/listed.json"
    for _ in range(2):
        catalogue = Catalogue((release,), narrow.uri, listed)
        (found,) = catalogue.scan()
        wide, values = TraceCube(found.cube), catalogue.read(found).values
        rows = [cube.regions.names.index(name) for name in wide.regions.names]
        assert rows[:3] == [5, 0, 3]
        assert sorted(rows) == list(range(8))
        np.testing.assert_array_equal(values, dense[:40][:, rows, SPAN[0] :].sum(axis=0))
        seen = count_visits(wide.traces(None, (0, 48)), np.arange(12)[:, None])
        expected = dense[:12][:, rows]
        expected[:, 3:] = False
        np.testing.assert_array_equal(seen, expected)
        np.testing.assert_array_equal(wide.weights, narrow.weights)
        assert list(wide.pseudonyms(np.arange(12))) == list(narrow.pseudonyms(np.arange(12)))
        assert found.notes == ("nobody in the cube is in 5 places, such as 0-1",)
        assert found.changes == ()


def test_a_table_that_lacks_places_of_a_panel_is_no_table_of_more(narrow, release, tmp_path):
    told = dataset(np.ones((3, 24)), [narrow.regions.names[0], "elsewhere", "nowhere"])
    told.attrs = {"group_size": 40, "mechanism": {"name": "exact"}, "first": SPAN[0]}
    entry = ReleaseEntry(counts=write(told, tmp_path, name="other"))
    (problem,) = Catalogue((entry,), narrow.uri, str(tmp_path / "listed.json")).scan()
    assert "elsewhere, nowhere are not named in the cube" in str(problem.error)


@pytest.mark.slow
def test_a_panel_that_lacks_places_is_enough_for_a_verdict(narrow, release, tmp_path):
    _, row = audited(release, narrow.uri, tmp_path)
    told = reasons(row)
    assert told["reading"]["text"].startswith("nobody in the cube is in 5 places")
    assert told["people"]["text"].startswith("traces of 12 of 80 people are known")
    assert told["possible_counts"]["level"] == "pass"


@pytest.mark.slow
def test_simulated_people_have_the_weights_of_known_ones(dense, release, tmp_path):
    weights = np.where(np.arange(12) % 2, 2.0, 8.0)
    panel = write_cube(str(tmp_path / "cube.zarr"), dense[:12], weights=weights)
    entry = ReleaseEntry.model_validate(
        release.model_dump(exclude_unset=True)
        | {"mechanism": {"name": "expand", "factor": "weights"}}
    )
    found, content = resolved(entry, panel)
    template = AuditTemplate.model_validate(PLAN)
    one = complete_population(str(tmp_path / "all.zarr"), found, content, panel, template)
    known, simulated = np.split(one.cube.weights, [12])
    assert known.tolist() == weights.tolist()
    assert set(simulated) == {2.0, 8.0}
    # Published are people, of whom each simulated one stands for 5.
    a_user = content.values.sum() / 40 / panel.mean_weight
    n_simulated = one.cube.count_events(12, 80)
    assert n_simulated / 68 == pytest.approx(a_user, rel=0.3)
    _, row = audited(entry, panel.uri, tmp_path, everyone=False)
    assert row.n_targets == 3
