"""Settings of an audit that do not depend on the release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Strict

from clusterscale.analyses.audit.settings import Precision
from clusterscale.analyses.audit.targets import Targets
from clusterscale.analyses.dp_audit import UtilityPlan, VerdictPlan
from clusterscale.analyses.screening import ScreenPlan
from clusterscale.attacks import ATTACKS
from clusterscale.contracts import Attack, ConfigModel, NonEmptyUnique, Prior, Probability
from clusterscale.game import FALSE_POSITIVE_RATE
from clusterscale.priors import PRIORS

if TYPE_CHECKING:
    Priors = tuple[Prior, ...]
    Attacks = tuple[Attack, ...]
else:
    Priors = Annotated[tuple[PRIORS.field(), ...], *NonEmptyUnique]
    Attacks = Annotated[tuple[ATTACKS.field(), ...], *NonEmptyUnique]


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
