"""Twins of the example's classes, each broken in one way, and the check that notices it."""

import itertools
from typing import Any, ClassVar

import numpy as np
from acme_privacy.attack import Direction, MatchingCells
from acme_privacy.measure import LargestError
from acme_privacy.mechanism import UniformNoise
from acme_privacy.reader import Pings
from pydantic import ConfigDict

from clusterscale.contracts import NO_NOISE, Guarantee, Support
from clusterscale.ingestion.records import Malformed, Records
from clusterscale.priors import PRIORS

COUNTER = itertools.count()
KnownSubset: Any = PRIORS["known_subset"]


def twin(base, **attributes):
    """Return a subclass with other methods, which can be pickled by its name in this module."""

    def make(check):
        name = f"{base.__name__}_{check}"
        body = {"__doc__": "A broken twin.", "__module__": __name__, "__qualname__": name}
        globals()[name] = type(base)(name, (base,), body | attributes)
        return globals()[name]

    return make


def release_of(change):
    def release(self, counts, *, group_size, rng):
        return change(UniformNoise.release(self, counts, group_size=group_size, rng=rng), counts)

    return release


def guaranteeing(*values):
    return property(lambda self: Guarantee(*values))


def write(values, counts):
    counts[...] = 0
    return values


def fit_of(score, threshold=0.0):
    """Return a method fit whose distinguisher scores with a function that can be pickled."""

    def fit(self, knowledge, *, rng):
        trained = MatchingCells.fit(self, knowledge, rng=rng)
        return Scorer(score, trained, threshold)

    return fit


class Scorer:
    def __init__(self, score, trained, threshold):
        self.function, self.trained, self.threshold = score, trained, threshold

    def score(self, release):
        return self.function(self.trained.score(release), release)


def two_columns(scores, release):
    return np.stack([scores, scores], axis=1)


def as_counted(scores, release):
    return scores + next(COUNTER)


def written(scores, release):
    release.values[...] = 0
    return scores


def centred(scores, release):
    return scores - scores.mean()


def reversed_(scores, release):
    return -scores


def unpicklable(self, knowledge, *, rng):
    trained = MatchingCells.fit(self, knowledge, rng=rng)
    return Scorer(lambda scores, release: scores, trained, 0.0)


def dumped(self, **options):
    return {"name": self.name, "width": 3.0}


NOT_FROZEN = ConfigDict(frozen=False, extra="forbid")

MECHANISMS = {
    "is_documented": twin(UniformNoise, __doc__=None),
    "has_a_name": twin(UniformNoise, name="x", __annotations__={"name": str}),
    "is_a_value": twin(UniformNoise, model_config=NOT_FROZEN, __hash__=lambda self: 0),
    "survives_pickling": twin(UniformNoise, __reduce__=lambda self: (UniformNoise, ())),
    "survives_a_config": twin(UniformNoise, model_dump=dumped),
    "binds_once": twin(
        UniformNoise, bind=lambda self, bounds: self.model_copy(update={"width": self.width + 1})
    ),
    "release_keeps_shape": twin(UniformNoise, release=release_of(lambda v, c: v[..., :-1])),
    "release_is_finite_float64": twin(
        UniformNoise, release=release_of(lambda v, c: np.rint(v).astype(int))
    ),
    "release_repeats_with_its_generator": twin(
        UniformNoise, release=release_of(lambda v, c: v + next(COUNTER))
    ),
    "release_leaves_counts": twin(UniformNoise, release=release_of(write)),
    "guarantee_is_consistent": twin(
        UniformNoise, guarantee=guaranteeing("event", np.inf, 0.0, "add_remove", "said so")
    ),
    "user_loss_agrees_with_guarantee": twin(
        UniformNoise, user_privacy_loss=lambda self, bounds: "some"
    ),
    "unchanged_if_without_noise": twin(UniformNoise, noise=property(lambda self: NO_NOISE)),
    "values_are_in_support": twin(
        UniformNoise, support=lambda self, before, group_size: Support(0.0, np.inf, 1.0)
    ),
    "noise_stays_in_scope": twin(
        UniformNoise,
        noise_scope="cell",
        noise_is_count_independent=True,
        release=release_of(lambda v, c: v + c.sum()),
    ),
    "noise_is_as_declared": twin(UniformNoise, release=release_of(lambda v, c: v + c.sum())),
    "guarantee_is_not_refuted": twin(
        UniformNoise, guarantee=guaranteeing("event", 1.0, 0.0, "add_remove", "said so")
    ),
}


