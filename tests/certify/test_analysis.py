"""Certificates of all users: against the ceiling of each user's own visits, and the spine."""

import json
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
import xarray as xr
from loops import mostly_slow

import clusterscale as cs
from clusterscale import open_certificates, study
from clusterscale.analyses import certify
from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.audit.plan import certification_of
from clusterscale.analyses.certify import (
    CERTIFICATES,
    CertifyAnalysis,
    CertifyPlan,
    Visits,
)
from clusterscale.analyses.certify.basis import widest
from clusterscale.analyses.certify.ceilings import against
from clusterscale.analyses.certify.tasks import (
    pack,
    substitutes_of,
    unpack,
    visits_of,
    visits_of_any_draw,
)
from clusterscale.contracts import Traces
from clusterscale.cube import TraceCube, blocks
from clusterscale.cube.blocks import Source, read_block
from clusterscale.cube.transforms import with_null_roi
from clusterscale.errors import ConfigError, DamagedError, InputError
from clusterscale.mechanisms import create
from clusterscale.mechanisms.coarsening import CoarsenTime
from clusterscale.mechanisms.sampling import CapContributions, SampleTraces
from clusterscale.reporting.certificates import read_ceilings, state_posterior
from clusterscale.runtime import SerialExecutor

LAPLACE = {"name": "laplace", "epsilon": 0.3, "unit": "event"}
SCALED = {"name": "laplace", "epsilon": 2.0}
FOURIER = {"name": "fourier", "epsilon": 0.5, "coefficients": 4}
COARSE = {
    "name": "chain",
    "steps": [{"name": "coarsen_time", "factor": 6}, {**LAPLACE, "discrete": True}],
}
MECHANISMS = [{"name": "exact"}, LAPLACE, SCALED, FOURIER, COARSE]
TWO_DAYS = [{"name": "day one", "epochs": 24}, {"name": "day two", "first": 24, "epochs": 24}]


def made(plan_fields, **fields):
    plan = AuditPlan(**{**plan_fields, "mechanisms": MECHANISMS, **fields})
    return certification_of(plan, CertifyPlan(false_positive_rates=(0.01, 0.1)))


def run(certification, cube, folder, executor=None):
    return study.run(CertifyAnalysis(certification), cube, folder, executor or SerialExecutor())


@pytest.fixture
def small_blocks(monkeypatch):
    """Four blocks of 16 users, of which 60 fill not quite the last."""
    monkeypatch.setattr(blocks, "_MOST_USERS", 16)


class Backwards(SerialExecutor):
    """Takes the last task first, and three parts of what is to be added up."""

    n_workers = 3

    def map_batches(self, function, items, **options):
        return super().map_batches(function, reversed(list(items)), **options)


@pytest.mark.parametrize("null_roi", [pytest.param(False, marks=pytest.mark.slow), True])
def test_each_user_has_the_ceiling_of_the_own_visits(
    plan_fields, cube, dense, tmp_path, small_blocks, null_roi
):
    plan = made(plan_fields, null_roi=null_roi)
    found = run(plan, cube, tmp_path).load()
    xr.testing.assert_identical(found, open_certificates(tmp_path).load())
    assert set(CERTIFICATES) <= set(found.variables)
    assert all(found[name].notnull().all() for name in ("auc", "accuracy", "tpr"))
    source = Source.of(cube, null_roi=null_roi, seed=plan.seed)
    settings = {one.mechanisms[0].id: one for one in plan.settings()}
    for mechanism in plan.mechanisms:
        steps = next(one.steps for one in settings.values() if mechanism in one.mechanisms)
        windows = [((0, 48), steps)]
        each = [
            read_block(source, windows, start, min(start + 16, 60))[0] for start in range(0, 60, 16)
        ]
        bound = mechanism.bind(blocks.read_users(source, windows, (0, 60))[0].bounds)
        visits = np.concatenate([visits_of(block.traces)[0] for block in each])
        own = found.sel(mechanism=mechanism.id, period="all", group_size=6)
        assert own.n_changed.values.tolist() == visits[:, 0].tolist()
        for user in (0, 17, 59):
            best = certify.ceiling(bound, n_changed=Visits(*visits[user].tolist()), group_size=6)
            here = own.isel(user=user).sel(neighbours="add_remove")
            assert 0 <= here.auc.item() - best.auc <= 1e-6
            assert 0 <= here.accuracy.item() - best.accuracy <= 1e-6
            assert here.tpr.values == pytest.approx([best.tpr(0.01), best.tpr(0.1)], abs=1e-6)
    if not null_roi:
        raw = dense.sum(axis=(1, 2))
        assert (
            found.n_changed.sel(mechanism=plan.mechanisms[1].id).values[:, 0].tolist()
            == raw.tolist()
        )


