"""The plan of an audit, frozen, and its tasks."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, Strict

from clusterscale.analyses.audit.settings import Period, Precision, find_imprecise, interim_looks
from clusterscale.analyses.audit.targets import Chosen, Targets
from clusterscale.analyses.audit.task import AuditTask
from clusterscale.analyses.certify import Certification, CertifyPlan
from clusterscale.analyses.certify.plan import check_fit
from clusterscale.analyses.dp_audit.dp_test import VerdictPlan
from clusterscale.analyses.dp_audit.evaluation import MechanismEvaluationTask, UtilityPlan
from clusterscale.analyses.screening import Screen, ScreenPlan
from clusterscale.analyses.screening import check as check_screen
from clusterscale.attacks import ATTACKS
from clusterscale.contracts import (
    NO_NOISE,
    Attack,
    ConfigModel,
    Ints,
    Mechanism,
    NonEmptyUnique,
    Prior,
    Probability,
)
from clusterscale.cube import TraceCube
from clusterscale.cube.attributes import WEIGHTS
from clusterscale.cube.blocks import TraceSource
from clusterscale.cube.sized import SizedCube
from clusterscale.errors import ConfigError, PoolError
from clusterscale.game import FALSE_POSITIVE_RATE
from clusterscale.groups import check_lists
from clusterscale.groups.member_lists import Lists, describe_lists, find_members
from clusterscale.html_tables import Cell, list_facts
from clusterscale.mechanisms import MECHANISMS
from clusterscale.priors import PRIORS
from clusterscale.validation_messages import plural

Sizes = Annotated[tuple[Annotated[int, Strict(), Field(ge=2, lt=2**63)], ...], *NonEmptyUnique]
Periods = Annotated[tuple[Period, ...], *NonEmptyUnique]
Mechanisms = Annotated[tuple[Annotated[Mechanism, MECHANISMS.entry()], ...], *NonEmptyUnique]
Priors = Annotated[tuple[Annotated[Prior, PRIORS.entry()], ...], *NonEmptyUnique]
Attacks = Annotated[tuple[Annotated[Attack, ATTACKS.entry()], ...], *NonEmptyUnique]


class AuditTemplate(ConfigModel):
    """Targets, priors, attacks, measures of utility, and tests of guarantees.

    With ``control``, every attack is also trained on shuffled labels, challenged on groups with a
    substitute for the target, and compared with the sum of all published values.

    Attributes
    ----------
    seed
        Root seed of all random streams.
    targets
        Users to attack, e.g. ``{tertiles: 50}``.
    priors
        What the adversary knows, e.g. ``[{name: known_subset, alpha: 0.5}]``.
    attacks
        What the adversary does, e.g. ``[{name: logistic}]``.
    utility
        How utility is measured.
    verdict
        How guarantees are tested.
    screen
        How all users are screened.
    control
        Whether attacks are also tried where they must fail, and compared with a plain sum.
    false_positive_rate
        Probability of a false positive at which true positives are reported.
    precision
        Precision of AUCs up to which challenges are added, e.g. ``{width: 0.1}``; None: none.
    """

    seed: Annotated[int, Strict()] = 0
    targets: Targets
    priors: Priors
    attacks: Attacks
    utility: UtilityPlan = UtilityPlan()
    verdict: VerdictPlan = VerdictPlan()
    screen: ScreenPlan = ScreenPlan()
    control: bool = True
    false_positive_rate: Probability = FALSE_POSITIVE_RATE
    precision: Precision | None = None


class AuditPlan(AuditTemplate):
    """One audit: every target × period × prior × group size × mechanism × attack.

    Attributes
    ----------
    null_roi
        Whether users without a visit in an epoch are counted in a last ROI, as few releases do.
    group_sizes
        Numbers of members of a group, e.g. ``[50, 100]``.
    groups
        Lists of members, e.g. ``[[u1, u7], [u2, u5]]``, of one of which each group is drawn; None:
        groups are drawn from all users.
    periods
        Epochs of the releases.
    mechanisms
        How counts are published, e.g. ``[{name: exact}]``.
    """

    _first_defaults: ClassVar[Mapping[str, Any]] = {"null_roi": True}

    null_roi: bool = False
    group_sizes: Sizes
    groups: Lists | None = None
    periods: Periods = (Period(name="first week"),)
    mechanisms: Mechanisms

    def __repr__(self) -> str:
        targets, size = self.describe()["targets"], _describe_size(self)
        return f"AuditPlan(targets {targets}: {size}; {self.digest})"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return list_facts("Audit", _describe(self))

    def describe(self) -> dict[str, Any]:
        """Return plain values that may be published: users are counted, not named."""
        values = self.model_dump(mode="json")
        values["targets"] = self.targets.model_dump(mode="json", exclude_defaults=True)
        if self.targets.listed is not None:
            values["targets"]["listed"] = f"{len(self.targets.listed)} users"
        del values["groups"]
        if self.groups is not None:
            values["groups"] = describe_lists(self.groups)
        return values

    def check(self, cube: TraceCube) -> None:
        """Raise :class:`ConfigError`, naming the keys, if the plan does not fit ``cube``."""
        if faults := list(_find_faults(self, cube)):
            raise ConfigError("\n".join(faults))
        if isinstance(cube, SizedCube):
            self.targets.count(cube.n_users)
            return
        find_members(cube, self.groups)
        everyone = np.arange(cube.n_users)  # stands in for the ranking, which is not known yet
        self.choose(cube, everyone)
        if self.targets.most_exposed is not None:
            check_screen(self.whole_screen, cube)

    def choose(self, cube: TraceCube, ranking: Ints | None = None) -> Chosen:
        """Choose the targets, as ``choose`` does."""
        return self.targets.choose(cube, self.seed, ranking, periods=self.periods)

    @property
    def whole_screen(self) -> Screen:
        """The screen of all users under the plan's mechanisms, periods and group sizes."""
        return Screen(
            seed=self.seed,
            null_roi=self.null_roi,
            periods=tuple((period.name, period.spans[-1]) for period in self.periods),
            group_sizes=self.group_sizes,
            mechanisms=self.mechanisms,
            plan=self.screen,
            unseen=self.targets.unseen,
        )

    def tasks(self, cube: TraceCube, chosen: Chosen) -> Iterator[AuditTask]:
        """Yield a task for each period, target attacked in it, prior and group size, by period."""
        lists = find_members(cube, self.groups)
        for i, period in enumerate(self.periods):
            for target, prior, size in product(chosen.attacks(i), self.priors, self.group_sizes):
                spans = period.spans if prior.needs_past else period.spans[-1:]
                yield AuditTask(
                    source=self._source(cube, spans),
                    target=int(target),
                    period=period.id,
                    prior=prior,
                    group_size=size,
                    mechanisms=self.mechanisms,
                    attacks=self.attacks,
                    control=self.control,
                    false_positive_rate=self.false_positive_rate,
                    precision=self.precision,
                    lists=lists,
                )

    def evaluations(self, cube: TraceCube) -> Iterator[MechanismEvaluationTask]:
        """Yield the evaluation of mechanisms for each period and group size."""
        lists = find_members(cube, self.groups)
        for period, size in product(self.periods, self.group_sizes):
            source = self._source(cube, period.spans[-1:])
            yield MechanismEvaluationTask(
                source, period.id, size, self.mechanisms, self.utility, self.verdict, lists
            )

    def _source(self, cube: TraceCube, spans: tuple[tuple[int, int], ...]) -> TraceSource:
        weights = any(mechanism.uses_weights for mechanism in self.mechanisms)
        return TraceSource.of(cube, spans, null_roi=self.null_roi, seed=self.seed, weights=weights)

    @property
    def adds_noise(self) -> bool:
        """Whether any mechanism publishes other values than the raw counts."""
        return any(mechanism.noise != NO_NOISE for mechanism in self.mechanisms)

    @property
    def n_cases(self) -> int:
        """Number of results of one task: mechanisms × attacks."""
        return len(self.mechanisms) * len(self.attacks)


