"""Classes of other packages cannot write to their arguments, and what they return is checked."""

import ctypes
import os
import pickle
import sys
from dataclasses import replace
from functools import partial
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Literal

import numpy as np
import pytest
from acme_privacy.attack import Direction, MatchingCells
from acme_privacy.measure import LargestError
from acme_privacy.mechanism import UniformNoise
from loops import for_each

import clusterscale as cs
from clusterscale.analyses.audit import AuditPlan
from clusterscale.attacks.base import score_groups
from clusterscale.contracts import GroupRequest, Guarantee, Support, release_counts
from clusterscale.errors import InputError, PackageError, PluginError, SharedArrayError, SignalExit
from clusterscale.foreign import call_foreign, read_only
from clusterscale.mechanisms import create
from clusterscale.priors import PRIORS
from clusterscale.registry import Registry
from clusterscale.release.checks import Check, CheckResult, PublishedTable, run_checks
from clusterscale.runtime import SerialExecutor
from clusterscale.study import Progress, Stage
from clusterscale.study.execution import Reduction
from clusterscale.testing.population import coordinates, exact, games, traces

KnownSubset = PRIORS["known_subset"]
COUNTS = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
GAME = {"alpha": 0.5, "training": 20, "challenges": 20}


def twin(base, **methods):
    return type(base)("Twin", (base,), {"__doc__": "A twin.", "__module__": __name__} | methods)


def returning(value):
    return lambda self, *args, **options: value


def release(mechanism, counts=COUNTS):
    return mechanism.release(counts, group_size=9, rng=np.random.default_rng(1))


def hide_small(self, counts, *, group_size, rng):
    counts[counts < 6] = 0
    return counts.astype(np.float64)


Hides = twin(UniformNoise, release=hide_small)


def request(**options):
    rng = np.random.default_rng(1)
    return GroupRequest(traces(), 4, group_size=6, frame=coordinates(), rng=rng, **options)


def train(attack):
    knowledge = games(1)[0].adversary.study(None, exact(), rng=np.random.default_rng(1))
    return attack.fit(knowledge, rng=np.random.default_rng(1)), knowledge.training.release


def empty(self, knowledge, *, rng):
    knowledge.training.labels[:] = True


def move(self, request):
    request.traces.cells[0] += 1


def add_noise(self, raw, released):
    released += 1.0
    return 0.0


class Writes(Check):
    """Changes the table that it checks."""

    name: Literal["writes"] = "writes"
    compares = False

    def check(self, table, others, *, rng):
        table.values[0, 0] = 3.0
        return CheckResult.of_faults(self.name, 0, table.values.size, "nothing was found")


def table():
    return PublishedTable("t", COUNTS[0].astype(float), 99, create("exact"), 0, COUNTS[0])


class Zeroes:
    """Changes the release that it scores."""

    threshold = 0.0

    def score(self, release):
        release.values[...] = 0
        return release.values[:, 0, 0]


@for_each(
    ("named", "act"),
    [
        ("release", lambda: release(Hides())),
        ("in_visits", lambda: twin(UniformNoise, in_visits=lambda s, v, c: v.fill(0))().in_visits(
            COUNTS.astype(float), COUNTS)),
        ("fit", lambda: train(twin(MatchingCells, fit=empty)())),
        ("score", lambda: score_groups(MatchingCells(), Zeroes(), train(MatchingCells())[1])),
        ("set_up", lambda: twin(KnownSubset, set_up=move)(**GAME).set_up(request())),
        ("measure", lambda: twin(LargestError, measure=add_noise)().measure(
            COUNTS[0].astype(float), COUNTS[0].astype(float))),
        ("check", lambda: run_checks(table(), [], [Writes()], seed=0)),
    ],
)  # fmt: skip
def test_what_is_given_to_foreign_code_is_read_only(named, act):
    with pytest.raises(PluginError, match=rf"{named} writes .*: copy before you change"):
        act()


def by_base(self, counts, *, group_size, rng):
    counts.base[...] = 0
    return counts.astype(np.float64)


