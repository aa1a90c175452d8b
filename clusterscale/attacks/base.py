"""Base class of attacks, which checks inputs before training and scoring."""

from dataclasses import dataclass, replace
from typing import Any, Literal
from weakref import WeakSet

import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.contracts import (
    NO_NOISE,
    Attack,
    Distinguisher,
    Examples,
    Knowledge,
    Release,
    Scores,
    TargetKnowledge,
)
from clusterscale.errors import InputError
from clusterscale.foreign import array_fault, call_foreign, is_foreign
from clusterscale.registry import Registry

ATTACKS: Registry[Attack] = Registry.of_package(
    "attack", "clusterscale.attacks", Attack, plugins="clusterscale.attacks"
)

_CHECKED: WeakSet[Release] = WeakSet()  # releases that need no second check by another attack


class BaseAttack(Attack):
    """An attack that checks its inputs; a subclass defines ``_fit``."""

    def fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> "CheckedDistinguisher":
        """Train on ``knowledge``.

        Raises InputError if the parts of ``knowledge`` do not fit each other, a value is
        NaN or infinite, a raw count is not from 0 to the group size, or the prior lacks
        what the attack needs.
        """
        _check_knowledge(knowledge)
        distinguisher, release = self._fit(knowledge, rng=rng), knowledge.training.release
        if isinstance(distinguisher, CheckedDistinguisher):
            return distinguisher
        return CheckedDistinguisher(distinguisher, release.values.shape[1:], release.group_size)

    def _fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> Distinguisher:
        """Train on checked knowledge."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class CheckedDistinguisher:
    """A trained attack that scores only releases like those it was trained on.

    ``shape`` are ROIs and epochs of the training releases, ``group_size`` the size of their groups.
    """

    distinguisher: Distinguisher
    shape: tuple[int, ...]
    group_size: int

    @property
    def threshold(self) -> float:
        """Scores at or above this mean *inside*."""
        return self.distinguisher.threshold

    def score(self, release: Release) -> Scores:
        """Return one score per group, shape (group,); higher = more likely inside.

        Raises InputError if the release has another shape or group size than the training
        releases, a value is NaN or infinite, or a raw count is not from 0 to the group
        size.
        """
        _check_release(release)
        _check_alike(release, self.shape, self.group_size)
        return self.distinguisher.score(release)


class LogOddsAttack(BaseAttack):
    """An attack whose scores are log-odds, or the probabilities that follow from them.

    Attributes
    ----------
    scores
        ``log_odds``, or the ``probabilities`` that follow from them: above log-odds of 37 these are
        all 1, so that groups tie, as where scikit-learn returns them.
    """

    scores: Literal["log_odds", "probabilities"] = "log_odds"

    def fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> CheckedDistinguisher:
        """Train on ``knowledge``; errors are those of :meth:`BaseAttack.fit`."""
        checked = super().fit(knowledge, rng=rng)
        if self.scores == "log_odds":
            return checked
        return replace(checked, distinguisher=_Probabilities(checked.distinguisher))


@dataclass(frozen=True, slots=True)
class _Probabilities:
    """The probabilities that follow from the log-odds of a distinguisher."""

    distinguisher: Distinguisher
    threshold: float = 0.5

    def score(self, release: Release) -> Scores:
        """Return the probability of each group, shape (group,)."""
        return np.asarray(scipy.special.expit(self.distinguisher.score(release)))


def score_groups(attack: Attack, trained: Distinguisher, release: Release) -> Scores:
    """Return the scores of groups by a distinguisher that ``attack`` has trained, (group,).

    Raises PluginError if it writes to the release, or does not return float64 of that shape
    without NaN.
    """

    def fault(returned: Any, *_: Any) -> str:
        return array_fault(returned, np.float64, (len(release.values),), finite=False)

    owner: object = attack if is_foreign(type(attack)) else trained
    return call_foreign(owner, "score", trained.score, release, fault=fault)  # type: ignore[no-any-return]


def _check_knowledge(knowledge: Knowledge) -> None:
    """Raise :class:`InputError` unless the parts of ``knowledge`` are usable and fit each other."""
    release = knowledge.training.release
    shape = release.values.shape[1:] if isinstance(release.values, np.ndarray) else ()
    for examples in (knowledge.training, knowledge.validation):
        if examples is not None:
            _check_release(examples.release)
            _check_alike(examples.release, shape, release.group_size)
            _check_labels(examples)
    if knowledge.whereabouts is not None:
        _check_whereabouts(knowledge.whereabouts, shape)


def _check_release(release: Release) -> None:
    """Raise :class:`InputError` unless ``release`` has usable values.

    These are float64 or int32 of shape (group, roi, epoch), all finite. Raw counts, those of a
    release that is known to have no noise, are whole numbers from 0 to the group size.
    """
    if release in _CHECKED:
        return
    values: Any = release.values
    kind = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
    if kind not in (np.float64, np.int32):
        raise InputError(
            f"{release.mechanism}: the values of a release must be an array of float64 or int32, "
            f"not {kind}"
        )
    if values.ndim != 3 or 0 in values.shape:
        raise InputError(
            f"{release.mechanism}: the values of a release must have shape (group, roi, epoch), "
            f"with at least one of each, not {values.shape}"
        )
    if release.group_size < 1:
        raise InputError(
            f"{release.mechanism}: group_size is {release.group_size}, but should be at least 1"
        )
    _check_values(values, release)
    _CHECKED.add(release)


def _check_values(values: NDArray[Any], release: Release) -> None:
    low, high = values.min(), values.max()  # NaN if any value is
    if not (np.isfinite(low) and np.isfinite(high)):
        wrong = np.argwhere(~np.isfinite(values))
        raise InputError(
            f"{release.mechanism}: {len(wrong)} of {values.size} values of the release are NaN or "
            f"infinite, the first at (group, roi, epoch) = {tuple(wrong[0].tolist())}"
        )
    if release.noise != NO_NOISE:
        return
    if low < 0 or high > release.group_size:
        raise InputError(
            f"{release.mechanism}: counts from {low} to {high} are not between 0 and "
            f"{release.group_size}, the group size"
        )
    if values.dtype.kind == "f" and (values != np.floor(values)).any():
        raise InputError(f"{release.mechanism}: counts are not whole numbers")


def _check_alike(release: Release, shape: tuple[int, ...], group_size: int) -> None:
    if release.values.shape[1:] != shape:
        raise InputError(
            f"the release has shape {release.values.shape[1:]} (roi, epoch), but the training "
            f"releases have {shape}"
        )
    if release.group_size != group_size:
        raise InputError(
            f"the release is of groups of {release.group_size}, but the training releases are of "
            f"groups of {group_size}"
        )


def _check_labels(examples: Examples) -> None:
    n_groups = len(examples.release.values)
    for name, kinds, right in (("labels", "b", "bool"), ("blocks", "iu", "integers")):
        array: Any = getattr(examples, name)
        if array.shape != (n_groups,) or array.dtype.kind not in kinds:
            raise InputError(
                f"{name} are {array.dtype} of shape {array.shape}, but a release of {n_groups} "
                f"groups needs {right} of shape {(n_groups,)}"
            )
    if examples.labels.all() or not examples.labels.any():
        raise InputError(
            f"of {n_groups} training groups, {int(examples.labels.sum())} contain the target; "
            "there must be some with and some without it"
        )


def _check_whereabouts(whereabouts: TargetKnowledge, shape: tuple[int, ...]) -> None:
    occupancy, trace, n_users = whereabouts.occupancy, whereabouts.trace, whereabouts.n_users
    if occupancy.shape != shape:
        raise InputError(
            f"whereabouts have shape {occupancy.shape} (roi, epoch), but the training releases "
            f"have {shape}"
        )
    if n_users < 1:
        raise InputError(f"whereabouts: n_users is {n_users}, but should be at least 1")
    low, high = occupancy.min(), occupancy.max()
    # 1e-9: relative tolerance for expected counts above the number of users
    if not (low >= 0 and high <= n_users * (1 + 1e-9)):
        raise InputError(
            f"whereabouts: users per cell are from {low} to {high}, but should be between 0 and "
            f"{n_users}, the users of the reference"
        )
    if trace.ndim != 1 or trace.dtype.kind not in "iu":
        raise InputError(
            f"whereabouts: the trace is {trace.dtype} of shape {trace.shape}, but should be "
            "integers of shape (event,)"
        )
    if not len(trace):
        return
    if trace.min() < 0 or trace.max() >= occupancy.size:
        raise InputError(
            f"whereabouts: the trace has cells from {trace.min()} to {trace.max()}, but the "
            f"releases of shape {shape} have cells 0 to {occupancy.size - 1}"
        )
    if (trace[1:] <= trace[:-1]).any():
        raise InputError("whereabouts: the cells of the trace are not strictly increasing")
