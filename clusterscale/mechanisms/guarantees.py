"""What a stated guarantee implies for more than one changed unit, and so for a person."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clusterscale.contracts import TraceStep
from clusterscale.mechanisms.capping import CapContributions
from clusterscale.phrases import privacy_unit
from clusterscale.validation_messages import plural


def group_privacy(epsilon: float, delta: float, n_units: int) -> tuple[float, float]:
    """Return what an (ε, δ) guarantee for one unit implies if ``n_units`` change.

    Nothing more follows from a guarantee alone: the same noise can be in everything published, as
    in a total with Laplace noise. Adding and removing are one change each; to replace somebody is
    to remove one and to add another, so it is two.

    Parameters
    ----------
    epsilon, delta
        The guarantee for one changed unit.
    n_units
        Number of changed units, at least 0.

    Returns
    -------
    tuple of float
        nε, and δ·Σ_{i<n} e^{iε}, at most 1 (Dwork and Roth 2014, Lemma 2.2).

    Examples
    --------
    >>> group_privacy(0.5, 0.0, 4)
    (2.0, 0.0)
    >>> group_privacy(0.0, 0.25, 2)
    (0.0, 0.5)
    """
    if n_units == 0:
        return 0.0, 0.0
    if delta == 0 or n_units == 1:
        return n_units * epsilon, min(delta, 1.0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        times = float(np.expm1(n_units * epsilon) / np.expm1(epsilon)) if epsilon else n_units
    return n_units * epsilon, min(1.0, delta * times) if times < np.inf else 1.0


def describe_guarantee(
    unit: str, epsilon: float, delta: float, n_days: int, steps: Sequence[TraceStep] = ()
) -> str:
    """Return ε and δ of a unit, and what they mean for a person, for display.

    The parameters are those of :func:`describe_person`.
    """
    person = describe_person(unit, epsilon, delta, n_days, steps)
    return f"{_pair(epsilon, delta)} per {privacy_unit(unit)}" + (f"; {person}" if person else "")


def describe_person(
    unit: str, epsilon: float, delta: float, n_days: int, steps: Sequence[TraceStep] = ()
) -> str:
    """Return what a guarantee means for somebody who changes as many units as possible.

    Parameters
    ----------
    unit, epsilon, delta
        The guarantee.
    n_days
        Number of local days of the release.
    steps
        Trace steps, which may limit the events of a person.

    Returns
    -------
    str
        A clause; empty if the unit is the person, or there is no guarantee.

    Examples
    --------
    >>> describe_person("user_day", 1.0, 0.0, 14)
    'for a person who is there on all 14 days, up to ε 14'
    >>> describe_person("event", 0.5, 0.0, 7)
    'for a person with n events, up to n times that'
    """
    if unit in ("user", "none") or not np.isfinite(epsilon):
        return ""
    per_day = [step.per_day for step in steps if isinstance(step, CapContributions)]
    if unit == "user_day":
        n, who = n_days, "who is there on that day"
        who = who if n == 1 else f"who is there on all {n:,} days"
    elif unit == "event" and per_day:
        n = min(per_day) * n_days
        who = f"with {plural(n, 'event')}, the most that are counted"
    else:
        many = "at n places" if unit == "roi_series" else f"with n {unit}s"
        times = "n times that" if delta == 0 else "n times that ε, and δ·(1 + e^ε + … + e^((n−1)ε))"
        return f"for a person {many}, up to {times}"
    return f"for a person {who}, up to {_pair(*group_privacy(epsilon, delta, n))}"


def _pair(epsilon: float, delta: float) -> str:
    return f"ε {epsilon:.6g}" + (f", δ {delta:.6g}" if delta else "")
