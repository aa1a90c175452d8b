"""An audit of a cube that is completed by simulated people is about the known ones, and says so."""

import numpy as np
import pytest

import clusterscale as cs
from clusterscale.analyses.publish import PublishAnalysis, PublishPlan
from clusterscale.config.run import CubeSource
from clusterscale.errors import ConfigError, ExistsError
from clusterscale.reauditing import Policy
from clusterscale.reporting.screening import read_cases


@pytest.fixture(scope="module")
def completed(cube, tmp_path_factory):
    """The 60 users of a cube, and 180 others."""
    path = str(tmp_path_factory.mktemp("people") / "people.zarr")
    return CubeSource(path=path, known=cube.uri, users=240).open()


def test_others_are_simulated_from_the_counts_of_known_people(cube, completed):
    assert (completed.n_users, completed.n_known) == (240, 60)
    known = completed.traces(np.arange(60))
    assert (known.cells == cube.traces(None).cells).all()
    others = completed.traces(np.arange(60, 240)).cells
    seen, counts = np.bincount(others // 48) / 3, np.bincount(known.cells // 48)  # by place
    assert seen == pytest.approx(counts, abs=4 * np.sqrt(counts.max()))


def test_what_is_there_is_reused_or_refused(cube, completed):
    again = CubeSource(path=completed.uri, known=cube.uri, users=240).open()
    assert again.fingerprint == completed.fingerprint
    with pytest.raises(ExistsError, match="contains another cube"):
        CubeSource(path=completed.uri, known=cube.uri, users=300).open()
    with pytest.raises(ConfigError, match="the known cube has 60"):
        CubeSource(path=f"{completed.uri}-2", known=cube.uri, users=60).open()
    for fields in ({"known": "a"}, {"known": "a", "users": 9, "preset": "tfl"}):
        with pytest.raises(ConfigError, match="known"):
            CubeSource(path="b", **fields)


def test_simulated_people_are_not_published(completed, tmp_path):
    plan = PublishPlan(
        mechanism={"name": "exact"}, period={"name": "day", "epochs": 24}, series="a",
        releases=str(tmp_path),
    )  # fmt: skip
    with pytest.raises(ConfigError, match="simulated people, who are not published"):
        PublishAnalysis(plan).check_cube(completed)


@pytest.mark.slow
def test_a_verdict_on_everyone_is_about_known_people(completed, plan_fields, tmp_path):
    fields = plan_fields | {"group_sizes": [60], "targets": {"random": 4}, "control": False}
    plan = cs.AuditPlan(**fields, screen={"groups": 40})
    results = cs.audit(plan, completed, tmp_path, cs.SerialExecutor(), progress=False)
    assert results["target"].values.max() < 60
    screened = cs.screen(plan, completed, tmp_path, cs.SerialExecutor(), progress=False)
    (case,) = read_cases(screened)
    assert case.n_users <= 60
    policy = {"worst_privacy_loss": 1.0, "share_exposed": 1.0, "float_noise": "pass"}
    verdict = cs.gate(tmp_path, Policy(**policy), group_size=60)
    found = {reason["check"]: reason for reason in verdict.reasons}
    assert found["group_size"]["level"] == "pass"
    assert found["people"]["text"] == (
        "traces of 60 of 240 people are known, 180 simulated from the counts of these"
    )
    assert found["worst_privacy_loss"]["level"] == "warn"
    assert f"of {case.n_users} users" in found["share_exposed"]["text"]
