"""Plan of a re-audit, and its policy: limits on results, and the level of each violation."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, Strict, model_validator

from clusterscale import contracts
from clusterscale.analyses.audit import AuditTemplate
from clusterscale.contracts import ConfigModel, Level, Mechanism, hash_of
from clusterscale.errors import PluginError
from clusterscale.reauditing.together import SeriesTables
from clusterscale.release.checks import CHECKS
from clusterscale.release.metadata import Size
from clusterscale.reporting.findings import ExposureVerdict
from clusterscale.study.foreign_code import code_of
from clusterscale.utility import UTILITIES
from clusterscale.validation_messages import choices

Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]


def worst_of(levels: Iterable[Any]) -> Level:
    """Return the worst of some levels, ``pass`` if there are none."""
    return max(levels, key=contracts.VERDICT_LEVELS.index, default="pass")


class LimitResult(NamedTuple):
    """Result for a value: its level, the threshold that decided it, and both as a clause."""

    level: Level
    limit: float
    text: str


class Limit(ConfigModel):
    """Thresholds above which a release fails (``fail``) or warns (``warn``).

    A single number is the failure threshold. For measures that are best when large, "above" means
    below. An estimate beyond a threshold has its level; an estimate whose interval alone extends
    beyond one warns.

    Attributes
    ----------
    warn
        Threshold of a warning, in the unit of the number, e.g. ``0.3``.
    fail
        Threshold of a failure, in the unit of the number, e.g. ``0.5``.
    """

    warn: Number | None = None
    fail: Number | None = None

    @model_validator(mode="after")
    def _has_a_threshold(self) -> Self:
        if self.warn is None and self.fail is None:
            raise ValueError("give warn, fail or both")
        return self

    def evaluate(self, value: float, low: float, high: float, *, ideal: float = 0.0) -> LimitResult:
        """Return the result for a value with its interval; beyond means further from ``ideal``."""
        furthest = max(abs(end - ideal) for end in (value, low, high))
        levels: dict[Level, float | None] = {"fail": self.fail, "warn": self.warn}
        limits = [(level, limit) for level, limit in levels.items() if limit is not None]
        for level, limit in limits:
            if abs(value - ideal) > abs(limit - ideal):
                return LimitResult(level, limit, f"{_side(limit, ideal)} {limit:g} ({level})")
        for level, limit in limits:
            if furthest > abs(limit - ideal):
                text = f"the interval reaches {_side(limit, ideal)} {limit:g} ({level})"
                return LimitResult("warn", limit, text)
        texts = [f"{level}s {_side(limit, ideal)} {limit:g}" for level, limit in limits]
        return LimitResult("pass", limits[-1][1], ", ".join(texts))


def _side(limit: float, ideal: float) -> str:
    return "above" if limit >= ideal else "below"


def _from_number(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return {"fail": value} if is_number else value


LimitOrNumber = Annotated[
    Limit, BeforeValidator(_from_number, json_schema_input_type=Number | Limit)
]


class ExposureLevels(ConfigModel):
    """The level of each verdict on exposure; an inconclusive one never passes.

    If ``exposed`` or ``partly_exposed`` is not set, the limits on privacy loss and on the share of
    exposed users decide; without any of these limits they are ``fail`` and ``warn``.

    Attributes
    ----------
    exposed
        Level of the verdict *exposed*, e.g. ``fail``.
    partly_exposed
        Level of *partly exposed*, e.g. ``warn``.
    inconclusive
        Level of *inconclusive*.
    """

    exposed: Level | None = None
    partly_exposed: Level | None = None
    inconclusive: Literal["warn", "fail"] = "warn"


class Policy(ConfigModel):
    """Limits on the privacy loss of a release, and on its utility; other results are only reported.

    ``exposure``: the level of each verdict, as :class:`ExposureLevels`. ``mean_privacy_loss``: mean
    over the targets of the audit, by the strongest attack. ``worst_privacy_loss``: largest of the
    targets; the maximum of many estimates is biased upwards. ``share_exposed``: share of the
    screened users (of the targets without a screen) with a privacy loss above ``exposed_above``.
    ``certified_auc``: the AUC that no adversary can exceed in telling whether any user was added,
    from all periods together. ``published_auc``: AUC of the attack on the published values, over
    users with known membership. ``utility``: limits by measure, lower limits if large values are
    good, upper limits if small values are. ``change``: change of the mean privacy loss since the
    last releases; ``newly_exposed``: newly exposed users as a share of those compared. ``promise``:
    the level of a broken guarantee, with an observed ε above the declared one. ``float_noise``: the
    level of continuous noise that is published unrounded. ``group_size``: the number of people that
    the release counts; an audit of groups of another size is inconclusive. ``counts_everyone``:
    whether it counts all people whose traces are known and nobody else, so that certificates are
    about everyone counted, though simulated people fill groups. ``consistency``: the level of a
    release that contradicts itself, its declared mechanism or earlier releases; also by name of the
    check. ``last``: the number of releases of a series that a new one is compared with.

    Attributes
    ----------
    exposure
        Level of each verdict on exposure.
    mean_privacy_loss
        Limit on the mean over targets, e.g. ``{warn: 0.3, fail: 0.5}``.
    worst_privacy_loss
        Limit on the largest of the targets, e.g. ``0.9``.
    share_exposed
        Limit on the share of exposed users, e.g. ``0.25``.
    exposed_above
        Privacy loss above which a user is exposed.
    certified_auc
        Limit on the largest certified AUC of any user, e.g. ``0.8``.
    published_auc
        Limit on the AUC of attacks on the published values, e.g. ``0.6``.
    utility
        Limits by measure, e.g. ``{hotspot_f1: 0.3}``.
    change
        Limit on the change of the mean privacy loss, e.g. ``0.15``.
    newly_exposed
        Limit on the share of newly exposed users, e.g. ``0.1``.
    promise
        Level of a broken guarantee.
    float_noise
        Level of unrounded noise.
    group_size
        Number of people that the release counts, e.g. ``900``.
    counts_everyone
        Whether it counts all people whose traces are known, and nobody else, e.g. ``true``.
    consistency
        Level of inconsistent values, for all checks or by check.
    last
        Number of earlier releases to compare with.
    """

    exposure: ExposureLevels = ExposureLevels()
    mean_privacy_loss: LimitOrNumber | None = None
    worst_privacy_loss: LimitOrNumber | None = None
    share_exposed: LimitOrNumber | None = None
    exposed_above: contracts.Probability = 0.5
    certified_auc: LimitOrNumber | None = None
    published_auc: LimitOrNumber | None = None
    utility: Mapping[str, LimitOrNumber] = {}
    change: LimitOrNumber | None = None
    newly_exposed: LimitOrNumber | None = None
    promise: Level = "fail"
    float_noise: Level = "warn"
    group_size: Size | None = None
    counts_everyone: bool = False
    consistency: Level | Mapping[str, Level] = "fail"
    last: Annotated[int, Strict(), Field(ge=1, le=100)] = 4

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        for key, names, registry in (
            ("utility", self.utility, UTILITIES),
            ("consistency", {} if isinstance(self.consistency, str) else self.consistency, CHECKS),
        ):
            for name in names:
                if name not in registry:
                    raise ValueError(f"{key}.{name} is not known: {choices(name, list(registry))}")
        return self

    @model_validator(mode="after")
    def _limits_are_in_range(self) -> Self:
        for name, limit in self:
            least = 0.5 if name.endswith("_auc") else 0.0
            for number in (limit.warn, limit.fail) if isinstance(limit, Limit) else ():
                if number is not None and not least <= number <= 1:
                    raise ValueError(f"{name} is {number:g}: give a number from {least:g} to 1")
        return self

    def level_of(self, check: str) -> Level:
        """Return the level of an inconsistency that a check found, by the name of the check."""
        if isinstance(self.consistency, str):
            return self.consistency
        return self.consistency.get(check, "fail")

    def level_of_exposure(self, exposure: ExposureVerdict) -> Level:
        """Return the level of a verdict on exposure."""
        if exposure == "inconclusive":
            return self.exposure.inconclusive
        limits = self.mean_privacy_loss, self.worst_privacy_loss, self.share_exposed
        limited = any(limit is not None for limit in limits)
        if exposure == "exposed":
            return self.exposure.exposed or ("pass" if limited else "fail")
        if exposure == "partly exposed":
            return self.exposure.partly_exposed or ("pass" if limited else "warn")
        return "pass"


class ReauditPlan(ConfigModel):
    """Audit settings and policy for the releases of a catalogue.

    ``audit``: the settings of the audit with groups of the release's size under its mechanism; with
    ``everyone``, all users of the cube are screened too. ``published``: the number of users with
    known membership, half of them inside, on which attacks on the published values are scored.

    Attributes
    ----------
    audit
        Settings of the audit, e.g. ``{targets: {random: 9}, priors: [{name: perfect}], attacks:
        [{name: projection}]}``.
    policy
        Limits.
    everyone
        Whether all users are screened.
    published
        Number of users with known membership to score.
    together
        How the releases of a series are related, if all count the same people: a new one is then
        checked together with those before it, e.g. ``{parents: [codes]}``; a gate has only one.
    """

    audit: AuditTemplate
    policy: Policy = Policy()
    everyone: bool = True
    published: contracts.Even = 20
    together: SeriesTables | None = None

    @property
    def question(self) -> str:
        """Hash of the settings without the policy."""
        return hash_of(self.model_dump(mode="json", exclude={"policy", "together"}))

    @property
    def rules(self) -> str:
        """Hash of the policy, and of how releases are related, if that is set."""
        together, policy = self.together, self.policy.digest
        return policy if together is None else hash_of([policy, together.digest])

    def key(self, identity: dict[str, Any], mechanism: Mechanism, cube: str, revision: int) -> str:
        """Return the key of the audit of a release, independent of the policy.

        ``identity`` is that of the release, ``cube`` the fingerprint of its cube. Code of other
        packages is part of the key. Raises PluginError if such code cannot be read, because its
        verdicts could then be those of an earlier version.
        """
        code = code_of(self, mechanism, CHECKS.classes)
        if unread := [path for path, source in code.items() if not source["digest"]]:
            raise PluginError(
                f"{unread[0]}: its code cannot be read, so its verdicts could be those of an "
                "earlier version: define it in an installed package"
            )
        return hash_of([self.question, identity, cube, revision, *([code] if code else [])])
