"""Studies of POPETS24: nothing is left out, and targets are those that the paper would take."""

import numpy as np
import pytest
from loops import for_each

from clusterscale.analyses.marginals import MarginalsAnalysis
from clusterscale.config import find_studies, load_study
from clusterscale.papers import Cubes

pytestmark = pytest.mark.slow  # reading the studies takes seconds

STUDIES = {name: load_study(path) for name, path in find_studies(["popets24"]).items()}
RUN = {name: study for name, study in STUDIES.items() if study.audit is not None}
OF_MILAN = {name: study for name, study in RUN.items() if study.cube == "milan"}

# Figures 1 to 3 are diagrams and an example, tables 1 and 2 list symbols and settings.
ITEMS = {*(f"Figure {i}" for i in range(4, 18)), *(f"Table {i}" for i in range(3, 12))}
LEAST_EVENTS = 10  # of a target in Milan (POPETS24 §5.1)


def figures(name):
    """Published numbers of a study."""
    return [figure for published in STUDIES[name].published for figure in published.figures()]


@pytest.fixture(scope="module")
def milan(tmp_path_factory):
    """The users whom studies of Milan are of."""
    study = next(iter(OF_MILAN.values()))
    return Cubes(str(tmp_path_factory.mktemp("cubes")), {}).open(study)


def test_every_figure_and_table_is_told_of():
    assert {item for study in STUDIES.values() for item in study.items()} == ITEMS


@for_each("name", RUN)
def test_each_study_has_statements_that_can_be_checked(name):
    study = STUDIES[name]
    assert study.claims
    assert not study.is_real
    assert study.people == 50
    assert not study.audit.control  # the paper has none, and they take half of the time
    assert not study.audit.null_roi


@for_each("name", RUN)
def test_numbers_are_no_further_than_they_are_printed(name):
    for published in STUDIES[name].published:
        steps = np.array([figure.value for figure in published.figures()]) / published.step
        np.testing.assert_allclose(steps, np.round(steps), atol=1e-9)


@for_each(
    ("item", "name", "n_numbers"),
    [
        ("Table 3", "defences-milan", 12),
        ("Table 4", "defences-milan", 10),
        ("Table 5", "defences-milan", 10),
        ("Table 3", "defences-cdr", 12),
        ("Table 6", "members-cdr", 10),
        ("Table 7", "members-milan", 8),
        ("Table 8", "members-cdr", 10),
        ("Table 9", "members-milan", 8),
        ("Table 10", "places-milan", 8),
        ("Table 10", "places-cdr", 8),
        ("Table 11", "places-milan", 8),
        ("Table 11", "places-cdr", 8),
    ],
)
def test_tables_are_whole(item, name, n_numbers):
    published = [each for each in STUDIES[f"popets24/{name}"].published if each.item == item]
    places = [figure.selection.model_dump_json() for each in published for figure in each.figures()]
    assert len(places) == len(set(places)) == n_numbers


def test_one_number_stands_alike_in_several_studies():
    found = {}
    for name in OF_MILAN:
        for published in STUDIES[name].published:
            for figure in published.figures():
                at = {key: str(value) for key, value in figure.selection.at.items()}
                at["prior"] = at.get("prior", "").replace(", refit='shared'", "")
                where = published.item, figure.selection.of, *sorted(at.items())
                assert found.setdefault(where, figure.value) == figure.value
    assert len(found) < sum(len(figures(name)) for name in OF_MILAN)


def test_targets_of_milan_are_active_and_the_same_everywhere(milan):
    events = dict(zip(milan.user_ids(), np.diff(milan.offsets), strict=True))
    everyone = set(STUDIES["popets24/defences-milan"].audit.targets.listed)
    for name in OF_MILAN:
        quick = load_study(find_studies([name])[name], quick=True)
        for study in (STUDIES[name], quick):
            listed = study.audit.targets.listed
            assert set(listed) <= everyone
            assert min(events[each] for each in listed) >= LEAST_EVENTS


@for_each("name", OF_MILAN)
def test_studies_of_milan_can_be_answered(name, milan):
    STUDIES[name].audit.check(milan)
    load_study(find_studies([name])[name], quick=True).audit.check(milan)


@for_each("quick", [False, True])
def test_marginals_of_milan_can_be_answered(quick, milan):
    study = load_study(
        find_studies(["popets24/marginals-milan"])["popets24/marginals-milan"], quick=quick
    )
    MarginalsAnalysis(study.marginals).check(milan, 0)
