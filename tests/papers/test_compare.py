"""Ours beside the paper's: when they agree, how often by chance they do not, and claims."""

import numpy as np
import pytest
from loops import for_each
from papers.made import EXACT, audited, published, study
from pydantic import ValidationError

from clusterscale.papers.compare import Results, check_claims, compare
from clusterscale.papers.study import Claim, ResultSelection
from clusterscale.reporting.papers import (
    AGREES,
    BREAKS,
    EXPLAINED,
    HOLDS,
    NOT_COMPARED,
    NOT_REPRODUCED,
    OPEN,
)


def compared(dataset=None, *, best=(), **fields):
    results = Results({"audit": audited() if dataset is None else dataset}, best)
    return list(compare(study(**fields), results))


def test_what_is_near_agrees_and_what_is_far_differs():
    near, far = compared(published=[published(values=[0.9, 0.7])])
    assert (near.verdict, far.verdict) == (AGREES, NOT_REPRODUCED)
    assert near.low < near.ours < near.high
    assert (near.item, near.source, near.paper, near.step) == ("Figure 4", "section VI", 0.9, 0.01)
    assert near.setting == "auc · exact · logistic · 10"


def test_the_reason_stands_with_what_differs_alone():
    near, far = compared(published=[published(values=[0.9, 0.7], differs="other cabs")])
    assert (near.why, far.why) == ("", "other cabs")


def test_half_a_digit_and_the_tolerance_are_room():
    (first, _) = compared(published=[published()])
    (rounded, _) = compared(published=[published(step=0.2)])
    (tolerant, _) = compared(published=[published(tolerance=0.1, because="of other data")])
    assert rounded.room == pytest.approx(first.room + 0.095)
    assert tolerant.room == pytest.approx(first.room + 0.09)
    (allowed, _) = compared(published=[published(allowance=0.1, because="of other data")])
    assert allowed.room == pytest.approx(first.room + 0.1)


def test_what_is_computed_as_the_papers_was_explains_a_difference():
    """The nearest has .1 less than the logistic one; and so have groups of 100 against 10."""
    fields = {
        "values": [0.8, 0.6],
        "differs": "by the nearest",
        "as_in_paper": {"attack": "nearest"},
    }
    proved, near = compared(published=[published(**fields)])
    assert (proved.verdict, proved.why) == (EXPLAINED, "by the nearest")
    assert proved.as_in_paper == pytest.approx(0.8, abs=0.02)
    assert proved.ours == pytest.approx(0.9, abs=0.02)
    assert (near.verdict, near.why) == (AGREES, "")
    fields = {"values": [0.6, 0.75], "differs": "by size", "as_in_paper": {"group_size": [100, 10]}}
    proved, not_so = compared(published=[published(**fields)])
    assert (proved.verdict, not_so.verdict) == (EXPLAINED, NOT_REPRODUCED)
    assert not_so.as_in_paper == pytest.approx(0.9, abs=0.02)


def test_presets_explain_nothing():
    fields = {
        "values": [0.8, 0.6],
        "differs": "by the nearest",
        "as_in_paper": {"attack": "nearest"},
    }
    (first, _) = compared(published=[published(**fields)], cube="tfl")
    assert first.verdict == NOT_COMPARED


@pytest.mark.slow
def test_agreement_by_chance():
    """Both means over people of one law: 95 % agree, here of 400; digits aside."""
    rng = np.random.default_rng(1)
    agree = []
    for seed in range(400):
        paper = 0.9 + rng.normal(0, 0.02, 150).mean()
        values = published(values=[paper, None], step=1e-9)
        (found,) = compared(audited(seed), published=[values])
        agree.append(found.verdict == AGREES)
    assert np.mean(agree) == pytest.approx(0.95, abs=0.033)  # three standard errors


def test_how_many_people_the_paper_has_counts():
    (many, _), (few, _) = (
        compared(published=[published(people=people)]) for people in (10_000, 10)
    )
    assert few.room > many.room
    (own, _) = compared(published=[published()], people=10)
    assert own.room == pytest.approx(few.room)


def test_presets_are_not_compared():
    (first, _) = compared(published=[published(values=[0.1, 0.1])], cube="tfl")
    assert first.verdict == NOT_COMPARED
    assert "preset" in first.why


def test_what_hangs_on_something_unstated_is_not_compared():
    found = compared(published=[published(values=[0.9, 0.1], unstated="how many trees")])
    assert {(each.verdict, each.why) for each in found} == {(NOT_COMPARED, "how many trees")}


def test_what_a_quick_run_leaves_out_is_passed_over():
    values = published(by={"group_size": [10, 50, 100]}, values=[0.9, 0.7, 0.6])
    found = compared(published=[values])
    assert [each.paper for each in found] == [0.9, 0.6]


def claim(**fields):
    given = {
        "text": "so it is",
        "source": "section VI",
        "at": {**EXACT, "attack": "logistic", "group_size": 10},
    }
    return {**given, **fields}


def held(**fields):
    (found,) = check_claims(study(claims=[claim(**fields)]), Results({"audit": audited()}))
    return found


SIDE = {**EXACT, "attack": "logistic"}