def test_replacement_is_the_mean_over_everybody(plan_fields, cube, dense, tmp_path):
    """The substitute is drawn from all others; visits are rounded up to at most 32 numbers."""
    everyone = [{"name": "perfect", "groups": 8}]
    plan = made(plan_fields, null_roi=False, mechanisms=[LAPLACE], priors=everyone)
    found = run(plan, cube, tmp_path).load()
    n = dense.sum(axis=(1, 2))
    exactly = tuple((Visits(int(k)), 1 / 59) for k in np.delete(n, 3))
    best = against(plan.mechanisms[0], Visits(int(n[3])), exactly, group_size=6)
    here = found.auc.isel(user=3, period=0, mechanism=0).sel(group_size=6, neighbours="replace")
    assert best.auc - 1e-9 <= here.item() <= best.auc + 0.01
    assert not best.tight
    added = certify.ceiling(plan.mechanisms[0], n_changed=int(n[3]), group_size=6)
    assert best.auc > added.auc, "the visits of the other are seen, too"


@pytest.mark.slow
def test_periods_together_are_a_composition(plan_fields, cube, tmp_path):
    plan = made(plan_fields, null_roi=False, periods=TWO_DAYS, mechanisms=[LAPLACE, SCALED])
    found = run(plan, cube, tmp_path).load()
    assert found.period.values.tolist() == ["day one", "day two", "all periods"]
    n = found.n_changed.isel(user=5, mechanism=0).values.tolist()
    assert n[2] == n[0] + n[1]
    each = [certify.ceiling(plan.mechanisms[0], n_changed=k, group_size=6) for k in n[:2]]
    auc = found.auc.isel(user=5).sel(group_size=6, neighbours="add_remove")
    assert auc.values[2, 0] == pytest.approx(certify.compose(each).auc, abs=2e-6)
    assert (auc.values[2] >= auc.values[:2].max(axis=0) - 1e-6).all()


@pytest.mark.slow
def test_order_parts_and_workers_change_no_bit(plan_fields, cube, tmp_path, small_blocks):
    plan = made(plan_fields)
    once = run(plan, cube, tmp_path / "once").load()
    other = run(plan, cube, tmp_path / "backwards", Backwards()).load()
    xr.testing.assert_identical(once, other)


@pytest.mark.slow
@pytest.mark.dask
def test_a_cluster_changes_no_bit(plan_fields, cube, tmp_path, small_blocks, local_cluster):
    plan = made(plan_fields)
    once = run(plan, cube, tmp_path / "once").load()
    xr.testing.assert_identical(once, run(plan, cube, tmp_path / "dask", local_cluster).load())


class Dying(SerialExecutor):
    """Fails after some batches of all stages together."""

    def __init__(self, left):
        self.left = left

    def map_batches(self, function, items, **options):
        for batch in super().map_batches(function, items, **options):
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            yield batch


@pytest.mark.slow
@pytest.mark.parametrize("left", [0, 2, 5])
def test_an_interrupted_run_ends_with_the_same_bits(
    plan_fields, cube, tmp_path, small_blocks, left
):
    plan = made(plan_fields, mechanisms=[LAPLACE, COARSE])
    once = run(plan, cube, tmp_path / "once").load()
    with pytest.raises(KeyboardInterrupt):
        run(plan, cube, tmp_path / "again", Dying(left))
    again = run(plan, cube, tmp_path / "again").load()
    xr.testing.assert_identical(once, again)
    names = sorted(path.name for path in (tmp_path / "again" / "certify").iterdir())
    assert names == ["certify.json", "done", "lease", "results.zarr"], (
        "what only the run needs is gone"
    )


@pytest.mark.parametrize(("left", "folder"), [(2, "visits"), (5, "ceilings")])
def test_a_damaged_file_of_an_interrupted_run_is_named(
    plan_fields, cube, tmp_path, small_blocks, left, folder
):
    plan = made(plan_fields, mechanisms=[LAPLACE, SCALED])
    with pytest.raises(KeyboardInterrupt):
        run(plan, cube, tmp_path, Dying(left))
    file = next((tmp_path / "certify" / folder).iterdir())
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(DamagedError, match=f"{folder}/.*remove it, and its tasks will run again"):
        run(plan, cube, tmp_path)


