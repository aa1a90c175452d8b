"""The tables of an audit on a terminal."""

import json
import re

import numpy as np
import pytest
import xarray as xr
from loops import mostly_slow
from report.page import Page
from rich.console import Console

from clusterscale.cli import results as module
from clusterscale.mechanisms import create
from clusterscale.reporting.audit import findings
from clusterscale.reporting.audit.model import AuditReport

pytestmark = pytest.mark.usefixtures("no_figures")

CASE = ("target", "period", "prior", "group_size", "mechanism", "attack")
SIZED = ("period", "group_size", "mechanism")
CHAIN = "chain(steps=[sample_events(remove=0.4), fourier(epsilon=10.0, coefficients=20)])"

LAPLACE = "laplace(epsilon=0.1,unit=user_day,clip=true,integers=round)"


def results(mechanisms, priors=("known_subset(alpha=0.2)",)):
    shape = (3, 1, len(priors), 2, len(mechanisms), 1)
    # at chance on average, and never the same for two targets
    control = 0.5 + 0.03 * np.arange(-1, 2).reshape(3, *[1] * 5) * np.ones(shape)
    utility = np.full((1, 2, len(mechanisms), 2), 0.125)
    return xr.Dataset(
        {
            "auc": (CASE, np.full(shape, 0.75)),
            "privacy_loss": (CASE, np.full(shape, 0.5)),
            "control_auc": (CASE, control),
            "absent_auc": (CASE, 1 - control),
            "naive_auc": (CASE, np.full(shape, 0.55)),
            "accuracy": (CASE, np.full(shape, 0.7)),
            "error": (CASE, np.full(shape, "", dtype=object)),
            "utility": (("period", "group_size", "mechanism", "measure"), utility),
            "utility_sd": (("period", "group_size", "mechanism", "measure"), utility),
            "auc_low": (CASE, np.full(shape, 0.7)),
            "auc_high": (CASE, np.full(shape, 0.8)),
            "auc_degrees": (CASE, np.full(shape, np.inf)),
            "status": (CASE, np.full(shape, "done", dtype=object)),
            "n_seen": (("period",), [90]),
            "float_noise": (("period", "mechanism"), [["no"] * len(mechanisms)]),
            "released_share": (SIZED, np.ones((1, 2, len(mechanisms)))),
            "sum_ratio": (SIZED, np.full((1, 2, len(mechanisms)), np.nan)),
            "epsilon_seen": (SIZED, np.full((1, 2, len(mechanisms)), np.nan)),
            "verdict_trials": (SIZED, np.zeros((1, 2, len(mechanisms)))),
            "guarantee_unit": (("period", "mechanism"), [["none"] * len(mechanisms)]),
            "guarantee_epsilon": (("period", "mechanism"), [[np.inf] * len(mechanisms)]),
            "verdict": (SIZED, np.full((1, 2, len(mechanisms)), "nothing promised")),
            "random_guess": (("period", "group_size", "measure"), np.full((1, 2, 2), 7.5)),
        },
        coords={
            "period": ["0:168"],
            "prior": list(priors),
            "group_size": [5, 100],
            "mechanism": list(mechanisms),
            "attack": ["spectral(variance=0.99)"],
            "measure": ["mean_relative_error(floor=0.1)", "pearson"],
            "measure_kind": ("measure", ["relative", ""]),
            "measure_title": ("measure", ["mean relative error", "Pearson correlation"]),
            "ideal": ("measure", [0.0, 1.0]),
        },
        attrs={"plan": "{}", "cube": '{"n_users": 100}'},
    )


@pytest.fixture
def shown(monkeypatch):
    def call(dataset, full=True):
        monkeypatch.setattr(module, "out", Console(width=80, record=True, file=None, quiet=False))
        with module.out.capture() as text:
            module.show_results(dataset, full=full)
        return text.get()

    return call


def test_bare_counts_alone_have_no_gain_and_no_price(shown):
    text = shown(results(["exact"]))
    assert "0.750" in text
    assert "gain" not in text
    assert "utility" not in text


def test_defences_have_a_gain_and_their_utility_beside_a_guess(shown):
    dataset = results(["exact", CHAIN, "[bold]x[/bold]"])
    dataset["auc"][..., :, :] = 0.75 - 0.0625 * np.arange(3)[:, None]
    text = shown(dataset)
    assert "gain" in text
    for number in ("0.000", "0.250", "0.500", "0.125", "7.500"):
        assert number in text
    assert text.count("random guess") == 2  # one a group size
    assert "mean relative error, best 0" in text
    assert "Pearson correlation, best 1" in text
    assert "[bold]x[/bold]" in text  # a label, not a style
    assert CHAIN in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80


