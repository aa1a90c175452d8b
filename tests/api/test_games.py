"""Attacks and the game on arrays of one's own."""

from dataclasses import replace

import numpy as np
import pytest
from loops import for_each

import clusterscale as cs
from clusterscale.api.arrays import read_traces
from clusterscale.errors import ConfigError, InputError


@pytest.fixture(scope="module")
def setting():
    rng = np.random.default_rng(3)
    visits = rng.random((60, 4, 12)) < 0.1
    groups = np.array([rng.choice(np.arange(1, 60), 8, replace=False) for _ in range(140)])
    groups[::2, 0] = 0
    return visits, groups


def test_knowing_everything_beats_knowing_groups(setting):
    visits, groups = setting
    played = cs.play(
        visits,
        0,
        groups[:100],
        groups[100:],
        ["exact", {"name": "laplace", "epsilon": 0.01, "unit": "user"}],
        ["projection"],
        reference=range(1, 60),
    )
    exact, noisy = played.auc.values[:, 0]
    assert exact > 0.9
    assert noisy < 0.7
    assert played.privacy_loss.values[0, 0] == 2 * exact - 1
    assert np.isfinite(played.epsilon_lower.values).all()


def test_groups_that_were_trained_on_give_no_bound_on_epsilon(setting):
    visits, groups = setting
    played = cs.play(visits, 0, groups[:100], groups[:40])
    assert np.isnan(played.epsilon_lower.item())


def test_play_and_attack_agree_on_raw_counts(setting):
    visits, groups = setting
    releases = np.array([visits[rows].sum(axis=0) for rows in groups])
    inside = (groups == 0).any(axis=1)
    scored = cs.attack(
        releases[:100], inside[:100], releases[100:], group_size=8, mechanism="exact"
    )
    played = cs.play(visits, 0, groups[:100], groups[100:], control=False)
    answers = inside[100:]
    above = scored.score.values[answers][:, None] - scored.score.values[~answers]
    assert played.auc.item() == pytest.approx((above > 0).mean() + (above == 0).mean() / 2)


@for_each(
    ("change", "error", "message"),
    [
        ({"challenge": "few"}, InputError, "9 contain the target and 1 do not; give at least 10"),
        (
            {"challenge": "narrow"},
            InputError,
            "training groups have 8 members, but challenge groups",
        ),
        ({"target": 60}, InputError, "user 60 is not among 60 users"),
        ({"training": "twice"}, InputError, "listed twice in one of the training groups"),
        ({"attacks": ["projection"]}, InputError, "give `reference`"),
        ({"mechanisms": [{"name": "cap_contributions", "per_day": 1}]}, ConfigError, "changes"),
        ({"mechanisms": [3]}, InputError, "mechanism is of type int"),
        ({"mechanisms": [{}]}, ConfigError, "`name` is missing"),
    ],
)
def test_what_cannot_be_played_is_refused(setting, change, error, message):
    visits, groups = setting
    few = np.concatenate([groups[100:118:2], groups[101:102]])
    named = {"few": few, "narrow": groups[100:, :7], "twice": np.repeat(groups[:, :1], 8, axis=1)}
    options = {"training": groups[:100], "challenge": groups[100:], "target": 0}
    options |= {key: named.get(value, value) if isinstance(value, str) else value
                for key, value in change.items()}  # fmt: skip
    target, training, challenge = (options.pop(key) for key in ("target", "training", "challenge"))
    with pytest.raises(error, match=message):
        cs.play(visits, target, training, challenge, **options)


def test_releases_that_do_not_fit_are_refused():
    values, labels = np.zeros((4, 2, 3)), np.array([True, False, True, False])
    with pytest.raises(InputError, match="labels are int64"):
        cs.attack(values, [1, 0, 1, 0], values, group_size=5)
    with pytest.raises(InputError, match="not numbers"):
        cs.attack(values[0], labels, values, group_size=5)
    with pytest.raises(InputError, match="training releases have"):
        cs.attack(values, labels, values[:, :1], group_size=5)


def test_weights_of_users_are_played_if_the_traces_have_them(setting):
    visits, groups = setting
    traces = read_traces(visits)
    weights = np.ones(len(visits))
    weights[0] = 40.0  # the target counts as forty people
    weighed = replace(traces, weights=weights)
    steps = {"name": "expand", "factor": "weights"}
    played = cs.play(
        weighed, 0, groups[:100], groups[100:], [steps], ["projection", "likelihood"],
        reference=np.arange(30),
    )  # fmt: skip
    assert (played.auc == 1.0).all()
    assert (played.accuracy > 0.9).all()
    with pytest.raises(ConfigError, match="uses the weights of users: give `traces` as"):
        cs.play(traces, 0, groups[:100], groups[100:], [steps])
