"""Users without an event in the audited periods: no targets, in no third, and counted."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from conftest import draw_dense, write_cube
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loops import for_each
from running import run, screen

import clusterscale as cs
from clusterscale.analyses.audit import AuditPlan, Targets, predict
from clusterscale.analyses.audit.analysis import rank
from clusterscale.analyses.audit.settings import Period
from clusterscale.analyses.audit.targets import TERTILES, Presence
from clusterscale.analyses.traits.exposure import list_exposures
from clusterscale.cli import console as show
from clusterscale.cli import results
from clusterscale.cli.analyses import show_screen
from clusterscale.errors import ConfigError, InputError
from clusterscale.reauditing import Policy
from clusterscale.reporting import render
from clusterscale.reporting.notebook import shorten
from clusterscale.reporting.run import Run
from clusterscale.reporting.screening import read_cases
from clusterscale.reporting.section import absent_users
from clusterscale.reporting.tables import write_tables
from clusterscale.runtime import SerialExecutor
from clusterscale.seeds import stream

N_USERS, DAY = 60, 24
EARLY, LATE = (
    {"name": name, "first": at, "epochs": DAY} for name, at in (("early", 0), ("late", DAY))
)
GONE = np.arange(1, N_USERS, 3)
"""A third of the users have no event in the second day, and user 0 has none in the first."""


def choose_before(kind, number, events, seed):
    """Choose as it was done before unseen users were left out; events of each user, whole cube."""
    n_users = len(events)
    order = np.argsort(events, kind="stable")
    rank = np.empty(n_users, np.int64)
    rank[order] = np.arange(n_users)
    third = 3 * rank // n_users
    rng = stream(seed, "targets")
    if kind == "tertiles":
        pools = [np.flatnonzero(third == i) for i in range(3)]
        users = np.concatenate([rng.choice(pool, number, replace=False) for pool in pools])
    elif kind == "random":
        users = rng.choice(np.arange(n_users), number, replace=False)
    else:
        users = np.arange(n_users)
    users = np.sort(users)
    return users, tuple(TERTILES[i] for i in third[users])


@pytest.fixture(scope="module")
def sparse():
    dense = draw_dense(np.random.default_rng(5), N_USERS, 6, 2 * DAY)
    dense[:, 0, [3, DAY + 3]] = True
    dense[GONE, :, DAY:] = False
    dense[0, :, :DAY] = False
    return dense


@pytest.fixture(scope="module")
def cube(sparse, tmp_path_factory):
    return write_cube(str(tmp_path_factory.mktemp("sparse") / "cube.zarr"), sparse)


@pytest.fixture
def fields(plan_fields):
    return plan_fields | {
        "targets": {"tertiles": 2},
        "periods": [LATE],
        "group_sizes": [6],
        "mechanisms": [{"name": "exact"}],
        "attacks": [{"name": "projection"}],
        "screen": {"groups": 30},
    }


@pytest.mark.parametrize(
    "targets", [{"tertiles": 13}, {"random": 40}, {"all": True}, {"most_exposed": 40}]
)
def test_nobody_without_an_event_is_chosen(cube, sparse, targets):
    seen = np.setdiff1d(np.arange(N_USERS), GONE)
    ranking = np.random.default_rng(0).permutation(N_USERS)
    chosen = Targets(**targets).choose(cube, 1, ranking, periods=[Period(**LATE)])
    assert set(chosen.users) <= set(seen)
    if "tertiles" not in targets:
        assert set(chosen.users) == set(seen)
    events = sparse[:, :, DAY:].sum(axis=(1, 2))
    order = sorted(seen.tolist(), key=lambda user: (events[user], user))
    place = {user: order.index(user) for user in order}
    for user, name in zip(chosen.users.tolist(), chosen.tertiles, strict=True):
        assert name == TERTILES[3 * place[user] // len(order)], "thirds of the seen, by this day"


def test_a_share_of_the_most_exposed_is_of_the_seen(cube):
    share, late = Targets(most_exposed=0.1), [Period(**LATE)]
    assert share.n_most_exposed(cube, late) == 4
    assert share.n_most_exposed(cube) == 6
    assert share.model_copy(update={"unseen": "include"}).n_most_exposed(cube, late) == 6


@for_each("seed", range(8))
@for_each(("kind", "number"), [("tertiles", 5), ("random", 17), ("all", True)])
def test_where_all_are_seen_the_draw_is_what_it_was(cube, sparse, kind, number, seed):
    """The same stream, the same order: studies of before find their targets again."""
    whole = Period(name="all", first=0, epochs=2 * DAY)
    chosen = Targets(**{kind: number}).choose(cube, seed, periods=[whole])
    users, tertiles = choose_before(kind, number, sparse.sum(axis=(1, 2)), seed)
    np.testing.assert_array_equal(chosen.users, users)
    assert chosen.tertiles == tertiles
    assert chosen.attacked is not None
    assert chosen.attacked.all()
    everyone = Targets(**{kind: number}, unseen="include")
    also = everyone.choose(cube, seed, periods=[Period(**LATE)])
    np.testing.assert_array_equal(also.users, users)
    assert also.tertiles == tertiles, "as the papers do it, whatever the period"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    events=st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=2), min_size=9, max_size=20),
    seed=st.integers(0, 99),
    kind=st.sampled_from(["tertiles", "random", "all"]),
)
def test_the_draw_is_that_of_a_cube_of_the_seen(tmp_path_factory, events, seed, kind):
    """Users without an event might as well not be in the cube."""
    events = np.array(events)
    events[:3] = [[1, 1], [2, 0], [0, 3]]
    dense = np.arange(3)[None, :, None] < np.repeat(events, 2, axis=1)[:, None, :] + 0
    cube = write_cube(str(tmp_path_factory.mktemp("any") / "cube"), dense)
    periods = [Period(name="a", first=0, epochs=3), Period(name="b", first=1, epochs=1)]
    counted = dense[:, :, :3].sum(axis=(1, 2))
    seen = np.flatnonzero(counted)
    number = True if kind == "all" else 1
    users, tertiles = choose_before(kind, number, counted[seen], seed)
    chosen = Targets(**{kind: number}).choose(cube, seed, periods=periods)
    np.testing.assert_array_equal(chosen.users, seen[users])
    assert chosen.tertiles == tertiles
    for row, span in zip(chosen.attacked, (slice(0, 3), slice(1, 2)), strict=True):
        np.testing.assert_array_equal(row, dense[chosen.users, :, span].any(axis=(1, 2)))


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (
            {"tertiles": 14},
            "targets.tertiles: 14 requested, but there are 13 to draw from in a third: only 40 of "
            "60 users have an event in late; request 13 or fewer, or include the other users "
            "(targets.unseen: include)",
        ),
        (
            {"random": 41},
            "targets.random: 41 requested, but there are 40 to draw from: only 40 of 60 users have "
            "an event in late; request 40 or fewer, or include the other users "
            "(targets.unseen: include)",
        ),
        (
            {"most_exposed": 41},
            "targets.most_exposed: 41 requested, but there are 40 users: only 40 of 60 users have "
            "an event in late; request 40 or fewer, or include the other users "
            "(targets.unseen: include)",
        ),
        (
            {"listed": ["u001", "u002", "u004"]},
            "targets.listed: 2 of 3 users have no event in late, and nothing to expose there "
            "(row 1, row 4); remove them, or attack them nevertheless (targets.unseen: include)",
        ),
    ],
)
def test_too_few_are_seen(cube, fields, targets, message):
    with pytest.raises(ConfigError) as caught:
        AuditPlan(**fields | {"targets": targets}).check(cube)
    assert str(caught.value) == message
    everyone = AuditPlan(**fields | {"targets": targets | {"unseen": "include"}})
    everyone.check(cube)
    if "most_exposed" not in targets:
        chosen = everyone.choose(cube)
        assert set(chosen.users) & set(GONE)
        assert chosen.attacked is None, "in every period"


def test_an_error_counts_each_period(cube, fields):
    plan = AuditPlan(**fields | {"periods": [EARLY, LATE], "targets": {"random": 61}})
    with pytest.raises(ConfigError, match=r"there are 60 to draw from$"):
        plan.check(cube)
    late = [{**LATE, "epochs": 3}, {**LATE, "name": "noon", "first": DAY + 3, "epochs": 1}]
    plan = AuditPlan(**fields | {"periods": late, "targets": {"random": 41}})
    counts = str(Presence.of(cube, plan.periods))
    assert counts.startswith("40 of 60 users have an event in an audited period (late: ")
    assert counts.endswith(", noon: 40)")
    with pytest.raises(ConfigError) as caught:
        plan.check(cube)
    assert counts in str(caught.value)


def test_a_period_in_which_nobody_is_seen(sparse, tmp_path, fields):
    empty = sparse.copy()
    empty[:, :, DAY:] = False
    cube = write_cube(str(tmp_path / "cube"), empty)
    for targets in ({"random": 1}, {"all": True}, {"most_exposed": 0.1}, {"listed": ["u003"]}):
        plan = AuditPlan(**fields | {"periods": [EARLY, LATE], "targets": targets})
        with pytest.raises(ConfigError) as caught:
            plan.check(cube)
        assert str(caught.value) == (
            "periods.1: no user has an event in late, so there is no target; choose other epochs"
        )


def test_the_default_leaves_digests_as_they_were(fields):
    """Plans of before have no such field."""
    plan = AuditPlan(**fields)
    assert plan.canonical["targets"] == {"tertiles": 2}
    assert plan.describe()["targets"] == {"tertiles": 2}
    include = AuditPlan(**fields | {"targets": {"tertiles": 2, "unseen": "include"}})
    assert include.digest != plan.digest
    assert include.describe()["targets"] == {"tertiles": 2, "unseen": "include"}
    assert plan.model_dump(mode="json")["targets"]["unseen"] == "exclude"


@pytest.mark.slow
def test_targets_who_were_never_there_make_no_gate_pass(cube, fields, tmp_path):
    """They are counted apart; alone they are an error, and where one period has nobody, too few."""
    base = fields | {"periods": [EARLY, LATE], "group_sizes": [6]}
    lenient = Policy(exposure={"exposed": "pass", "partly_exposed": "pass"})
    listed = {"never": ["u001", "u004"], "once": ["u001", "u002"], "elsewhere": ["u001", "u004"]}
    for name, periods in (("never", [LATE]), ("once", [LATE]), ("elsewhere", [EARLY, LATE])):
        targets = {"listed": listed[name], "unseen": "include"}
        plan = AuditPlan(**base | {"targets": targets, "periods": periods})
        folder, mechanism = str(tmp_path / name), plan.mechanisms[-1].label
        found = run(plan, cube, folder, SerialExecutor())
        assert np.isfinite(found.auc.values).all(), "they were attacked"
        if name == "never":
            with pytest.raises(InputError, match="no case of a person with an event"):
                cs.gate(folder, lenient, mechanism, 6)
            continue
        reasons = {one["check"]: one for one in cs.gate(folder, lenient, mechanism, 6).reasons}
        if name == "once":
            assert "2 targets, 1 of them without an event, who are no" in reasons["scope"]["text"]
            assert "counted apart, 1 of the 2 targets among them" in " ".join(absent_users(found))
        else:
            assert reasons["coverage"]["level"] == "warn"
            assert "nobody who was attacked has an event" in reasons["coverage"]["text"]


@pytest.fixture(scope="module")
def finished(cube, shared_plan_fields, tmp_path_factory):
    """An audit of both days of seven users: 0 is absent on the first, 1 and 4 on the second."""
    listed = ["u000", "u001", "u002", "u003", "u004", "u005", "u006"]
    plan = AuditPlan(
        **shared_plan_fields
        | {
            "targets": {"listed": listed},
            "periods": [EARLY, LATE],
            "group_sizes": [6],
            "attacks": [{"name": "projection"}],
        }
    )
    folder = tmp_path_factory.mktemp("finished") / "run"
    seen = []
    found = run(plan, cube, folder, SerialExecutor(), on_progress=seen.append)
    return plan, folder, found.load(), seen


@pytest.mark.slow
def test_a_target_is_attacked_only_when_it_is_seen(finished, cube, sparse):
    plan, folder, found, progress = finished
    absent = {("early", 0), ("late", 1), ("late", 4)}
    for period in ("early", "late"):
        for user in range(7):
            case = found.sel(period=period, target=user)
            gone = (period, user) in absent
            assert set(case.status.values.ravel()) == {"unseen" if gone else "done"}
            assert bool(case.auc.isnull().all()) == gone
            assert bool((case.n_challenges == 0).all()) == gone
    n_tasks = 2 * 7 - 3 + 2
    last = [now for now in progress if now.stage == "audit"][-1]
    assert last.n_tasks == last.n_done == n_tasks
    assert predict(plan, cube).n_tasks == n_tasks
    assert found.n_seen.values.tolist() == [59, 40]
    np.testing.assert_array_equal(found.n_events, sparse[:7].sum(axis=(1, 2)))
    again = []
    run(plan, cube, folder, SerialExecutor(), on_progress=again.append)
    assert [now.n_done for now in again] == [n_tasks], "there is nothing left to do"


@pytest.mark.slow
def test_the_dataset_the_page_and_the_tables_say_who_is_left_out(finished, tmp_path):
    _, _, found, _ = finished
    sentences = [
        "1 of 60 users has no event in early and is left out, 1 of the 7 targets among them.",
        "20 of 60 users have no event in late and are left out, 2 of the 7 targets among them.",
    ]
    nowhere, *others = absent_users(found)
    assert nowhere.startswith("One more row of each release counts, in each epoch, the people who")
    assert others == sentences
    sentences.insert(0, nowhere)
    page = " ".join(render(found).split())
    assert all(sentence in page for sentence in sentences)
    assert "were not run" not in page
    with show.out.capture() as terminal:
        results.show_results(found)
    assert all(sentence in " ".join(terminal.get().split()) for sentence in sentences)
    told = shorten(found).facts
    assert told["absent users"] == " ".join(sentences)
    (cases, *_) = write_tables(Run.of([found]), str(tmp_path), "csv")
    with open(cases, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == (2 * 7 - 3) * 2
    assert {row["status"] for row in rows} == {"done"}


@pytest.fixture(scope="module")
def screens(cube, shared_plan_fields, tmp_path_factory):
    """Screens of both days, with unseen users left out and included."""
    found = {}
    for unseen in ("exclude", "include"):
        fields = shared_plan_fields | {
            "targets": {"random": 4, "unseen": unseen},
            "periods": [EARLY, LATE],
            "group_sizes": [6],
            "screen": {"groups": 30},
        }
        folder = tmp_path_factory.mktemp(unseen) / "run"
        screened = screen(AuditPlan(**fields), cube, folder, SerialExecutor()).load()
        found[unseen] = screened, f"{folder}/screen/results.zarr"
    return found


@pytest.mark.slow
def test_a_screen_keeps_all_rows_and_counts_the_seen(screens, sparse):
    screened, _ = screens["exclude"]
    days = sparse.reshape(N_USERS, 6, 2, DAY).sum(axis=(1, 3))
    np.testing.assert_array_equal(screened.n_events, days)
    assert screened.n_seen.values.tolist() == [59, 40]
    assert screened.auc.notnull().all(), "those who are left out have their row"
    everyone, _ = screens["include"]
    np.testing.assert_array_equal(screened.auc, everyone.auc)
    for place, included in zip(read_cases(screened), read_cases(everyone), strict=True):
        counts = days[:, ["early", "late"].index(place.period)] > 0
        assert place.n_users == counts.sum()
        assert included.n_users == N_USERS
        for exposure, other in zip(place.exposures, included.exposures, strict=True):
            assert np.isnan(exposure.auc[~counts]).all()
            assert np.isfinite(other.auc).all()
            at = {"period": place.period, "mechanism": exposure.mechanism}
            auc = screened.auc.sel(at).squeeze("group_size").values[counts]
            means = auc.mean(axis=0, dtype=np.float64)
            assert exposure.mean == pytest.approx(means.max())
            best = auc[:, means.argmax()]
            assert exposure.above == tuple((best > level).mean() for level in (0.75, 0.9))
            assert exposure.high == pytest.approx(np.quantile(best.astype(float), 0.95))


def test_the_page_of_a_screen_reports_users_with_and_without_events(screens):
    screened, _ = screens["exclude"]
    sentence = "20 of 60 users have no event in late and are left out."
    assert sentence in absent_users(screened)
    page = " ".join(render(screened).split())
    assert sentence in page
    assert "All users with an event" in page
    with show.out.capture() as terminal:
        show_screen(screened)
    assert sentence in " ".join(terminal.get().split())
    assert "40 users, late, groups of 6" in terminal.get()
    assert sentence in str(shorten(screened).facts["absent users"])
    everyone, _ = screens["include"]
    assert "20 of 60 users have no event in late, but are included." in absent_users(everyone)


def test_the_most_exposed_are_ranked_by_days_with_an_event(screens):
    screened, _ = screens["exclude"]
    days = screened.n_events.values > 0
    auc = screened.auc.transpose("user", "period", ...).values.astype(np.float64)
    means = [auc[user][days[user]].mean() for user in range(N_USERS)]
    order = rank(screened)
    assert sorted(order.tolist()) == list(range(N_USERS)), "all are seen on one of the days"
    assert (np.diff(np.array(means)[order]) <= 1e-12).all()
    late = screened.isel(period=[1])
    assert sorted(rank(late).tolist()) == np.flatnonzero(days[:, 1]).tolist()
    everyone, _ = screens["include"]
    assert len(rank(everyone.isel(period=[1]))) == N_USERS


def test_traits_compare_users_with_events(screens):
    for unseen, n_late in (("exclude", 40), ("include", 60)):
        screened, uri = screens[unseen]
        for exposure in list_exposures(screened, uri, "screen"):
            told = exposure.read()
            if exposure.period == "late":
                assert len(told.users) == n_late
                assert bool(set(told.users) & set(GONE)) == (unseen == "include")
