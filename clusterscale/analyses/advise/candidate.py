"""What is known about a candidate, and how far it got."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from clusterscale.analyses.advise import exposure
from clusterscale.analyses.advise.certificates import Certificate, certified_findings
from clusterscale.analyses.advise.goal import Finding, Verdict
from clusterscale.analyses.advise.measuring import Measured, utility_findings
from clusterscale.analyses.advise.plan import AdvicePlan
from clusterscale.contracts import Mechanism

Reached = Literal["listed", "certified", "screened", "measured", "attacked", "confirmed"]
STAGES: tuple[Reached, ...] = get_args(Reached)
"""How far a candidate can get."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A candidate on users and groups that the search has not touched.

    Attributes
    ----------
    certificate, screened, attacked, measured
        As for a candidate; ``screened`` is None if a screen cannot score it.
    refuted
        Whether any test of its guarantee refutes it.
    """

    certificate: Certificate
    screened: exposure.Screened | None
    attacked: exposure.Attacked
    measured: Measured
    refuted: bool

    def findings(self, plan: AdvicePlan) -> Iterator[Finding]:
        """Yield whether each limit and bound holds."""
        limits = plan.limits
        yield from certified_findings(self.certificate, limits)
        if self.refuted:
            yield Finding("fails", "the test of its guarantee refutes it")
        yield from exposure.screened_findings(
            self.screened, limits.screened, self.certificate.ceiling
        )
        yield from exposure.attacked_findings(self.attacked, limits.attacked)
        yield from utility_findings(self.measured, plan.goal)


@dataclass(slots=True, eq=False)
class Candidate:
    """What the search knows about a mechanism.

    Attributes
    ----------
    mechanism
        The mechanism.
    reached
        The last stage that it took part in.
    reason
        Why it fell out, in plain words; empty if it did not.
    certificate, screened, measured, attacked, confirmed
        Results of the stages; None before them.
    on_front
        Whether no measured candidate has both a better score and a lower exposure.
    doubts
        Why it fell out, if it only could not be decided whether limits hold.
    """

    mechanism: Mechanism
    reached: Reached = "listed"
    reason: str = ""
    certificate: Certificate | None = None
    screened: exposure.Screened | None = None
    measured: Measured | None = None
    attacked: exposure.Attacked | None = None
    confirmed: Confirmation | None = None
    on_front: bool = False
    doubts: tuple[Finding, ...] = ()

    @property
    def id(self) -> str:
        """Id of the mechanism."""
        return self.mechanism.id

    @property
    def ceiling(self) -> float:
        """Certified AUC where somebody else takes the place of a user; 1 before it is certified."""
        return 1.0 if self.certificate is None else self.certificate.ceiling

    @property
    def exposure(self) -> float:
        """Mean privacy loss in the screen; what its certificate allows if there is no screen."""
        if self.screened is not None:
            return self.screened.mean
        return 1.0 if self.certificate is None else 2 * self.certificate.worst - 1

    @property
    def screened_auc(self) -> float:
        """Mean AUC in the screen, in which none is below ½; 0 if there is no screen."""
        return 0.0 if self.screened is None else (1 + self.screened.mean) / 2

    @property
    def auc(self) -> float:
        """Mean AUC under attack, or in the screen if its attacks are clearly stronger; else 1."""
        if self.attacked is None or not self.attacked.n_targets:
            return 1.0
        stronger = self.screened_auc > self.attacked.high
        return self.screened_auc if stronger else self.attacked.mean

    def score(self, plan: AdvicePlan) -> float:
        """Return the score of the goal; NaN if utility was not measured."""
        return np.nan if self.measured is None else self.measured.score(plan.goal)

    def drop(self, findings: Iterable[Finding], unless: Sequence[Verdict] = ("holds",)) -> None:
        """Note why it falls out, if any finding is not among the verdicts of ``unless``."""
        wrong = [finding for finding in findings if finding.verdict not in unless]
        self.reason = "; ".join(finding.text for finding in wrong)
        decided = any(finding.verdict == "fails" for finding in wrong)
        self.doubts = () if decided else tuple(wrong)
