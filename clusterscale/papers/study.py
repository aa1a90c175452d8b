"""Studies: runs that reproduce a paper, with its numbers and claims and where ours are found."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, Literal, Self

from pydantic import Field, Strict, model_validator

from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.marginals import MarginalsPlan
from clusterscale.analyses.recovery import RecoveryPlan
from clusterscale.analyses.traits import TraitsPlan
from clusterscale.contracts import ConfigModel, Count, OptionalUnique, Positive
from clusterscale.cube.synthetic import PRESETS
from clusterscale.validation_messages import choices

Label = str | int
"""Label of a coordinate of a results dataset."""

PEOPLE = ("target", "user", "group")
"""Dimensions of people and of random groups of them, which a selection reduces."""

BEST, ALL = "best", "all"
"""Special labels: the strongest of the attacks that a study lists, and all labels."""

Several = Annotated[tuple[Label, ...], Strict(False), Field(min_length=1)]

Labels = Mapping[str, Label | Several]
"""Labels of dimensions."""

Finite = Annotated[float, Strict(), Field(allow_inf_nan=False)]

Tick = str | int | Finite
"""Value or word at an axis of a figure."""

Reduce = Literal["mean", "median", "sd", "share_above", "share_below"]


class ResultSelection(ConfigModel):
    """Selection of one number from the results: a variable, labels and a reduction over people.

    Attributes
    ----------
    of
        The variable.
    at
        A label for each dimension that has more than one, other than that of people (``target`` or
        ``user``) or random groups (``group``); ``all`` selects all labels, and ``attack: best`` the
        strongest attack that the study lists. Without an attack, it is the first of the plan.
    over
        Other labels; the number is divided by the number there.
    take
        For several labels, each person's largest value counts, or their mean.
    reduce
        Statistic over people: mean, median, standard deviation, or the share above or below
        ``limit``.
    limit
        Limit of a share.
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
            raise ValueError("share_above and share_below, and only these, need a limit")
        return self

    def where(self, at: Labels) -> "ResultSelection":
        """Return the same selection at other labels."""
        how = {"take": self.take, "reduce": self.reduce, "limit": self.limit}
        return ResultSelection.model_validate({"of": self.of, "at": at, "over": self.over, **how})

    def ends(self) -> tuple["ResultSelection", ...]:
        """Return the selections of the number and of its divisor, if any."""
        if not self.over:
            return (self,)
        undivided = self.model_copy(update={"over": {}})
        return undivided, undivided.where({**self.at, **self.over})


@dataclass(frozen=True, slots=True)
class Figure:
    """One published number, the selection of ours, and that of ours computed as in the paper."""

    selection: ResultSelection
    value: float
    as_in_paper: ResultSelection | None = None


