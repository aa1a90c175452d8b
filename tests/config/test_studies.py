"""The studies that come with the package: each loads, says what it is for, and fits its plan."""

from pathlib import Path

import pytest

from clusterscale.config import find_studies, load_study
from clusterscale.papers import find_faults

FOLDER = Path(__file__).parents[2] / "configs" / "papers"
STUDIES = find_studies(["all"])


@pytest.mark.parametrize("name", STUDIES)
def test_shipped_studies_load_and_say_what_they_are_for(name):
    study = load_study(STUDIES[name])
    assert study.paper.lower() == name.split("/")[0]
    head = STUDIES[name].read_text().split("\npaper:")[0]
    for word in ("Answers:", "Costs:", "Change:"):
        assert word in head, f"{name} must say what it answers, costs and where to change it"
    assert list(find_faults(study)) == []


@pytest.mark.parametrize("name", STUDIES)
def test_quick_studies_load_too(name):
    load_study(STUDIES[name], quick=True)


def test_all_files_are_studies():
    assert sorted(STUDIES.values()) == sorted(FOLDER.glob("*/*.yaml"))