def by_flag(self, counts, *, group_size, rng):
    counts.setflags(write=True)
    counts[...] = 0
    return counts.astype(np.float64)


def by_address(self, counts, *, group_size, rng):
    ctypes.memset(counts.ctypes.data, 0, counts.nbytes)
    return counts.astype(np.float64)


def by_address_and_error(self, counts, *, group_size, rng):
    ctypes.memset(counts.ctypes.data, 0, 8)
    raise ValueError("of no interest")


@for_each("shape", [COUNTS, COUNTS[:1], COUNTS[:, ::2], COUNTS.astype(float).T, COUNTS > 3])
def test_neither_base_nor_flags_reach_the_counts(shape):
    before = shape.copy()
    for method in (by_base, by_flag):
        mechanism = twin(UniformNoise, release=method)()
        with pytest.raises(PluginError, match=r"release writes .*: copy before you change"):
            release(mechanism, shape)
        np.testing.assert_array_equal(shape, before)


@pytest.mark.parametrize("method", [by_address, by_address_and_error])
@pytest.mark.parametrize("part", [slice(None), slice(1)])
def test_counts_that_were_overwritten_are_noticed_and_what_is_kept_is_dropped(
    method, part, monkeypatch
):
    dropped = []
    monkeypatch.setattr("clusterscale.foreign.on_overwrite", [lambda: dropped.append(1)])
    with pytest.raises(SharedArrayError, match=r"Twin\.release has changed an array"):
        release(twin(UniformNoise, release=method)(), COUNTS.copy()[part] + 1)
    assert dropped == [1]


def test_an_array_around_the_one_that_is_given_is_compared_too():
    whole = np.ones((4, 3, 4), np.int32)

    def beyond(self, counts, *, group_size, rng):
        ctypes.memset(counts.ctypes.data + counts.nbytes, 0, 4)
        return counts.astype(np.float64)

    with pytest.raises(SharedArrayError):
        release(twin(UniformNoise, release=beyond)(), whole[:2])


def test_a_cube_is_read_again_after_an_array_was_overwritten(cube):
    from clusterscale.cube import blocks

    source = blocks.TraceSource.of(cube, ((0, 12),), null_roi=False, seed=1)

    def cells():
        return blocks.load_settings(source, [()])[()].traces.cells

    before = cells().copy()

    def overwrite(self, request):
        ctypes.memset(request.traces.cells.ctypes.data, 0, request.traces.cells.nbytes)

    with pytest.raises(SharedArrayError, match=r"Twin\.set_up has changed"):
        twin(KnownSubset, set_up=overwrite)(**GAME).set_up(
            replace(request(), traces=blocks.load_settings(source, [()])[()].traces)
        )
    np.testing.assert_array_equal(cells(), before)


def in_turn(self, counts, *, group_size, rng):
    yield counts.astype(np.float64)
    ctypes.memset(counts.ctypes.data, 0, 4)
    yield counts.astype(np.float64)


def test_an_array_that_a_generator_overwrites_later_is_noticed(monkeypatch):
    monkeypatch.setattr("clusterscale.foreign.on_overwrite", [])
    mechanism, counts = twin(UniformNoise)(), COUNTS + 1
    steps = partial(in_turn, mechanism, group_size=9, rng=None)
    found = call_foreign(mechanism, "steps", steps, counts)
    next(found)
    with pytest.raises(SharedArrayError, match=r"Twin\.steps has changed"):
        next(found)


def replace_sort():
    np.sort = np.flip


@for_each(
    ("act", "what"),
    [
        (lambda: os.chdir("/"), "changes the working folder"),
        (replace_sort, r"replaces numpy\.sort"),
        (lambda: setattr(np.random, "default_rng", None), r"replaces numpy\.random\.default_rng"),
        (lambda: delattr(np.linalg, "norm"), r"replaces numpy\.linalg\.norm"),
        (lambda: np.seterr(all="raise"), "changes how NumPy treats floating-point errors"),
    ],
)
@pytest.mark.parametrize("fails", [False, True])
def test_what_others_use_too_is_put_back_and_the_fault_of_the_plug_in(act, what, fails):
    before = os.getcwd(), np.sort, np.random.default_rng, np.linalg.norm, np.geterr()

    def changing(self, counts, *, group_size, rng):
        act()
        if fails:
            raise ValueError("of no interest")
        return counts.astype(np.float64)

    with pytest.raises(PluginError, match=rf"Twin\.release {what}, which others use too"):
        release(twin(UniformNoise, release=changing)())
    assert before == (os.getcwd(), np.sort, np.random.default_rng, np.linalg.norm, np.geterr())


