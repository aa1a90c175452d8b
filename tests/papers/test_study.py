"""A study as a whole: what it must have, and what is wrong with one before it runs."""

import pytest
from loops import for_each
from papers.made import EXACT, published, study
from papers.validation import find_faults
from pydantic import ValidationError

from clusterscale.papers import PaperStudy

MARGINALS = {"group_sizes": [10], "mechanisms": [{"name": "exact"}]}


@for_each(
    ("fields", "message"),
    [
        ({"cube": "taxis"}, "cube 'taxis' is not known: choose from cabs"),
        ({"paper": "NDSS19"}, "NDSS18"),
        ({"audit": None, "published": [published()]}, "needs an audit, a recovery or marg"),
        ({"audit": None, "marginals": MARGINALS, "traits": {}}, "traits need an audit"),
        ({"figure": "4"}, "Extra inputs"),
    ],
)
def test_what_is_no_study(fields, message):
    with pytest.raises(ValidationError, match=message):
        study(**fields)


def test_items_are_told_once_and_in_order():
    several = study(
        published=[published(), published(item="Figure 3b"), published(source="caption")],
        claims=[{**CLAIM, "at": AT}, {**CLAIM, "at": AT, "item": "Figure 5"}],
    )
    assert list(several.items()) == ["Figure 4", "Figure 3b", "Figure 5"]


def test_what_undoes_a_difference_must_be_there_too():
    fields = {"differs": "so", "as_in_paper": {"attack": "linear"}}
    faults = list(find_faults(study(published=[published(**fields)])))
    assert len(faults) == 2
    assert "attack 'linear'" in faults[0]


CLAIM = {"text": "so it is", "source": "text", "relation": "above", "than": 0.5}
AT = {**EXACT, "attack": "logistic", "group_size": 10}


def faults(**fields):
    return list(find_faults(study(**fields)))


def test_a_good_study_has_no_faults():
    claims = [
        {**CLAIM, "at": AT},
        {**CLAIM, "at": {**AT, "attack": "best"}, "than": {"mechanism": "laplace(epsilon=1.0)"}},
    ]
    assert faults(published=[published()], claims=claims, best=["logistic"]) == []


@for_each(
    ("fields", "message"),
    [
        ({"of": "aux"}, "Figure 4: of 'aux': .*did you mean 'auc'"),
        ({"at": {**EXACT, "attack": "forest"}}, "attack 'forest': choose from logistic, nearest"),
        ({"by": {"group_size": [10, 50]}}, "group_size 50: choose from 10, 100"),
        ({"at": {"attack": "logistic"}}, "auc needs a label for mechanism"),
        ({"at": {**EXACT, "attack": "logistic", "user": 1}}, "auc has no user"),
        ({"of": "profiling_error", "at": {}}, "of 'profiling_error'"),
    ],
)
def test_faults_of_numbers(fields, message):
    import re

    found = faults(published=[published(**fields)])
    assert any(re.search(message, each) for each in found), found


@pytest.mark.parametrize(
    "fields",
    [
        {"at": {**AT, "group_size": 50}},
        {"at": AT, "than": {"group_size": 50}},
        {"at": EXACT | {"attack": "best"}, "each": {"group_size": [10, 50]}},
        {
            "at": EXACT | {"attack": "best"},
            "relation": "fall",
            "than": None,
            "along": "group_size",
            "labels": [10, 50],
        },
    ],
)
def test_faults_of_claims(fields):
    (found,) = faults(claims=[{**CLAIM, **fields}])
    assert found == "so it is: group_size 50: choose from 10, 100"


def test_the_best_are_among_the_attacks():
    (found,) = faults(best=["forest"])
    assert found.startswith("best: choose from")


def test_recoveries_have_labels_too():
    recovery = {"observed": 336, "priors": [{"name": "freq_roi"}]}
    at = {"strategy": "bayes", "mechanism": "exact", "prior": "freq_roi"}
    good = published(of="profiling_error", at=at, by={}, values=0.6)
    assert faults(audit=None, recovery=recovery, published=[good]) == []
    wrong = {**good, "at": {**at, "strategy": "guess"}}
    (found,) = faults(audit=None, recovery=recovery, published=[wrong])
    assert "strategy 'guess'" in found


def test_marginals_have_labels_too():
    marginals = {"group_sizes": [5], "mechanisms": [{"name": "exact"}], "groups": 2}
    at = {"estimate": "corrected", "marginal": "time"}
    good = {**CLAIM, "of": "distance", "at": at, "than": {"estimate": "uncorrected"}}
    assert faults(audit=None, marginals=marginals, claims=[good]) == []
    (found,) = faults(
        audit=None, marginals=marginals, claims=[{**good, "than": {"estimate": "best"}}]
    )
    assert "estimate 'best': choose from true, uncorrected" in found


def test_a_study_is_known_by_what_it_says():
    assert study() == PaperStudy.model_validate(study().model_dump())