def test_from_python_and_in_the_folder_of_an_audit(plan_fields, cube, tmp_path):
    plan = AuditPlan(**{**plan_fields, "mechanisms": [LAPLACE]})
    found = cs.certify(plan, cube, tmp_path, progress=False)
    assert json.loads(found.attrs["plan"])["prior"] == 0.01
    assert found.attrs["prior"] == 0.01
    cases = list(read_ceilings(found))
    assert [case.group_size for case in cases] == [3, 6]
    lines = cases[0].lines
    assert [line.neighbours for line in lines] == ["add_remove", "replace"]
    assert lines[0].median <= lines[0].high <= lines[0].worst
    assert (lines[0].tight, lines[1].tight) == (True, False)
    case, (added, _) = cases[0], cases[0].lines
    assert "one in 100 is inside" in state_posterior(added, case)
    assert added.posterior(0.01, 0.001) == pytest.approx(
        0.01 * added.tpr / (0.01 * added.tpr + 0.99e-3)
    )
    raw = replace(added, tpr=1.0)
    assert raw.posterior(0.01, 0.001) == 1
    assert "surely inside: nothing bounds it" in state_posterior(raw, case)


@mostly_slow("public", [[], ["calendar"], ["calendar", "places"]])
def test_certificates_state_whether_they_need_public_rows(public, plan_fields, cube, tmp_path):
    other = TraceCube(cube.uri)
    other.attributes["public"] = public
    plan = certification_of(AuditPlan(**plan_fields | {"mechanisms": [LAPLACE]}))
    found = run(plan, other, tmp_path)
    fixed = len(public) == 2
    assert found.attrs["rows"] == ("public" if fixed else "records")
    assert found.reason.item(0).endswith("not those of the records") != fixed


def test_too_little_memory_is_refused(plan_fields, cube):
    with pytest.raises(ConfigError, match="memory: 1,000 bytes per worker are too few"):
        CertifyAnalysis(made(plan_fields)).check(cube, 1000)
    rows = CertifyAnalysis(made(plan_fields)).explain(cube, 10**9, 2)
    assert rows["users"] == "60"
    assert rows["certificates"] == f"{60 * 2 * 5:,}"


def test_visits_count_idle_epochs():
    """User 0: cells 1 and 3 of ROI 0, 4 of ROI 1; user 1: nothing. Four epochs."""
    idle = np.array([[False, False, True, False], [True] * 4])
    traces = Traces(np.array([0, 3, 3]), np.array([1, 3, 4], np.int32), 3, 4, idle)
    added, replaced = visits_of(traces)
    assert added.tolist() == [[4, 3, 2], [4, 1, 4]]
    assert replaced.tolist() == [[6, 3, 3], [0, 0, 0]], "the other is idle too"
    plain = Traces(np.array([0, 3, 3]), np.array([1, 3, 4], np.int32), 2, 4)
    assert all(one.tolist() == [[3, 2, 2], [0, 0, 0]] for one in visits_of(plain))


def test_keys_of_visits():
    visits = np.array([[5, 2, 3], [0, 0, 0], [2_000_000, 1, 9]])
    assert [unpack(int(key)) for key in pack(visits, series=True)] == [
        Visits(5, 2, 3), Visits(0, 0, 0), Visits(2_000_000, 1, 9),
    ]  # fmt: skip
    assert unpack(int(pack(visits, series=False)[0])) == Visits(5)
    with pytest.raises(InputError, match="a user changes 3,000,000 counts"):
        pack(np.array([[3_000_000, 1, 1]]), series=False)
    assert widest([Visits(5, 2, 3), Visits(4, 3, 1)]) == Visits(5, 3, 3)
    assert widest([Visits(5), Visits(7, 3, 1)]) == Visits(7)


def test_substitutes_are_rounded_up_to_few_numbers():
    keys = pack(np.array([[n, 1, n] for n in range(200)]), series=False)
    histogram = dict.fromkeys(keys.tolist(), 3)
    by_key = substitutes_of(histogram, 599)
    found = by_key[int(keys[0])]
    assert all(one is found for one in by_key.values()), "of many, nobody is who has least"
    assert len(found) <= 32
    assert sum(share for _, share in found) == pytest.approx(1)
    assert found[-1][0] == Visits(199)
    mean = sum(one.cells * share for one, share in found)
    assert 99.5 <= mean <= 99.5 * 1.05
    half = substitutes_of(histogram, 300)[int(keys[0])]
    assert min(one.cells for one, _ in half) >= 100, "those with most visits"


def test_substitutes_of_few_users_are_all_others():
    visits = np.array([[3, 1, 3], [5, 4, 2], [5, 4, 2], [9, 2, 7], [0, 0, 0]])
    keys = pack(visits, series=True).tolist()
    found = substitutes_of(Counter(keys), 4, Visits(0, days=3, releases=2))
    assert [one.cells for one, _ in found[keys[3]]] == [0, 3, 5, 5]
    assert [one.cells for one, _ in found[keys[1]]] == [0, 3, 5, 9]
    assert [one.rois for one, _ in found[keys[1]]] == [0, 1, 2, 4], "each number is ranked alone"
    assert {(one.days, one.releases, share) for one, share in found[keys[0]]} == {(3, 2, 0.25)}
    assert [one.cells for one, _ in substitutes_of(Counter(keys), 2)[keys[3]]] == [5, 5]
    assert substitutes_of(Counter(keys), 0)[keys[3]] == ()


