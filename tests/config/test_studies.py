"""The studies that come with the package: each loads, says what it is for, and fits its plan."""

from pathlib import Path

import pytest
import yaml
from loops import for_each
from papers.validation import find_faults

from clusterscale.config import find_studies, load_study
from clusterscale.errors import MissingError

FOLDER = Path(__file__).parents[2] / "configs" / "papers"
STUDIES = find_studies(["all"])


@for_each("name", STUDIES)
def test_shipped_studies_load_and_say_what_they_are_for(name):
    study = load_study(STUDIES[name])
    assert study.paper.lower() == name.split("/")[0]
    assert study.cube == name.rsplit("-")[-1]
    head = STUDIES[name].read_text().split("\npaper:")[0]
    for word in ("Answers:", "Costs:", "Change:"):
        assert word in head, f"{name} must say what it answers, costs and where to change it"
    assert list(find_faults(study)) == []


@for_each("name", STUDIES)
def test_studies_say_whether_they_count_who_is_nowhere(name):
    """Two of the papers do (NDSS18 §V-A, POMACS20), except with sampling and in some tables."""
    audit = yaml.safe_load(STUDIES[name].read_text(encoding="utf-8")).get("audit")
    assert audit is None or "null_roi" in audit
    if name.startswith("ndss18/"):
        assert audit["null_roi"]


@for_each("name", STUDIES)
def test_quick_studies_load_too(name):
    load_study(STUDIES[name], quick=True)


def test_all_files_are_studies():
    files = {f"{path.parent.name}/{path.stem}": path for path in FOLDER.glob("*/*.yaml")}
    assert files.keys() == STUDIES.keys()
    assert all(path.read_bytes() == STUDIES[name].read_bytes() for name, path in files.items())


def test_studies_are_found_by_name_paper_and_data():
    assert list(find_studies(["ndss18/known-subset-cabs"])) == ["ndss18/known-subset-cabs"]
    papers = {name.split("/")[0] for name in find_studies(["ndss18", "pets17"])}
    assert papers == {"ndss18", "pets17"}
    assert {load_study(path).cube for path in find_studies(["cabs"]).values()} == {"cabs"}
    assert list(find_studies(["cabs", "all"])) == list(STUDIES)
    with pytest.raises(MissingError, match=r"no study 'ndss19': choose from all, ndss18.*did you"):
        find_studies(["ndss19"])
