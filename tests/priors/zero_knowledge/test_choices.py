"""Every choice of who knows nobody works with every defence, or is refused with the reason."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from loops import for_each, mostly_slow
from priors.zero_knowledge.choices import (
    DEFENCES,
    FRAME,
    N_ROIS,
    OPTIONS,
    SMALL,
    people,
    set_up,
)

from clusterscale import attacks, priors
from clusterscale.contracts import GroupRequest
from clusterscale.cube import with_null_roi
from clusterscale.errors import ConfigError, InputError, PoolError
from clusterscale.game import play
from clusterscale.priors.zero_knowledge.prior import ZeroKnowledgeAdversary
from clusterscale.seeds import stream

ATTACKS = [attacks.create(name) for name in ("cells", "likelihood")]


@dataclass(frozen=True)
class Watched:
    """The adversary itself, and a note of every release that it studies."""

    adversary: ZeroKnowledgeAdversary
    studied: list = field(default_factory=list)

    @property
    def retrains_per_release(self):
        return self.adversary.retrains_per_release

    def study(self, release, mechanism, *, rng):
        self.studied.append(release.values)
        return self.adversary.study(release, mechanism, rng=rng)


def told(outcomes):
    return [repr(replace(outcome, seconds=0.0)) for outcome in outcomes]


@mostly_slow("option", OPTIONS)
def test_every_choice_works_with_every_defence_of_the_paper(option):
    """With controls: anew for each of four challenges and two stand-ins, or once."""
    game, path = set_up(option), ("zero", option)
    watched = Watched(game.adversary)
    watching, by = replace(game, adversary=watched), list(DEFENCES.values())
    found = list(play(watching, by, ATTACKS, seed=1, path=path))
    n_studies = 1 if OPTIONS[option].get("refit") == "shared" else 6
    assert len(watched.studied) == n_studies * len(DEFENCES)
    assert {values.shape for values in watched.studied} == {(1, *game.challenge.counts.shape[1:])}
    assert [outcome.mechanism for outcome in found[::2]] == [each.id for each in by]
    assert [outcome.attack for outcome in found[:2]] == ["cells", "likelihood"]
    for outcome in found:
        for name in ("auc", "control_auc", "absent_auc", "naive_auc"):
            assert 0 <= getattr(outcome, name) <= 1
        assert outcome.n_challenges == 4
    again = play(game, by[-1:], ATTACKS, seed=1, path=path)
    assert told(again) == told(found[-2:])


@mostly_slow("option", ["shared", "counts", "nowhere"])
def test_a_raw_release_tells_who_is_inside_and_not_who_is_not(option):
    """Of ten targets: with somebody else in its place, as a coin would, but for one in 10,000."""
    traces, found = people(n_users=60), []
    settings = SMALL | OPTIONS[option] | {"challenges": 20, "training": 40, "reference": 100}
    settings["refit"] = "per_release" if option == "counts" else "shared"
    traces = with_null_roi(traces) if settings.pop("null_roi", False) else traces
    prior = priors.create("zero_knowledge", **settings)
    for target in range(10):
        streams = {"rng": stream(target), "control": stream(target, "control")}
        game = prior.set_up(GroupRequest(traces, target, frame=FRAME, group_size=6, **streams))
        by = [DEFENCES["raw"], DEFENCES["user-day"]]
        raw, noisy = play(game, by, ATTACKS[1:], seed=1, path=(target,))
        found.append([raw.auc, noisy.auc, raw.absent_auc, noisy.absent_auc])
    raw, noisy, *absent = np.mean(found, axis=0)
    coin = 4 * np.sqrt(21 / 1200 / 10)  # errors of the mean of so many areas of 10 against 10
    assert raw > 0.95
    assert raw > noisy > 0.5 + coin / 2
    assert np.abs(np.array(absent) - 0.5).max() < coin


def test_who_does_not_say_where_rois_are_is_refused():
    with pytest.raises(InputError, match="needs the days, and the positions of ROIs: give a frame"):
        set_up(frame=None)
    unknown = replace(FRAME, lat=np.where(np.arange(N_ROIS) < 2, np.nan, FRAME.lat))
    with pytest.raises(InputError, match=r"2 of 6 ROIs have no position.*give lat and lon of each"):
        set_up(frame=unknown)
    assert set_up(frame=unknown, positions="unknown").adversary.graph is None


def test_counts_cannot_tell_who_is_nowhere():
    with pytest.raises(InputError, match="set crowd to users, or null_roi to false"):
        set_up(null_roi=True, crowd="counts")


@for_each(
    ("fields", "words"),
    [
        ({"top_rois": 3}, "top_rois needs an adversary who knows only ROIs: set knows to rois"),
        ({"knows": "rois", "known_fraction": 0.5}, "known_fraction is a share of the trace"),
        ({"knows": "rois", "top_rois": 0}, "top_rois"),
        ({"known_fraction": 0.0}, "known_fraction"),
        ({"known_fraction": 1.5}, "known_fraction"),
        ({"rank": 0}, "rank"),
        ({"refit": "never"}, "refit"),
        ({"crowd": "nobody"}, "crowd"),
        ({"positions": "secret"}, "positions"),
        ({"correction": "wrong"}, "correction"),
        ({"activity": {"name": "poisson"}}, "activity"),
        ({"training": 7}, "training"),
        ({"reference": 0}, "reference"),
    ],
)
def test_choices_that_cannot_be_are_refused(fields, words):
    with pytest.raises(ConfigError) as caught:
        priors.create("zero_knowledge", **fields)
    assert str(caught.value).startswith("prior.zero_knowledge")
    assert words in str(caught.value)


def test_too_few_to_form_groups_of_are_refused_by_name():
    prior = priors.create("zero_knowledge", **SMALL)
    for n_users, size, name in ((8, 9, "challenge"), (200, 50, "training")):
        with pytest.raises(PoolError, match=f"zero_knowledge {name} pool"):
            prior.check(n_users, size)
    counts = priors.create("zero_knowledge", **SMALL, crowd="counts")
    counts.check(200, 50)
