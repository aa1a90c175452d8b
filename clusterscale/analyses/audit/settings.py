"""Settings of an audit: the periods of releases, and how many challenges a target gets."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Self

from pydantic import Field, Strict, model_validator

from clusterscale.contracts import ConfigModel, Count, Even, OptionalUnique, Prior, hash_of

WEEK = 168

First = Annotated[int, Strict(), Field(ge=0, lt=2**63)]


class Period(ConfigModel):
    """The epochs of one release: ``epochs`` of them from the one numbered ``first``.

    ``observed`` are the first epochs of past windows of the same length; priors of past groups
    learn from their releases: weeks, or the same day or hours of earlier weeks (NDSS18 §VI-B,
    §VI-C).

    Attributes
    ----------
    name
        Name of the period, for people, e.g. ``first week``.
    first
        Number of the first epoch.
    epochs
        Number of epochs.
    observed
        First epochs of past windows of the same length, e.g. ``[0, 168]``.
    """

    name: Annotated[str, Field(min_length=1)]
    first: First = 0
    epochs: Count = WEEK
    observed: Annotated[tuple[First, ...], *OptionalUnique] = ()

    @property
    def label(self) -> str:
        """The name."""
        return self.name

    @property
    def canonical(self) -> dict[str, Any]:
        """The epochs; the name is a label."""
        return {key: value for key, value in super().canonical.items() if key != "name"}

    @property
    def id(self) -> str:
        """The epochs, as in ``0-168``, and a digest of past windows; independent of the name."""
        span = f"{self.first}-{self.first + self.epochs}"
        return f"{span}-{hash_of(self.observed)[:12]}" if self.observed else span

    @model_validator(mode="after")
    def _is_past(self) -> Self:
        late = [first for first in self.observed if first + self.epochs > self.first]
        if late:
            raise ValueError(
                f"observed: the window of {self.epochs} epochs from {late[0]} ends after the "
                f"period begins, at {self.first}"
            )
        return self

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """First epoch and the one after the last, of observed windows and then of the period."""
        return tuple((first, first + self.epochs) for first in (*self.observed, self.first))


class Precision(ConfigModel):
    """Add challenges to a target until its AUC is known well enough.

    After the first challenges, and each time their number has doubled, there is an interim look: if
    for every mechanism and attack the interval of the AUC is narrower than ``width``, the target is
    done. It never gets more than ``most`` challenges. Training is done once, and the first
    challenges do not depend on these settings.

    With up to K looks, each of which may be the last, each interval has a confidence of 1 − .05/K
    (Bonferroni), so that the reported interval, of the last look, has a confidence of 95 %.

    Attributes
    ----------
    width
        Width of the interval of AUC below which a target is done, e.g. ``0.1``.
    most
        Largest number of challenges of a target.
    """

    width: Annotated[float, Strict(), Field(gt=0, lt=1)]
    most: Even = 800


def interim_looks(first: int, precision: Precision | None) -> tuple[int, ...]:
    """Return the numbers of challenges at interim looks, increasing.

    ``first`` challenges, doubled up to ``precision.most``; only ``first`` without a precision.
    """
    looks = [first]
    while precision is not None and 2 * looks[-1] <= precision.most:
        looks.append(2 * looks[-1])
    return tuple(looks)


def find_imprecise(priors: Sequence[Prior], precision: Precision | None) -> Iterator[str]:
    """Yield a line for each prior that cannot add challenges."""
    if precision is None:
        return
    for i, prior in enumerate(priors):
        twice = 2 * prior.n_challenges
        if not prior.adds_challenges:
            yield (
                f"precision: challenges of {prior.name} (priors.{i}) are its own training groups, "
                "and none can be added; remove one of them"
            )
        elif twice > precision.most:
            yield (
                f"precision.most: {precision.most} is too small to double the "
                f"{prior.n_challenges} challenges of priors.{i}; set at least {twice}"
            )