class PublishedNumbers(ResultSelection):
    """Published numbers of one figure or table.

    Attributes
    ----------
    item, source
        The figure or table, and the paper's section.
    by, values
        Dimensions with their labels, and numbers nested in that order, null where the paper states
        none.
    step
        What numbers are rounded to.
    tolerance, allowance
        Widen the interval where two computations differ by more than chance: a share of the paper's
        number, and a number in its unit.
    because
        The reason for a tolerance or an allowance.
    people
        How many people the paper's mean is over, if not the study's.
    differs
        Why our result differs.
    as_in_paper
        Labels at which our result is computed as in the paper, to confirm that reason: one per
        label of a dimension in ``by``, or one for a dimension in ``at``; those of a dimension in
        ``over`` are of the divisor.
    unstated
        A setting that the number depends on but the paper does not state; the number is then
        reported but not compared.
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
            raise ValueError(f"{', '.join(sorted(twice))} is in both at and by")
        if bool(self.tolerance or self.allowance) != bool(self.because):
            raise ValueError("because is needed with tolerance or allowance, and only then")
        if self.as_in_paper and not self.differs:
            raise ValueError("as_in_paper needs differs")
        if self.unstated and (self.differs or self.because):
            raise ValueError("unstated excludes differs and because: the number is not compared")
        for dim, labels in self.as_in_paper.items():
            if dim not in self.at and dim not in self.by and dim != "attack":
                raise ValueError(f"as_in_paper: {dim} is in neither at nor by")
            if dim in self.by and not (
                isinstance(labels, tuple) and len(labels) == len(self.by[dim])
            ):
                raise ValueError(f"as_in_paper must have {len(self.by[dim])} labels along {dim}")
        list(self.figures())
        return self

    def figures(self) -> Iterator[Figure]:
        """Yield every published number.

        Raises ValueError if ``values`` are not nested in the order of ``by``, or are not numbers.
        """
        for numbers in product(*(range(len(labels)) for labels in self.by.values())):
            labels = {dim: self.by[dim][i] for dim, i in zip(self.by, numbers, strict=True)}
            value = self._value(numbers)
            if value is not None:
                at = {**self.at, **labels}
                yield Figure(self.where(at), value, self._as_in_paper(at, numbers))

    def _as_in_paper(self, at: Labels, numbers: tuple[int, ...]) -> ResultSelection | None:
        """Return the selection of our result computed as in the paper, None if there is none."""
        if not self.as_in_paper:
            return None
        which = dict(zip(self.by, numbers, strict=True))
        other = {
            dim: labels[which[dim]] if dim in which and isinstance(labels, tuple) else labels
            for dim, labels in self.as_in_paper.items()
        }
        divisor = {dim: label for dim, label in other.items() if dim in self.over}
        at = {**at, **{dim: label for dim, label in other.items() if dim not in divisor}}
        return self.where(at).model_copy(update={"over": {**self.over, **divisor}})

    def _value(self, numbers: tuple[int, ...]) -> float | None:
        value = self.values
        for i, dim in zip(numbers, self.by, strict=True):
            if not isinstance(value, list) or len(value) != len(self.by[dim]):
                raise ValueError(f"values must be a list of {len(self.by[dim])} along {dim}")
            value = value[i]
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ValueError(f"values contain {value!r}, which is not a number")
        return value


class Claim(ResultSelection):
    """A claim in words, and its meaning in numbers.

    Attributes
    ----------
    text, source
        The claim, and the paper's section.
    item
        The figure or table that shows it; empty: the text only.
    relation
        ``above``, ``below`` or ``near`` what ``than`` gives, or ``rise`` or ``fall`` along labels.
    than
        Another number, or other labels whose number is compared.
    along, labels
        Dimension and labels, from each of which to the next the number rises or falls.
    each
        Labels for all of which the claim must hold; the reported margin is the smallest.
    tolerance
        Accepted deviation; if negative, the margin by which the relation must hold, where the paper
        says "clearly".
    differs
        Why the claim does not hold for our results.
    """

    text: str
    source: str
    item: str = ""
    relation: Literal["above", "below", "near", "rise", "fall"]
    than: Finite | Labels | None = None
    along: str = ""
    labels: Annotated[tuple[str | int, ...], Strict(False)] = ()
    each: Mapping[str, Several] = {}
    tolerance: Finite = 0.0
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


CABS = "cabs"
"""Name of the San Francisco cabs, which have no preset; all other cubes are presets."""

PAPERS: Mapping[str, str] = {
    "NDSS18": "Knock Knock, Who's There? Membership Inference on Aggregate Location Data",
    "POMACS20": "Measuring Membership Privacy on Aggregate Location Time-Series",
    "PETS17": "What Does The Crowd Say About You? Evaluating Aggregation-based Location Privacy",
    "POPETS24": "A Zero Auxiliary Knowledge Membership Inference Attack on Aggregate Location Data",
}
"""Titles of the papers."""


@dataclass(frozen=True, slots=True)
class SeriesSelection:
    """Selections of one series of a figure, one for each tick, and those of the utility there."""

    name: str
    ticks: tuple[Tick, ...]
    selections: tuple[ResultSelection, ...]
    losses: tuple[ResultSelection, ...] = ()


class PaperFigure(ResultSelection):
    """A figure of the paper, drawn from our results in the paper's axes, order and units.

    Attributes
    ----------
    item, title
        The figure, as in ``Figure 7``, and what it shows; ``{}`` in the title is the panel's label.
    kind
        ``lines`` or ``bars`` of numbers; ``cumulative`` distributions or ``boxes`` of people's
        values; ``points`` of a number against a loss of utility; or ``cells``, heatmaps of the
        loadings of the traits' ``view``, of all ``who`` or only of the one in ``at``.
    along
        Dimension of the horizontal axis. Its labels are a list in ``at`` or ``series``, or a text
        in which ``{}`` is replaced by each tick; without any, the ticks themselves. ``all`` selects
        every label, for a curve.
    ticks
        Values or words at the horizontal axis; those of a curve divide it into equal parts.
    series
        Names in the legend in their order, and labels of each; one series if empty.
    each
        Labels with a panel for each.
    measure
        For ``points``: the measure of utility whose distance from its ideal is the horizontal axis.
    x, y
        Labels of the axes, with units.
    log
        Axes that are logarithmic, ``x``, ``y`` or ``xy``.
    """

    item: str
    title: str = ""
    kind: Literal["lines", "bars", "cumulative", "boxes", "points", "cells"] = "lines"
    along: str = ""
    ticks: Annotated[tuple[Tick, ...], Strict(False)] = ()
    series: Mapping[str, Labels] = {}
    each: Mapping[str, Several] = {}
    measure: str = ""
    x: str = ""
    y: str = ""
    log: Literal["", "x", "y", "xy"] = ""

    @model_validator(mode="after")
    def _drawable(self) -> Self:
        if bool(self.along) == (self.kind in ("cumulative", "cells")):
            raise ValueError("along is needed, but not with cumulative or cells")
        if bool(self.measure) != (self.kind == "points"):
            raise ValueError("points, and only these, need a measure")
        list(self.panels())
        return self

    def panels(self) -> Iterator[tuple[str, tuple[SeriesSelection, ...]]]:
        """Yield the title of each panel, and its series.

        Raises ValueError if labels are a text for each tick, and there are no ticks.
        """
        names = self.series or {self.y: {}}
        for labels in product(*self.each.values()):
            at = {**self.at, **dict(zip(self.each, labels, strict=True))}
            title = self.title.replace("{}", " · ".join(map(str, labels)))
            yield title, tuple(self._series(name, {**at, **own}) for name, own in names.items())

    def _series(self, name: str, at: Labels) -> SeriesSelection:
        given = at.get(self.along, "{}")
        if not self.along or given == ALL:
            return SeriesSelection(name, self.ticks, (self.where(at),))
        if isinstance(given, tuple):
            labels = given
        elif not self.ticks:
            raise ValueError(f"{self.item}: {self.along} {given!r} needs ticks")
        else:
            texts = (str(given).replace("{}", str(tick)) for tick in self.ticks)
            is_tick = given == "{}" and not any(isinstance(tick, float) for tick in self.ticks)
            labels = self.ticks if is_tick else tuple(texts)  # type: ignore[assignment]
        ticks = self.ticks if len(self.ticks) == len(labels) else labels
        selections = tuple(self.where({**at, self.along: label}) for label in labels)
        losses = tuple(self._utility(selection.at) for selection in selections if self.measure)
        return SeriesSelection(name, ticks, selections, losses)

    def _utility(self, at: Labels) -> ResultSelection:
        setting = {dim: at[dim] for dim in ("period", "group_size", "mechanism") if dim in at}
        return ResultSelection(of="utility", at={**setting, "measure": self.measure})


class PaperStudy(ConfigModel):
    """One run, and the numbers and claims of a paper to compare it with.

    Attributes
    ----------
    paper, title
        The paper, and the title of the study.
    cube, users
        ``cabs`` or a preset, with so many users; None: all. The data that a preset imitates may
        replace it.
    grid
        ``south,west,north,east/ROWSxCOLUMNS``, degrees, of the ROIs of real data; empty: the grid
        of the other studies. Papers do not state theirs.
    audit, recovery, traits, marginals
        What infers membership and locations, what exposed users have in common, and marginals that
        are estimated from releases.
    people
        Number of people that the paper's means are over.
    best
        Attacks among which ``attack: best`` selects the strongest.
    published, claims, figures
        Numbers, statements, and what is drawn.
    remarks
        Differences in definitions.
    quick
        Settings that a quick run replaces.
    """

    paper: Literal["NDSS18", "POMACS20", "PETS17", "POPETS24"]
    title: str
    cube: str
    users: Count | None = None
    grid: str = ""
    audit: AuditPlan | None = None
    recovery: RecoveryPlan | None = None
    traits: TraitsPlan | None = None
    marginals: MarginalsPlan | None = None
    people: Count = 150
    best: Annotated[tuple[str, ...], *OptionalUnique] = ()
    published: Annotated[tuple[PublishedNumbers, ...], Strict(False)] = ()
    claims: Annotated[tuple[Claim, ...], Strict(False)] = ()
    figures: Annotated[tuple[PaperFigure, ...], Strict(False)] = ()
    remarks: Annotated[tuple[str, ...], Strict(False)] = ()
    quick: Mapping[str, Any] = {}

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.cube != CABS and self.cube not in PRESETS:
            known = [CABS, *sorted(PRESETS)]
            raise ValueError(f"cube {self.cube!r} is not known: {choices(self.cube, known)}")
        if not any((self.audit, self.recovery, self.marginals)):
            raise ValueError("a study needs an audit, a recovery or marginals")
        if self.traits is not None and self.audit is None:
            raise ValueError("traits need an audit")
        return self

    @property
    def is_real(self) -> bool:
        """Whether the study runs on nothing but the data that the paper used."""
        return self.cube not in PRESETS

    def items(self) -> Iterator[str]:
        """Yield the names of all figures and tables, each once, in order."""
        several = (self.published, self.figures, self.claims)
        items = (one.item for part in several for one in part)
        yield from dict.fromkeys(item for item in items if item)