def certification_of(plan: AuditPlan, stated: CertifyPlan | None = None) -> Certification:
    """Return the certificates of the releases of a plan; past windows are not released."""
    return Certification(
        plan.seed,
        plan.null_roi,
        plan.whole_screen.periods,
        plan.group_sizes,
        plan.mechanisms,
        stated or CertifyPlan(),
        plan.priors,
        None if plan.groups is None else tuple(map(len, plan.groups)),
    )


def _describe(plan: AuditPlan) -> dict[str, Cell]:
    """Return the settings of a plan by name."""
    targets = plan.describe()["targets"].items()
    lists = {} if plan.groups is None else {"groups from": describe_lists(plan.groups)}
    return {
        "targets": ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in targets),
        **lists,
        "group sizes": ", ".join(f"{size:,}" for size in plan.group_sizes),
        "periods": [period.label for period in plan.periods],
        "priors": [prior.label for prior in plan.priors],
        "mechanisms": [mechanism.label for mechanism in plan.mechanisms],
        "attacks": [attack.label for attack in plan.attacks],
        "results of a target": _describe_size(plan),
        "controls": "yes" if plan.control else "none",
        "seed": str(plan.seed),
        "digest": plan.digest,
    }


def _describe_size(plan: AuditPlan) -> str:
    """Return the number of results per target, as a product."""
    nouns = ("period", "prior", "group_size", "mechanism", "attack")
    numbers = ((len(getattr(plan, f"{noun}s")), noun.replace("_", " ")) for noun in nouns)
    return " × ".join(plural(n, noun) for n, noun in numbers)


