"""The page to sign, and the picture: numbers are the report's, and what is not known is said."""

from itertools import pairwise

import numpy as np
import pytest
import xarray as xr
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

NOT_EXAMINED = {"not_examined": "the release is not named"}


def facts_of(results, *others, chosen=LAPLACE, certify=None, series=NOT_EXAMINED, **outcome):
    screen = others[0] if others else None
    run = Run(audit=results, screen=screen, certify=certify, chosen=chosen)
    facts = json_safe(describe(run, OUTCOME | outcome, series)) | {"digest": "d1"}
    return facts, " ".join(Page(render_sign_off(run, facts)).text.split())


def make_certificates(results, added, replaced):
    """Certificates of three users under each mechanism, with these worst AUCs."""
    names = [str(name) for name in results.mechanism.values]
    coords = {"user": [0, 1, 2], "period": ["week"], "group_size": [50], "mechanism": names}
    case = [*coords, "neighbours"]
    worst = np.array([added, replaced]) - np.array([0.0, 0.1, 0.2])[:, None]  # user, neighbours
    auc = np.broadcast_to(worst[:, None, None, None], (3, 1, 1, len(names), 2))
    made = ["period", "group_size", "mechanism"]
    texts = np.full((1, 1, len(names)), "noise", object)
    changed = np.ones((3, 1, len(names)), int)
    return xr.Dataset(
        {
            "auc": (case, auc),
            "accuracy": (case, auc),
            "tpr": ([*case, "false_positive_rate"], 0.01 * auc[..., None]),
            "n_changed": (["user", "period", "mechanism"], changed),
            "tight": (made, texts),
            "reason": (made, texts),
        },
        {**coords, "neighbours": ["add_remove", "replace"], "false_positive_rate": [0.001]},
        {"prior": 0.01},
    )


def test_the_ceiling_that_the_policy_limits_is_first_and_says_so(make_results):
    results = make_results(mechanisms=(EXACT, LAPLACE))
    limit = {"check": "certified_auc", "level": "fail", "measured": 0.812, "limit": 0.8}
    certify = make_certificates(results, 0.812, 0.934)
    _, text = facts_of(results, certify=certify, reasons=[limit | {"text": "no adversary"}])
    added, replaced = (text.index(f"at most {auc}") for auc in ("0.812", "0.934"))
    assert added < text.index(
        "the policy’s limit, certified_auc 0.800, is compared with it alone: 0.812, fail"
    )
    assert text.index("This one counts") < replaced < text.index("they play this game")
    _, unlimited = facts_of(results, certify=certify)
    assert "This one counts, but the policy does not limit it (certified_auc)" in unlimited


def test_a_series_is_added_up_or_not_examined(make_results):
    results = make_results(mechanisms=(EXACT, LAPLACE))
    for_a_person = {"so far": (7.0, 0.0), "with this release": (14.0, 1e-6)}
    series = {
        "name": "counts",
        "folder": "runs/counts",
        "budget": {"unit": "user_day", "epsilon": 1.5, "delta": 0.0},
        "spent": (1.0, 2.0),
        "releases": {"so far": 1, "with this release": 2},
        "person": for_a_person,
        "refused": "it would spend ε 2 of 1.5",
    }
    facts, text = facts_of(results, series=series)
    for words in (
        "ε per user's day, of 1.5",
        "Series counts",
        "so far11ε 7",
        "with this release22ε 14, δ 1e-06",
        "A yearnot examined",
        "publish refuses itit would spend ε 2 of 1.5",
    ):
        assert words in text
    assert facts["series"]["person"]["so far"] == [7.0, 0.0]
    year = {"releases": {"a year": 52}, "person": {"a year": (np.inf, 1.0)}, "budget": None}
    text = facts_of(results, series=series | year)[1]
    assert "a year of such releases52not bounded" in text
    assert "A yearnot examined" not in text
    text = facts_of(results)[1]
    assert "Earlier releasesnot examined: the release is not named" in text
    assert "what a person who is in earlier and later releases, too, loses" in text


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
