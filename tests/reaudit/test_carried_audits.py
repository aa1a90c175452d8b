"""An audit passes only for the data, days, people, sizes and mechanism that it is of.

Forty ways to carry one to another release, each at every door that takes a release or a run.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import yaml
from conftest import draw_dense
from loops import mostly_slow
from typer.testing import CliRunner

import clusterscale as cs
from clusterscale.analyses.publish import PublishPlan
from clusterscale.api.releases import scope_of
from clusterscale.cli import app
from clusterscale.config import load_either
from clusterscale.cube.calendar import Calendar
from clusterscale.cube.describe import describe_origin
from clusterscale.cube.regions import Regions
from clusterscale.cube.writer import new_cube
from clusterscale.errors import ClusterscaleError
from clusterscale.mechanisms import MECHANISMS
from clusterscale.reauditing import Policy
from clusterscale.reporting.coverage import ReleaseScope, state_coverage

LAPLACE = {
    "name": "laplace", "epsilon": 0.01, "unit": "user", "sensitivity": 24.0, "discrete": True,
}  # fmt: skip
NOISE, POLICY, SIZE, DAY = "noise a user", Policy(promise="pass"), 20, (24, 48)
AUDIT = {
    "seed": 1, "null_roi": False, "targets": {"random": 20}, "group_sizes": [SIZE],
    "periods": [{"name": "day", "first": 24, "epochs": 24}],
    "priors": [{"name": "known_subset", "alpha": 0.5, "training": 40, "challenges": 60}],
    "attacks": [{"name": "projection"}], "verdict": {"trials": 100}, "control": False,
    "mechanisms": [{"name": "exact"}, LAPLACE | {"title": NOISE}],
    "utility": {"groups": 2, "measures": [{"name": "pearson"}]},
}  # fmt: skip


def audit(cube, folder, **changed):
    plan = cs.AuditPlan.model_validate(AUDIT | changed, strict=False)
    cs.audit(plan, cube, str(folder), cs.SerialExecutor(), progress=False).close()
    return Path(folder)


@pytest.fixture(scope="module")
def audited(cube, tmp_path_factory):
    """The folder of an audit that passes."""
    return audit(cube, tmp_path_factory.mktemp("carried") / "run")


@pytest.fixture(scope="module")
def others(dense, cube, tmp_path_factory):
    """Writes a cube that differs from the audited one in one respect, once."""
    folder, made = tmp_path_factory.mktemp("others"), {"same": cube}

    def write(name, traces, ids=None, start="2024-01-01T00:00", zone="UTC", moved=0.0):
        n_users, _, n_epochs = traces.shape
        regions, flat = cube.regions, traces.reshape(n_users, -1)
        places = Regions(regions.names, regions.lat + moved, regions.lon)
        calendar = Calendar.parse(start, "1h", n_epochs, zone)
        stated = {"provenance": {"source": "test"}, "public": ("places", "calendar")}
        with new_cube(str(folder / name), places, calendar, **stated) as writer:
            ids = ids or [f"u{i:03d}" for i in range(n_users)]
            writer.append(ids, flat.sum(axis=1), np.nonzero(flat)[1])
        return cs.TraceCube(str(folder / name))

    def get(name):
        if name not in made:
            rng, one_more = np.random.default_rng(8), dense.copy()
            one_more[0, 0, np.flatnonzero(~dense[0, 0])[0]] = True
            longer = np.concatenate([dense, dense[:, :, :24]], axis=2)
            cubes = {
                "another draw": lambda: write(name, draw_dense(rng, 60, 8, 48)),
                "one event more": lambda: write(name, one_more),
                "other ids": lambda: write(name, dense, [f"v{i:03d}" for i in range(60)]),
                "other order": lambda: write(name, dense[::-1]),
                "fewer users": lambda: write(name, dense[:50]),
                "more users": lambda: write(name, np.concatenate([dense, dense[:10]])),
                "days exchanged": lambda: write(name, np.roll(dense, 24, axis=2)),
                "hours shifted": lambda: write(name, np.roll(dense, 1, axis=2)),
                "a day later": lambda: write(name, dense, start="2024-01-02T00:00"),
                "another zone": lambda: write(name, dense, zone="Europe/Paris"),
                "places exchanged": lambda: write(name, dense[:, ::-1]),
                "places moved": lambda: write(name, dense, moved=0.5),
                "a day more": lambda: write(name, longer),
            }  # fmt: skip
            made[name] = cubes[name]()
        return made[name]

    return get


@pytest.fixture
def release(others, cube, tmp_path):
    """Writes the config of a release without a mechanism, by default the audited one."""

    def write(of="same", n=SIZE, **fields):
        chosen, panel = others(of), tmp_path / "panel.csv"
        panel.write_text("\n".join(["user", *chosen.user_ids(0, n)]))
        section = {
            "period": {"name": "day", "first": 24, "epochs": 24}, "series": "places",
            "population": str(panel), "releases": str(tmp_path / "releases"),
            "budget": {"unit": "user", "epsilon": 2.0},
        } | fields  # fmt: skip
        if section.get("places") == "some":
            section["places"] = str(tmp_path / "places.csv")
            Path(section["places"]).write_text("\n".join(["name", *cube.regions.names[:-1]]))
        content = {"cube": chosen.uri, "output": str(tmp_path / "out"), "publish": section}
        (tmp_path / "release.yaml").write_text(
            yaml.safe_dump(content | {"cluster": {"name": "serial"}})
        )
        return str(tmp_path / "release.yaml")

    return write


def publish_from(run, config):
    """Return whether the release is published, and what is said."""
    words = ["publish", config, "--from", str(run), "--mechanism", NOISE]
    done = CliRunner().invoke(app, words, env={"COLUMNS": "80"})
    return done.exit_code == 0, f"{done.output} {done.exception}"


def pass_gate(run, config):
    try:
        found = cs.gate(str(run), POLICY, NOISE, SIZE, config)
    except ClusterscaleError as error:
        return False, str(error)
    return found.verdict == "pass", " ".join(str(one["text"]) for one in found.reasons)


def pass_page(run, config):
    """Return whether the page to sign says that the policy passed, and what it says of the days."""
    page = str(Path(config).with_name("page.html"))
    try:
        cs.sign_off(str(run), page, policy=POLICY, mechanism=NOISE, group_size=SIZE, release=config)
    except ClusterscaleError as error:
        return False, str(error)
    facts = json.loads(Path(page).with_suffix(".json").read_text())
    text = Path(page).read_text()
    all_said = ": all examined" in text
    return facts["policy"]["verdict"] == "pass" or all_said, text


DOORS = {"publish --from": publish_from, "gate": pass_gate, "page to sign": pass_page}


@pytest.mark.slow
def test_the_audited_release_passes_every_door(audited, release):
    config = release()
    for name, door in DOORS.items():
        passed, text = door(audited, config)
        assert passed, (name, text)


def period(first, epochs):
    return {"period": {"name": "other", "first": first, "epochs": epochs}}


RELEASES = [
    *((f"cube: {name}", {"of": name}) for name in (
        "another draw", "one event more", "other ids", "other order", "fewer users", "more users",
        "days exchanged", "hours shifted", "a day later", "another zone", "places exchanged",
        "places moved", "a day more",
    )),
    ("days: the one before", period(0, 24)),
    ("days: both", period(0, 48)),
    ("days: half of it", period(24, 12)),
    ("days: half of each", period(12, 24)),
    ("size: fewer", {"n": 10}),
    ("size: one less", {"n": 19}),
    ("size: one more", {"n": 21}),
    ("size: everybody", {"population": "everyone"}),
    ("size: three times", {"n": 60}),
    ("size: states another", {"n": 22, "group_size": 20}),
    ("cells: some places", {"places": "some"}),
    ("cells: the rest in one row", {"places": "some", "other_places": "one_row"}),
    ("cells: a null ROI", {"null_roi": True}),
]  # fmt: skip
"""Releases that the audit is not of, each different in one respect."""


@mostly_slow(("way", "fields"), RELEASES, n_quick=0)
def test_another_release_passes_no_door(way, fields, audited, release, tmp_path):
    config = release(**fields)
    for name, door in DOORS.items():
        passed, text = door(audited, config)
        assert not passed, (way, name, text)
    assert not (tmp_path / "releases").exists(), "nothing is published"


def test_what_an_audit_does_not_cover_of_another_release_is_named(cube, others, release):
    """By results that have what is stated of an audit, and no numbers."""
    about = {"plan": json.dumps(AUDIT), **describe_origin(cube, null_roi=False)}
    periods, of = {"period_id": ("period", ["24-48"])}, MECHANISMS.create(**LAPLACE).id
    stub = xr.Dataset(coords=periods | {"group_size": [SIZE], "mechanism": [of]}, attrs=about)

    def missing(**fields):
        config = load_either(release(**fields), mechanism=lambda _: LAPLACE)
        scope = scope_of(config.the_publication(), config.cube.open())
        return {one.name for one in state_coverage(stub, scope, {}) if one.level != "covered"}

    assert missing() == set()
    wrong = {"cube": {"data", "days", "people"}, "days": {"days"}, "size": {"group size"}}
    for way, fields in RELEASES[::5]:  # all of them at every door, in the slow tier
        assert missing(**fields) == wrong.get(way.partition(":")[0], {"data"}), way


def move(source, target, *names):
    for name in names:
        shutil.rmtree(target / name, ignore_errors=True)
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name)
        else:
            shutil.copy(source / name, target / name)


OTHER_RUNS = {
    "another cube": ("another draw", {}),
    "fewer targets": ("same", {"targets": {"random": 4}}),
    "another day": ("same", {"periods": [{"name": "day", "first": 0, "epochs": 24}]}),
    "another size": ("same", {"group_sizes": [10]}),
    "more noise": (
        "same",
        {"mechanisms": [{"name": "exact"}, LAPLACE | {"epsilon": 0.001, "title": NOISE}]},
    ),
    "another seed": ("same", {"seed": 2}),
}


@mostly_slow("way", OTHER_RUNS, n_quick=0)
def test_results_of_another_run_pass_no_door(way, audited, others, release, tmp_path):
    """Copied over those of a run, or with what says whose they are, but not with both."""
    cube, fields = OTHER_RUNS[way]
    other, config = audit(others(cube), tmp_path / "other", **fields), release()
    for names in (("results.zarr",), ("audit.json",)):
        run = tmp_path / names[0].partition(".")[0]
        shutil.copytree(audited, run)
        move(other, run, *names)
        for name, door in DOORS.items():
            passed, text = door(run, config)
            assert not passed, (way, names, name)
            assert "another study" in text, (way, names, name, text)
    if way in ("another cube", "another day", "another size"):
        for name, door in DOORS.items():
            passed, text = door(other, config)
            assert not passed, (way, "the whole run", name, text)


@pytest.mark.slow
def test_certificates_and_a_screen_of_other_releases_are_left_out(audited, cube, tmp_path):
    """Also with their own statement of whose they are."""
    limits = Policy(promise="pass", certified_auc=0.9)
    verdict = cs.gate(str(audited), limits, NOISE, SIZE).verdict
    assert verdict == "pass"
    for name in ("another day", "another size"):
        other = audit(cube, tmp_path / name, **OTHER_RUNS[name][1])
        plan = cs.AuditPlan.model_validate(AUDIT | OTHER_RUNS[name][1], strict=False)
        cs.screen(plan, cube, str(other), cs.SerialExecutor(), progress=False).close()
        run = tmp_path / f"{name} copied"
        shutil.copytree(audited, run)
        move(other, run, "certify", "screen")
        found = cs.gate(str(run), limits, NOISE, SIZE)
        assert found.verdict == "error", (name, found)
        texts = [one["text"] for one in found.reasons if one["check"] == "reading"]
        assert len(texts) == 2, (name, texts)


def test_a_cap_that_is_chosen_later_is_not_the_audited_mechanism(cube, tmp_path):
    capped = [{"name": "cap_contributions", "per_day": 5}, LAPLACE | {"sensitivity": 10.0}]
    capped[1] |= {"unit": "user_day"}
    del capped[1]["sensitivity"]
    fields = {
        "mechanism": {"name": "chain", "steps": capped}, "series": "a", "releases": str(tmp_path),
        "period": {"name": "day", "first": 24, "epochs": 24},
        "budget": {"unit": "user_day", "epsilon": 2.0},
    }  # fmt: skip
    fixed = scope_of(PublishPlan.model_validate(fields), cube)
    chosen = scope_of(PublishPlan.model_validate(fields | {"choose_cap": {"epsilon": 0.1}}), cube)
    assert (dict(fixed.changes), [*chosen.changes]) == ({}, ["mechanism"])


@pytest.mark.parametrize("confirmed", ["a", "b"])
def test_advice_is_about_the_cube_that_it_was_confirmed_on(confirmed):
    plan = {"audit": {"periods": [{"name": "day", "first": 24, "epochs": 24}]}}
    about = {"cube_fingerprint": "a", "confirmed_on": confirmed, "group_size": 20}
    about |= {"yaml": "- {name: exact}", "plan": json.dumps(plan)}
    advice = xr.Dataset(attrs=about | {"cube": json.dumps({"null_roi": False, "n_epochs": 48})})
    release = ReleaseScope("a", DAY, MECHANISMS.create("exact").id, False, n_people=20)
    missing = [one.name for one in state_coverage(advice, release, {}) if one.level != "covered"]
    assert missing == ([] if confirmed == "a" else ["data", "days", "people"])
