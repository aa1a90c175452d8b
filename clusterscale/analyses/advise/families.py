"""Families of mechanisms: one mechanism, and the values of its settings that are tried."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import product
from typing import Annotated, Any, Self, cast

import numpy as np
from pydantic import Field, Strict, model_validator

from clusterscale.contracts import ConfigModel, Count, Mechanism, Positive
from clusterscale.errors import ConfigError, InputError
from clusterscale.mechanisms import MECHANISMS
from clusterscale.mechanisms.base import BaseMechanism, Exact
from clusterscale.mechanisms.chain import Chain, steps_of
from clusterscale.mechanisms.coarsening import CoarsenSpace, CoarsenTime

_MERGING = CoarsenSpace, CoarsenTime
_DIGITS = 2  # significant digits of spaced values


class Spaced(ConfigModel):
    """Values that are evenly spaced on a logarithmic scale, rounded to two digits.

    Attributes
    ----------
    least, most
        Smallest and largest value, in the unit of the setting, e.g. ``0.1``.
    n
        Number of values.
    """

    least: Positive
    most: Positive
    n: Count = 9

    @model_validator(mode="after")
    def _rises(self) -> Self:
        if self.least > self.most:
            raise ValueError(f"least, {self.least:g}, is above most, {self.most:g}")
        return self

    @property
    def values(self) -> tuple[float, ...]:
        """The values, increasing and distinct."""
        spaced = np.geomspace(self.least, self.most, self.n)
        return tuple(dict.fromkeys(float(f"{value:.{_DIGITS}g}") for value in spaced))


Values = Spaced | Annotated[tuple[Any, ...], Strict(False), Field(min_length=1)]


class Family(ConfigModel):
    """A mechanism, and values of its settings, of which all combinations are candidates.

    Attributes
    ----------
    mechanism
        Name and settings of the mechanism, e.g. ``{name: laplace, unit: event}``.
    over
        Values by setting; None: only this mechanism. A setting of a step of a chain is named by its
        position, as in
        ``steps.0.per_day``. Values are a list, or evenly spaced on a logarithmic scale, e.g.
        ``{epsilon: {least: 0.1, most: 10.0, n: 7}}``.
    """

    mechanism: Annotated[dict[str, Any], Field(min_length=1)]
    over: dict[str, Values] | None = None

    def __hash__(self) -> int:
        return hash(self.digest)

    @model_validator(mode="after")
    def _is_mechanism(self) -> Self:
        try:
            self.members()
        except (ConfigError, InputError) as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def label(self) -> str:
        """The settings of the mechanism, and those that vary."""
        return f"{self.mechanism} over {', '.join(self.over or ())}"

    def members(self) -> list[Mechanism]:
        """Return a mechanism for each combination of values.

        Raises
        ------
        ConfigError
            If a setting is unknown or a value is out of range.
        """
        over = self.over or {}
        values = [given.values if isinstance(given, Spaced) else given for given in over.values()]
        return [
            _create(self.mechanism, dict(zip(over, chosen, strict=True)))
            for chosen in product(*values)
        ]


def _create(base: Mapping[str, Any], chosen: Mapping[str, Any]) -> Mechanism:
    settings = deepcopy(dict(base))
    for path, value in chosen.items():
        _set(settings, path, value)
    name = settings.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError("mechanism: give its name, e.g. {name: laplace, unit: event}")
    return MECHANISMS.create(name, **settings)


def _set(settings: dict[str, Any], path: str, value: Any) -> None:
    """Set a value at a path such as ``steps.1.epsilon``."""
    *parents, last = path.split(".")
    at: Any = settings
    try:
        for key in parents:
            at = at[int(key)] if isinstance(at, (list, tuple)) else at[key]
        at[last] = value
    except (KeyError, IndexError, ValueError, TypeError):
        raise ConfigError(
            f"over.{path}: the mechanism has no such setting; name a step of a chain by its "
            "position, as in steps.0.per_day"
        ) from None


def usual_families() -> tuple[Family, ...]:
    """Return what mechanisms say is usual: in official statistics, and in differential privacy.

    Thresholds, rounding, ranges, coarsening in space and time, and Laplace and Gaussian noise with
    ε from 0.05 to 5, with capped contributions or suppression; all can be published. And what
    mechanisms of other packages say of themselves.
    """
    usual = [(one, name) for name in MECHANISMS for one in MECHANISMS[name].usual]
    return tuple(
        Family(mechanism={"name": name, **one.settings}, over=dict(one.over))
        for one, name in sorted(usual, key=lambda pair: pair[0].rank)
    )


def merged(mechanisms: Sequence[Mechanism]) -> tuple[Mechanism, ...]:
    """Return mechanisms on coarser cells: places, epochs or both merged by 2 or 4, as chains.

    Those that merge cells themselves, or cannot be a step of a chain, are left out.
    """
    factors = sorted(product((1, 2, 4), repeat=2), key=lambda pair: pair[0] ** 2 * pair[1])
    found = []
    for space, time in factors[1:]:
        pairs = (CoarsenSpace, space), (CoarsenTime, time)
        merging = [merge(factor=factor) for merge, factor in pairs if factor > 1]
        for steps in map(steps_of, mechanisms):
            if all(isinstance(one, BaseMechanism) and type(one) not in _MERGING for one in steps):
                own = [one for one in steps if not isinstance(one, Exact)]
                chain = Chain(steps=cast(Any, (*merging, *own)))
                found.append(chain if chain.steps[1:] else merging[0])
    return tuple(found)


def list_candidates(
    mechanisms: Iterable[Mechanism], families: Iterable[Family]
) -> tuple[Mechanism, ...]:
    """Return the mechanisms and those of all families, each once, in this order."""
    members = [member for family in families for member in family.members()]
    return tuple({candidate.id: candidate for candidate in (*mechanisms, *members)}.values())