def test_read_only_copies_no_array_and_leaves_the_argument():
    given = request(past=[traces()])
    seen = read_only(given)
    assert type(seen) is type(given)
    assert seen.rng is given.rng
    for name in ("offsets", "cells"):
        for one, other in ((seen.traces, given.traces), (seen.past[0], given.past[0])):
            array = getattr(one, name)
            assert np.shares_memory(array, getattr(other, name))
            assert not array.flags.writeable
            assert getattr(other, name).flags.writeable


@for_each(
    ("methods", "message"),
    [
        ({"release": returning(COUNTS)}, r"release returned int32 of shape .*float64 of shape"),
        (
            {"release": returning(COUNTS[0] * 1.0)},
            r"release returned float64 of shape \(3, 4\), but should return",
        ),
        (
            {"release": returning(COUNTS * np.nan)},
            r"release returned 24 of 24 values that are NaN or infinite",
        ),
        ({"release": returning([1.0])}, r"release returned \[1.0\] \(list\), but should return"),
        ({"noise": property(returning(2.0))}, r"noise returned 2.0 \(float\), but should .*Noise"),
        ({"law": returning("laplace")}, r"law returned 'laplace' \(str\), but .* CellLaw or None"),
        ({"support": returning((0, 1))}, r"support returned .*, but should return Support"),
        ({"trace_steps": property(returning([]))}, r"trace_steps returned .* should return tuple"),
        ({"bind": returning(None)}, r"bind returned None \(NoneType\), but should return a mech"),
        ({"user_privacy_loss": returning(1.0)}, r"user_privacy_loss returned 1.0 .*PrivacyLoss"),
    ],
)
def test_what_a_mechanism_returns_is_checked(methods, message):
    mechanism, (name,) = twin(UniformNoise, **methods)(), methods
    with pytest.raises(PluginError, match=rf"test_boundary\.Twin\.{message}"):
        use(mechanism, name)


def use(mechanism, name):
    if name == "release":
        release(mechanism)
    elif callable(value := getattr(mechanism, name)):
        value(*([Support(0.0, 1.0, 1.0), 9] if name == "support" else [9]))


@for_each(
    ("changes", "message"),
    [
        ({"unit": "epsilon"}, "has unit 'epsilon': choose from event, user_day, user, roi_series"),
        ({"neighbours": "both"}, "has neighbours 'both': choose from add_remove, replace"),
        ({"epsilon": -1.0}, "has epsilon -1.0: it must be a number from 0 to inf"),
        ({"epsilon": np.nan}, "has epsilon nan"),
        ({"epsilon": "1"}, "has epsilon '1'"),
        ({"epsilon": np.inf}, "has ε inf for the unit user: ε is infinite if there is no"),
        ({"unit": "none"}, "has ε 1.0 for the unit none"),
        ({"delta": 1.5}, "has delta 1.5: it must be a number from 0 to 1.0"),
        ({"sensitivity": -2.0}, "has sensitivity -2.0: it must be 0 or more visits, or NaN"),
        ({"reason": ""}, "has reason ''"),
    ],
)
def test_a_guarantee_is_checked(changes, message):
    stated = replace(Guarantee("user", 1.0, 0.0, "add_remove", "noise is added"), **changes)
    mechanism = twin(UniformNoise, guarantee=property(returning(stated)))()
    with pytest.raises(PluginError, match=rf"Twin\.guarantee {message}"):
        _ = mechanism.guarantee


