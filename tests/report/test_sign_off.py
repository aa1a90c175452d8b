"""The page to sign, and the picture: numbers are the report's, and what is not known is said."""

from itertools import pairwise

import numpy as np
import pytest
from loops import for_each
from report.made import make_screen
from report.page import Page

from clusterscale.reauditing import json_safe
from clusterscale.reporting import Run, describe, render, render_sign_off
from clusterscale.reporting.audit.headline import _placed

LAPLACE, EXACT = "laplace(epsilon=0.1)", "exact"
OUTCOME = {
    "verdict": "warn",
    "policy": "none",
    "group_size": 50,
    "reasons": [{"check": "group_size", "level": "warn", "text": "exposure at one size"}],
}


def facts_of(results, *others, chosen=LAPLACE, **outcome):
    run = Run(audit=results, screen=others[0] if others else None, chosen=chosen)
    facts = json_safe(describe(run, OUTCOME | outcome)) | {"digest": "d1"}
    return facts, " ".join(Page(render_sign_off(run, facts)).text.split())


def test_numbers_are_those_of_the_attacks(make_results):
    results = make_results(mechanisms=(EXACT, LAPLACE))
    facts, text = facts_of(results, make_screen(sizes=(50,)))
    auc = results.auc.sel(mechanism=LAPLACE).squeeze()  # target, group size, attack
    worst = auc.max(["group_size", "attack"])
    order = np.argsort(-worst.values, kind="stable")
    people = facts["people"]
    assert [one["pseudonym"] for one in people] == [
        str(results.pseudonym.values[i]) for i in [*order[:5], order[5]]
    ], "twelve people, of whom the sixth is the more exposed of the two in the middle"
    assert [one["auc"] for one in people] == worst.values[order[:6]].tolist()
    assert [one["median"] for one in people] == [False] * 5 + [True]
    for i, one in zip(order, people, strict=False):
        at = {"target": i, "group_size": one["group_size"], "attack": one["attack"]}
        case = results.sel(mechanism=LAPLACE, **at).squeeze()
        assert (one["low"], one["high"]) == (case.auc_low.item(), case.auc_high.item())
    assert facts["release"]["mean"] == pytest.approx(auc.mean("target").max().item())
    raw = results.auc.sel(mechanism=EXACT).mean("target").max().item()
    assert facts["raw_counts"]["mean"] == pytest.approx(raw)
    for one, value in zip(
        facts["utility"], results.utility.sel(mechanism=LAPLACE).squeeze().values.T, strict=True
    ):
        assert one["value"] == value[np.argmax(np.abs(value - one["best"]))]
        assert one["measure"] in text
    assert facts["everybody"]["highest"] == pytest.approx(0.99)
    for words in ("0.500: the adversary can only guess", "Resultwarned", "blake2b:77ab01", "d1"):
        assert words in text


def test_raw_counts_are_attacked_through_every_mechanism(make_results):
    results = make_results(mechanisms=(EXACT, LAPLACE))
    results["auc"].loc[{"mechanism": LAPLACE, "target": 3}] = 1.0
    facts, _ = facts_of(results, chosen=EXACT)
    assert facts["people"][0]["pseudonym"] == str(results.pseudonym.values[3])


def test_what_is_not_known_is_said(make_results):
    results = make_results(mechanisms=("laplace(epsilon=1.0)", LAPLACE), cube="{}")
    for name in ("utility", "control_auc", "absent_auc"):
        results[name][:] = np.nan
    facts, text = facts_of(results, group_size=None, verdict="error")
    for words in (
        "not stated: so this page cannot pass",
        "not attacked: what the rule improves is not known",
        "not screened: only the people attacked are known about",
        "no limit is certified",
        "jensen shannonnot measured",
        "how many users were not attacked is not recorded",
        "whether the attacks are sound is not known",
        "the exposure of all users (screen); limits for any adversary (certify); where people were",
        "out of not recorded users of a source that is not recorded",
        "Resulterror",
        "There is no picture of privacy against utility",
        "last bits of floats",
    ):
        assert words in text
    assert not facts["ceilings"]


def test_a_guarantee_without_enough_noise_does_not_hold(make_results):
    names = (EXACT, "laplace(epsilon=1.0)", LAPLACE)  # the third needs more sensitivity
    facts, text = facts_of(make_results(mechanisms=names))
    assert [one["lacks_noise"] for one in facts["guarantees"]] == [True]
    assert "It does not hold here" in text


@pytest.mark.usefixtures("no_figures")
def test_the_picture_names_all_marks_the_chosen_and_has_the_limits(make_results):
    results = make_results(mechanisms=(EXACT, "laplace(epsilon=1.0)", LAPLACE))
    html = render(Run(audit=results, chosen=LAPLACE, limits={"policy: fail above": 0.7}))
    picture = html[html.index('<figure class="plot headline">') : html.index("</figure>")]
    for name in results.mechanism.values:
        assert picture.count(name) >= 3, "a name, in the legend, and for screen readers"
    assert picture.count('class="ring"') == 1
    assert f"Circled: <b>{LAPLACE}</b>, chosen" in picture
    assert picture.count('class="limit"') == 3
    assert "policy: fail above" in picture
    best = render(results)
    assert "highest mean privacy gain" in best[: best.index("</figure>")]


@pytest.mark.usefixtures("no_figures")
def test_without_a_defence_there_is_no_picture(make_results):
    assert "Privacy against utility" not in render(make_results())


@for_each("n", [0, 1, 2, 9, 40])
def test_names_in_the_picture_do_not_overlap(n):
    aucs = np.random.default_rng(n).choice([0.4, 0.5, 0.501, 0.52, 1.0], n).tolist()
    height = max(280, 16 * n)
    placed = _placed([{"name": str(i)} for i in range(n)], aucs, height)
    ordered = sorted(placed, key=lambda one: one["name_y"])
    assert all(b["name_y"] - a["name_y"] >= 15.9 for a, b in pairwise(ordered))
    assert all(-16 <= one["name_y"] <= height for one in placed)
    assert [one["y"] for one in ordered] == sorted(one["y"] for one in placed)
