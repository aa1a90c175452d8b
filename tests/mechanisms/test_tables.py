"""Several tables together are each of them alone, and an adversary has the evidence of all."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from conftest import draw_dense, write_cube
from loops import for_each
from mechanisms.published import BOUNDS, WITH_NULL, refusal
from running import run_screen

from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.recovery import RecoveryPlan
from clusterscale.analyses.screening import Screen, ScreenPlan
from clusterscale.attacks import create as attack
from clusterscale.contracts import Bounds, CellChange, GroupRequest, stability_of
from clusterscale.cube import with_null_roi
from clusterscale.cube.bounds import bounds_before, merge_bounds
from clusterscale.errors import ConfigError, InputError
from clusterscale.game import AttackEvaluation
from clusterscale.groups import count_visits
from clusterscale.mechanisms import create, respond, user_level
from clusterscale.mechanisms.noise import LaplaceNoise
from clusterscale.priors import PRIORS
from clusterscale.release.metadata import ReleaseMetadata
from clusterscale.runtime import SerialExecutor
from clusterscale.seeds import stream
from clusterscale.testing.population import GROUP_SIZE, coordinates, traces

SMALL = {"name": "suppress_small", "below": 3}
EVENT = {"name": "laplace", "epsilon": 1.0, "unit": "event"}
USER = {"name": "laplace", "epsilon": 0.5}
DAILY = {"name": "coarsen_time", "factor": 24}
WIDE = {"name": "coarsen_space", "groups": [[0, 1, 2, 3], [4, 5, 6, 7]]}
HALF = {"name": "sample_traces", "remove": 0.5}
TOTAL = {"name": "coarsen_space", "strata": "sex"}
EVERYONE = np.arange(traces().n_users)[None]


def chain(*steps):
    return {"name": "chain", "steps": list(steps)}


def tables(*parts):
    return create("tables", tables=list(parts))


def lay_out(mechanism):
    """The traces after the trace steps, and what a unit of data changes."""
    names = tuple(f"{place} (sex {sex})" for place in "ABCD" for sex in "FM")
    frames, seen = [replace(coordinates(), names=names)], traces()
    for step in mechanism.trace_steps:
        seen, frame = step.apply(seen, frames[-1], rng=stream(1, "steps"))
        frames.append(frame)
    return seen, bounds_before(mechanism.trace_steps, frames, seen), frames


def counts_of(mechanism):
    return count_visits(lay_out(mechanism)[0], EVERYONE)


TOGETHER = tables(SMALL, chain(DAILY, USER), chain(WIDE, DAILY, EVENT))
ALONE = [create(**SMALL), create("chain", steps=[DAILY, USER])]
ALONE += [create("chain", steps=[WIDE, DAILY, EVENT])]
PARTS = [np.s_[:, :8, :48], np.s_[:, 8:16, :2], np.s_[:, 16:, :2]]


def test_each_table_has_the_counts_and_bounds_that_it_has_alone():
    found, (_, bounds, frames) = counts_of(TOGETHER), lay_out(TOGETHER)
    assert found.shape == (1, 8 + 8 + 2, 48)
    for part, own, alone in zip(PARTS, bounds.tables, ALONE, strict=True):
        expected = counts_of(alone)
        np.testing.assert_array_equal(found[part], expected)
        assert replace(own, cells=(0, 0)) == lay_out(alone)[1]
        assert own.cells == expected.shape[1:]
    assert found.sum() == sum(found[part].sum() for part in PARTS), "all else is empty"
    assert frames[-1].days.tolist() == [0] * 24 + [1] * 24
    np.testing.assert_array_equal(frames[-1].lat[:16], np.tile(coordinates().lat, 2))


def test_each_table_is_published_as_alone():
    _, bounds, _ = lay_out(TOGETHER)
    counts, bound = counts_of(TOGETHER), TOGETHER.bind(bounds)
    released = bound.release(counts, group_size=60, rng=stream(2, "noise"))
    rng = stream(2, "noise")
    for part, alone in zip(PARTS, ALONE, strict=True):
        own = alone.bind(lay_out(alone)[1])
        expected = own.release(counts_of(alone), group_size=60, rng=rng)
        np.testing.assert_array_equal(released[part], expected)
        released[part] = 0
    assert not released.any(), "what fills up a table is 0"


def test_counts_of_other_cells_are_refused():
    bound = TOGETHER.bind(lay_out(TOGETHER)[1])
    with pytest.raises(InputError, match=r"\(18, 47\) are not in tables of \[\(8, 48\), \(8, 2\)"):
        bound.release(np.zeros((18, 47), np.int32), group_size=9, rng=stream(0))


def test_without_a_cube_tables_have_equal_numbers_of_places():
    both = tables(SMALL, {"name": "exact"}).bind(BOUNDS)
    counts = np.full((4, 3), 2, np.int32)
    released = both.release(counts, group_size=9, rng=stream(0))
    np.testing.assert_array_equal(released, [[0] * 3] * 2 + [[2] * 3] * 2)


def test_bounds_of_tables_survive_storage_and_are_merged():
    _, bounds, _ = lay_out(TOGETHER)
    assert Bounds(**json.loads(json.dumps(asdict(bounds)))) == bounds
    more = replace(bounds, user=99, tables=tuple(replace(one, user=1) for one in bounds.tables))
    assert merge_bounds(bounds, more) == replace(bounds, user=99)
    assert merge_bounds(bounds, more, min) == replace(more, user=bounds.user)


def test_a_sample_is_drawn_once_for_all_tables():
    found = counts_of(tables(chain(HALF, SMALL), chain(HALF, DAILY, SMALL)))[0]
    assert 0 < found[:8].sum() < counts_of(create("exact")).sum() * 0.6
    for day in range(2):
        hours = found[:8, 24 * day : 24 * day + 24]
        assert (found[8:, day] >= hours.max(axis=1)).all()
        assert (found[8:, day] <= hours.sum(axis=1)).all()


def test_guarantees_add_up():
    both = tables(EVENT, chain(DAILY, {**EVENT, "epsilon": 0.25}))
    bound = both.bind(lay_out(both)[1])
    assert (bound.guarantee.unit, bound.guarantee.epsilon) == ("event", 1.25)
    assert stability_of(both.trace_steps).event == 2
    bounds = lay_out(both)[1]
    users = [one.user for one in bounds.tables]
    assert user_level(bound, bounds).epsilon == pytest.approx(users[0] + 0.25 * users[1])


def test_gaussian_and_discrete_noise_have_the_sum_of_both_losses():
    both = tables({**USER, "discrete": True}, {"name": "gaussian", "epsilon": 1.0, "delta": 0.01})
    bounds = lay_out(both)[1]
    bound = both.bind(bounds)
    found = user_level(bound, bounds)
    pairs = zip(bound.tables, bounds.tables, strict=True)
    parts = [user_level(table, own) for table, own in pairs]
    assert found.epsilon == pytest.approx(sum(part.epsilon for part in parts))
    assert found.delta == pytest.approx(sum(part.delta for part in parts))
    assert bound.publishes_float_noise
    assert not tables({**USER, "discrete": True}, {**EVENT, "discrete": True}).publishes_float_noise


@for_each("other", [SMALL, USER, {"name": "randomized_response", "p": 0.3}])
def test_tables_of_several_units_have_no_guarantee(other):
    bound = tables(EVENT, other).bind(BOUNDS)
    assert bound.guarantee.unit == "none"
    assert "different units" in bound.guarantee.reason
    assert bound.user_privacy_loss(BOUNDS) is None


def test_too_little_noise_in_one_table_is_not_made_up_for_by_another():
    large, small = ({**USER, "sensitivity": size} for size in (1000.0, 1.0))
    both = tables(large, chain(DAILY, small))
    bounds = lay_out(both)[1]
    assert bounds.tables[1].user > 1
    bound = both.bind(bounds)
    assert bound.required_sensitivity(bounds) > bound.guarantee.sensitivity
    enough = tables(large, chain(DAILY, large)).bind(bounds)
    assert enough.required_sensitivity(bounds) <= enough.guarantee.sensitivity


def test_a_visit_changes_a_count_by_no_more_than_the_least_noise():
    change = tables({**EVENT, "epsilon": 0.5}, chain({**EVENT, "epsilon": 2.0}, SMALL)).cell_change
    assert change(20).noise.scale == 0.5
    assert not change(20).tight


@for_each("other", [SMALL, {"name": "gaussian", "epsilon": 1.0, "delta": 0.1, "unit": "event"}])
def test_nothing_bounds_a_change_where_noises_cannot_be_compared(other):
    assert tables(EVENT, other).bind(BOUNDS).cell_change(20).noise is None


class HeavyTails(LaplaceNoise):
    """Noise of another package, which may have more settings than its scale."""


def test_nothing_bounds_a_change_by_noise_that_is_not_known(monkeypatch):
    assert tables(USER, USER).cell_change(20).noise is None  # its scale needs a sensitivity
    both = tables(EVENT, EVENT)
    assert both.cell_change(20).noise is not None
    monkeypatch.setattr(type(both.tables[0]), "cell_change", lambda *_: CellChange(HeavyTails(1.0)))
    assert both.cell_change(20).noise is None


REFUSED = {
    "one table": ([SMALL], "tables: give at least 2"),
    "nested": ([SMALL, {"name": "tables", "tables": [SMALL, SMALL]}], "tables.1"),
}


@for_each("case", REFUSED)
def test_what_is_no_table_is_refused(case):
    parts, message = REFUSED[case]
    assert message in f"{refusal('tables', tables=parts)}"


def test_tables_are_no_step_no_release_and_have_no_null_roi():
    assert "tables" in refusal("chain", steps=[{"name": "tables", "tables": [SMALL, SMALL]}])
    with pytest.raises(ConfigError, match="a release is one table: state each alone"):
        ReleaseMetadata(mechanism=tables(SMALL, SMALL))
    with pytest.raises(ConfigError, match="set null_roi: false, and leave out sums of weights"):
        tables(SMALL, SMALL).bind(WITH_NULL)
    with pytest.raises(ConfigError, match="set null_roi: false, and leave out sums of weights"):
        tables(SMALL, {"name": "expand", "factor": "weights"}).bind(BOUNDS)
    with pytest.raises(InputError, match="null ROI"):
        TOGETHER.apply(with_null_roi(traces()), coordinates(), rng=stream(0))
    with pytest.raises(ConfigError, match="no mean response"):
        respond(tables(SMALL, SMALL).bind(BOUNDS), np.arange(3), group_size=9, rng=stream(0))
    with pytest.raises(ConfigError, match="covers all counts"):
        tables(SMALL, {**SMALL, "below": 30}).check(group_size=20, n_rois=4, n_epochs=4)


def test_the_first_table_is_that_of_utility():
    mechanism = tables(chain(DAILY, {"name": "expand", "factor": 2.0}), SMALL)
    counted, bounds, frames = lay_out(mechanism)
    mechanism = mechanism.bind(bounds)
    counts = count_visits(counted, EVERYONE)
    released = mechanism.release(counts, group_size=60, rng=stream(0))
    found = mechanism.expand(mechanism.in_visits(released, counts), frames[0])
    assert found.shape == (1, 8, 48)
    np.testing.assert_array_equal(found, np.repeat(counts[:, :8, :2], 24, axis=2))


def evaluate(mechanism, name, target, challenges=60):
    """The AUC of an attack on a target, and its scores."""
    seen, bounds, frames = lay_out(mechanism)
    prior = PRIORS.create(
        "known_subset", alpha=0.5, training=60, challenges=challenges, validation=20
    )
    request = GroupRequest(
        seen, target, group_size=GROUP_SIZE, frame=frames[-1], rng=stream(0, "groups", target)
    )
    game = prior.set_up(request)
    options = {"seed": 3, "path": ("play", target), "bounds": bounds, "control": False}
    played = AttackEvaluation(game, mechanism, [attack(name)], **options)
    (outcome,) = played.outcomes()
    return outcome.auc, played._table.scores[0]


def test_the_evidence_of_tables_is_the_sum_of_that_of_each():
    """Of tables without random numbers, so that they are the same alone and together."""
    for target in range(3):
        together = evaluate(tables(SMALL, chain(WIDE, DAILY, SMALL)), "likelihood", target)[1]
        apart = [
            evaluate(mechanism, "likelihood", target)[1]
            for mechanism in (create(**SMALL), create("chain", steps=[WIDE, DAILY, SMALL]))
        ]
        np.testing.assert_allclose(together, np.sum(apart, axis=0), atol=1e-6)


PAIRS = {
    "thresholds": (SMALL, [DAILY, SMALL]),
    "noise": (EVENT, [DAILY, EVENT]),
    "a noisy and an unchanged one": (EVENT, [DAILY, {"name": "coarsen_space", "factor": 2}]),
    "strata and their total": (EVENT, [TOTAL, EVENT]),
    "strata and their total, with thresholds": (SMALL, [TOTAL, SMALL]),
    "a law that is not known": ({"name": "adaptive_ranges", "ranges": 2}, [DAILY, SMALL]),
}


@pytest.mark.slow
@for_each("pair", PAIRS)
def test_an_adversary_with_all_tables_is_no_worse_than_with_any_of_them(pair):
    first, steps = PAIRS[pair]
    cases = [tables(first, chain(*steps)), create(**first), create("chain", steps=steps)]
    together, *apart = (
        np.array([evaluate(case, "likelihood", target)[0] for target in range(0, 60, 2)])
        for case in cases
    )
    for alone in apart:
        gain = together - alone
        # two standard errors of the mean over 30 targets, who are attacked in the same groups
        assert gain.mean() > -2 * gain.std(ddof=1) / np.sqrt(len(gain))
    assert together.mean() > max(alone.mean() for alone in apart) - 0.005


def test_an_unchanged_table_contradicts_beside_a_noisy_one():
    alone = evaluate(create(**DAILY), "contradiction", 4)[1]
    together = evaluate(tables(EVENT, DAILY), "contradiction", 4)[1]
    assert -1 in alone
    np.testing.assert_array_equal(together, alone)


@pytest.fixture(scope="module")
def cube(tmp_path_factory):
    dense = draw_dense(np.random.default_rng(3), 60, 5, 12)
    return write_cube(str(tmp_path_factory.mktemp("tables") / "cube.zarr"), dense)


def test_a_screen_scores_all_tables_together(cube, tmp_path):
    noise = {**EVENT, "epsilon": 0.4}
    steps = [{"name": "coarsen_time", "factor": 2}, noise]
    cases = [tables(noise, chain(*steps)), create(**noise), create("chain", steps=steps)]
    screen = Screen(5, False, (("all", (0, 12)),), (9,), tuple(cases), ScreenPlan(groups=80))
    found = run_screen(screen, cube, tmp_path, SerialExecutor()).load().auc
    likelihood = found.squeeze().transpose("mechanism", "attack", "user").values[:, -1]
    together, *apart = np.nanmean(likelihood, axis=1)
    assert together > max(apart)


def audit(cube, prior, **fields):
    given = {"targets": {"all": True}, "group_sizes": (5,), "attacks": ["likelihood"]}
    given |= {"periods": [{"name": "all", "first": 0, "epochs": 12}], "priors": [prior]}
    given |= {"mechanisms": (tables(SMALL, SMALL),), "null_roi": False}
    AuditPlan(**(given | fields)).check(cube)


KNOWN = {"name": "known_subset", "alpha": 0.5, "training": 10, "challenges": 10, "validation": 10}
GUESSING = [
    {"name": "zero_knowledge", "reference": 30, "training": 10, "challenges": 10, "validation": 10},
    {**KNOWN, "knows": "rois"},
    {**KNOWN, "known_fraction": 0.5},
]


@for_each("prior", GUESSING)
def test_an_audit_refuses_adversaries_who_guess_cells(prior, cube):
    with pytest.raises(ConfigError, match=r"mechanisms\.0: .* guesses cells of one table"):
        audit(cube, prior)


def test_plans_refuse_what_tables_cannot_do(cube):
    audit(cube, KNOWN)
    with pytest.raises(ConfigError, match=r"mechanisms\.0: tables: set null_roi: false"):
        audit(cube, KNOWN, null_roi=True)
    with pytest.raises(ConfigError, match=r"mechanisms\.0: suppress_small: below 3 covers"):
        audit(cube, KNOWN, group_sizes=(2,))
    plan = RecoveryPlan(observed=6, epochs=6, mechanisms=(tables(SMALL, SMALL),))
    with pytest.raises(ConfigError, match=r"mechanisms\.0: tables\(.*several tables, from which"):
        plan.check(cube)
