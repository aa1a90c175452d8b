"""Publications from the cube to the release, as readers see it."""

import shutil
import threading

import numpy as np
import pandas as pd
import pytest
from oracles.publications import LAPLACE, plan, publish
from running import run

from clusterscale import storage
from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.publish import publication
from clusterscale.analyses.publish import release as releases
from clusterscale.analyses.publish.series import Series
from clusterscale.api import check
from clusterscale.errors import (
    ClusterscaleError,
    ConfigError,
    DamagedError,
    ExistsError,
    MissingError,
    RefusedError,
    StoreError,
)
from clusterscale.reauditing import Catalogue, ReleaseEntry
from clusterscale.reauditing.resolved_release import ResolvedRelease
from clusterscale.release import read_table
from clusterscale.runtime import SerialExecutor
from clusterscale.storage.lease import Lease

FORMATS = {"zarr": ".zarr", "netcdf": ".nc", "parquet": ".parquet", "csv": ".csv"}
HIDING = {"name": "threshold", "k": 5, "shown": "hidden"}


def uri_of(folder, form="zarr", number=1):
    return f"{folder}/releases/places/places-{number:04d}{FORMATS[form]}"


@pytest.mark.parametrize("form", FORMATS)
def test_check_and_reaudit_read_it_without_a_word_added(form, cube, dense, tmp_path):
    steps = [LAPLACE, HIDING]
    mechanism, people = {"name": "chain", "steps": steps}, {"group_size": 60, "among": 120}
    words = {"counted": "cards", "licence": "CC-BY-4.0", "contact_point": "data@example.org"}
    made = plan(tmp_path, mechanism=mechanism, format=form, **people, **words)
    publish(cube, made, tmp_path / "run")
    uri = uri_of(tmp_path, form)
    (found,) = check([uri])
    assert found.verdict == "pass"
    (listed,) = Catalogue(
        (ReleaseEntry(counts=uri),), cube.uri, str(tmp_path / "cache.json")
    ).scan()
    assert isinstance(listed, ResolvedRelease), listed.error
    assert (listed.group_size, listed.population) == (60, 120)
    assert (listed.span, listed.null_roi, listed.series) == ((0, 48), False, "places")
    assert listed.mechanism == made.mechanism
    entry = read_table(uri).metadata.ledger
    assert (entry.unit, entry.epsilon, entry.delta) == ("user", 1.0, 0.0)
    assert (entry.hidden_below, entry.hidden_as) == (5, "hidden")
    assert entry.stop - entry.start == 48 * 3600


def test_unchanged_counts_are_those_of_the_cube(cube, dense, tmp_path):
    made = plan(tmp_path, mechanism={"name": "exact"}, budget=None, null_roi=True)
    release = publish(cube, made, tmp_path / "run")
    expected = np.concatenate([dense.sum(axis=0), (~dense.any(axis=1)).sum(axis=0)[None]])
    assert (release.counts == expected).all()
    assert release.roi.values[-1] == "null"
    assert release.attrs["epsilon"] == -1.0


def test_hidden_values_are_absent_and_labels_too(cube, dense, tmp_path):
    counts = dense.sum(axis=0)
    for shown, hidden in (("hidden", counts < 5), ("label", (counts < 5) & (counts > 0))):
        made = plan(
            tmp_path,
            mechanism={"name": "threshold", "k": 5, "shown": shown},
            budget=None,
            series=shown,
        )
        release = publish(cube, made, tmp_path / shown)
        assert (np.isnan(release.counts) == hidden).all()
        assert (release.counts.values[~hidden] == counts[~hidden]).all()
        (found,) = check([release.attrs["release"]])
        assert found.verdict != "fail", found.results


def test_hidden_values_stay_hidden_after_later_steps(cube, dense, tmp_path):
    steps = [HIDING, {"name": "expand", "factor": 2.0}]
    made = plan(tmp_path, mechanism={"name": "chain", "steps": steps}, budget=None)
    release, counts = publish(cube, made, tmp_path / "run").counts.values, dense.sum(axis=0)
    assert (np.isnan(release) == (counts < 5)).all()
    assert (release[counts >= 5] == 2 * counts[counts >= 5]).all()


