"""A screen's AUC is that of the game, and its intervals hold the true AUC as often as they say."""

import numpy as np
import pytest
from conftest import draw_dense, write_cube
from loops import for_each
from running import run_screen as run
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from clusterscale.analyses.screening import Screen, ScreenPlan
from clusterscale.analyses.screening.kernels import compare, gap, interval, rank_targets
from clusterscale.attacks import create as attack
from clusterscale.cube import measure_bounds
from clusterscale.mechanisms import create
from clusterscale.runtime import SerialExecutor

SIZE = 12
Z95 = float(norm.isf(0.025))
MECHANISMS = [
    create("laplace", epsilon=0.7, unit="event", clip=True, integers="floor"),
    create("sample_events", remove=0.5),
    create("perturb_small", below=6, epsilon=0.5),
    create("randomized_response", p=0.6),
    create("fourier", epsilon=20.0, coefficients=4),
    create("adaptive_ranges", ranges=2),
]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    dense = draw_dense(np.random.default_rng(11), 80, 6, 16)
    return dense, write_cube(str(tmp_path_factory.mktemp("crowd") / "cube.zarr"), dense)


def play(dense, mechanism, user, n_groups, rng):
    """Draw groups with and without the user, publish all afresh, project on the user's trace."""
    others = np.delete(np.arange(len(dense)), user)
    groups = [rng.choice(others, SIZE - 1 + i % 2, replace=False) for i in range(n_groups)]
    counts = np.stack([dense[group].sum(axis=0) for group in groups]).astype(np.int32)
    counts[::2] += dense[user]
    values = mechanism.release(counts, group_size=SIZE, rng=rng)
    direction = dense[user] - dense.mean(axis=0)
    scores = (values * direction).sum(axis=(1, 2))
    return roc_auc_score(np.arange(n_groups) % 2 == 0, scores)


@pytest.fixture(scope="module")
def screened(crowd, tmp_path_factory):
    """A screen of the crowd with all mechanisms."""
    plan = ScreenPlan(groups=700, reference=20, attacks=(attack("projection"),))
    screen = Screen(2, False, (("all", (0, 16)),), (SIZE,), tuple(MECHANISMS), plan)
    return run(screen, crowd[1], tmp_path_factory.mktemp("screen"), SerialExecutor()).load()


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=[each.name for each in MECHANISMS])
def test_the_screen_finds_what_the_game_finds(crowd, screened, mechanism):
    """Over 8 users the mean AUC differs by no more than 4 standard errors: once in 16,000."""
    dense, cube = crowd
    traces, frame = cube.traces(), cube.frame()
    bound = mechanism.bind(measure_bounds(traces, frame.days, frame.until))
    rng, users, n_groups = np.random.default_rng(5), range(0, 80, 10), 1600
    played = np.array([play(dense, bound, user, n_groups, rng) for user in users])
    case = screened.isel(period=0, group_size=0, attack=0, user=list(users))
    case = case.sel(mechanism=mechanism.id)
    error = (case.auc_high - case.auc_low).values / 2 / Z95
    of_play = np.sqrt(played * (1 - played) / n_groups) + 1e-3  # a bound of its standard error
    gap = (case.auc.values - played) / np.hypot(error, of_play)
    assert abs(gap.mean()) * np.sqrt(len(gap)) < 4
    assert np.abs(gap).max() < 4.5
    assert played.min() < 0.9, "else everything is told, and nothing is compared"


@for_each("n", [20, 150])
@for_each("shared", [0.0, 0.9, 1.0])
@for_each("shift", [0.1, 0.7, 2.5])
def test_intervals_hold_the_true_auc(n, shared, shift):
    """In 2,000 draws of groups whose two worlds share some of their noise: 93 to 97 %, give or
    take 2.5 standard errors (.5 %), and for 20 groups or nearly equal worlds 91 to 98 %."""
    rng = np.random.default_rng(n)
    both = np.sqrt(shared) * rng.normal(size=(2000, n))
    own = np.sqrt(1 - shared) * rng.normal(size=(2, 2000, n))
    inside, outside = (both + own[0] + shift).astype("f4"), (both + own[1]).astype("f4")
    true, won, held = norm.cdf(shift / np.sqrt(2)), np.empty(n, np.float32), []
    for x, y in zip(inside, outside, strict=True):
        low, high = interval(*compare(x, y, won), n, Z95)
        held.append(low <= true <= high)
    least, most = (0.91, 0.985) if n == 20 or shared == 1.0 else (0.93 - 0.0125, 0.97 + 0.0125)
    assert least <= np.mean(held) <= most