@pytest.mark.parametrize(
    ("fields", "stated"),
    [
        ({}, [59, 59]),
        ({"priors": [{"name": "known_subset", "alpha": 0.5, "training": 8, "challenges": 8}]},
         [30, 30]),
        ({"groups": [[f"u{i:02}" for i in range(k)] for k in (20, 30)]}, [19, 19]),
        ({"groups": [["u01", "u02", "u03", "u04"], [f"u{i:02}" for i in range(30)]]}, [0, 29]),
    ],
)  # fmt: skip
def test_substitutes_are_from_the_pool_of_the_audit(plan_fields, fields, stated):
    """Of a list of four, groups of three are soon used up: nothing is known."""
    plan = AuditPlan(**{**plan_fields, "priors": [{"name": "perfect", "groups": 8}], **fields})
    certification = certification_of(plan)
    assert certification.n_candidates(60) == stated
    other = certification_of(AuditPlan(**plan_fields))
    assert certification.digest != other.digest, "another pool is another certificate"


def test_nobody_known_to_be_drawn_bounds_nothing():
    laplace = create("laplace", epsilon=0.3, unit="event")
    assert against(laplace, Visits(3), (), group_size=6).auc == 1


@pytest.mark.slow
def test_sampled_traces_are_certified_as_a_law(plan_fields, cube, dense, tmp_path):
    """Each visit is kept with probability .4, whatever the seed; a replaced user loses none."""
    sample = {"name": "sample_traces", "remove": 0.6}
    chain = {"name": "chain", "steps": [sample, LAPLACE]}
    plan = made(plan_fields, null_roi=False, mechanisms=[sample, chain, LAPLACE])
    found = run(plan, cube, tmp_path).load()
    n = dense.sum(axis=(1, 2))
    added = found.accuracy.sel(neighbours="add_remove", group_size=6).isel(period=0)
    assert added.values[:, 0] == pytest.approx(1 - 0.6**n / 2, abs=1e-6)
    assert (found.n_changed.values[:, 0, 0] == n).all()
    event = {"name": "chain", "steps": [{"name": "sample_events", "remove": 0.6}, LAPLACE]}
    law = [certify.ceiling(create(**event), n_changed=int(k), group_size=6).accuracy for k in n]
    assert added.values[:, 1] == pytest.approx(law, abs=1e-6)
    replaced = found.auc.sel(neighbours="replace", group_size=6).isel(period=0)
    assert replaced.values[:, 1] == pytest.approx(replaced.values[:, 2]), "the draw is known"


@dataclass(frozen=True)
class Forgets:
    """A step of others: it keeps a random half of the cells."""

    name: str = "forgets"
    id: str = "forgets"

    def apply(self, traces, frame, *, rng):
        kept = rng.random(len(traces.cells)) < 0.5
        offsets = np.concatenate([[0], np.cumsum(kept)])[traces.offsets]
        return replace(traces, offsets=offsets, cells=traces.cells[kept]), frame


@pytest.mark.parametrize("null_roi", [False, True])
def test_visits_are_never_fewer_than_in_any_draw(cube, null_roi):
    """Thirty draws of each list of steps, of 60 users."""
    drop, cap = SampleTraces(remove=0.5), CapContributions(per_day=2)
    merge = CoarsenTime(factor=5)
    for steps in ((drop,), (cap,), (merge, cap), (cap, merge), (drop, cap), (cap, drop, merge),
                  (merge, drop), (Forgets(),)):  # fmt: skip
        traces, frame = cube.block(0, 60, (0, 48)), cube.frame((0, 48))
        bound = visits_of_any_draw(traces, frame, steps, null_roi=null_roi)
        most = np.zeros((2, 60, 3), np.int64)
        for seed in range(30):
            rng = np.random.default_rng(seed)
            drawn, where = traces, frame
            for step in steps:
                drawn, where = step.apply(drawn, where, rng=rng)
            found = visits_of(with_null_roi(drawn) if null_roi else drawn)
            most = np.maximum(most, found)
        assert (np.array(bound) >= most).all()
        if steps == (cap,) and not null_roi:
            assert (bound[0][:, 0] == most[0, :, 0]).all(), "a cap keeps the same number"
    assert (bound[0][:, 0] >= 48 * cube.n_rois).all(), "a step of others can leave anything"
