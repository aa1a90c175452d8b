"""Priors and attacks: what each must have, and what it may."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol

import numpy as np

from clusterscale.contracts.bounds import CellCoordinates
from clusterscale.contracts.component import NamedModel
from clusterscale.contracts.foreign import Fault, array_fault, call_foreign, is_foreign, returns
from clusterscale.contracts.game import Adversary, Game
from clusterscale.contracts.knowledge import Examples, Knowledge
from clusterscale.contracts.mechanism import Mechanism
from clusterscale.contracts.release import Release
from clusterscale.contracts.traces import Scores, Traces

__all__ = ["Attack", "Distinguisher", "GroupRequest", "Prior", "score_groups", "study_release"]


@dataclass(frozen=True, slots=True, eq=False)
class GroupRequest:
    """Groups that a prior has to draw and count for one target.

    Attributes
    ----------
    traces, target, group_size
        Users of the period of the release, the index of the target, and members of a group.
    frame, past
        Coordinates of the cells of ``traces``; traces of the same users in the observed periods
        before the release.
    lists
        Membership lists, as indices of users, that released groups are drawn from; None: from all
        users. An adversary's own training groups are drawn from whom it knows.
    validate
        Whether to draw groups for choosing a threshold.
    mean_weight
        Mean weight of all users, which is public; NaN if not known.
    rng, control, more
        Draw the groups; control groups with a substitute for the target, if given; and the
        challenges that are added later, if any. What is drawn from ``rng`` depends on no other.
    """

    traces: Traces
    target: int
    group_size: int
    rng: np.random.Generator
    frame: CellCoordinates | None = None
    past: Sequence[Traces] = ()
    lists: Sequence[Sequence[int]] | None = None
    validate: bool = False
    control: np.random.Generator | None = None
    more: np.random.Generator | None = None
    mean_weight: float = np.nan


def _game_fault(returned: Any, *_: Any, **__: Any) -> str:
    """Return what is wrong with a game: its groups must be counted, labelled and in blocks."""
    if wrong := returns(Game)(returned):
        return wrong
    for name in ("challenge", "absent"):
        sample = getattr(returned, name)
        if sample is None and name == "absent":
            continue
        shape = getattr(getattr(sample, "counts", None), "shape", ())
        if len(shape) != 3:
            return f"has {name} counts of shape {shape}, but should have (group, roi, epoch)"
        for what, dtype, wanted in (
            ("counts", np.int32, shape),
            ("labels", np.bool_, shape[:1]),
            ("blocks", np.int64, shape[:1]),
        ):
            if wrong := array_fault(getattr(sample, what), dtype, wanted, finite=True):
                return f"has {name} groups whose {what} are wrong: {wrong}"
    return "" if hasattr(returned.adversary, "study") else "has an adversary without study"


class Prior(NamedModel):
    """An adversary's knowledge before the release.

    A subclass defines ``n_challenges``, ``n_rows`` and ``set_up``, and sets ``needs_past`` if it
    learns from releases of past periods, ``gives_whereabouts`` if it includes where the target was,
    and ``adds_challenges`` if more challenges can be added later. ``trains_on_weights`` is False if
    its training groups have no sums of weights even where users have weights.
    """

    _registry: ClassVar[str] = "clusterscale.priors:PRIORS"
    _boundary: ClassVar[Mapping[str, Fault | None]] = {
        **{name: returns(Integral) for name in ("n_challenges", "n_groups", "n_rows")},
        "set_up": _game_fault,
        "studies": returns(tuple, what="two numbers"),
    }

    needs_past: ClassVar[bool] = False
    gives_whereabouts: ClassVar[bool] = False
    adds_challenges: ClassVar[bool] = False
    trains_on_weights: ClassVar[bool] = True

    @property
    @abstractmethod
    def n_challenges(self) -> int:
        """Number of initial challenges."""

    @property
    def n_groups(self) -> int:
        """Number of released groups that are drawn initially: by default the challenges."""
        return self.n_challenges

    @abstractmethod
    def n_rows(self, n_past: int, *, validate: bool, control: bool) -> int:
        """Return how many groups, each in one period, are counted initially."""

    @abstractmethod
    def set_up(self, request: GroupRequest) -> Game:
        """Draw and count the groups of one target."""

    def studies(self, *, validate: bool, control: bool) -> tuple[int, int]:
        """Return the number of releases it studies, and the number of synthetic groups for each.

        Both per mechanism; 0 if the adversary has its groups beforehand.
        """
        return 0, 0

    def n_candidates(self, n_users: int) -> int:
        """Return from how many other users the one in the place of a target is drawn, at least.

        All of them are equally likely. Unless overridden, nothing is known, so it is 1: the one who
        changes most.
        """
        return 1

    def check(self, n_users: int, group_size: int, *, most: int = 0) -> None:
        """Raise :class:`~clusterscale.errors.PoolError` if groups of that size cannot be drawn.

        ``most`` is the largest number of challenges that may be needed.
        """


class Distinguisher(Protocol):
    """A trained attack on one target.

    Scores at or above ``threshold``, which is chosen in training, mean *inside*.
    """

    @property
    def threshold(self) -> float:
        """Lowest score for which the answer is *inside*."""

    def score(self, release: Release) -> Scores:
        """Return one score per group, shape (group,); higher = more likely inside."""


def _distinguisher_fault(returned: Any, *_: Any, **__: Any) -> str:
    if not hasattr(returned, "score") or not hasattr(returned, "threshold"):
        return returns(has=("score", "threshold"), what="a Distinguisher")(returned)
    threshold = returned.threshold
    known = isinstance(threshold, Real) and np.isfinite(float(threshold))
    return "" if known else f"has threshold {threshold!r}: it must be a finite number"


def score_groups(attack: NamedModel, trained: Distinguisher, release: Release) -> Scores:
    """Return the scores of groups by a distinguisher that ``attack`` has trained, (group,).

    Raises
    ------
    PluginError
        If it writes to the release, or does not return float64 of that shape without NaN.
    """

    def fault(returned: Any, *_: Any) -> str:
        return array_fault(returned, np.float64, (len(release.values),), finite=False)

    owner: object = attack if is_foreign(type(attack)) else trained
    scores: Scores = call_foreign(owner, "score", trained.score, release, fault=fault)
    return scores


def study_release(
    adversary: Adversary, release: Release, mechanism: Mechanism, *, rng: np.random.Generator
) -> Knowledge:
    """Return what an adversary derives from a release of its own, see :meth:`Adversary.study`.

    Raises
    ------
    PluginError
        If it writes to the release, or returns something else than labelled groups.
    """

    def fault(returned: Any, *_: Any, **__: Any) -> str:
        if wrong := returns(Knowledge)(returned) or returns(Examples)(returned.training):
            return wrong
        n_groups, n_labels = len(returned.training.release.values), len(returned.training.labels)
        return "" if n_groups == n_labels else f"has {n_labels} labels for {n_groups} groups"

    release.values.flags.writeable = False  # it is a copy, and a view of it would have a base
    known: Knowledge = call_foreign(
        adversary, "study", adversary.study, release, mechanism, rng=rng, fault=fault
    )
    return known


class Attack(NamedModel):
    """Learns to distinguish releases with the target from those without.

    A subclass defines ``fit``, sets ``needs_whereabouts`` if it must know where the target was, and
    ``validates`` if it chooses its threshold on validation groups, where there are any.
    """

    _registry: ClassVar[str] = "clusterscale.attacks:ATTACKS"
    _boundary: ClassVar[Mapping[str, Fault | None]] = {"fit": _distinguisher_fault}

    needs_whereabouts: ClassVar[bool] = False
    validates: ClassVar[bool] = False

    @abstractmethod
    def fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> Distinguisher:
        """Train on ``knowledge``."""
