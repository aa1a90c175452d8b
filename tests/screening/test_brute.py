"""Every number of a screen is that of releases formed and scored one by one."""

import numpy as np
import pytest
from conftest import draw_dense, write_cube
from loops import mostly_slow
from oracles.entries import NEEDED
from running import run_screen as run
from screening.brute import Brute, auc_of_pairs

from clusterscale.analyses.screening import Screen, ScreenPlan
from clusterscale.cube import measure_bounds, with_null_roi
from clusterscale.cube.blocks import Source
from clusterscale.mechanisms import MECHANISMS, create
from clusterscale.runtime import SerialExecutor

SIZE, PLAN = 9, ScreenPlan(groups=40, reference=12)
ATTACKS = [attack.name for attack in PLAN.attacks]
ON_COUNTS = [
    create(name, **NEEDED.get(name, {}))
    for name in MECHANISMS
    if create(name, **NEEDED.get(name, {})).noise_scope != "release"
    and not create(name, **NEEDED.get(name, {})).trace_steps
]
ON_COUNTS += [
    create("laplace", epsilon=1.0, unit="event", discrete=True),
    create("laplace", epsilon=1.0, unit="event", clip=True, integers="round"),
]
REFUSED = {"sample_events"}  # where there is a null ROI


def with_nowhere(dense):
    """Add the null ROI to dense traces."""
    return np.concatenate([dense, ~dense.any(axis=1, keepdims=True)], axis=1)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    dense = draw_dense(np.random.default_rng(3), 24, 5, 12)
    return dense, write_cube(str(tmp_path_factory.mktemp("small") / "cube.zarr"), dense)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(False, id="cube"),
        pytest.param(True, id="null ROI", marks=pytest.mark.slow),
    ],
)
def screened(small, tmp_path_factory, request):
    """A screen of all mechanisms, and the releases of its groups formed one by one."""
    dense, cube = small
    null_roi = request.param
    tried = [each for each in ON_COUNTS if not (null_roi and each.name in REFUSED)]
    screen = Screen(5, null_roi, (("all", (0, 12)),), (SIZE,), tuple(tried), PLAN)
    found = run(screen, cube, tmp_path_factory.mktemp("screen"), SerialExecutor()).load()
    traces, frame = cube.traces(), cube.frame()
    traces = with_null_roi(traces) if null_roi else traces
    bounds = measure_bounds(traces, frame.days, frame.until)
    source = Source(cube.uri, cube.fingerprint, null_roi, 5)
    ((setting, _),) = screen.settings()
    return found, Brute(with_nowhere(dense) if null_roi else dense, source, setting, PLAN, bounds)


@mostly_slow("mechanism", ON_COUNTS, ids=[each.label for each in ON_COUNTS])
def test_every_number_by_brute_force(screened, mechanism):
    found, brute = screened
    if mechanism.id not in found.mechanism.values:
        assert mechanism.name in REFUSED
        pytest.skip("refused where there is a null ROI")
    rows = found.isel(period=0, group_size=0).sel(mechanism=mechanism.id)
    for user in range(0, 24, 7):
        row = rows.isel(user=user)
        apart = sum(user not in brute.members[g] for g in range(PLAN.groups))
        assert int(row.n_groups) == apart
        for attack in ATTACKS:
            inside, outside = brute.scores(mechanism, attack, user)
            case = row.sel(attack=attack)
            # counts tie often, and sums in single precision may part a tie
            least, most = auc_of_pairs(inside, outside, near=1e-5 * (1 + np.ptp(inside)))
            assert least - 1e-6 <= float(case.auc) <= most + 1e-6, attack
            spread = np.sqrt((inside.var(ddof=1) + outside.var(ddof=1)) / 2)
            if min(inside.min(), outside.min()) > -1e3 and spread > 0:  # nobody is ruled out
                gap = (inside.mean() - outside.mean()) / spread
                assert float(case.score_gap) == pytest.approx(gap, rel=2e-3, abs=2e-3)
            assert 0 <= case.auc_low <= case.auc <= case.auc_high <= 1
            assert float(case.privacy_loss) == pytest.approx(
                max(0, 2 * float(case.auc) - 1), abs=1e-6
            )