@pytest.mark.parametrize("form", ["zarr", "csv"])
def test_merged_places_and_epochs_are_read_back(form, cube, dense, tmp_path):
    steps = [
        {"name": "coarsen_space", "factor": 3},
        {"name": "coarsen_time", "factor": 6},
        {"name": "threshold", "k": 2},
    ]
    made = plan(tmp_path, mechanism={"name": "chain", "steps": steps}, budget=None, format=form)
    release = publish(cube, made, tmp_path / "run")
    assert release.counts.shape[1] == 8
    times = release.epoch.values.astype("datetime64[s]")
    assert (np.diff(times) == np.timedelta64(6 * 3600, "s")).all()
    catalogue = Catalogue(
        (ReleaseEntry(counts=uri_of(tmp_path, form)),), cube.uri, str(tmp_path / "cache.json")
    )
    (listed,) = catalogue.scan()
    assert isinstance(listed, ResolvedRelease), listed.error
    assert listed.epochs == 48
    assert (catalogue.read(listed).values == release.counts.values).all()


def test_a_list_of_users_is_published(cube, dense, tmp_path):
    panel = tmp_path / "panel.csv"
    pd.DataFrame({"user": [f"u{i:03d}" for i in range(0, 60, 2)]}).to_csv(panel, index=False)
    made = plan(tmp_path, mechanism={"name": "exact"}, budget=None, population=str(panel))
    release = publish(cube, made, tmp_path / "run")
    assert (release.counts == dense[::2].sum(axis=0)).all()
    metadata = read_table(uri_of(tmp_path)).metadata
    assert (metadata.group_size, metadata.population) == (30, 60)
    assert not [*(tmp_path / "run").rglob("members.zarr")]
    for file in (tmp_path / "run").rglob("*"):
        assert not file.is_file() or b"u002" not in file.read_bytes()
    pd.DataFrame({"user": ["u001", "u002", "u003"]}).to_csv(panel, index=False)
    with pytest.raises(ExistsError, match="another"):
        publish(cube, made, tmp_path / "run")


def test_data_that_exceed_the_stated_sensitivity_are_not_published(cube, tmp_path):
    small = LAPLACE | {"sensitivity": 2.0}
    with pytest.raises(ConfigError, match="its guarantee would be false") as raised:
        publish(cube, plan(tmp_path, mechanism=small), tmp_path / "run")
    assert not any(letter.isdigit() and letter not in "0124" for letter in str(raised.value))
    assert not [*(tmp_path / "releases/places").glob("places-*")]


def test_no_exact_count_stays_and_a_run_publishes_once(cube, tmp_path):
    made = plan(tmp_path)
    first = publish(cube, made, tmp_path / "run")
    names = {path.name for path in (tmp_path / "run/publication").iterdir()}
    assert names == {"lease", "publication.json", "receipt.json", "run.json"}
    again = publish(cube, made, tmp_path / "run")
    assert (first.counts.values == again.counts.values).all()
    assert len(Series(plan(tmp_path, week=2), "UTC").entries) == 1


class Failing(SerialExecutor):
    """An executor that fails when it is used."""

    def map_reductions(self, reductions):
        raise AssertionError("users were counted again")


def test_a_run_that_lost_its_receipt_finds_its_release(cube, tmp_path):
    made = plan(tmp_path)
    first = publish(cube, made, tmp_path / "run")
    (tmp_path / "run/publication/receipt.json").unlink()
    again = publish(cube, made, tmp_path / "run", executor=Failing())
    assert (first.counts.values == again.counts.values).all()
    assert len(Series(plan(tmp_path, week=2), "UTC").entries) == 1


def test_a_resumed_run_counts_nobody_again_and_draws_other_noise(cube, tmp_path, monkeypatch):
    made, drawn = plan(tmp_path), []
    original = releases.draw

    def spy(*given):
        drawn.append(original(*given))
        return drawn[-1]

    def fail(*given, **named):
        raise StoreError("the disk is gone")

    monkeypatch.setattr(releases, "draw", spy)
    with monkeypatch.context() as broken:
        broken.setattr(Series, "commit", fail)
        with pytest.raises(StoreError):
            publish(cube, made, tmp_path / "run")
    assert [*(tmp_path / "run/publication/counts").iterdir()]
    assert not [*(tmp_path / "releases/places").glob("places-*")]
    release = publish(cube, made, tmp_path / "run")
    assert len(drawn) == 2
    assert (drawn[0] != drawn[1]).any()
    assert (release.counts.values == drawn[1]).all()
    assert not (tmp_path / "run/publication/counts").exists()


