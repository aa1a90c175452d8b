"""Audits of sums of weights: the same bits by parts of the users, known or unknown weights."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from audit.test_blockwise import bits, by_parts
from conftest import write_cube
from cube import crowd
from loops import mostly_slow

from clusterscale.analyses.audit import AuditPlan, predict
from clusterscale.analyses.audit.task import fold_play, play_whole, set_up
from clusterscale.analyses.dp_audit.evaluation import evaluate_mechanism_task, fold_evaluation
from clusterscale.analyses.recovery import RecoveryPlan
from clusterscale.analyses.tuning import list_cases
from clusterscale.contracts import GroupRequest, Guarantee, publish
from clusterscale.cube import blocks
from clusterscale.errors import ConfigError
from clusterscale.mechanisms import create
from clusterscale.mechanisms.scaling import Expand

N_USERS = 60
PARTS = [(0, 8), (8, 36), (36, 60)]
WEIGHTS = np.random.default_rng(1).lognormal(1.6, 0.6, N_USERS)
WEIGHED = {"name": "expand", "factor": "weights"}
HIDE = {"name": "threshold", "k": 3}
MERGED = {"name": "coarsen_time", "factor": 5}
MECHANISMS = [
    {"name": "exact"},
    WEIGHED,
    {"name": "chain", "steps": [HIDE, WEIGHED]},
    {"name": "chain", "steps": [MERGED, WEIGHED, HIDE]},
    {"name": "chain", "steps": [{"name": "laplace", "epsilon": 1.0, "unit": "event"}, WEIGHED]},
]
KNOWN = {"name": "known_subset", "alpha": 0.5, "training": 16, "challenges": 8, "validation": 8}
PRIORS = {
    "known": KNOWN,
    "unknown": KNOWN | {"weights": "unknown"},
    "paired": KNOWN | {"sampling": "paired", "known_fraction": 0.5},
    "perfect": {"name": "perfect", "groups": 12},
    "same_groups": {"name": "same_groups", "beta": 8},
    "different_groups": {"name": "different_groups", "beta": 16},
    "zero_knowledge": {
        "name": "zero_knowledge", "reference": 40, "training": 16, "challenges": 8, "validation": 8
    },
}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_MOST_USERS", 4)
        yield


@pytest.fixture(scope="module")
def cubes(tmp_path_factory):
    """The same users without weights, with weights, and with weights of 1."""
    dense = crowd.draw(N_USERS, 5, 48, share=0.1, seed=4)
    folder = tmp_path_factory.mktemp("weights")
    weights = {"none": None, "some": WEIGHTS, "ones": np.ones(N_USERS)}
    return {name: write_cube(str(folder / name), dense, each) for name, each in weights.items()}


def plan(prior="known", mechanisms=MECHANISMS, null_roi=True, attacks=(), size=6, **more):
    prior = PRIORS[prior] if isinstance(prior, str) else prior
    past = prior["name"] in ("same_groups", "different_groups")
    attacks = ["spectral", *attacks] + ([] if past else ["projection", "likelihood"])
    fields = {
        "seed": 5,
        "null_roi": null_roi,
        "targets": {"random": 1},
        "group_sizes": [size],
        "periods": [{"name": "day", "first": 24, "epochs": 24, "observed": [0] if past else []}],
        "priors": [prior],
        "mechanisms": mechanisms,
        "attacks": [{"name": name} for name in attacks],
        "utility": {"groups": 3, "measures": [{"name": "mean_relative_error"}]},
        "verdict": {"trials": 40, "units": 3},
    }
    return AuditPlan(**fields | more)


def chosen_of(cube):
    return plan().choose(cube)


def the_task(cube, chosen):
    return next(iter(chosen.tasks(cube, chosen.choose(cube))))


@mostly_slow(
    ("prior", "size", "null_roi"),
    [(prior, (6, 26)[i % 2], i % 4 < 2) for i, prior in enumerate(PRIORS)],
)
def test_three_parts_give_the_outcomes_of_one(cubes, prior, size, null_roi):
    adds = PRIORS[prior]["name"] == "known_subset"
    chosen = plan(
        prior, null_roi=null_roi, attacks=("cells",), size=size,
        precision={"width": 0.2, "most": 32} if adds else None,
    )  # fmt: skip
    chosen.check(cubes["some"])
    task = the_task(cubes["some"], chosen)
    outcomes = play_whole(task)
    assert len(outcomes) == chosen.n_cases
    assert bits(by_parts(fold_play(task, PARTS))) == bits(outcomes)


def test_three_parts_give_the_evaluation_of_one(cubes):
    (task,) = plan().evaluations(cubes["some"])
    found = evaluate_mechanism_task(task)
    assert repr(by_parts(fold_evaluation(task, PARTS))) == repr(found)


def test_utility_is_measured_against_the_sums_of_weights(cubes):
    measures = [{"name": name} for name in ("mean_relative_error", "pearson", "events_kept")]
    chosen = plan(null_roi=False, utility={"groups": 3, "measures": measures})
    (task,) = chosen.evaluations(cubes["some"])
    found = evaluate_mechanism_task(task)
    raw, weighed, hidden, *_, noisy = (found.utility[each.id][0] for each in chosen.mechanisms)
    assert raw == weighed == (0.0, pytest.approx(1.0), pytest.approx(1.0))
    assert 0 < hidden[2] < 1
    assert noisy[0] > 0
    units = {guarantee.unit for guarantee in found.guarantees.values()}
    assert units == {"none"}  # noise that is multiplied by weights guarantees nothing


def test_weights_change_nothing_for_mechanisms_that_do_not_use_them(cubes):
    plain = [MECHANISMS[0], {"name": "fourier", "epsilon": 1.0, "coefficients": 3}, MERGED]
    tasks = [the_task(cubes[name], plan(mechanisms=plain)) for name in ("none", "some")]
    assert bits(play_whole(tasks[0])) == bits(play_whole(tasks[1]))
    (task,) = plan(mechanisms=plain).evaluations(cubes["none"])
    (other,) = plan(mechanisms=plain).evaluations(cubes["some"])
    assert repr(evaluate_mechanism_task(task)) == repr(evaluate_mechanism_task(other))


def test_weights_of_one_are_attacked_like_counts(cubes):
    chosen = plan(mechanisms=[{"name": "exact"}, WEIGHED])
    outcomes = play_whole(the_task(cubes["ones"], chosen))
    found = {(each.mechanism, each.attack): each.auc for each in outcomes}
    exact, weighed = (mechanism.id for mechanism in chosen.mechanisms)
    (name,) = (attack.id for attack in chosen.attacks if attack.name == "projection")
    assert found[exact, name] == found[weighed, name]


def test_who_does_not_know_weights_trains_on_their_mean(cubes):
    cube, games = cubes["some"], {}
    task = the_task(cube, plan(mechanisms=[WEIGHED]))
    for weights in ("known", "unknown"):  # the same groups: an id of the prior seeds the draws
        prior = task.prior.model_copy(update={"weights": weights})
        request = GroupRequest(
            cube.traces(), task.target, 6, np.random.default_rng(1), mean_weight=cube.mean_weight
        )
        games[weights] = prior.set_up(request)
    known, unknown = games["known"], games["unknown"]
    expand, training = create(**WEIGHED), known.adversary.training
    true, assumed = (
        game.adversary.study(None, expand, rng=np.random.default_rng(1)) for game in games.values()
    )
    np.testing.assert_array_equal(true.training.release.values, training.sums)
    published = assumed.training.release
    np.testing.assert_array_equal(published.values, training.counts * cube.mean_weight)
    assert published.law is published.noise is None  # the challenges have other weights
    exact = unknown.adversary.study(None, create("exact"), rng=np.random.default_rng(1))
    assert exact.training.release.values is unknown.adversary.training.counts
    assert exact.whereabouts.weights is None
    with pytest.raises(ConfigError, match="expand: the mean weight of users is nan"):
        replace(unknown.adversary, mean_weight=np.nan).study(None, expand, rng=None)
    (case,) = list_cases(plan("unknown", mechanisms=[WEIGHED]), cube, chosen_of(cube), 1)
    known_sums = case.form()[0].release.values / cube.mean_weight
    np.testing.assert_allclose(known_sums, np.rint(known_sums))
    np.testing.assert_array_equal(known.challenge.sums, unknown.challenge.sums)  # the true ones
    n_known, mean = true.whereabouts.n_users, cube.mean_weight
    own = cube.weights[task.target]
    assert assumed.whereabouts.weights == (mean, mean * n_known)
    assert true.whereabouts.weights == (own, pytest.approx(mean * n_known, rel=0.5))


def test_a_heavy_user_is_exposed_by_weights_and_hidden_among_equals(tmp_path):
    """Somebody who counts as 500 people is seen in any sum."""
    rng = np.random.default_rng(2)
    dense = rng.random((N_USERS, 5, 24)) < 0.3
    weights = np.ones(N_USERS)
    weights[11] = 500.0
    cube = write_cube(str(tmp_path / "cube"), dense, weights)
    chosen = plan(
        KNOWN | {"training": 100, "challenges": 100},
        mechanisms=[{"name": "fixed_ranges", "size": 10}, WEIGHED],
        periods=[{"name": "day", "first": 0, "epochs": 24}],
        group_sizes=[20],
        null_roi=False,
    )
    outcomes = play_whole(replace(the_task(cube, chosen), target=11))
    ids = [mechanism.id for mechanism in chosen.mechanisms]
    by_mechanism = [[each for each in outcomes if each.mechanism == name] for name in ids]
    assert all(each.auc == 1.0 for each in by_mechanism[1])
    assert all(each.accuracy == 1.0 for each in by_mechanism[1])
    assert max(each.auc for each in by_mechanism[0]) < 0.9


def refusal(cube, chosen):
    with pytest.raises(ConfigError) as caught:
        chosen.check(cube)
    return str(caught.value)


def test_a_cube_without_weights_is_refused_with_the_remedy(cubes):
    text = refusal(cubes["none"], plan(mechanisms=[{"name": "exact"}, WEIGHED]))
    assert text == (
        "mechanisms.1: expand(factor='weights') uses the weights of users, but the cube has none: "
        "ingest the records with a table of weights, or expand by a number"
    )


class Certain(Expand):
    """A mechanism of a third party that claims more than can be known."""

    name: Literal["certain"] = "certain"

    @property
    def guarantee(self):
        return Guarantee("event", 1.0, 0.0, "add_remove", "it says so", 1.0)


def test_a_guarantee_of_sums_is_refused_because_nothing_bounds_them(cubes):
    chosen = plan().model_copy(update={"mechanisms": (Certain(factor="weights"),)})
    assert refusal(cubes["some"], chosen).startswith(
        "mechanisms.0: certain(factor='weights') states a guarantee for sums of weights, but an"
    )


def test_zero_knowledge_assumes_the_mean_weight_of_everyone(cubes):
    """Where all weights are the same number, it does as well as if that were the factor."""
    dense, folder = crowd.draw(N_USERS, 5, 48, share=0.1, seed=4), Path(cubes["some"].uri).parent
    cube = write_cube(str(folder / "equal"), dense, np.full(N_USERS, 4.0))
    hide = {"name": "threshold", "k": 2}
    steps = ([hide, {"name": "expand", "factor": factor}] for factor in ("weights", 4.0))
    chains = [create("chain", steps=each) for each in steps]
    chosen = plan("zero_knowledge").model_copy(update={"mechanisms": tuple(chains)})
    chosen.check(cube)
    task = the_task(cube, chosen)
    game, _ = next(set_up(task))
    known = []
    for mechanism in chains:
        values = publish(
            game.challenge.counts[:1],
            mechanism,
            group_size=6,
            rng=np.random.default_rng(1),
            sums=game.challenge.sums[:1],
        )
        known.append(game.adversary.study(values, mechanism, rng=np.random.default_rng(2)))
    weighed, factor = known
    np.testing.assert_array_equal(weighed.training.release.values, factor.training.release.values)
    assert weighed.training.release.law is None
    assert factor.training.release.law is not None
    assert weighed.whereabouts.weights == (4.0, 4.0 * weighed.whereabouts.n_users)


def test_a_passive_adversary_is_refused(cubes):
    prior = PRIORS["perfect"] | {"adversary": "passive"}
    text = refusal(cubes["some"], plan(prior, group_sizes=[6]))
    label = "perfect(groups=12, adversary='passive')"
    assert f"priors.0: {label} trains on groups without weights, but mechanisms.1 publishes" in text


def test_everyone_is_screened_by_their_weights_but_not_recovered(cubes):
    plan(mechanisms=[WEIGHED], targets={"most_exposed": 2}).check(cubes["some"])
    recovery = RecoveryPlan(observed=24, epochs=24, priors=[{"name": "freq_roi"}],
                            mechanisms=[WEIGHED])  # fmt: skip
    assert refusal(cubes["some"], recovery).startswith(
        "mechanisms.0: expand(factor='weights') publishes sums of weights, from which locations"
    )


def test_sums_take_memory(cubes):
    plain, weighed = (
        predict(plan(mechanisms=[MERGED, each]), cubes["some"]).resources.task_bytes
        for each in ({"name": "top_code", "at": 3}, WEIGHED)
    )
    assert weighed > plain
