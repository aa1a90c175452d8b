"""The part of an audit that is possible with traces of some or none of the people."""

from dataclasses import dataclass
from math import ceil

from clusterscale.analyses.audit import AuditPlan, AuditTemplate, Period, Targets
from clusterscale.analyses.audit.targets import Presence
from clusterscale.contracts import Prior
from clusterscale.cube import TraceCube
from clusterscale.errors import ConfigError, PoolError
from clusterscale.priors.zero_knowledge import ZeroKnowledge
from clusterscale.reauditing.resolved_release import ResolvedRelease


@dataclass(frozen=True, slots=True)
class KnownPart:
    """What is known of the people that a release may count.

    The traces of ``n_known`` people, the first rows of the population, are known, and the group is
    drawn of ``n_people``. ``left_out`` says what could not be done, a sentence each; ``basis`` what
    people are simulated from; ``doubt`` why members may be easier to recognise among real people,
    empty if they are not.
    """

    n_known: int
    n_people: int
    left_out: tuple[str, ...] = ()
    basis: str = "the published values"
    doubt: str = ""

    def __str__(self) -> str:
        others = f"{self.n_people - self.n_known:,} simulated from {self.basis}{self.doubt}"
        if not self.n_known:
            return f"no traces are known: all {others}"
        return f"traces of {self.n_known:,} of {self.n_people:,} people are known, {others}"


def knows_all_counted(release: ResolvedRelease, cube: TraceCube) -> bool:
    """Return whether a cube has the traces of everyone whom a release counts."""
    return release.group_size == cube.n_users or knows_population(release, cube)


def knows_population(release: ResolvedRelease, cube: TraceCube) -> bool:
    """Return whether a cube has the traces of everyone among whom a release counts."""
    n_users = cube.n_users
    return release.group_size <= n_users and (release.population or n_users) <= n_users


def count_people(release: ResolvedRelease, cube: TraceCube, priors: tuple[Prior, ...]) -> int:
    """Return of how many people groups are drawn; where the cube has fewer, others are simulated.

    If these are too few for the groups of a prior, twice, four, eight or 16 times as many as the
    group has are tried.
    """
    size, n_people = release.group_size, release.n_people(cube.n_users)
    own = knows_all_counted(release, cube)
    fitting = [
        _without_limit(prior, release) if isinstance(prior, ZeroKnowledge) else prior
        for prior in priors
        if isinstance(prior, ZeroKnowledge) or (own and not prior.needs_past)
    ] or [_without_limit(ZeroKnowledge(), release)]
    numbers = [max(n_people, times * size) for times in (1, 2, 4, 8, 16)]
    fits = (n for n in numbers if not any(_is_too_few(prior, release, (n,)) for prior in fitting))
    return next(fits, max(n_people, 2 * size) if n_people == size else n_people)


def fit_plan(
    release: ResolvedRelease, cube: TraceCube, template: AuditTemplate, n_people: int
) -> tuple[AuditPlan, tuple[str, ...]]:
    """Return the part of an audit that is possible, and what is left out, a sentence each.

    Targets are known people; without any, simulated ones. A prior is left out if it learns from the
    past, which is not simulated, or needs more traces than are known: of those counted, if the
    traces of all of them are, and else in the population of ``n_people``. If none remains, the
    adversary has no traces at all. Raises ConfigError if the remaining settings are not compatible.
    """
    needed = (n_people,) if knows_all_counted(release, cube) else (cube.n_users, n_people)
    priors, refused = _fit_priors(template.priors, release, needed)
    targets, omitted = _known_targets(template, cube, release)
    fitted = template.model_copy(update={"priors": priors, "targets": targets})
    return release.plan(fitted), (*refused, *omitted)


def _fit_priors(
    priors: tuple[Prior, ...], release: ResolvedRelease, numbers: tuple[int, ...]
) -> tuple[tuple[Prior, ...], list[str]]:
    """Return the priors that are possible with these numbers of people, and why others are not."""
    kept, refused = list[Prior](), list[str]()
    for prior in priors:
        if isinstance(prior, ZeroKnowledge):
            kept.append(_without_limit(prior, release))
        elif prior.needs_past:
            refused.append(f"{prior.label} learns from past releases, which are not simulated")
        elif _is_too_few(prior, release, numbers):
            refused.append(
                f"{prior.label} needs traces of more people for groups of "
                f"{release.group_size:,} than the {numbers[0]:,} known ones"
            )
        else:
            kept.append(prior)
    if not kept:
        kept.append(_without_limit(ZeroKnowledge(refit="shared", correction="matched"), release))
        refused[-1] += f"; {kept[0].name} is used instead"
    return tuple(kept), refused


def _is_too_few(prior: Prior, release: ResolvedRelease, numbers: tuple[int, ...]) -> bool:
    """Return whether one of these numbers of people is too small for the groups."""
    try:
        for n_users in numbers:
            prior.check(n_users, release.group_size)
    except PoolError:
        return True
    return False


def _without_limit(prior: ZeroKnowledge, release: ResolvedRelease) -> ZeroKnowledge:
    """Return a prior for groups of the published size, even if larger than its reference."""
    if prior.crowd == "counts" and not release.null_roi:
        return prior
    if release.null_roi:  # independent counts have none
        least = 2 * release.group_size
        changed = {"crowd": "users", "reference": max(prior.reference, least)}
    else:
        changed = {"crowd": "counts"}
    return prior.model_copy(update=changed)


def _known_targets(
    template: AuditTemplate, cube: TraceCube, release: ResolvedRelease
) -> tuple[Targets, list[str]]:
    """Return targets whose traces are known, and what is left out of those of the template.

    If no known person has an event in the release, the targets of the template stay.
    """
    targets, left_out = template.targets, list[str]()
    period = (Period(name="release", first=release.first, epochs=release.epochs),)
    n_known = int((Presence.of(cube, period).total > 0).sum()) if cube.n_users else 0
    if not n_known:
        if cube.n_users:
            left_out.append("no known person has an event in it: simulated people are attacked")
        return targets, left_out
    wanted, most = targets, targets.most_exposed
    if most is not None:
        number = min(most if isinstance(most, int) else ceil(most * n_known), n_known)
        wanted = Targets(random=max(number, 1), unseen=targets.unseen)
        left_out.append(
            "targets.most_exposed: a ranking would include simulated people; "
            f"{number:,} of the known people are drawn at random instead"
        )
    try:
        users = wanted.choose(cube, template.seed, periods=period).users
    except ConfigError as error:
        if targets.listed is not None:
            raise
        users = Targets(all=True, unseen=targets.unseen).choose(cube, 0, periods=period).users
        left_out.append(f"{error}; all {n_known:,} are attacked")
    listed = tuple(f"row {user}" for user in users)
    return Targets(listed=listed, unseen=targets.unseen), left_out