def at_the_cells(self, knowledge, *, rng):
    return Direction(knowledge.whereabouts.mean_trace.ravel(), threshold=0.0)


ATTACKS = {
    "gives_a_score_for_each_group": twin(MatchingCells, fit=fit_of(two_columns)),
    "states_that_it_needs_whereabouts": twin(MatchingCells, fit=at_the_cells),
    "repeats_with_its_generator": twin(MatchingCells, fit=fit_of(as_counted)),
    "leaves_its_input": twin(MatchingCells, fit=fit_of(written)),
    "has_a_threshold": twin(
        MatchingCells, fit=lambda self, knowledge, *, rng: Direction(np.ones(1), np.nan)
    ),
    "distinguisher_survives_pickling": twin(MatchingCells, fit=unpicklable),
    "scores_groups_separately": twin(MatchingCells, fit=fit_of(centred)),
    "does_not_beat_its_control": twin(MatchingCells, fit=fit_of(reversed_)),
}
MEASURES = {
    "is_ideal_for_the_counts": twin(LargestError, ideal=1.0),
    "is_a_number": twin(LargestError, measure=lambda self, raw, released: np.float32(0.0)),
    "repeats": twin(LargestError, measure=lambda self, raw, released: float(next(COUNTER))),
    "allows_empty_counts": twin(
        LargestError,
        measure=lambda self, raw, released: float(np.abs(released - raw).sum() / raw.sum()),
    ),
    "has_a_known_kind": twin(LargestError, kind="absolute"),
}


def reading(change):
    def read(self, piece):
        for records in Pings.read(self, piece):
            yield from change(records, piece)

    return read


READERS = {
    "describes_itself": twin(Pings, settings=("timezone",)),
    "reads_records": twin(
        Pings,
        read=reading(
            lambda r, piece: [Records(r.user, r.time, r.place, Malformed(1, "is not read"))]
        ),
    ),
    "names_rois_as_announced": twin(
        Pings, gives_rois=True, __annotations__={"gives_rois": ClassVar[bool]}
    ),
    "reads_the_same_twice": twin(
        Pings, read=reading(lambda r, piece: [r] * (1 + next(COUNTER) % 2))
    ),
    "reads_the_same_in_pieces": twin(
        Pings, read=reading(lambda r, piece: [r] if piece.start == 0 else [])
    ),
}


def changed(**fields):
    """Return a method set_up that changes the game."""

    def set_up(self, request):
        game = KnownSubset.set_up(self, request)
        return type(game)(
            **{key: getattr(game, key) for key in type(game).__slots__ if key != "__weakref__"}
            | {key: change(game) for key, change in fields.items()}
        )

    return set_up


def sample(game, **fields):
    old = game.challenge
    return type(old)(**{"counts": old.counts, "labels": old.labels, "blocks": old.blocks} | fields)


class Forgetful:
    """An adversary that learns something else each time."""

    retrains_per_release = False

    def __init__(self, adversary):
        self.adversary = adversary

    def study(self, release, mechanism, *, rng):
        knowledge = self.adversary.study(release, mechanism, rng=rng)
        return knowledge.shuffled(np.random.default_rng(next(COUNTER)))


PRIORS_ = {
    "sets_up_the_same_game": twin(
        KnownSubset,
        set_up=changed(
            challenge=lambda game: sample(game, blocks=game.challenge.blocks + next(COUNTER))
        ),
    ),
    "learns_the_same": twin(
        KnownSubset, set_up=changed(adversary=lambda game: Forgetful(game.adversary))
    ),
    "counts_groups": twin(
        KnownSubset,
        set_up=changed(challenge=lambda game: sample(game, counts=game.challenge.counts // 2)),
    ),
    "labels_half_of_groups": twin(
        KnownSubset,
        set_up=changed(
            challenge=lambda game: sample(game, labels=np.ones_like(game.challenge.labels))
        ),
    ),
    "announces_its_groups": twin(KnownSubset, n_rows=lambda self, n_past, *, validate, control: 3),
    "announces_whereabouts": twin(KnownSubset, gives_whereabouts=False),
    "refuses_too_few_users": twin(
        KnownSubset, check=lambda self, n_users, group_size, *, most=0: None
    ),
}
