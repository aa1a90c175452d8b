"""Claims of a paper, in a form that results can confirm or contradict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, Strict, model_validator

from clusterscale.papers.published import Label, ResultSelection, Several

__all__ = ["Claim"]

Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]


class Claim(ResultSelection):
    """A claim in words (``text``), and its meaning in numbers.

    ``relation`` is ``above``, ``below`` or ``near`` another number or the number at other labels
    (``than``), or ``rise`` or ``fall`` from each label of ``along`` to the next. ``tolerance`` is
    the accepted deviation; if negative, the margin by which the relation must hold, where the paper
    says "clearly". The claim must hold for all labels of the dimensions in ``each``; the reported
    margin is the smallest. ``differs`` states why the claim does not hold for our results.
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
        is_trend = self.relation in ("rise", "fall")
        if is_trend != bool(self.along) or is_trend != (len(self.labels) > 1):
            raise ValueError("rise and fall, and only these, need along with two or more labels")
        if self.relation == "near" and self.tolerance <= 0:
            raise ValueError("near needs a tolerance above 0")
        if is_trend == (self.than is not None):
            raise ValueError("above, below and near, and only these, need than")
        return self
