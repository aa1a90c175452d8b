"""The tables of an audit on a terminal."""

import re

import numpy as np
import pytest
import xarray as xr
from rich.console import Console

from clusterscale.cli import show

pytestmark = pytest.mark.usefixtures("no_figures")

CASE = ("target", "period", "prior", "group_size", "mechanism", "attack")
CHAIN = "chain(steps=[sample_events(remove=0.4), fourier(epsilon=10.0, coefficients=20)])"


def results(mechanisms, priors=("known_subset(alpha=0.2)",)):
    shape = (3, 1, len(priors), 2, len(mechanisms), 1)
    gain = np.broadcast_to(0.25 * np.arange(len(mechanisms))[:, None], shape)
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
            "privacy_gain": (CASE, gain.copy()),
            "utility": (("period", "group_size", "mechanism", "measure"), utility),
            "released_share": (
                ("period", "group_size", "mechanism"),
                np.ones((1, 2, len(mechanisms))),
            ),
            "random_guess": (("period", "group_size", "measure"), np.full((1, 2, 2), 7.5)),
        },
        coords={
            "period": ["0:168"],
            "prior": list(priors),
            "group_size": [5, 100],
            "mechanism": list(mechanisms),
            "attack": ["spectral(variance=0.99)"],
            "measure": ["mean_relative_error(floor=0.1)", "pearson"],
            "measure_title": ("measure", ["mean relative error", "Pearson correlation"]),
            "ideal": ("measure", [0.0, 1.0]),
        },
    )


@pytest.fixture
def shown(monkeypatch):
    def call(dataset):
        monkeypatch.setattr(show, "out", Console(width=100, record=True, file=None, quiet=False))
        with show.out.capture() as text:
            show.show_results(dataset)
        return text.get()

    return call


def test_bare_counts_alone_have_no_gain_and_no_price(shown):
    text = shown(results(["exact"]))
    assert "0.750" in text
    assert "gain" not in text
    assert "utility" not in text


def test_defences_have_a_gain_and_their_utility_beside_a_guess(shown):
    text = shown(results(["exact", CHAIN, "[bold]x[/bold]"]))
    assert "gain" in text
    for number in ("0.000", "0.250", "0.500", "0.125", "7.500"):
        assert number in text
    assert text.count("random guess") == 2  # one a group size
    assert "a  mean relative error, best 0" in text
    assert "b  Pearson correlation, best 1" in text
    assert "[bold]x[/bold]" in text  # a label, not a style
    assert "chain(steps=[sample_events" in text
    assert max(map(len, text.splitlines())) <= 100


def test_priors_have_a_table_each(shown):
    text = shown(results(["exact", "laplace(epsilon=1.0)"], priors=("a[1]", "b")))
    assert "mean over targets, a[1]" in text
    assert "mean over targets, b" in text


def test_a_nearly_empty_release_is_marked(shown):
    dataset = results(["exact", CHAIN, "suppress_small(below=5)"])
    dataset["released_share"][0, 1, 1:] = [0.049, 0]
    dataset["released_share"][0, 0, 1:] = [0.05, np.nan]
    text = " ".join(re.sub(r"[^\w ]", " ", shown(dataset)).split())
    assert text.count("nearly empty release") == 1
    assert text.count("empty release") == 2
    assert "exact nearly" not in text


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
    monkeypatch.setattr(show, "out", Console(width=100, force_terminal=True, no_color=False))
    with show.out.capture() as text:
        show.show_results(dataset)
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