def test_damaged_counts_are_not_published(cube, tmp_path, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(Series, "commit", lambda *given: (_ for _ in ()).throw(StoreError("gone")))
        with pytest.raises(StoreError):
            publish(cube, plan(tmp_path), tmp_path / "run")
    (path,) = (tmp_path / "run/publication/counts").iterdir()
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ClusterscaleError, match="journal"):
        publish(cube, plan(tmp_path), tmp_path / "run")
    assert not [*(tmp_path / "releases/places").glob("places-*")]


def test_another_publisher_at_work_is_waited_for_by_the_user(cube, tmp_path):
    with (
        Lease(f"{tmp_path}/releases/places/lease", beat=0.05),
        pytest.raises(StoreError, match="publishes in series places now"),
    ):
        publish(cube, plan(tmp_path), tmp_path / "run")
    publish(cube, plan(tmp_path), tmp_path / "run")


def test_two_publishers_who_do_not_see_each_other_publish_one_release(cube, tmp_path, monkeypatch):
    """Without the lease, as if a holder had slept: the number of the release decides."""

    class NoLease:
        def __init__(self, uri):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def check(self):
            barrier.wait(timeout=60)

    publish(cube, plan(tmp_path), tmp_path / "run-1")
    barrier, outcomes = threading.Barrier(2), []
    monkeypatch.setattr(publication, "Lease", NoLease)

    def run(week):
        try:
            publish(cube, plan(tmp_path, week=week), tmp_path / f"run-{week}")
            outcomes.append("published")
        except (ExistsError, DamagedError):  # it sees the other's release before or after it began
            outcomes.append("refused")

    threads = [threading.Thread(target=run, args=(week,)) for week in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["published", "refused"]
    series = Series(plan(tmp_path, week=4), "UTC")
    assert [entry.number for entry in series.entries] == [1, 2]
    assert series.spent() == 2.0


@pytest.mark.parametrize("form", ["zarr", "csv"])
def test_object_stores_get_the_release_too(form, cube, tmp_path):
    made = plan("memory://publications", format=form)
    try:
        release = publish(cube, made, tmp_path / "run")
        assert release.attrs["release"].startswith("memory://publications/")
        (found,) = check([release.attrs["release"]])
        assert found.verdict == "pass"
        (entry,) = Series(plan("memory://publications", format=form, week=2), "UTC").entries
        assert entry.number == 1
    finally:
        storage.remove("memory://publications")


def test_a_deleted_release_is_missed(cube, tmp_path):
    publish(cube, plan(tmp_path), tmp_path / "run")
    shutil.rmtree(uri_of(tmp_path))
    with pytest.raises(MissingError):
        publish(cube, plan(tmp_path), tmp_path / "run")


def test_budgets_of_events_are_spent_by_day(cube, tmp_path):
    event = {"name": "laplace", "epsilon": 1.0, "unit": "event", "discrete": True}
    budget = {"unit": "event", "epsilon": 1.0}
    for day in range(2):
        made = plan(
            tmp_path,
            mechanism=event,
            budget=budget,
            period={"name": f"day-{day}", "first": 24 * day, "epochs": 24},
        )
        release = publish(cube, made, tmp_path / f"run-{day}")
        assert release.attrs["spent"] == 1.0
        date = cube.calendar.describe_span((24 * day, 24 * day + 24))
        about = f"ε 1 of 1 is spent for each event on {date}; other days have their own budget"
        assert release.attrs["spent_on"] == about
    late = plan(
        tmp_path,
        mechanism=event,
        budget=budget,
        period={"name": "evening", "first": 20, "epochs": 2},
    )
    with pytest.raises(ClusterscaleError, match="would spend ε 2 of 1 per event"):
        publish(cube, late, tmp_path / "run-2")


def test_explain_runs_nothing(cube, tmp_path):
    from clusterscale.analyses.publish import PublishAnalysis

    rows = PublishAnalysis(plan(tmp_path)).explain(cube, 10**10, 2)
    assert rows["budget"] == "0 of ε 2 spent, then 1, for each user, by all releases of the series"
    assert rows["guarantee"] == "ε 1 per user"
    assert "gate" not in rows
    assert not (tmp_path / "releases").exists()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"period": {"name": "w", "first": 40, "epochs": 9}}, "publish.period: epochs 40 to 48"),
        ({"among": 59}, "publish.among: 59 people, but 60 users"),
        (
            {"mechanism": {"name": "threshold", "k": 61}, "budget": None},
            "publish.mechanism: threshold",
        ),
        (
            {"mechanism": {"name": "expand", "factor": "weights"}, "budget": None},
            "which the cube does not have",
        ),
    ],
)
def test_plans_that_do_not_fit_the_cube_are_refused(fields, words, cube, tmp_path):
    with pytest.raises(ConfigError, match=words):
        publish(cube, plan(tmp_path, **fields), tmp_path / "run")


