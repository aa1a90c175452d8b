"""Studies of PETS17 have the numbers that its oracle has, which were read from the paper before."""

import pytest
from loops import for_each
from oracles import pets17
from oracles.recovered import LOSSES, PAPER

from clusterscale.config import find_studies, load_study

pytestmark = pytest.mark.slow  # reading the studies takes seconds

STUDIES = {name: load_study(path) for name, path in find_studies(["pets17"]).items()}
# The paper states the losses of these; the oracle's errors follow from them.
BY_LOSS = {("localization", "freq_roi", "max_roi"), ("localization", "freq_roi", "max_user")}


def figures(study, of):
    """Return the published means of one variable, by their labels."""
    return {
        tuple(sorted(figure.selection.at.items())): figure.value
        for published in STUDIES[study].published
        for figure in published.figures()
        if figure.selection.of == of and figure.selection.reduce == "mean"
    }


def place(goal, prior, strategy):
    """Return where a number of the oracle is found."""
    at = {"prior": prior, "strategy": strategy}
    if goal == "localization":
        reading = strategy if strategy in ("popular", "every") else "every"
        at["strategy"] = "prior" if strategy == reading else strategy
        at["reading"] = reading
    return tuple(sorted(at.items()))


@pytest.mark.parametrize("goal", ["profiling", "localization"])
@pytest.mark.parametrize(("of", "oracle"), [("error", PAPER), ("loss", LOSSES)])
def test_means_of_the_cabs_are_the_oracle_s(goal, of, oracle):
    known = {place(*key): value for key, value in oracle.items() if key[0] == goal}
    found = figures(f"pets17/{goal}-cabs", f"{goal}_{of}")
    for key in BY_LOSS if of == "error" else ():
        known.pop(place(*key), None)
    assert {key: found.get(key) for key in known} == known


def test_tables_4_and_5_are_the_oracle_s():
    found = [
        [figure.value for figure in published.figures()]
        for name in ("noise-cabs", "spotme-cabs")
        for published in STUDIES[f"pets17/{name}"].published
        if published.of == "relative_error"
    ]
    known = [*pets17.TABLE_4.values(), tuple(pets17.TABLE_5.values())]
    assert sorted(found) == sorted(map(list, known))


def test_every_figure_and_table_of_the_paper_is_told():
    told = {item.rstrip("ab") for study in STUDIES.values() for item in study.items()}
    # tables 1 and 2 list symbols and priors
    assert told >= {f"Figure {i}" for i in range(1, 17)} | {f"Table {i}" for i in range(3, 6)}


@for_each("name", STUDIES)
def test_inferred_is_the_last_week_of_the_data(name):
    study = STUDIES[name]
    assert study.recovery.base == "e"
    assert study.recovery.inferred == ((336, 504) if study.is_real else (504, 672))
