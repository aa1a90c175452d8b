"""What notebooks show of cubes, plans and results: short, whole, and nobody in it."""

import numpy as np
import pytest
import xarray as xr
from report.made import make_traits
from running import recover
from tables import TAGS, Reader

from clusterscale import open_screen, screen
from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.recovery import RecoveryPlan
from clusterscale.config import Config
from clusterscale.cube import TraceCube, arrays
from clusterscale.errors import FormatError
from clusterscale.reporting import write_report
from clusterscale.reporting.notebook import shorten
from clusterscale.runtime import SerialExecutor
from clusterscale.validation_messages import name_best

HOSTILE = "<script>alert('x')</script>&amp;"


def texts(shown):
    """Return the texts of what a notebook would show, which must be whole."""
    found = Reader(shown._repr_html_())
    assert set(found.tags) <= TAGS
    return found.texts


def test_a_cube_is_told_without_its_events(cube, monkeypatch):
    def refuse(*args, **options):
        raise AssertionError("something was read")

    fresh = TraceCube(cube.uri)
    monkeypatch.setattr(arrays, "read", refuse)
    monkeypatch.setattr("clusterscale.storage.open_store", refuse)
    shown = texts(fresh)
    for text in (cube.uri, "60", "8", f"{cube.n_events:,}", cube.fingerprint, "test"):
        assert text in shown
    assert "u0" not in " ".join(shown).replace(cube.uri, "")
    assert repr(fresh).startswith(f"TraceCube({cube.uri!r}: 60 users, 8 ROIs")


def test_names_in_a_cube_are_text(cube):
    fresh = TraceCube(cube.uri)
    fresh.attributes = fresh.attributes | {"provenance": {HOSTILE: HOSTILE, "n": {"k": [1, True]}}}
    assert texts(fresh).count(HOSTILE) == 2
    assert "k 1 yes" in texts(fresh)


@pytest.fixture
def plan(plan_fields):
    return AuditPlan(**(plan_fields | {"screen": {"groups": 60}}))


def test_a_plan_is_told_and_listed_users_counted(plan, plan_fields):
    shown = texts(plan)
    for text in ("random: 4", "3, 6", "logistic", "exact", plan.digest):
        assert text in shown
    size = "1 period × 1 prior × 2 group sizes × 2 mechanisms × 2 attacks"
    assert size in shown
    assert repr(plan) == str(plan) == f"AuditPlan(targets {{'random': 4}}: {size}; {plan.digest})"
    listed = AuditPlan(**(plan_fields | {"targets": {"listed": ["u041", "u003"]}}))
    assert "listed: 2 users" in texts(listed)
    for text in (*texts(listed), repr(listed), str(listed), f"{listed}"):
        assert "u041" not in text


def test_periods_are_named_by_anyone(plan_fields):
    period = {"name": HOSTILE, "first": 0, "epochs": 48}
    shown = texts(AuditPlan(**(plan_fields | {"periods": [period]})))
    assert any(HOSTILE in text for text in shown)


def test_a_recovery_is_told():
    plan = RecoveryPlan(observed=336, first=24)
    shown = texts(plan)
    for text in ("336, from epoch 24 on", "168, up to epoch 527", "bayes", "exact"):
        assert text in shown
    assert repr(plan) == str(plan)
    assert repr(plan).startswith("RecoveryPlan(168 epochs after 336 observed: ")


def test_a_config_is_told(plan):
    config = Config(cube=HOSTILE, output=HOSTILE, audit=plan, recovery=RecoveryPlan(observed=1))
    shown = texts(config)
    assert shown.count(HOSTILE) == 2
    for text in ("Run", "Audit", "Recovery", "local"):
        assert text in shown
    assert repr(config) == str(config)
    assert "4" in repr(config)


def test_an_audit_is_told_by_its_strongest_attacks(make_results):
    results = make_results(mechanisms=("exact", "laplace(epsilon=1.0)"), pseudonyms=["u"] * 12)
    shown = texts(results.clusterscale)
    assert "12 targets of 534 users, sfc cabs" in shown
    assert "216 done, none failed" in shown
    assert "1 tested, none broken" in shown
    auc = results.auc.isel(period=0, prior=0).mean("target")
    for mechanism in results.mechanism.values:
        for size in results.group_size.values:
            case = auc.sel(mechanism=mechanism, group_size=size)
            line = shown.index(mechanism, shown.index("Setting"))
            row = [i for i in range(line, len(shown)) if shown[i : i + 2] == [mechanism, str(size)]]
            best = str(case.attack.values[case.values.argmax()])
            assert shown[row[0] + 2 : row[0] + 4] == [best, f"{case.max():.3f}"]
    assert "Membership audit" in repr(results.clusterscale)
    assert "<" not in repr(results.clusterscale)