def _find_faults(plan: AuditPlan, cube: TraceCube) -> Iterator[str]:
    """Yield one line for each fault of ``plan``, the path of its key first."""
    long = list(_too_long(plan, cube.n_epochs))
    yield from long
    yield from _too_large(plan, cube.n_users)
    yield from find_imprecise(plan.priors, plan.precision)
    yield from _missing_knowledge(plan)
    yield from _missing_weights(plan, cube)
    if not long:  # else there are no cells to try mechanisms on
        yield from (f"mechanisms.{i}: {reason}" for i, reason in find_unfit(plan, cube))


def _too_long(plan: AuditPlan, n_epochs: int) -> Iterator[str]:
    for i, period in enumerate(plan.periods):
        first, stop = period.spans[-1]
        if stop > n_epochs:
            yield (f"periods.{i}: epochs {first} to {stop} exceed the {n_epochs} of the cube")


def _too_large(plan: AuditPlan, n_users: int) -> Iterator[str]:
    """Yield a line for each group size that users, or membership lists, are too few for."""
    for (i, size), prior in product(enumerate(plan.group_sizes), plan.priors):
        most = interim_looks(prior.n_challenges, plan.precision)[-1]
        n_groups = prior.n_groups + most - prior.n_challenges
        try:
            prior.check(n_users, size, most=most)
            if plan.groups is not None:
                check_lists(plan.groups, size=size, n_groups=n_groups, name=prior.name)
        except PoolError as error:
            yield f"group_sizes.{i}: {error}"


def _missing_knowledge(plan: AuditPlan) -> Iterator[str]:
    """Find priors and attacks without the knowledge that they need."""
    for (i, period), prior in product(enumerate(plan.periods), plan.priors):
        if prior.needs_past and not period.observed:
            yield (
                f"periods.{i}: {prior.name} learns from past releases: set the first epochs "
                f"of past windows, e.g. observed: [{max(0, period.first - period.epochs)}]"
            )
    for (i, attack), prior in product(enumerate(plan.attacks), plan.priors):
        if attack.needs_whereabouts and not prior.gives_whereabouts:
            yield (
                f"attacks.{i}: {attack.name} needs the target's locations, which {prior.name} does "
                "not provide; remove one of them"
            )


def _missing_weights(plan: AuditPlan, cube: TraceCube) -> Iterator[str]:
    """Find mechanisms that need weights, and priors that cannot train on their releases."""
    weighed = [i for i, mechanism in enumerate(plan.mechanisms) if mechanism.uses_weights]
    if WEIGHTS not in cube.attributes:
        for i in weighed:
            yield (
                f"mechanisms.{i}: {plan.mechanisms[i].label} uses the weights of users, but the "
                "cube has none: ingest the records with a table of weights, or expand by a number"
            )
    for i in weighed:
        if plan.mechanisms[i].guarantee.unit != "none":
            yield (
                f"mechanisms.{i}: {plan.mechanisms[i].label} states a guarantee for sums of "
                "weights, but an audit knows only how much users change counts; let it state none"
            )
    for i, prior in enumerate(plan.priors if weighed else ()):
        if not prior.trains_on_weights:
            yield (
                f"priors.{i}: {prior.label} trains on groups without weights, but mechanisms."
                f"{weighed[0]} publishes sums of weights; remove one of them, or expand by a number"
            )


def find_unfit(plan: AuditPlan, cube: TraceCube) -> Iterator[tuple[int, str]]:
    """Yield the index of each mechanism that does not fit the cells and group sizes, and why."""
    frames = [cube.frame(period.spans[-1]) for period in plan.periods]
    for i, mechanism in enumerate(plan.mechanisms):
        try:
            _check_guesses(mechanism, plan)
            for frame in frames:
                check_fit(mechanism, (cube.n_rois, frame), plan.group_sizes, plan.null_roi)
        except ConfigError as error:
            yield i, str(error)


def _check_guesses(mechanism: Mechanism, plan: AuditPlan) -> None:
    guessing = [prior.label for prior in plan.priors if prior.guesses_cells]
    if guessing and mechanism.n_tables > 1:
        raise ConfigError(
            f"{guessing[0]} guesses cells of one table: use perfect, or known_subset of a trace"
        )
