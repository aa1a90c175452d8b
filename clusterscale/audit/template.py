"""Audit settings for any release: those of a plan without periods, group sizes, mechanisms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Strict

from clusterscale.attacks import ATTACKS
from clusterscale.audit.dp_test import VerdictPlan
from clusterscale.audit.evaluation import UtilityPlan
from clusterscale.audit.precision import Precision
from clusterscale.audit.targets import Targets
from clusterscale.contracts import Attack, ConfigModel, Prior, Probability
from clusterscale.contracts.component import NonEmptyUnique
from clusterscale.game import FALSE_POSITIVE_RATE
from clusterscale.priors import PRIORS
from clusterscale.screening import ScreenPlan

__all__ = ["AuditTemplate"]

if TYPE_CHECKING:
    Priors = tuple[Prior, ...]
    Attacks = tuple[Attack, ...]
else:  # unions of the registered classes
    Priors = Annotated[tuple[PRIORS.field(), ...], *NonEmptyUnique]
    Attacks = Annotated[tuple[ATTACKS.field(), ...], *NonEmptyUnique]


class AuditTemplate(ConfigModel):
    """Targets, priors, attacks, measures of utility, and tests of guarantees.

    With ``control`` every attack is also trained on shuffled labels, challenged on groups with a
    substitute for the target, and compared with the sum of all published values. The true-positive
    rate is reported at ``false_positive_rate``. With a ``precision``, challenges are added to a
    target until its AUC is known to that precision.
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
