"""The page to sign, and the picture: numbers are the report's, and what is not known is said."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import xarray as xr
from loops import for_each
from report.made import SERIES, make_screen
from report.page import Page

from clusterscale.cube.calendar import Calendar
from clusterscale.errors import FormatError
from clusterscale.reauditing import Policy, json_safe
from clusterscale.reauditing.policy_evaluation import evaluate_ceilings
from clusterscale.reporting import Run, describe, render, render_sign_off
from clusterscale.reporting.audit.headline import _placed
from clusterscale.reporting.certificates import covers_audit
from clusterscale.reporting.coverage import ReleaseScope
from clusterscale.schema import validate
from clusterscale.utility import UTILITIES

LAPLACE, EXACT = "laplace(epsilon=0.1)", "exact"
OUTCOME = {
    "verdict": "warn",
    "policy": "none",
    "group_size": 50,
    "reasons": [{"check": "group_size", "level": "warn", "text": "exposure at one size"}],
}

NOT_EXAMINED = {"not_examined": "the release is not named"}


def facts_of(
    results, *others, chosen=LAPLACE, certify=None, series=NOT_EXAMINED, release=None, **outcome
):
    screen = others[0] if others else None
    run = Run(audit=results, screen=screen, certify=certify, chosen=chosen)
    facts = json_safe(describe(run, OUTCOME | outcome, series, release)) | {"digest": "d1"}
    return facts, " ".join(Page(render_sign_off(run, facts)).text.split())


def make_certificates(results, added, replaced):
    """Certificates of three users under each mechanism, with these worst AUCs."""
    names = [str(name) for name in results.mechanism.values]
    period = results.period.values
    coords = {"user": [0, 1, 2], "period": period, "group_size": [50], "mechanism": names}
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


def test_certificates_of_other_periods_prove_nothing(make_results):
    results = make_results(mechanisms=(EXACT, LAPLACE))
    certify = make_certificates(results, 0.812, 0.934)
    plan = {"plan": json.dumps({"periods": [[str(results.period.values[0]), 24, 48]]})}
    other = certify.assign_coords(period=["another"])
    spans = results.assign_coords(period_id=("period", ["0-48"]))
    for audited, certificates in ((results, other), (spans, certify.assign_attrs(plan))):
        assert facts_of(audited, certify=certificates)[0]["ceilings"] == []
        assert not covers_audit(Run(audit=audited, certify=certificates))
    assert covers_audit(Run(audit=results, certify=certify))
    run = Run(audit=results, certify=other)
    reasons = evaluate_ceilings(Policy(certified_auc=0.9), run, LAPLACE)
    assert [(each.check, each.level) for each in reasons] == [
        ("ceiling", "unknown"),
        ("certified_auc", "error"),
    ]


def test_what_a_rule_provably_buys_is_one_sentence_beside_raw_counts(make_results):
    results = make_results(mechanisms=(EXACT, LAPLACE))
    bought = "nobody in the records of 0:168 with an AUC above 0.934; raw counts have no such limit"
    certify = make_certificates(results, 0.812, 0.934)
    text = facts_of(results, certify=certify)[1]
    assert bought in text
    assert "1.000: nothing bounds itat most 0.812" in text
    assert "the guarantee alone" not in text
    assert "It holds for groups of 50, if the number" in text
    text = facts_of(results, certify=certify, group_size=60)[1]
    assert "Provennothing is proven for 60 people: the certificates are about groups of 50" in text
    exceeded = {"check": "ceiling", "level": "fail", "text": "did better"}
    broken = results.copy(deep=True)
    broken["verdict"].loc[{"mechanism": LAPLACE}] = "broken"
    for doubtful, reasons in ((results, [exceeded]), (broken, [])):
        text = facts_of(doubtful, certify=certify, reasons=reasons)[1]
        assert "Provennothing: an attack did better than any adversary can" in text
    for auc, shown in ((1.0, "1.000"), (0.9999, "> 0.999")):
        text = facts_of(results, certify=make_certificates(results, 0.8, auc))[1]
        assert "Provennext to nothing: an adversary who knows everybody else may" in text
        assert f"as from raw counts (AUC {shown})" in text


def test_without_certificates_a_guarantee_limits_all_of_a_person(make_results):
    results = make_results(mechanisms=(EXACT, LAPLACE), periods=("one", "two"))
    results["auc_ceiling"].loc[{"mechanism": LAPLACE}] = [0.73, 0.81]
    facts, text = facts_of(results)
    assert facts["guaranteed"] == 0.81
    assert "nobody in the records of one or two with an AUC above 0.810; raw counts have" in text
    assert "it follows from the guarantee alone" in text
    assert "by the guarantee alone1.000: nothing bounds itat most 0.810not known" in text
    assert "no limit is certified; clusterscale certify CONFIG" in text
    for name, value in (("auc_ceiling", np.nan), ("auc_ceiling", 1.0), ("sensitivity_needed", 9)):
        lacking = results.copy(deep=True)
        lacking[name].loc[{"mechanism": LAPLACE, "period": "two"}] = value
        facts, text = facts_of(lacking)
        assert facts["guaranteed"] is None
        assert "Provennothing is proven" in text
        assert "no limit is certified: a stronger attack may do better" in text
    for verdict in ("too few samples", "broken"):  # a stated guarantee that no test supports
        doubtful = results.copy(deep=True)
        doubtful["verdict"].loc[{"mechanism": LAPLACE, "period": "two"}] = verdict
        facts, text = facts_of(doubtful)
        assert facts["guaranteed"] is None
        assert "Provennothing is proven" in text


def test_simulated_people_are_counted_apart_and_prove_nothing(make_results):
    people = {"n_users": 40, "n_known": 15}
    results = make_results(mechanisms=(EXACT, LAPLACE), cube=json.dumps(people))
    facts, text = facts_of(results)
    assert facts["not_attacked"] == 3
    both = "40 people: 15 in the records and 25 simulated (who fill the groups; they are no"
    assert f"out of {both}" in text
    assert f"3 users of the records not attacked; groups have {both}" in text
    certify = make_certificates(results, 0.8, 0.9).isel(user=[2, 1, 0])  # the last is the worst
    for n_known, ceilings in ((3, [0.8, 0.9]), (2, [0.7, 0.8]), (0, [])):
        results.attrs["cube"] = json.dumps({"n_users": 3, "n_known": n_known})
        results["auc_ceiling"][:] = 0.73
        facts, text = facts_of(results, certify=certify)
        assert [one["worst"] for one in facts["ceilings"]] == pytest.approx(ceilings)
        assert ("Provennothing is proven" in text) == (n_known == 0)


@pytest.fixture
def weeks(make_results):
    """An audit of the second and the third week of 28 days, in which summer time ends."""
    calendar = Calendar.parse("2026-10-05T00:00", "1h", 673, "Europe/Lisbon")
    cube = {"n_users": 534, "n_epochs": 673, "calendar": calendar.attributes(), "null_roi": False}
    names = ("second", "third")
    results = make_results(mechanisms=(EXACT, LAPLACE), periods=names, cube=json.dumps(cube))
    results["auc"].loc[{"period": "third", "mechanism": LAPLACE}] -= 0.2
    results["auc"].loc[{"period": "second", "mechanism": LAPLACE}] += 0.2
    return results.assign_coords(period_id=("period", ["168-336", "336-505"]))


def test_each_period_and_the_days_that_are_not_examined_are_listed(weeks):
    facts, text = facts_of(weeks)
    assert facts["examined"]["when"] == {
        "second": "2026-10-12 to 2026-10-18",
        "third": "2026-10-19 to 2026-10-25",
    }
    assert facts["release"]["period"] == "second"
    assert facts["periods"]["second"] == facts["release"]
    assert facts["periods"]["third"]["mean"] < facts["periods"]["second"]["mean"]
    for words in (
        "This page is about2026-10-12 to 2026-10-18 (second, epochs 168-336); 2026-10-19 to",
        "The audited cube has28 days: 14 of them are not examined",
        "; the worst of 2 periods, second",
        "; the worst In third",
        "Other days28 days: 14 of them are not examined: nothing here is about them",
        "and whether the days to be published are examined",
    ):
        assert words in text


WEEK = ReleaseScope("blake2b:77ab01", (336, 505), LAPLACE, False, n_people=50)
"""The release of the third week, in the cube of the audit."""


def missing(facts):
    """Return what is not covered, by aspect."""
    return {one["name"]: one["text"] for one in facts["coverage"] if one["level"] != "covered"}


def test_the_days_to_be_published_are_compared_with_those_examined(weeks):
    facts, text = facts_of(weeks, series=SERIES, release=WEEK)
    assert not missing(facts)
    assert text.count("To be published2026-10-19 to 2026-10-25: all examined") == 1
    late = SERIES | {"days": ["2026-10-24", "2026-10-30"]}
    facts, text = facts_of(weeks, series=late, release=replace(WEEK, span=(456, 625)))
    assert missing(facts) == {"days": "5 of these 7 days are not examined"}
    words = "To be published2026-10-24 to 2026-10-30: days: 5 of these 7 days are not examined"
    assert text.count(words) == 2, "beside what is published, and among what was not examined"
    both = replace(WEEK, span=(168, 505))
    facts, text = facts_of(weeks, series=SERIES, release=both)
    assert text.count("no audited period is this release") == 2
    cut = weeks.assign_coords(period_id=("period", ["168-336", "336-504"]))
    facts, _ = facts_of(cut, series=SERIES, release=WEEK)
    assert missing(facts) == {"days": "1 of these 7 days is not examined"}
    for times, unit in (({"n_epochs": 673}, "epoch"), ({}, None)):
        weeks.attrs["cube"] = json.dumps({"n_users": 534, "null_roi": False} | times)
        facts, text = facts_of(weeks, series=SERIES, release=replace(WEEK, span=(0, 168)))
        assert ("673 epochs: 336 of them are not examined" in text) == (unit == "epoch")
        assert ("168 of these 168 epochs are not examined" in text) == (unit == "epoch")
        assert ("which of its days are not examined is not known" in text) == (unit is None)
        assert text.count("whether they are examined is not recorded") == (0 if unit else 2)


def test_a_release_of_another_cube_is_not_examined_though_it_has_as_many_users(weeks):
    other = replace(WEEK, cube="blake2b:0ther")
    facts, text = facts_of(weeks, series=SERIES, release=other)
    assert missing(facts).keys() == {"data", "days", "people"}
    assert "all examined" not in text
    assert "all are examined" not in text
    about = json.loads(weeks.attrs["cube"]) | {"known_fingerprint": other.cube, "n_known": 500}
    filled = weeks.assign_attrs(cube=json.dumps(about))
    facts, _ = facts_of(filled, series=SERIES, release=other)
    assert not missing(facts), "a cube that adds simulated people to its users is"
    facts, _ = facts_of(filled, series=SERIES, release=WEEK)
    assert "data" in missing(facts)


def test_what_a_series_spends_is_a_sentence_and_said_to_exceed_the_budget(weeks):
    text = facts_of(weeks, series=SERIES)[1]
    assert "so far 0, with this release 1, with all 52 of a year 52" in text
    assert "at least 4 releases for 28 days: ε 4 per user, more than the budget of 2" in text
    enough = {"days": 28, "releases": 4, "spent": 1.0, "exceeds": False}
    text = facts_of(weeks, series=SERIES | {"all_days": enough})[1]
    assert "ε 1 per user, within the budget of 2" in text


def test_measures_and_choices_are_in_plain_words(make_results):
    plan = json.dumps({"targets": {"tertiles": 3}})
    results = make_results(mechanisms=(EXACT, LAPLACE), plan=plan)
    measures = [cls.phrase for cls in UTILITIES.classes]
    assert len(measures) == results.sizes["measure"]
    facts, text = facts_of(results.assign_coords(measure_title=("measure", measures)))
    assert [one["measure"] for one in facts["utility"]] == measures
    assert not [words for words in (*measures, "ROI", "tertile") if words in text]
    assert "Busiest places found" in text
    assert "chosen by: 3 of each mobile third (the least, the middle and the most mobile" in text


def test_a_series_is_added_up_or_not_examined(make_results):
    results = make_results(mechanisms=(EXACT, LAPLACE))
    for_a_person = {"so far": (7.0, 0.0), "with this release": (14.0, 1e-6)}
    series = SERIES | {
        "budget": {"unit": "user_day", "epsilon": 1.5, "delta": 0.0},
        "days": ["2026-10-05", "2026-10-05"],
        "spent": (1.0, 2.0),
        "all_days": None,
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
        assert {"events kept": "Sum, visited cells"}.get(one["measure"], one["measure"]) in text
    assert facts["everybody"]["highest"] == pytest.approx(0.99)
    for words in ("0.500: the adversary can only guess", "Resultwarned", "blake2b:77ab01", "d1"):
        assert words in text


def test_what_is_worse_than_a_random_guess_is_marked(make_results):
    results = make_results(mechanisms=(EXACT, LAPLACE), sizes=(10, 50))
    results["utility"][:], results["random_guess"][:] = results.ideal, 1 - results.ideal
    cases = {  # value and guess in groups of 10, and of 50
        "total_variation": ((0.55, 0.50), (0.56, 0.50)),
        "jensen_shannon": ((0.38, 0.29), (0.48, 0.59)),
        "hotspot_f1": ((0.05, 0.08), (0.06, 0.08)),
        "pearson": ((0.28, -0.01), (0.28, 0.01)),
        "events_kept": ((1.45, 278.0), (0.90, 278.0)),
        "suppressed_share": ((0.30, 0.01), (0.20, 0.01)),  # a guess hides nothing
    }
    titles = dict(zip(results.measure.values, results.measure_title.values, strict=True))
    for name, pairs in cases.items():
        of = {"measure": name}
        results["utility"].loc[of | {"mechanism": LAPLACE}] = [[pair[0] for pair in pairs]]
        results["random_guess"].loc[of] = [[pair[1] for pair in pairs]]
    facts, text = facts_of(results)
    found = {one["measure"]: one for one in facts["utility"]}
    worse = {titles["total_variation"]: 2, titles["jensen_shannon"]: 1, titles["hotspot_f1"]: 2}
    assert {name: one["n_worse"] for name, one in found.items() if one["n_worse"]} == worse
    shown = found[titles["jensen_shannon"]]
    assert (shown["value"], shown["random_guess"]) == (0.48, 0.59), "of the same group size"
    for words in (
        "total variation0.56, worse than a random guess; best 0, random guess 0.5",
        "shannon0.48, worse than a random guess in 1 of 2 periods and group sizes; best 0, rand",
        "f10.05, worse than a random guess; best 1",
        "pearson0.28; best 1, random guess -0.01",
    ):
        assert words in text


def test_the_sum_of_all_cells_is_beside_that_of_visited_ones(make_results):
    results = make_results(mechanisms=(EXACT, LAPLACE), sizes=(10, 50))
    older = results.drop_vars(["measure_name", "sum_ratio"])
    with pytest.raises(FormatError) as error:  # names all that a store must have
        validate(older, stored=True)
    assert "measure_name is missing" in str(error.value)
    assert "sum_ratio" not in str(error.value), "older results have none"
    assert validate(older)["sum_ratio"].isnull().all(), "an optional number is NaN"
    _, text = facts_of(results)
    too_high = "noise whose negative values are published as 0 makes it too high"
    assert "values of cells with a true count above 0, as a multiple" in text
    assert f"not recorded: values published in empty cells are in no sum here; {too_high}" in text
    dims = results.released_share.dims
    for ratios, shown in (([1.1, 2.19], "2.19"), ([0.5, 1.1], "0.5"), ([np.nan, 0.9], "0.9")):
        made = results.assign(sum_ratio=(dims, [[[1.0, ratio] for ratio in ratios]]))
        _, text = facts_of(made)
        assert f"Sum, all cells{shown}; best 1: all published values" in text
        assert (too_high in text) == (shown == "2.19")


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