def test_of_raw_counts_an_open_verdict_says_why_and_who_recognises_anybody(shown):
    dataset = results(["exact", LAPLACE])
    dataset["auc"][:] = np.array([0.3, 0.6, 0.8]).reshape(3, *[1] * 5)
    for full in (True, False):
        text = " ".join(shown(dataset, full=full).split())
        assert "inconclusive: 2 (" in text
        assert "exact: the interval of the mean reaches" in text
        assert text.count("an adversary who knows all others exceeds any limit") == 1


def test_priors_have_a_table_each(shown):
    text = shown(results(["exact", "laplace(epsilon=1.0)"], priors=("a[1]", "b")))
    assert "mean over targets, prior a[1]\n" in text
    assert "mean over targets, prior b\n" in text


def rows_of(text, first):
    """Return the cells of the rows after the header that begins with ``first``."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(first))
    return [line.split() for line in lines[start + 2 :]]


def test_every_case_stands_under_its_group_size_and_mechanism(shown):
    dataset = results([f"m{i}" for i in range(3)])
    dataset["auc"] = dataset.auc.copy()
    dataset["auc"].loc[{"group_size": 100, "mechanism": "m1"}] = 0.625
    rows = rows_of(shown(dataset), "mechanism")
    assert rows[0] == ["groups", "of", "5"]
    assert [row[:3] for row in rows[1:4]] == [[f"m{i}", "A", "0.750"] for i in range(3)]
    assert rows[4] == []
    assert rows[5] == ["groups", "of", "100"]
    assert [row[2] for row in rows[6:9]] == ["0.750", "0.625", "0.750"]


def test_a_summary_shows_the_strongest_case_of_each_mechanism(shown):
    dataset = results(["exact", LAPLACE], priors=("weak", "strong"))
    dataset["auc"] = dataset.auc.copy()
    dataset["auc"].loc[{"group_size": 5, "mechanism": "exact", "prior": "strong"}] = 0.9
    text = shown(dataset, full=False)
    exact, laplace = rows_of(text, "mechanism")[:2]
    assert exact == ["exact", "0.900", "0.500", "0.000", "strong", "5", "A"]
    assert laplace[0] != LAPLACE
    assert " ".join(laplace[4:]) == "tie of 2 tie of 2 A", "nobody wins by being the first"
    assert f"{laplace[0]}  {LAPLACE}" in text


@pytest.mark.parametrize("full", [False, True])
def test_each_mechanism_has_a_verdict(shown, full):
    few = results(["exact", LAPLACE])
    dataset = xr.concat([few] * 8, "target", data_vars="minimal")
    for name in ("auc", "auc_low", "auc_high"):
        dataset[name].loc[{"mechanism": "exact"}] = 0.95
    dataset["n_seen"][:] = 60
    text = " ".join(shown(dataset, full=full).split())
    assert "exposed: 1 (exact)" in text
    assert re.search(r"partly exposed: 1 \([A-Z]\)", text)
    assert "40 of 100 users have no event in 0:168 and are left out" in text


def test_a_summary_shows_the_utility_that_is_farthest_from_ideal(shown):
    dataset = results(["exact", LAPLACE])
    dataset["utility"].loc[{"group_size": 5, "mechanism": LAPLACE}] = [0.5, 0.9]
    text = shown(dataset, full=False)
    row = next(line.split() for line in text[text.index("utility") :].splitlines() if "0.5" in line)
    assert row[1:] == ["0.500", "0.125"], "errors are best at 0, correlations at 1"


@mostly_slow(
    ("n_priors", "n_mechanisms"), [(1, 1), (3, 2), (1, 8), (1, 9), (3, 8), (3, 9), (3, 40)]
)
def test_a_summary_fits_in_40_lines_of_80_columns(shown, n_mechanisms, n_priors):
    labels = ["exact", *(f"{CHAIN[:-1]}, {LAPLACE} {i}]" for i in range(n_mechanisms - 1))]
    priors = [f"known_subset(alpha=0.2, training={i})" for i in range(n_priors)]
    dataset = results(labels, priors)
    dataset["auc"] = dataset.auc.copy()
    dataset["auc"].loc[{"mechanism": labels[-1]}] = 0.875
    dataset["auc"].loc[{"mechanism": labels[-1], "prior": priors[-1]}] = 0.9
    lines = shown(dataset, full=False).splitlines()
    assert len(lines) <= 31, "nine are left for errors, and where results are"
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    for word in ("mechanism", "privacy", "group", "0.900"):
        assert word in text
    assert " ".join(labels[-1].split()) in text, "who exposes most is never left out"


def test_many_measures_stand_in_tables_below_each_other(shown):
    dataset = results(["exact", LAPLACE])
    many = [f"a measure called {i}" for i in range(9)]
    shape = (*dataset.utility.shape[:3], 9)
    wide = dataset.drop_dims("measure").assign(
        utility=(dataset.utility.dims, np.full(shape, 123456.0)),
        utility_sd=(dataset.utility.dims, np.full(shape, 0.0)),
        random_guess=(dataset.random_guess.dims, np.full((1, 2, 9), -0.5)),
    )
    wide = wide.assign_coords(
        measure=many, measure_title=("measure", many), ideal=("measure", [0.0] * 9)
    ).assign_coords(measure_kind=("measure", [""] * 9))
    text = shown(wide)
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("1.23e+05") == 2 * 2 * 9
    for title in many:
        assert f"{title}, best 0" in text


def test_what_is_worse_than_a_random_guess_is_marked(shown):
    """The guess has 7.5, where 0 and 1 are best."""
    dataset = results(["exact", LAPLACE])
    dataset["utility"].loc[{"mechanism": LAPLACE, "group_size": 5}] = [7.75, 7.25]
    dataset["utility"].loc[{"mechanism": LAPLACE, "group_size": 100}] = [7.25, -6.0]
    text = shown(dataset)
    assert re.findall(r"\S+\d\*", text) == ["7.750*", "-6.000*"]
    assert text.count("random guess (* worse)") == 2
    brief = shown(dataset, full=False)
    assert re.findall(r"\S+\d\*", brief) == ["7.750*", "-6.000*"]
    dataset["utility"][:] = 1.0
    for full in (True, False):
        text = shown(dataset, full=full)
        assert "random guess" in text
        assert "*" not in text


def test_a_nearly_empty_release_is_marked(shown):
    dataset = results(["exact", CHAIN, "suppress_small(below=5)"])
    dataset["released_share"][0, 1, 1:] = [0.049, 0]
    dataset["released_share"][0, 0, 1:] = [0.05, np.nan]
    text = shown(dataset)
    assert (text.count("(nearly empty)"), text.count("(empty)")) == (1, 1)
    assert "exact (" not in text
    brief = shown(dataset, full=False)
    assert "(empty)" in brief, "the summary shows the worst group size"
    assert "nearly empty releases for some group size or period: B, C" in brief


def test_utility_that_was_not_measured_is_not_shown(shown):
    dataset = results(["exact", "laplace(epsilon=1.0)"])
    dataset["utility"][:] = np.nan
    assert "utility" not in shown(dataset)


def test_controls_at_chance_are_told_in_a_line(shown):
    text = shown(results(["exact"]))
    words = "controls: shuffled labels, target absent, both at chance; adding up all values"
    assert words in " ".join(text.split())
    assert "off chance" not in text
    assert text.count("0.50 0.50 0.55") == 2


@pytest.mark.parametrize(
    ("name", "words"),
    [("control_auc", "with shuffled labels"), ("absent_auc", "without the target")],
)
def test_a_control_off_chance_is_red_and_warned_of(monkeypatch, name, words):
    dataset = results(["exact"])
    dataset[name].loc[{"group_size": 100}] = 0.625
    monkeypatch.setattr(module, "out", Console(width=80, force_terminal=True, no_color=False))
    with module.out.capture() as text:
        module.show_results(dataset, full=True)
    told = text.get()
    assert "\x1b[1;31m0.62\x1b[0m" in told
    assert told.count("\x1b[1;31m") == 2, "the case, and the line that warns of it"
    plain = re.sub(r"\x1b\[[0-9;]*m", "", told)
    assert f"off chance {words}: 1 of 2 cases; do not rely on these figures yet" in plain
    assert "both at chance" not in plain


def test_an_attack_no_better_than_adding_up_is_warned_of(shown):
    dataset = results(["exact"])
    dataset["naive_auc"].loc[{"group_size": 5}] = 0.75
    text = " ".join(shown(dataset).split())
    assert "no better than adding up all values: 1 of 2 cases" in text
    assert "both at chance" in text


def test_without_controls_none_are_called_sound(shown):
    dataset = results(["exact"])
    for name in ("control_auc", "absent_auc", "naive_auc"):
        dataset[name][:] = np.nan
    text = shown(dataset)
    assert "chance" not in text
    assert "adding up" not in text


def test_what_publish_refuses_is_one_line_on_screen_and_page(shown):
    labels = ["exact", "one", "two", "three"]
    noise = {"name": "laplace", "epsilon": 1.0, "unit": "event"}
    made = [{"name": "exact"}, noise, noise | {"integers": "round"}, noise | {"discrete": True}]
    ids = [create(**settings).id for settings in made]
    dataset = results(labels).assign_coords(mechanism_id=("mechanism", ids))
    names = ("target", [f"user {i}" for i in range(dataset.sizes["target"])])
    dataset = dataset.assign_coords(pseudonym=names)
    dataset.attrs["plan"] = json.dumps({"mechanisms": [*made, {"name": "of another package"}]})
    said = "refuses one, two (its noise is continuous: set discrete: true)"
    for full in (True, False):
        assert " ".join(shown(dataset, full=full).split()).count(said) == 1
    page = Page(str(findings(AuditReport.of(dataset))))
    assert said.replace("one, two", "one and two") in " ".join(page.text.split())
    dataset.attrs["plan"] = json.dumps({"mechanisms": made[:1] + made[3:]})
    assert "refuses" not in shown(dataset)
