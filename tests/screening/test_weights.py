"""Users of a screen count with their weights where sums of weights are published."""

import numpy as np
import pytest
from conftest import draw_dense, write_cube
from running import run_screen as run
from screening.brute import Brute, auc_of_pairs

from clusterscale.analyses.screening import Screen, ScreenPlan, check
from clusterscale.analyses.screening.scoring import users_by_weight
from clusterscale.contracts import Bounds
from clusterscale.cube import blocks
from clusterscale.cube.blocks import Source, read_block
from clusterscale.errors import ConfigError
from clusterscale.mechanisms import create
from clusterscale.runtime import SerialExecutor

SIZE, N_USERS = 9, 24
PLAN = ScreenPlan(groups=40, reference=12, attacks=[{"name": "projection"}, {"name": "diagonal"}])
WEIGHTS = create("expand", factor="weights")
HIDDEN = create("chain", steps=[{"name": "threshold", "k": 3}, WEIGHTS.model_dump()])


@pytest.fixture(scope="module")
def few():
    return draw_dense(np.random.default_rng(3), N_USERS, 5, 12)


def screened(cube, folder, *mechanisms):
    screen = Screen(5, False, (("all", (0, 12)),), (SIZE,), mechanisms, PLAN)
    found = run(screen, cube, folder, SerialExecutor()).load()
    return found.isel(period=0, group_size=0)


@pytest.mark.slow
@pytest.mark.parametrize("before", [[], [{"name": "threshold", "k": 3}]], ids=["alone", "hidden"])
def test_equal_weights_are_a_factor(before, few, tmp_path):
    cube = write_cube(str(tmp_path / "cube.zarr"), few, weights=np.full(N_USERS, 2.0))
    both = [
        create("chain", steps=[*before, {"name": "expand", "factor": factor}])
        for factor in ("weights", 2.0)
    ]
    found = screened(cube, tmp_path / "run", *both)
    by_weights, by_factor = (found.sel(mechanism=each.id) for each in both)
    # Sums in single precision may part a tie.
    np.testing.assert_allclose(by_weights.auc, by_factor.auc, atol=0.005)
    gaps = (each.score_gap.sel(attack="projection") for each in (by_weights, by_factor))
    np.testing.assert_allclose(*gaps, rtol=1e-5)


@pytest.mark.slow
def test_every_number_by_brute_force(few, tmp_path):
    weights = np.where(np.arange(N_USERS) % 3 == 0, 7.5, 1.25)
    cube = write_cube(str(tmp_path / "cube.zarr"), few, weights=weights)
    found = screened(cube, tmp_path / "run", WEIGHTS, HIDDEN)
    source = Source(cube.uri, cube.fingerprint, False, 5)
    screen = Screen(5, False, (("all", (0, 12)),), (SIZE,), (WEIGHTS,), PLAN)
    ((setting, _),) = screen.settings()
    brute = Brute(few, source, setting, PLAN, Bounds(1, 1, 1, 1, 1, False))
    weighed = few * weights[:, None, None]

    def published(members, mechanism):
        counts, sums = few[members].sum(axis=0), weighed[members].sum(axis=0)
        return np.where((counts >= 3) | (mechanism is WEIGHTS), sums, 0.0)

    for mechanism in (WEIGHTS, HIDDEN):
        rows = found.sel(mechanism=mechanism.id, attack="projection")
        for user in range(0, N_USERS, 5):
            shift = few[user] - few.mean(axis=0)
            groups = [g for g in range(PLAN.groups) if user not in brute.members[g]]
            scores = []
            for g in groups:
                others = sorted(brute.members[g] - {brute.stand_in[g]})
                with_user = published([*others, user], mechanism)
                with_stand_in = published([*others, brute.stand_in[g]], mechanism)
                scores.append([(shift * values).sum() for values in (with_user, with_stand_in)])
            inside, outside = np.array(scores).T
            least, most = auc_of_pairs(inside, outside, near=1e-5 * (1 + np.ptp(inside)))
            assert least - 1e-6 <= float(rows.auc[user]) <= most + 1e-6
    heavy, light = (
        found.auc.sel(mechanism=WEIGHTS.id).values[weights == w].mean() for w in (7.5, 1.25)
    )
    assert heavy > light, "who counts for more is seen more easily"


@pytest.mark.slow
def test_the_size_of_blocks_does_not_matter(few, tmp_path, monkeypatch):
    weights = np.random.default_rng(1).choice([1.0, 2.5, 4.0], N_USERS)
    cube = write_cube(str(tmp_path / "cube.zarr"), few, weights=weights)
    one = screened(cube, tmp_path / "one", WEIGHTS)
    monkeypatch.setattr(blocks, "_MOST_USERS", 4)
    other = screened(cube, tmp_path / "other", WEIGHTS)
    for name in ("auc", "auc_low", "score_gap"):
        np.testing.assert_array_equal(one[name], other[name])


def test_many_weights_are_rounded_up_to_those_of_classes(few, tmp_path):
    weights = np.geomspace(1, 100, N_USERS)
    cube = write_cube(str(tmp_path / "cube.zarr"), few, weights=weights)
    source = Source(cube.uri, cube.fingerprint, False, 5, weights=True)
    (block,) = read_block(source, [((0, 12), ())], 0, N_USERS)
    classes = list(users_by_weight(source, WEIGHTS, block.traces))
    assert len(classes) <= 16
    assert np.sort(np.concatenate([users for _, users in classes])).tolist() == [*range(N_USERS)]
    for top, users in classes:
        assert (cube.weights[users] <= top).all()
        assert (cube.weights[users] * 100 ** (1 / 16) >= top * 0.999).all()


def test_a_cube_without_weights_and_weighted_series_are_refused(few, cube, tmp_path):
    with pytest.raises(ConfigError, match="which the cube does not have"):
        check(Screen(5, False, (("all", (0, 12)),), (SIZE,), (WEIGHTS,), PLAN), cube)
    weighed = write_cube(str(tmp_path / "cube.zarr"), few, weights=np.ones(N_USERS))
    series = {"name": "fourier", "epsilon": 1.0, "coefficients": 3, "l2_sensitivity": 1.0}
    chain = create("chain", steps=[series, WEIGHTS.model_dump()])
    with pytest.raises(ConfigError, match="whole series"):
        check(Screen(5, False, (("all", (0, 12)),), (SIZE,), (chain,), PLAN), weighed)
