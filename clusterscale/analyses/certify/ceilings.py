"""The best that any adversary can do against one person in a release."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np

from clusterscale.analyses.certify.basis import (
    Substitutes,
    Visits,
    bases,
    false_statement,
    widest,
    without_sampling,
)
from clusterscale.analyses.certify.loss import Changes, best_test
from clusterscale.contracts import NO_NOISE, Floats, Mechanism, stability_of
from clusterscale.contracts.mechanism import ONLY_REPLACED
from clusterscale.errors import InputError
from clusterscale.mechanisms.accounting import needs_equal_numbers
from clusterscale.mechanisms.law import OutputDistribution
from clusterscale.validation_messages import check_kinds

Neighbours = Literal["add_remove", "replace"]

_NOTHING = "nothing that is published depends on this person"


@dataclass(frozen=True, eq=False)
class Ceiling:
    """The best test of whether a person is in a release, for an adversary who knows all else.

    Attributes
    ----------
    false_positive_rates, true_positive_rates
        Corners of its ROC curve, float64, shape (corner,), increasing.
    tight
        Whether an adversary who knows all else reaches it.
    reason
        Why no adversary does better, as a clause.
    changes
        The counts that change, for :func:`compose`; None: nothing bounds it.
    """

    false_positive_rates: Floats = field(repr=False)
    true_positive_rates: Floats = field(repr=False)
    tight: bool
    reason: str
    changes: tuple[Changes, ...] | None = field(repr=False)

    @cached_property
    def auc(self) -> float:
        """Largest area under the ROC curve, from 0.5 (nothing can be learned) to 1."""
        area = np.trapezoid(self.true_positive_rates, self.false_positive_rates)
        return min(1.0, max(0.5, float(area)))

    @cached_property
    def total_variation(self) -> float:
        """Largest difference of the true and the false positive rate, from 0 to 1."""
        return min(1.0, float((self.true_positive_rates - self.false_positive_rates).max()))

    @property
    def accuracy(self) -> float:
        """Largest share of right answers if inside and outside are equally likely."""
        return 0.5 + self.total_variation / 2

    def tpr(self, fpr: float) -> float:
        """Return the largest true positive rate at a false positive rate.

        Parameters
        ----------
        fpr
            From 0 to 1.

        Raises
        ------
        InputError
            If it is not.
        """
        if not 0 <= fpr <= 1:
            raise InputError(f"fpr must be between 0 and 1, not {fpr}")
        at = int(np.searchsorted(self.false_positive_rates, fpr, side="right"))
        if at == len(self.false_positive_rates):
            return 1.0
        return float(np.interp(fpr, self.false_positive_rates[at - 1 : at + 1],
                               self.true_positive_rates[at - 1 : at + 1]))  # fmt: skip

    def posterior(self, prior: float, *, fpr: float) -> float:
        """Return the largest probability that a person whom a test finds inside is inside.

        Parameters
        ----------
        prior
            Probability that the person is inside, before the release is seen; between 0 and 1.
        fpr
            False positive rate of the test; above 0.

        Raises
        ------
        InputError
            If a number is out of range.
        """
        if not 0 < prior < 1:
            raise InputError(f"prior must be between 0 and 1, not {prior}")
        if not 0 < fpr <= 1:
            raise InputError(f"fpr must be above 0 and at most 1, not {fpr}")
        found = self.tpr(fpr) * prior
        return found / (found + fpr * (1 - prior))


def ceiling(
    mechanism: Mechanism,
    *,
    n_changed: int | Visits,
    group_size: int,
    neighbours: Neighbours = "add_remove",
) -> Ceiling:
    """Return the best that any adversary can do to find out whether a person is in a release.

    The adversary knows everything else. The group size is held fixed, and is public: if another
    size is published, that alone can show that somebody is inside. For independent noise, this is
    the test of the composed privacy-loss distribution of all counts that the person changes by 1,
    which is exact; a function of noisy values, and guarantees (by group privacy), give upper
    bounds, of which the lowest is taken.

    Parameters
    ----------
    mechanism
        A bound mechanism: its sensitivity is known.
    n_changed
        Number of counts that change by 1; or :class:`Visits`, for mechanisms whose noise is on
        the series of a ROI. If the person is replaced by another, the counts in which one of the
        two is and the other is not; then ``n_units`` of :class:`Visits` says that both have as many
        events or days, without which a guarantee about replaced ones implies nothing. Before trace
        steps that drop visits at random.
    group_size
        Members of a group.
    neighbours
        Whether the person is added (or removed), or replaced by another.

    Returns
    -------
    Ceiling
        Its AUC is 0.5 if nothing changes, and 1 if nothing bounds what can be learned.

    Raises
    ------
    InputError
        If a number is out of range.

    Notes
    -----
    The losses are composed as by the accountants of ``dp_accounting`` (Doroshenko et al., PoPETs
    2022), rounded towards exposure. A published attack on 32 trips with Laplace noise of ε .66
    each reached an accuracy of .954; the ceiling is:

    >>> from clusterscale import mechanisms
    >>> from clusterscale.analyses import certify
    >>> noisy = mechanisms.create("laplace", epsilon=0.66, unit="event")
    >>> best = certify.ceiling(noisy, n_changed=32, group_size=100)
    >>> round(best.accuracy, 4), round(best.auc, 4), round(best.tpr(0.001), 3), best.tight
    (0.9552, 0.9918, 0.614, True)
    """
    check_kinds(mechanism=(mechanism, Mechanism))
    visits = n_changed if isinstance(n_changed, Visits) else Visits(n_changed)
    if visits.cells < 0:
        raise InputError(f"n_changed must be at least 0, not {visits.cells}")
    if group_size < 1:
        raise InputError(f"group_size must be at least 1, not {group_size}")
    if neighbours not in ("add_remove", "replace"):
        raise InputError(f"neighbours must be add_remove or replace, not {neighbours!r}")
    if not visits.cells:
        return _of((), True, _NOTHING)
    found = []
    for basis in bases(mechanism, group_size, visits):
        added = basis.added(visits)
        changes = basis.replaced(visits) if neighbours == "replace" else added
        if changes is not None:
            found.append(_of((changes,), basis.tight and changes == added, basis.reason))
    return min(found, key=lambda one: one.auc) if found else _unbounded(mechanism)


def against(
    mechanism: Mechanism,
    visits: Visits,
    substitutes: Substitutes,
    *,
    group_size: int,
) -> Ceiling:
    """Return the ceiling in the game: a person is inside, or somebody else drawn at random.

    The adversary knows the others, and who the other would be. A cell in which both were is counted
    for both, so this is an upper bound. Visits that trace steps drop at random are counted: in the
    game they are drawn once, and the adversary knows which are kept.

    Parameters
    ----------
    mechanism
        A bound mechanism.
    visits
        What differs between the person's trace and that of somebody idle.
    substitutes
        The same of the other, with its probability; empty if it is not known who that can be.
    group_size
        Members of a group.
    """
    if not substitutes:
        return _unbounded(mechanism)
    mechanism = without_sampling(mechanism)
    every = widest([visits, *(one for one, _ in substitutes)])
    if not every.cells:
        return _of((), True, _NOTHING)
    found = [
        _of((changes,), False, basis.reason)
        for basis in bases(mechanism, group_size, every)
        if (changes := basis.against(visits, substitutes)) is not None
    ]
    return min(found, key=lambda one: one.auc) if found else _unbounded(mechanism)


@lru_cache(maxsize=8)  # of other group sizes; a curve may have a million corners
def _of(changes: tuple[Changes, ...], tight: bool, reason: str) -> Ceiling:
    return Ceiling(*best_test(changes), tight, reason, changes)


def _unbounded(mechanism: Mechanism) -> Ceiling:
    """Return an AUC of 1, which is reached where others can be subtracted from exact counts."""
    ends = np.array([0.0, 1.0]), np.array([1.0, 1.0])
    law, known = mechanism.law(1), stability_of(mechanism.trace_steps) is not None
    exact = isinstance(law, OutputDistribution) and law.noise == NO_NOISE and not law.revised
    why = ONLY_REPLACED if needs_equal_numbers(mechanism) else mechanism.guarantee.reason
    if false := false_statement(mechanism):
        known, why = False, f"what it declares is not relied on: {false}"
    return Ceiling(*ends, known and exact, f"nothing bounds it: {why}", None)


def compose(ceilings: Sequence[Ceiling]) -> Ceiling:
    """Return the ceiling of an adversary who sees several releases with independent noise.

    Parameters
    ----------
    ceilings
        That of each release, such as those of the weeks of a series, by :func:`ceiling`.

    Returns
    -------
    Ceiling
        Tight if all are; its AUC is 1 if nothing bounds one of them.

    Raises
    ------
    InputError
        If there are none.
    """
    if not ceilings:
        raise InputError("ceilings: give at least one")
    unbounded = [one for one in ceilings if one.changes is None]
    if unbounded:
        return unbounded[0]
    reasons = "; ".join(dict.fromkeys(one.reason for one in ceilings))
    changes = tuple(part for one in ceilings for part in one.changes or ())
    return _of(changes, all(one.tight for one in ceilings), reasons)