def test_a_noise_scope_is_checked():
    with pytest.raises(PluginError, match="has noise_scope 'all': choose from cell, series, rel"):
        _ = twin(UniformNoise, noise_scope="all")().guarantee


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (
            np.zeros(3),
            r"score returned float64 of shape \(3,\), but should return float64 of shape \(60,\)",
        ),
        (np.full(60, np.nan), "score returned 60 of 60 values that are NaN"),
        ([0.0] * 60, r"score returned \[.*\(list\), but should return float64"),
    ],
)
def test_scores_are_checked(scores, message):
    trained = SimpleNamespace(threshold=0.0, score=lambda release: scores)
    with pytest.raises(PluginError, match=rf"MatchingCells\.{message}"):
        score_groups(MatchingCells(), trained, train(MatchingCells())[1])


@pytest.mark.parametrize("threshold", [np.nan, None, "0"])
def test_a_threshold_is_checked(threshold):
    attack = twin(MatchingCells, fit=lambda self, knowledge, *, rng: Direction(1.0, threshold))()
    with pytest.raises(
        PluginError, match=r"Twin\.fit has threshold .*: it must be a finite number"
    ):
        train(attack)


def wrong_labels(self, request):
    game = KnownSubset.set_up(self, request)
    return replace(game, challenge=replace(game.challenge, labels=np.ones(20)))


def test_the_game_of_a_prior_is_checked():
    prior = twin(KnownSubset, set_up=wrong_labels)(**GAME)
    with pytest.raises(PluginError, match=r"set_up has challenge groups whose labels are wrong"):
        prior.set_up(request())


def leave(self, *args, **options):
    raise SystemExit(0)


@pytest.mark.parametrize(
    ("base", "act"),
    [
        ("release", lambda: release(twin(UniformNoise, release=leave)())),
        ("guarantee", lambda: twin(UniformNoise, guarantee=property(leave))().guarantee),
        ("fit", lambda: train(twin(MatchingCells, fit=leave)())),
        ("measure", lambda: twin(LargestError, measure=leave)().measure(COUNTS, COUNTS)),
    ],
)
def test_foreign_code_cannot_end_the_program(base, act):
    with pytest.raises(PluginError, match=rf"{base} tries to end the program \(SystemExit: 0\)"):
        act()


def test_a_signal_ends_the_program_from_within_foreign_code():
    def interrupted(self, *args, **options):
        raise SignalExit(143)

    with pytest.raises(SignalExit):
        release(twin(UniformNoise, release=interrupted)())


def test_a_task_that_tries_to_end_the_program_has_failed():
    stage = Stage("measure", lambda task: leave(None), [1], lambda batch: None, 1)
    seen: list[Progress] = []
    with pytest.raises(PluginError, match=r"lambda> tries to end the program \(SystemExit: 0\)"):
        stage.run(SerialExecutor(), seen.append)
    assert seen[-1].n_failed == 1


TOTAL = np.ones(6)


def overwrite_total(task):
    ctypes.memset(task.ctypes.data, 0, 8)
    return 1


def write_total(task):
    task[0] = 0.0
    return 1


def go_elsewhere(task):
    os.chdir("/")
    return 1


def whole(name, task):
    return Reduction(1, (1,), lambda part: 1, max, go_elsewhere_at_the_end)


def go_elsewhere_at_the_end(item, total):
    os.chdir("/")
    return total


@for_each(
    ("function", "task", "message", "by_parts"),
    [
        (overwrite_total, TOTAL, "overwrite_total has changed an array that others use", False),
        (write_total, TOTAL, "write_total writes to an array", False),
        (go_elsewhere, 1, "go_elsewhere changes the working folder", False),
        (partial(whole, "x"), 1, "at_the_end changes the working folder", True),
    ],
)
def test_functions_of_tasks_are_guarded_as_methods_are(function, task, message, by_parts):
    before = os.getcwd()
    stage = Stage("measure", function, [task], lambda batch: None, 1, by_parts=by_parts)
    with pytest.raises(PluginError, match=rf"test_boundary\.\w*{message}"):
        stage.run(SerialExecutor(), lambda progress: None)
    assert os.getcwd() == before


