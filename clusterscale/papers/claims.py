"""What a paper says in words, as something that results can keep or break."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, Strict, model_validator

from clusterscale.papers.published import Label, ResultSelection, Several

__all__ = ["Claim"]

Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]


class Claim(ResultSelection):
    """A statement in words (``text``), and what it means in numbers.

    ``relation`` compares the number: ``above`` or ``below`` another number, or the number at
    another place (``than``); ``near`` it; or numbers that ``rise`` or ``fall`` from each label of
    ``along`` to the next. ``tolerance`` is how far it may be off, or, below 0, the margin by which
    it must hold where the paper says "clearly". ``each`` names dimensions with labels for all of
    which it must hold; the margin is that of the worst label. ``differs`` says why ours does not
    hold.
    """

    text: str
    source: str
    relation: Literal["above", "below", "near", "rise", "fall"]
    than: Number | Mapping[str, Label | Several] | None = None
    along: str = ""
    labels: Annotated[tuple[str | int, ...], Strict(False)] = ()
    each: Mapping[str, Several] = {}
    tolerance: Number = 0.0
    differs: str = ""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        moves = self.relation in ("rise", "fall")
        if moves != bool(self.along) or moves != (len(self.labels) > 1):
            raise ValueError("along, with two labels or more, goes with rise and fall")
        if self.relation == "near" and self.tolerance <= 0:
            raise ValueError("tolerance, above 0, goes with near")
        if moves == (self.than is not None):
            raise ValueError("than goes with above, below and near")
        return self