def test_weights_are_published(dense, tmp_path):
    from conftest import write_cube

    weighed = write_cube(str(tmp_path / "cube.zarr"), dense, np.linspace(1, 3, len(dense)))
    made = plan(tmp_path, mechanism={"name": "expand", "factor": "weights"}, budget=None)
    release = publish(weighed, made, tmp_path / "run")
    expected = np.einsum("u,ure->re", weighed.weights, dense)
    np.testing.assert_array_equal(release.counts, expected)


def test_the_seal_covers_every_field(cube, tmp_path):
    publish(cube, plan(tmp_path), tmp_path / "run")
    entry = read_table(uri_of(tmp_path)).metadata.ledger
    for name in type(entry).model_fields:
        value = getattr(entry, name)
        other = "x" if isinstance(value, str) else ("x",)
        other = other if isinstance(value, str | tuple) else (value or 0) + 1
        assert not entry.model_copy(update={name: other}).is_sealed, name


def test_the_function_of_the_package(cube, tmp_path):
    import clusterscale as cs

    release = cs.publish(plan(tmp_path), cube, tmp_path / "run", progress=False)
    assert release.counts.shape == (8, 48)
    assert release.attrs["release"] == uri_of(tmp_path)


def test_a_release_without_one_person_is_refused_beside_that_of_everyone(cube, tmp_path):
    panel = tmp_path / "panel.csv"
    pd.DataFrame({"user": [f"u{i:03d}" for i in range(59)]}).to_csv(panel, index=False)
    publish(cube, plan(tmp_path, mechanism={"name": "exact"}, budget=None), tmp_path / "all")
    fewer = plan(tmp_path, week=2, mechanism={"name": "exact"}, budget=None, population=str(panel))
    for _ in range(2):  # a refusal is final
        with pytest.raises(RefusedError, match="subtracting shows where one person was"):
            publish(cube, fewer, tmp_path / "fewer")
        assert not storage.exists(uri_of(tmp_path, number=2))
    later = {"name": "week-3", "first": 0, "epochs": 48}
    same = plan(tmp_path, mechanism={"name": "exact"}, budget=None, period=later)
    assert publish(cube, same, tmp_path / "same").attrs["undecided"] == ""


def test_without_a_guarantee_a_gate_or_a_word_is_needed(cube, tmp_path):
    made = plan(tmp_path, mechanism={"name": "exact"}, budget=None, without_guarantee=False)
    with pytest.raises(ConfigError, match="exact has no guarantee: audit the release before"):
        publish(cube, made, tmp_path / "run")
    allowed = made.model_copy(update={"without_guarantee": True})
    assert made.digest == allowed.digest
    assert publish(cube, allowed, tmp_path / "run").attrs["number"] == 1


@pytest.mark.slow
def test_an_audit_shares_the_folder_of_a_publication(cube, tmp_path, plan_fields):
    publish(cube, plan(tmp_path), tmp_path / "run")
    tiny = {"targets": {"random": 1}, "group_sizes": [3], "mechanisms": [{"name": "exact"}]}
    audited = AuditPlan(**plan_fields | tiny | {"attacks": [{"name": "projection"}]})
    results = run(audited, cube, tmp_path / "run", SerialExecutor())
    assert (results.status == "done").all()
    assert publish(cube, plan(tmp_path), tmp_path / "run").attrs["number"] == 1
