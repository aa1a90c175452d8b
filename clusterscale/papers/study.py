"""Studies: runs that reproduce figures and tables of a paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Strict, model_validator

from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.recovery import RecoveryPlan
from clusterscale.analyses.traits import TraitsPlan
from clusterscale.contracts import ConfigModel, Count, OptionalUnique
from clusterscale.cube.synthetic import PRESETS
from clusterscale.papers.published import Claim, PublishedNumbers
from clusterscale.validation_messages import choices

CABS = "cabs"
"""Name of the San Francisco cabs, which are real data; all other cubes are presets."""

PAPERS: Mapping[str, str] = {
    "NDSS18": "Knock Knock, Who's There? Membership Inference on Aggregate Location Data",
    "POMACS20": "Measuring Membership Privacy on Aggregate Location Time-Series",
    "PETS17": "What Does The Crowd Say About You? Evaluating Aggregation-based Location Privacy",
    "POPETS24": "A Zero Auxiliary Knowledge Membership Inference Attack on Aggregate Location Data",
}
"""Titles of the papers."""


class Absent(ConfigModel):
    """Figures or tables that cannot be compared, and the reason.

    Attributes
    ----------
    item
        Figures or tables, as in ``Fig. 3``.
    why
        The reason.
    """

    item: str
    why: str


class PaperStudy(ConfigModel):
    """One run, and the numbers and claims of a paper to compare it with.

    Attributes
    ----------
    paper, title
        The paper, and the title of the study.
    cube, users
        ``cabs`` or a preset, with so many users; None: all.
    audit, recovery, traits
        What infers membership and locations, and what exposed users have in common.
    people
        Number of people that the paper's means are over.
    best
        Attacks among which ``attack: best`` selects the strongest.
    published, claims
        Numbers, and statements.
    absent
        Figures and tables that cannot be compared.
    remarks
        Differences in definitions.
    quick
        Settings that a quick run replaces.
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
            raise ValueError("published numbers and claims need an audit or a recovery")
        if self.traits is not None and self.audit is None:
            raise ValueError("traits need an audit")
        return self

    @property
    def is_real(self) -> bool:
        """Whether the cube has the data that the paper used."""
        return self.cube == CABS

    @property
    def runs(self) -> bool:
        """Whether there is anything to run."""
        return self.audit is not None or self.recovery is not None

    def items(self) -> Iterator[str]:
        """Yield the names of all figures and tables, each once, in order."""
        published = (numbers.item for numbers in self.published)
        yield from dict.fromkeys((*published, *(absent.item for absent in self.absent)))
