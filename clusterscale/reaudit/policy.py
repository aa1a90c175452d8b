"""What is allowed: limits on what an audit measures, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BeforeValidator, Field, Strict, model_validator

from clusterscale.consistency import CHECKS
from clusterscale.contracts import LEVELS, Component, Level, Probability
from clusterscale.utility import UTILITIES
from clusterscale.wording import choices

__all__ = ["Limit", "Policy", "worst_of"]

Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]


def worst_of(levels: Any) -> Level:
    """Return the worst of some levels; ``pass`` where there are none."""
    return max(levels, key=LEVELS.index, default="pass")


class Limit(Component):
    """From where on something is told (``warn``) and from where on it is not allowed (``fail``).

    A number alone is where it fails. What is measured with an interval fails where all of the
    interval is beyond the limit, and is told where some of it is: then nobody can say.
    """

    warn: Number | None = None
    fail: Number | None = None

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if self.warn is None and self.fail is None:
            raise ValueError("give warn, fail or both")
        return self

    def judge(self, value: float, low: float, high: float, *, ideal: float = 0.0) -> Level:
        """Return the level of a value, with its interval; beyond is further from ``ideal``."""
        near, far = sorted((abs(low - ideal), abs(high - ideal)))
        if low <= ideal <= high:
            near = 0.0
        if self.fail is not None:
            limit = abs(self.fail - ideal)
            if near > limit:
                return "fail"
            if far > limit:
                return "warn"
        if self.warn is not None and abs(value - ideal) > abs(self.warn - ideal):
            return "warn"
        return "pass"


if TYPE_CHECKING:
    Bound = Limit
else:
    Bound = Annotated[
        Limit, BeforeValidator(lambda value: {"fail": value} if _is_number(value) else value)
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Policy(Component):
    """What a release may cost people, and must be worth; what is not limited is only told.

    ``mean_privacy_loss``: of the targets of the audit, by the strongest attack.
    ``worst_privacy_loss``: of the one who loses most; the largest of many measured numbers tends to
    be a little too large. ``share_exposed``: of everyone screened (of the targets where nobody is),
    who loses more than ``exposed_above``. ``published_auc``: of the attack on the very values
    published, over those of whom it is known whether they are inside. ``utility``: limits by
    measure, floors for what is good when large, ceilings for what is good when small. ``change``:
    of the mean privacy loss since the last releases, and ``newly_exposed``, as a share of those
    compared. ``promise`` is the level of a broken promise: more ε is seen than is declared.
    ``float_noise`` is the level of continuous noise that is published without rounding it.
    ``consistency`` is that of a release that contradicts itself, what is declared, or what was
    published before; by check where they are named. ``last``: how many releases of a series a new
    one is compared with.
    """

    mean_privacy_loss: Bound | None = None
    worst_privacy_loss: Bound | None = None
    share_exposed: Bound | None = None
    exposed_above: Probability = 0.5
    published_auc: Bound | None = None
    utility: Mapping[str, Bound] = {}
    change: Bound | None = None
    newly_exposed: Bound | None = None
    promise: Level = "fail"
    float_noise: Level = "warn"
    consistency: Level | Mapping[str, Level] = "fail"
    last: Annotated[int, Strict(), Field(ge=1, le=100)] = 4

    @model_validator(mode="after")
    def _known(self) -> Self:
        for key, names, known in (
            ("utility", self.utility, UTILITIES),
            ("consistency", self._by_check, CHECKS),
        ):
            for name in names:
                if name not in known:
                    raise ValueError(f"{key}.{name} is not known: {choices(name, list(known))}")
        return self

    @property
    def _by_check(self) -> Mapping[str, Level]:
        return {} if isinstance(self.consistency, str) else self.consistency

    def level_of(self, check: str) -> Level:
        """Return what follows from an inconsistency that a check has found."""
        if isinstance(self.consistency, str):
            return self.consistency
        return self.consistency.get(check, "fail")
