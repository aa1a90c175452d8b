"""What a release is for, and what it may expose: measures of utility, and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, Strict, model_validator

from clusterscale.contracts import ConfigModel, Positive, Probability
from clusterscale.utility import UTILITIES, Utility

Verdict = Literal["holds", "fails", "unclear"]

UNITS = ("event", "user_day", "user")
"""Units of guarantees, the weakest first: a guarantee for a later one implies the earlier ones."""

Measured = Annotated[Utility, UTILITIES.entry()]

_Auc = Annotated[float, Strict(), Field(ge=0.5, le=1)]


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether a limit or a bound holds for a candidate.

    Attributes
    ----------
    verdict
        ``holds`` or ``fails`` where the whole interval says so, else ``unclear``.
    text
        The measured value with its interval, and the limit.
    seen, n
        What was observed, ``users``, ``targets``, ``groups`` or ``challenges``, and how many of
        them, 0 if all; ``tries`` if more of them would tell, and empty if nothing would.
    times
        How many times as many would narrow the interval until it does not contain the limit, if the
        measured value stays; infinite if that is the limit.
    """

    verdict: Verdict
    text: str
    seen: str = ""
    n: int = 0
    times: float = np.inf

    @classmethod
    def of(
        cls, low: float, value: float, high: float, limit: float, text: str, seen: str = "",
        n: int = 0,
    ) -> Finding:  # fmt: skip
        """Compare a value with its interval with a largest value; NaN leaves it unclear."""
        verdict: Verdict = "holds" if high <= limit else "fails" if low > limit else "unclear"
        reach = high - value if value <= limit else value - low
        times = (reach / (limit - value)) ** 2 if abs(limit - value) > 0 else np.inf
        return cls(verdict, text, seen, n, times)


class Aim(ConfigModel):
    """A measure of utility that a release is chosen for.

    Attributes
    ----------
    measure
        Measure of utility, e.g. ``{name: hotspot_f1}``.
    weight
        Weight of the measure in the score, without a unit, e.g. ``2.0``; by default 1, or 0 with a
        ``bound``.
    bound
        Value that the mean of the measure has to reach, in the unit of the measure: the smallest
        one, or for a measure that is 0 for raw counts the largest one, e.g. ``0.8``.
    worst
        Distance to the ideal value at which a release has a score of 0, in the unit of the measure.
    """

    measure: Measured
    weight: Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)] | None = None
    bound: Annotated[float, Strict(), Field(allow_inf_nan=False)] | None = None
    worst: Positive = 1.0

    @property
    def label(self) -> str:
        """Label of the measure."""
        return self.measure.label

    @property
    def factor(self) -> float:
        """The weight, with its default."""
        return float(self.bound is None) if self.weight is None else self.weight

    @property
    def is_loss(self) -> bool:
        """Whether smaller values are better."""
        return self.measure.ideal == 0


def score_utility(aims: tuple[Aim, ...], values: NDArray[np.float64]) -> float:
    """Return the weighted mean of the normalised measures; the plain mean if none has a weight.

    A measure is normalised as max(0, 1 − |value − ideal| / worst): 1 for raw counts, 0 where the
    distance to the ideal is ``worst``, which is 1 unless set. One measure that is far off therefore
    costs no more than its weight.

    Parameters
    ----------
    aims
        Measures and their weights.
    values
        Mean of each measure, float64, shape (measure,); a NaN counts as 0.

    Returns
    -------
    float
        From 0 to 1.
    """
    factors = np.array([aim.factor for aim in aims])
    if not factors.any():
        factors = np.ones(len(aims))
    away = np.abs(values - [aim.measure.ideal for aim in aims]) / [aim.worst for aim in aims]
    scores = np.nan_to_num(np.maximum(1 - away, 0.0), nan=0.0)
    return float(scores @ factors / factors.sum())


class CertifiedLimit(ConfigModel):
    """Certificates: the AUC that no adversary whatever can exceed on a person.

    Attributes
    ----------
    auc
        Largest certified AUC, e.g. ``0.8``.
    share
        Largest share of users whose certified AUC is above that.
    """

    auc: _Auc
    share: Annotated[float, Strict(), Field(ge=0, lt=1)] = 0.0


class ScreenedLimit(ConfigModel):
    """Exposure in a screen of all users by attacks in closed form.

    Attributes
    ----------
    loss
        Privacy loss above which a user is exposed, 2 AUC − 1, e.g. ``0.5``.
    share
        Largest share of exposed users, e.g. ``0.05``.
    """

    loss: Annotated[float, Strict(), Field(ge=0, le=1)]
    share: Annotated[float, Strict(), Field(gt=0, lt=1)]


class AttackedLimit(ConfigModel):
    """Exposure of targets to the attacks of the audit; at least one of the fields is set.

    Attributes
    ----------
    mean_auc
        Largest mean AUC over targets, by the strongest attack, e.g. ``0.7``.
    worst_auc
        Largest AUC of any target, by any attack, e.g. ``0.9``.
    """

    mean_auc: _Auc | None = None
    worst_auc: _Auc | None = None

    @model_validator(mode="after")
    def _any(self) -> Self:
        if self.mean_auc is None and self.worst_auc is None:
            raise ValueError("give mean_auc, worst_auc or both")
        return self


class GuaranteeLimit(ConfigModel):
    """The differential-privacy guarantee that a mechanism must have.

    Attributes
    ----------
    unit
        Data that must be protected, e.g. ``event``: one event, all of a user on a day
        (``user_day``), or all of a user (``user``).
    epsilon
        Largest ε for that unit, or a larger one, e.g. ``1.0``.
    delta
        Largest δ, a probability.
    """

    unit: Literal["event", "user_day", "user"]
    epsilon: Positive
    delta: Probability = 1e-5


class Limits(ConfigModel):
    """What a release may expose; each limit that is set must hold.

    Attributes
    ----------
    guarantee
        Guarantee of differential privacy, e.g. ``{unit: user_day, epsilon: 2.0}``.
    certified
        Ceilings of any adversary, e.g. ``{auc: 0.9}``.
    screened
        Exposure of all users to attacks in closed form, e.g. ``{loss: 0.5, share: 0.05}``.
    attacked
        Exposure of targets to the attacks of the audit, e.g. ``{mean_auc: 0.7}``.
    """

    guarantee: GuaranteeLimit | None = None
    certified: CertifiedLimit | None = None
    screened: ScreenedLimit | None = None
    attacked: AttackedLimit | None = None