def test_functions_of_tasks_are_guarded_where_a_table_is_filled():
    marked = SimpleNamespace(done=lambda: set())
    stage = Stage.fill("measure", go_elsewhere, {"a": 1}, marked, lambda task, value: None)
    with pytest.raises(PluginError, match="go_elsewhere changes the working folder"):
        stage.run(SerialExecutor(), lambda progress: None)
    assert pickle.loads(pickle.dumps(stage.function)).func.__name__ == "_of_part"


def test_an_import_that_ends_the_program_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "leaving.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("leaving", "leaving:Nothing", "clusterscale.mechanisms")
    monkeypatch.setattr("clusterscale.registry.entry_points", lambda group: [point])
    registry = Registry("mechanism", base=UniformNoise, plugins="group")
    with pytest.raises(PackageError, match=r"leaving:Nothing .* cannot be loaded: SystemExit: 0"):
        list(registry)


@for_each(
    ("text", "reason"),
    [
        ("import os; os._exit(0)", r"SystemExit: os\._exit\(0\)"),
        ("from os import _exit; _exit(7)", r"SystemExit: os\._exit\(7\)"),
        ("import os; os.chdir('/')", "changes the working folder"),
        ("import numpy; numpy.sort = numpy.flip", r"replaces numpy\.sort"),
    ],
)
def test_an_import_that_leaves_unnoticed_or_changes_the_process_is_an_error(
    text, reason, tmp_path, monkeypatch
):
    before = os.getcwd(), np.sort
    (tmp_path / "leaving_now.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "leaving_now", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    point = EntryPoint("leaving", "leaving_now:Nothing", "clusterscale.mechanisms")
    monkeypatch.setattr("clusterscale.registry.entry_points", lambda group: [point])
    registry = Registry("mechanism", base=UniformNoise, plugins="group")
    with pytest.raises(PackageError, match=rf"cannot be loaded: .*{reason}"):
        registry.create("leaving")
    assert before == (os.getcwd(), np.sort)


def test_the_end_of_the_process_is_noticed_in_methods():
    def ending(self, counts, *, group_size, rng):
        os._exit(0)

    with pytest.raises(PluginError, match=r"release tries to end .*os\._exit\(0\)"):
        release(twin(UniformNoise, release=ending)())


@pytest.mark.slow
@pytest.mark.parametrize("method", [hide_small, leave, returning(COUNTS)])
def test_an_audit_of_a_release_that_fails_is_an_error_and_never_passes(
    method, cube, plan_fields, tmp_path
):
    chosen = {"mechanisms": [create("exact"), twin(UniformNoise, release=method)()]}
    with pytest.warns(RuntimeWarning, match="tasks of the audit failed"):
        results = cs.audit(AuditPlan(**plan_fields | chosen), cube, tmp_path / "run")
    own = results.sel(mechanism=[chosen["mechanisms"][1].id])
    assert (own.status == "failed").all()
    assert all("test_boundary.Twin.release " in text for text in own.error.values.ravel())
    assert (results.status == "failed").sum() == own.status.size, "exact has results"
    with pytest.raises(InputError, match=r"the audit used other code of .*Twin"):
        cs.gate(tmp_path / "run", mechanism="uniform_noise")


@pytest.mark.slow
def test_an_audit_of_a_guarantee_of_no_kind_is_an_error(cube, plan_fields, tmp_path):
    stated = property(returning(Guarantee("epsilon", 1.0, 0.0, "add_remove", "so")))
    chosen = {"mechanisms": [create("exact"), twin(UniformNoise, guarantee=stated)()]}
    plan = AuditPlan(**plan_fields | chosen)
    with pytest.raises(PluginError, match=r"Twin\.guarantee has unit 'epsilon'"):
        cs.audit(plan, cube, tmp_path / "run")


def test_guarded_classes_survive_pickling():
    mechanism = pickle.loads(pickle.dumps(UniformNoise(width=1.0)))
    assert np.array_equal(release(mechanism), release(UniformNoise(width=1.0)))
    assert (
        release_counts(mechanism, COUNTS, None, group_size=9, rng=np.random.default_rng(1)).shape
        == COUNTS.shape
    )