@for_each(
    ("fields", "margin"),
    [
        ({"relation": "above", "than": 0.8}, 0.1),
        ({"relation": "above", "than": 0.95}, -0.05),
        ({"relation": "above", "than": 0.95, "tolerance": 0.1}, 0.05),
        ({"relation": "below", "than": 0.95}, 0.05),
        ({"relation": "above", "than": 0.8, "tolerance": -0.05}, 0.05),
        ({"relation": "above", "than": 0.8, "tolerance": -0.2}, -0.1),
        ({"relation": "near", "than": 0.85, "tolerance": 0.02}, -0.03),
        ({"relation": "near", "than": 0.85, "tolerance": 0.1}, 0.05),
        ({"relation": "above", "than": {"group_size": 100}}, 0.3),
        ({"relation": "below", "than": {"attack": "nearest"}}, -0.1),
        ({"relation": "fall", "at": SIDE, "along": "group_size", "labels": [10, 100]}, 0.3),
        ({"relation": "rise", "at": SIDE, "along": "group_size", "labels": [10, 100]}, -0.3),
        ({"relation": "rise", "at": SIDE, "along": "group_size", "labels": [100, 10]}, 0.3),
        ({"relation": "above", "than": 0.5, "at": SIDE, "each": {"group_size": [10, 100]}}, 0.1),
    ],
)
def test_claims_have_margins(fields, margin):
    """Means over forty are known to some .003."""
    found = held(**fields)
    assert found.margin == pytest.approx(margin, abs=0.015)
    assert found.verdict == (HOLDS if margin > 0 else BREAKS)
    assert 0 < found.half < 0.02
    assert (found.text, found.source) == ("so it is", "section VI")


def test_few_people_have_students_interval():
    """Of three, t with two degrees of freedom: 4.303 standard errors."""
    few = audited(n_targets=3)
    number = Results({"audit": few}).find(ResultSelection(at={**SIDE, "group_size": 10}))
    (found, _) = compared(few, published=[published()])
    assert found.high - found.ours == pytest.approx(4.303 * number.error, rel=1e-3)
    (kept,) = check_claims(
        study(claims=[claim(relation="above", than=0.5)]), Results({"audit": few})
    )
    assert kept.half == pytest.approx(4.303 * number.error, rel=1e-3)


@pytest.mark.parametrize(("margin", "why"), [(-0.1, "by chance"), (0.1, "")])
def test_why_a_statement_does_not_hold_is_told(margin, why):
    assert held(relation="above", than=0.9 - margin, differs="by chance").why == why


def test_one_person_breaks_nothing():
    alone = Results({"audit": audited(n_targets=1)})
    (found,) = check_claims(study(claims=[claim(relation="above", than=0.99)]), alone)
    assert (found.verdict, found.half) == (OPEN, 0.0)
    assert found.margin < 0
    at, sides = {**SIDE, "group_size": 10}, {"mechanism": "laplace(epsilon=1.0)"}
    (found,) = check_claims(study(claims=[claim(relation="below", at=at, than=sides)]), alone)
    assert (found.verdict, found.half) == (OPEN, 0.0)


def test_what_may_be_chance_is_open():
    """Below by two thirds of a standard error of .02 / √40."""
    number = Results({"audit": audited()}).find(ResultSelection(at={**SIDE, "group_size": 10}))
    assert held(relation="above", than=number.value + number.error * 2 / 3).verdict == OPEN
    assert held(relation="above", than=number.value + number.error * 3).verdict == BREAKS
    assert held(relation="below", than=number.value - number.error * 2 / 3).verdict == OPEN


def test_what_should_differ_and_is_the_same_is_open():
    same = {"attack": "logistic", "group_size": 10}
    for relation in ("above", "below"):
        found = held(relation=relation, at={**EXACT, **same}, than=same)
        assert (found.verdict, found.margin) == (OPEN, 0.0)


def test_the_worst_place_counts_for_the_margin_any_for_the_verdict():
    each = {"group_size": [10, 100], "attack": ["logistic", "nearest"]}
    found = held(relation="above", than=0.55, at=EXACT, each=each)
    assert found.verdict == BREAKS
    assert found.margin == pytest.approx(0.5 - 0.55, abs=0.015)


def test_places_that_a_quick_run_leaves_out_are_passed_over():
    found = held(relation="above", than=0.5, at=SIDE, each={"group_size": [10, 50]})
    assert found.margin == pytest.approx(0.4, abs=0.015)
    steps = held(relation="fall", at=SIDE, along="group_size", labels=[10, 50, 100])
    assert steps.margin == pytest.approx(0.3, abs=0.015)


def test_a_claim_says_its_numbers():
    assert held(relation="above", than=0.8).numbers.endswith(", above 0.8")
    told = held(relation="fall", at=SIDE, along="group_size", labels=[10, 100]).numbers
    assert told.startswith("0.9")
    assert ", 0." in told


def test_a_claim_of_what_is_left_out_is_passed_over():
    said = claim(relation="above", than=0.8, at={**SIDE, "group_size": 50})
    assert list(check_claims(study(claims=[said]), Results({"audit": audited()}))) == []


@for_each(
    "fields",
    [
        {"relation": "above"},
        {"relation": "rise"},
        {"relation": "rise", "along": "group_size", "labels": [10]},
        {"relation": "rise", "along": "group_size", "labels": [10, 100], "than": 0.5},
        {"relation": "above", "than": 0.5, "along": "group_size", "labels": [10, 100]},
    ],
)
def test_half_a_claim_is_refused(fields):
    with pytest.raises(ValidationError, match=r"only these, need than|need along with two"):
        Claim.model_validate(claim(**fields))
