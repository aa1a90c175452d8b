"""Figures that a paper has published, each with where in the results ours is found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, Literal, Self

from pydantic import Field, Strict, model_validator

from clusterscale.contracts import ConfigModel, Count, Positive

__all__ = [
    "ALL",
    "BEST",
    "PEOPLE",
    "Figure",
    "Label",
    "PublishedNumbers",
    "Reduce",
    "ResultSelection",
    "Several",
]

Label = str | int
"""What a coordinate of a results dataset holds."""

PEOPLE = ("target", "user")
"""The dimensions of people, which a place reduces."""

BEST, ALL = "best", "all"
"""Labels that stand for others: the strongest of those that a study names, and all of them."""

Several = Annotated[tuple[Label, ...], Strict(False), Field(min_length=1)]

Reduce = Literal["mean", "median", "sd", "share_above", "share_below"]


class ResultSelection(ConfigModel):
    """Where a number is found: which variable of the results, where, and what is made of it.

    ``at`` has a label for each dimension that has more than one; that of people (``target`` or
    ``user``) is reduced: by its mean, median or standard deviation, or to the share of people above
    or below ``limit``. Of several labels the largest value counts for each person, or with ``take``
    their mean, ``all`` being all of them: ``attack: best`` is the strongest of those that a study
    names. A number that is told as so many times another is divided by that ``over`` other labels.
    """

    of: str = "auc"
    at: Mapping[str, Label | Several] = {}
    over: Mapping[str, Label | Several] = {}
    take: Literal["most", "mean"] = "most"
    reduce: Reduce = "mean"
    limit: Annotated[float, Strict()] | None = None

    @model_validator(mode="after")
    def _share(self) -> Self:
        if (self.limit is not None) != self.reduce.startswith("share"):
            raise ValueError("limit goes with share_above and share_below")
        return self

    def where(self, at: Mapping[str, Label | Several]) -> ResultSelection:
        """Return the same place at other labels."""
        how = {"take": self.take, "reduce": self.reduce, "limit": self.limit}
        return ResultSelection.model_validate({"of": self.of, "at": at, "over": self.over, **how})

    def ends(self) -> tuple[ResultSelection, ...]:
        """Return the places of the number and of that which it is divided by, if there is one."""
        if not self.over:
            return (self,)
        bare = self.model_copy(update={"over": {}})
        return bare, bare.where({**self.at, **self.over})


@dataclass(frozen=True, slots=True)
class Figure:
    """One published number, where ours is, and where ours is as the paper came to its own."""

    place: ResultSelection
    value: float
    as_in_paper: ResultSelection | None = None


class PublishedNumbers(ResultSelection):
    """Published numbers of one kind: of one figure or table, from one place in the paper.

    ``by`` names dimensions in order, each with its labels, and ``values`` are nested in that order;
    null where the paper states none. Numbers are rounded to ``step``. ``tolerance``, a share of the
    paper's number, and ``allowance``, in its unit, are added to the interval where something else
    than chance is between two computations, which ``because`` names. ``people`` are those whom the
    paper's mean is over, where not as many as in the rest of the study. Where ``differs`` is given,
    it says why ours differs; ``as_in_paper`` has the labels, one for each of ``by`` or one for that
    in ``at``, at which ours is computed as the paper's was, to confirm the reason. ``unstated``
    names what the paper does not state and the number depends on: reported, but not compared.
    """

    item: str
    source: str
    by: Mapping[str, Several] = {}
    values: Any
    step: Positive = 0.01
    tolerance: Annotated[float, Strict(), Field(ge=0)] = 0.0
    allowance: Annotated[float, Strict(), Field(ge=0)] = 0.0
    because: str = ""
    people: Count | None = None
    differs: str = ""
    as_in_paper: Mapping[str, Label | Several] = {}
    unstated: str = ""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if twice := self.at.keys() & self.by.keys():
            raise ValueError(f"{', '.join(sorted(twice))} stands in at and in by")
        if bool(self.tolerance or self.allowance) != bool(self.because):
            raise ValueError("tolerance or allowance, and because, go together")
        if self.as_in_paper and not self.differs:
            raise ValueError("as_in_paper goes with differs")
        if self.unstated and (self.differs or self.because):
            raise ValueError("what is not compared, for something is unstated, has no differs")
        for dim, labels in self.as_in_paper.items():
            if dim not in self.at and dim not in self.by:
                raise ValueError(f"as_in_paper: {dim} stands neither in at nor in by")
            if dim in self.by and not (
                isinstance(labels, tuple) and len(labels) == len(self.by[dim])
            ):
                raise ValueError(f"as_in_paper must have {len(self.by[dim])} labels along {dim}")
        list(self.figures())
        return self

    def figures(self) -> Iterator[Figure]:
        """Yield every number that is stated.

        Raises
        ------
        ValueError
            If ``values`` are not nested as ``by`` says, or are no numbers.
        """
        for numbers in product(*(range(len(labels)) for labels in self.by.values())):
            labels = {dim: self.by[dim][i] for dim, i in zip(self.by, numbers, strict=True)}
            value = self._value(numbers)
            if value is not None:
                at = {**self.at, **labels}
                yield Figure(self.where(at), value, self._undone(at, numbers))

    def _undone(
        self, at: Mapping[str, Label | Several], numbers: tuple[int, ...]
    ) -> ResultSelection | None:
        """Return the place at which the difference is undone."""
        if not self.as_in_paper:
            return None
        which = dict(zip(self.by, numbers, strict=True))
        other = {
            dim: labels[which[dim]] if dim in which and isinstance(labels, tuple) else labels
            for dim, labels in self.as_in_paper.items()
        }
        return self.where({**at, **other})

    def _value(self, numbers: tuple[int, ...]) -> float | None:
        found = self.values
        for i, dim in zip(numbers, self.by, strict=True):
            if not isinstance(found, list) or len(found) != len(self.by[dim]):
                raise ValueError(f"values must be a list of {len(self.by[dim])} along {dim}")
            found = found[i]
        if found is not None and (isinstance(found, bool) or not isinstance(found, int | float)):
            raise ValueError(f"values hold {found!r}, which is no number")
        return found
