"""Period: the epochs of a release, and of past ones."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, Strict, model_validator

from clusterscale.contracts import ConfigModel, Count, hash_of
from clusterscale.contracts.component import OptionalUnique

__all__ = ["Period"]

WEEK = 168

First = Annotated[int, Strict(), Field(ge=0)]


class Period(ConfigModel):
    """The epochs of one release: ``epochs`` of them from the one numbered ``first``.

    ``observed`` are the first epochs of past windows of the same length; priors of past groups
    learn from their releases: weeks, or the same day or hours of earlier weeks (NDSS18 §VI-B,
    §VI-C).
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