def test_shared_noise_makes_an_auc_sharper():
    """What the two worlds of a group share cancels: that is why they share what they can."""
    rng, won = np.random.default_rng(0), np.empty(150, np.float32)
    both, alone = [], []
    for _ in range(50):
        x, y = rng.normal(size=(2, 150)).astype("f4")
        both.append(compare(x + np.float32(0.3), x, won)[1])
        alone.append(compare(x + np.float32(0.3), y, won)[1])
    assert np.mean(both) < np.mean(alone) / 4


def test_the_auc_leaves_out_pairs_of_one_group():
    rng, won = np.random.default_rng(1), np.empty(9, np.float32)
    for _ in range(20):
        inside, outside = rng.integers(0, 5, (2, 9)).astype("f4")
        sign = np.sign(inside[:, None] - outside[None, :]) / 2 + 0.5
        pairs = sign[~np.eye(9, dtype=bool)].mean()
        assert compare(inside, outside, won)[0] == pytest.approx(pairs)
        whole = roc_auc_score(np.repeat([True, False], 9), np.concatenate([inside, outside]))
        assert whole == pytest.approx((pairs * 72 + np.diag(sign).sum()) / 81)


def test_the_standard_error_is_the_jackknife_s():
    """Leaving one group out at a time: an independent estimate of the same variance."""
    rng, n = np.random.default_rng(2), 120
    both = rng.normal(size=n)
    inside, outside = (both + rng.normal(size=(2, n)) + [[0.8], [0]]).astype("f4")
    won = np.empty(n, np.float32)
    error = compare(inside, outside, won)[1]
    less = [
        compare(np.delete(inside, i), np.delete(outside, i), np.empty(n - 1, np.float32))[0]
        for i in range(n)
    ]
    assert error == pytest.approx(np.sqrt((n - 1) * np.var(less)), rel=0.02)


def judged(inside, outside, apart=None):
    sums = np.stack([inside, outside])[None, None].astype(np.float32)
    apart = np.ones((1, len(inside)), bool) if apart is None else apart
    found = np.empty((4, 1, 1), np.float32)
    rank_targets(sums, np.zeros((1, 2, len(inside))), apart, Z95, found)
    return found[:, 0, 0]


def test_a_clean_sweep_and_nothing_but_ties_have_honest_intervals():
    n = 100
    auc, low, high, d = judged(np.arange(n) + 1000.0, np.arange(n))
    assert (auc, high) == (1, 1)
    assert low == pytest.approx(0.025 ** (1 / 50), abs=1e-6)
    assert d > 10
    auc, low, high, _ = judged(np.arange(n) - 1000.0, np.arange(n))
    assert (auc, low) == (0, 0)
    assert high == pytest.approx(1 - 0.025 ** (1 / 50), abs=1e-6)
    auc, low, high, d = judged(np.ones(n), np.ones(n))
    assert (auc, d) == (0.5, 0)
    assert low < 0.5 < high
    assert high - low == pytest.approx(1 - 0.025 ** (1 / 50), abs=1e-6)
    assert gap(np.ones(5, "f4"), np.zeros(5, "f4")) == np.inf
    assert gap(np.zeros(5, "f4"), np.ones(5, "f4")) == -np.inf


def test_groups_with_the_user_are_left_out_and_one_pair_tells_nothing():
    rng = np.random.default_rng(4)
    inside, outside = rng.normal(size=(2, 30))
    apart = rng.random((1, 30)) < 0.5
    some = judged(inside, outside, apart)
    np.testing.assert_array_equal(some, judged(inside[apart[0]], outside[apart[0]]))
    assert np.isnan(judged(inside, outside, np.arange(30)[None] == 3)).all()