def test_what_failed_and_what_is_broken_is_told(make_results):
    results = make_results(mechanisms=("exact", "laplace(epsilon=1.0)"), failed=np.s_[0, 0, 0, 0])
    results["verdict"] = results.verdict.where(results.verdict != "consistent", "broken")
    shown = texts(results.clusterscale)
    assert "210 done, 6 failed" in shown
    assert "broken: laplace(epsilon=1.0)" in shown


def test_an_audit_of_which_nothing_finished(make_results):
    results = make_results(failed=np.s_[:])
    assert "0 done, 108 failed" in texts(results.clusterscale)
    assert shorten(results).rows == []


def test_names_in_results_are_text(make_results):
    results = make_results(attacks=(HOSTILE,), priors=(HOSTILE,), cube=f'{{"source": "{HOSTILE}"}}')
    shown = texts(results.clusterscale)
    assert sum(HOSTILE in text for text in shown) >= 4


def test_no_target_is_told(make_results):
    names = [f"person-{i}" for i in range(12)]
    results = make_results(pseudonyms=names)
    said = results.clusterscale._repr_html_() + repr(results.clusterscale)
    assert "person" not in said


def test_a_large_audit_is_cut_short(make_results):
    results = make_results(mechanisms=tuple(f"laplace(epsilon={i}.0)" for i in range(1, 11)))
    assert "and 10 more lines" in texts(results.clusterscale)
    assert repr(results.clusterscale).endswith("and 10 more lines")


def test_a_part_of_results_is_shown_as_one(make_results):
    results = make_results()
    for part in (results.isel(mechanism=0), results[["auc"]]):
        assert any(text.startswith("a part of results") for text in texts(part.clusterscale))
    assert "12 targets of 534 users, sfc cabs" in texts(results.isel(attack=[0]).clusterscale)


def test_any_other_dataset_is_shown_by_its_sizes():
    other = xr.Dataset({HOSTILE: (HOSTILE, np.arange(1234))})
    assert texts(other.clusterscale)[-2:] == [HOSTILE, "1,234"]
    with pytest.raises(FormatError):
        other.clusterscale.report("nowhere.html")


def test_the_report_is_written(make_results, tmp_path):
    results = make_results()
    path = results.clusterscale.report(tmp_path / "a.html", title="Ours")
    assert path == str(tmp_path / "a.html")
    write_report(results, tmp_path / "b.html", title="Ours")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


@pytest.mark.slow
def test_a_screen_is_told_as_a_distribution(plan, cube, tmp_path):
    screen(plan, cube, tmp_path, SerialExecutor())
    found = open_screen(tmp_path)
    shown = texts(found.clusterscale)
    assert "Screen of all users" in shown
    assert "60" in shown
    case = found.isel(period=0).sel(group_size=6, mechanism="exact").auc
    means = case.mean("user").values
    auc = case.isel(attack=means.argmax()).values
    at = next(i for i in range(len(shown)) if shown[i : i + 2] == ["6", "exact"])
    assert shown[at + 2] == name_best(case.attack.values, means)
    assert shown[at + 3 : at + 5] == [f"{auc.mean():.3f}", f"{np.quantile(auc, 0.95):.3f}"]
    found.clusterscale.report(tmp_path / "report.html")
    assert "Exposure of all users" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_a_screen_without_a_number_is_shown(plan, cube, tmp_path):
    found = screen(plan, cube, tmp_path, SerialExecutor()).compute()
    nothing = found.assign(auc=found.auc * np.float32(np.nan))
    shown = texts(nothing.clusterscale)
    assert shown[shown.index("groups compared") + 1] == "none"


def test_traits_are_told_by_what_differs_most():
    shown = texts(make_traits(comparisons=2).clusterscale)
    assert "Traits of exposed users" in shown
    at = shown.index("all users of the screen")
    assert shown[at + 1 : at + 6] == ["likelihood", "6", "0.980", "0.600", "unicity"]


def test_a_recovery_is_told_by_its_best_guess(cube, tmp_path):
    plan = RecoveryPlan(observed=24, epochs=12, priors=[{"name": "roi_day"}])
    found = recover(plan, cube, tmp_path, SerialExecutor())
    shown = texts(found.clusterscale)
    error = found.profiling_error.sel(mechanism="exact").isel(prior=0).mean("user")
    prior = str(found.prior.values[0])
    best = [f"{name} with {prior}" for name in error.strategy.values[1:]]
    with_release = [name_best(best, error.values[1:], lowest=True), f"{error.values[1:].min():.3f}"]
    at = shown.index("profiling")
    assert shown[at + 1 : at + 5] == [prior, f"{error.values[0]:.3f}", *with_release]
