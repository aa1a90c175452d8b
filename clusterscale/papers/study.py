"""A study: a run of ours that answers figures and tables of a paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Strict, model_validator

from clusterscale.audit import AuditPlan
from clusterscale.contracts import ConfigModel, Count
from clusterscale.contracts.lists import OptionalUnique
from clusterscale.cube.synthetic import PRESETS
from clusterscale.papers.claims import Claim
from clusterscale.papers.published import PublishedNumbers
from clusterscale.recovery import RecoveryPlan
from clusterscale.traits import TraitsPlan
from clusterscale.validation_messages import choices

__all__ = ["CABS", "PAPERS", "Absent", "PaperStudy"]

CABS = "cabs"
"""The name of the San Francisco cabs, which are real; all other cubes are presets."""

PAPERS: Mapping[str, str] = {
    "NDSS18": "Knock Knock, Who's There? Membership Inference on Aggregate Location Data",
    "POMACS20": "Measuring Membership Privacy on Aggregate Location Time-Series",
    "PETS17": "What Does The Crowd Say About You? Evaluating Aggregation-based Location Privacy",
    "POPETS24": "A Zero Auxiliary Knowledge Membership Inference Attack on Aggregate Location Data",
}
"""Titles of the papers."""


class Absent(ConfigModel):
    """Figures or tables of which nothing can be compared, and why."""

    item: str
    why: str


class PaperStudy(ConfigModel):
    """One run of ours, and what a paper says of the same.

    ``cube`` is ``cabs`` or a preset, with so many ``users`` if not all. ``audit`` asks who is a
    member, ``recovery`` where everybody was, ``traits`` what the exposed have in common. The
    paper's means are over so many ``people``. ``best`` are labels of the attacks among which
    ``attack: best`` takes the strongest. ``quick`` holds what is otherwise in a quick run.
    ``published`` numbers, ``claims`` in words, what is ``absent``, and ``remarks`` on where our
    definition is another.
    """

    paper: Literal["NDSS18", "POMACS20", "PETS17", "POPETS24"]
    title: str
    cube: str
    users: Count | None = None
    audit: AuditPlan | None = None
    recovery: RecoveryPlan | None = None
    traits: TraitsPlan | None = None
    people: Count = 150
    best: Annotated[tuple[str, ...], *OptionalUnique] = ()
    published: Annotated[tuple[PublishedNumbers, ...], Strict(False)] = ()
    claims: Annotated[tuple[Claim, ...], Strict(False)] = ()
    absent: Annotated[tuple[Absent, ...], Strict(False)] = ()
    remarks: Annotated[tuple[str, ...], Strict(False)] = ()
    quick: Mapping[str, Any] = {}

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.cube != CABS and self.cube not in PRESETS:
            known = [CABS, *sorted(PRESETS)]
            raise ValueError(f"cube {self.cube!r} is not known: {choices(self.cube, known)}")
        if self.audit is None and self.recovery is None and (self.published or self.claims):
            raise ValueError("say what to run: audit, recovery or both")
        if self.traits is not None and self.audit is None:
            raise ValueError("traits go with an audit")
        return self

    @property
    def is_real(self) -> bool:
        """Whether its cube holds the data that the paper used."""
        return self.cube == CABS

    @property
    def runs(self) -> bool:
        """Whether there is anything to run."""
        return self.audit is not None or self.recovery is not None

    def items(self) -> Iterator[str]:
        """Yield the names of all figures and tables, each once, in order."""
        published = (each.item for each in self.published)
        yield from dict.fromkeys((*published, *(each.item for each in self.absent)))
