"""What an audit and a screen say of one mechanism, in the few numbers that a policy limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterscale.audit import count_failed
from clusterscale.audit.findings import Finding, find_exposures, worst_findings
from clusterscale.contracts import Ints
from clusterscale.errors import DamagedError, InputError
from clusterscale.metrics import mean_interval
from clusterscale.schema import RAW_COUNTS, find_mechanism
from clusterscale.screening import is_counted
from clusterscale.validation_messages import name_best

if TYPE_CHECKING:
    import xarray as xr

__all__ = [
    "Exposures",
    "IntervalEstimate",
    "ReleaseMetrics",
    "UtilityValue",
    "exposures_of",
    "measure",
]

Floats = NDArray[np.float64]

_NOTHING_PROMISED = "nothing promised"
_TRIALS = ("broken", "too few samples", "consistent", _NOTHING_PROMISED)  # worst first
_STATUSES = ("done", "failed", "missing", "unseen")


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """A number and its interval; not a number where it is not known."""

    value: float = np.nan
    low: float = np.nan
    high: float = np.nan

    @classmethod
    def exact(cls, value: float) -> IntervalEstimate:
        """Return a number that is known as it is."""
        return cls(value, value, value)

    @property
    def known(self) -> bool:
        """Whether there is a number."""
        return bool(np.isfinite(self.value))


@dataclass(frozen=True, slots=True, eq=False)
class Exposures:
    """Privacy loss of users, by the attack that is strongest on average.

    ``users`` are their rows in the cube, increasing, int64, shape (user,); ``loss``, ``low`` and
    ``high``, float64, shape (user,), the loss and the ends of its 95 % interval; ``attack`` is its
    label, and ``everyone`` tells whether all users are here that a screen counts, or targets only.
    """

    users: Ints
    loss: Floats
    low: Floats
    high: Floats
    attack: str
    everyone: bool


class _Promise(NamedTuple):
    seen: float
    declared: float
    verdict: str
    unit: str


class UtilityValue(NamedTuple):
    """A measure at its worst: the value, its ideal, and the name and label of the measure."""

    value: float
    ideal: float
    name: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class ReleaseMetrics:
    """The numbers of a release.

    Attributes
    ----------
    finding
        The worst verdict on exposure, over periods, priors and group sizes.
    n_targets
        Targets of the audit that were finished.
    attack
        The strongest attack, by mean privacy loss, with its prior.
    mean_loss, worst_loss
        Of the targets, by that attack.
    share_exposed, n_screened, exposed_above
        Share of users who lose more than that, and of how many.
    epsilon_seen, epsilon_declared, verdict, unit
        What was measured of the promise, at its unit; infinite and ``nothing promised`` where there
        is none.
    utility
        By id of the measure; without those that are not known everywhere.
    float_noise
        Whether continuous noise is published unrounded: ``yes``, ``no``, or empty if not known.
    """

    finding: Finding
    n_targets: int
    attack: str
    mean_loss: IntervalEstimate
    worst_loss: float
    share_exposed: IntervalEstimate
    n_screened: int
    exposed_above: float
    epsilon_seen: float
    epsilon_declared: float
    verdict: str
    unit: str
    utility: dict[str, UtilityValue] = field(default_factory=dict)
    float_noise: str = ""


def measure(
    audit: xr.Dataset, exposures: Exposures, mechanism: str, *, exposed_above: float
) -> ReleaseMetrics:
    """Return the numbers of one mechanism, at its worst over periods, priors and group sizes.

    Parameters
    ----------
    audit
        Results, which keep :data:`clusterscale.schema.RESULTS`.
    exposures
        What :func:`exposures_of` tells of the same mechanism.
    mechanism
        Label of the mechanism that is judged.
    exposed_above
        The privacy loss above which somebody counts as exposed.

    Raises
    ------
    InputError
        If the results have no such mechanism, if nothing of it was finished, or if tasks failed.
    DamagedError
        If a part of the results is missing.
    """
    told = _select(audit, mechanism)
    _check_whole(audit, mechanism)
    strongest, losses = _strongest(_attacked(audit, mechanism), "target")
    low, high = mean_interval(losses)
    promise = _promise(told)
    exposed = exposures.loss > exposed_above
    share = IntervalEstimate.exact(float(exposed.mean()))
    if not exposures.everyone:
        share = IntervalEstimate(share.value, *mean_interval(exposed))
    return ReleaseMetrics(
        finding=worst_findings(find_exposures(audit))[mechanism],
        n_targets=len(losses),
        attack=strongest,
        mean_loss=IntervalEstimate(float(losses.mean()), low, high),
        worst_loss=float(losses.max()),
        share_exposed=share,
        n_screened=len(exposures.users),
        exposed_above=exposed_above,
        epsilon_seen=promise.seen,
        epsilon_declared=promise.declared,
        verdict=promise.verdict,
        unit=promise.unit,
        utility=_utility(told),
        float_noise=_float_noise(told),
    )


def exposures_of(audit: xr.Dataset, screen: xr.Dataset | None, mechanism: str) -> Exposures:
    """Return the exposure of everyone, or of the targets where no screen knows the mechanism.

    Everyone are the users that the screen counts: with an event in the period, as a rule.

    Parameters
    ----------
    audit, screen
        Results, which keep :data:`clusterscale.schema.RESULTS` and its ``SCREEN``.
    mechanism
        Label of the mechanism that is judged.

    Raises
    ------
    InputError
        As :func:`measure`.
    """
    everyone = screen is not None and mechanism in screen.mechanism.values
    table, who = _attacked(audit, mechanism), "target"
    if everyone and screen is not None:
        table, who = _attacked(screen, mechanism), "user"
    table = table[["privacy_loss", "auc", "auc_low", "auc_high"]]
    if everyone and screen is not None:  # users without an event have nothing to lose
        table = table.where(is_counted(screen))
    table = table.transpose(..., who)
    flat = {name: table[name].values.reshape(-1, table.sizes[who]) for name in table.data_vars}
    best, label = _best(table["privacy_loss"], flat["privacy_loss"])
    known = np.isfinite(flat["auc"][best])
    ends = (np.maximum(2 * flat[name][best][known] - 1, 0) for name in ("auc_low", "auc_high"))
    low, high = (end.astype(np.float64) for end in ends)
    loss = flat["privacy_loss"][best][known].astype(np.float64)
    return Exposures(table[who].values[known], loss, low, high, label, everyone)


def _attacked(results: xr.Dataset, mechanism: str) -> xr.Dataset:
    """Return what was attacked: for raw counts every mechanism, for it can be applied to them."""
    told = _select(results, mechanism)
    raw_counts = find_mechanism(results, RAW_COUNTS)
    return results if mechanism == raw_counts else told.expand_dims("mechanism")


def _check_whole(audit: xr.Dataset, mechanism: str) -> None:
    """Raise unless every case of a mechanism has ended, and has what a case must have."""
    told = _select(audit, mechanism)
    status = told.status.values.astype(object)
    if n_failed := count_failed(audit):
        raise InputError(f"{n_failed} tasks of this audit failed; run it again first")
    if (status == "missing").any():
        raise InputError("the audit has not finished; run it again first")
    done = status == "done"
    auc = told.auc.transpose(*told.status.dims).values
    known = np.isin(status, _STATUSES).all() and np.isfinite(auc[done]).all()
    if not known or not np.isin(told.verdict.values.astype(object), _TRIALS).all():
        raise DamagedError("a part of the results is missing; remove them and run the audit again")


def _select(results: xr.Dataset, mechanism: str) -> xr.Dataset:
    if mechanism not in results.mechanism.values:
        raise InputError(
            f"there are no results of {mechanism}; those there are: "
            + ", ".join(map(str, results.mechanism.values))
        )
    return results.sel(mechanism=mechanism)


def _strongest(told: xr.Dataset, who: str) -> tuple[str, Floats]:
    """Return the strongest attack with its setting, and the losses of its targets."""
    table = told.privacy_loss.transpose(..., who)
    loss = table.values.reshape(-1, table.sizes[who])
    best, label = _best(table, loss)
    return label, loss[best][np.isfinite(loss[best])]


def _best(told: xr.DataArray, loss: Floats) -> tuple[int, str]:
    """Return the row of ``loss`` with the largest mean, and the name of that setting."""
    known = np.isfinite(loss)
    means = np.where(known, loss, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    means[~known.any(axis=1)] = -np.inf
    best = int(np.argmax(means))
    if not np.isfinite(means[best]):
        raise InputError("nothing was finished that could be judged")
    return best, name_best([_name(told, row) for row in range(len(means))], means)


def _name(told: xr.DataArray, row: int) -> str:
    """Return the name of an attack with its setting, by what varies."""
    dims = [str(dim) for dim in told.dims[:-1]]
    places = np.unravel_index(row, [told.sizes[dim] for dim in dims])
    names = {dim: str(told[dim].values[i]) for dim, i in zip(dims, places, strict=True)}
    several = [names[dim] for dim in dims if dim == "attack" or told.sizes[dim] > 1]
    return " · ".join(reversed(several))


def _promise(told: xr.Dataset) -> _Promise:
    """Return what was measured of the promise, at the worst period and group size."""
    verdicts = [str(each) for each in told.verdict.values.ravel()]
    seen = told.epsilon_seen.transpose(*told.verdict.dims).values.ravel()
    ranks = [_TRIALS.index(each) for each in verdicts]
    worst = int(np.lexsort((-seen, ranks))[0])  # of the same verdict, where most is seen
    place = np.unravel_index(worst, told.verdict.shape)
    period = {"period": dict(zip(told.verdict.dims, place, strict=True))["period"]}
    return _Promise(
        float(seen[worst]),
        float(told.guarantee_epsilon.isel(period)),
        verdicts[worst],
        str(told.guarantee_unit.isel(period).values),
    )


def _float_noise(told: xr.Dataset) -> str:
    """Return ``yes`` where any period says so, ``no`` where all do, else nothing."""
    words = set(map(str, told["float_noise"].values)) if "float_noise" in told else {""}
    return next((word for word in ("yes", "") if word in words), "no")


def _utility(told: xr.Dataset) -> dict[str, UtilityValue]:
    """Return each measure that is known everywhere, at its worst: furthest from the ideal."""
    found, labels = {}, told.measure.values
    ids, names = (told.get(each, told.measure).values for each in ("measure_id", "measure_name"))
    for i, (key, name, label) in enumerate(zip(ids, names, labels, strict=True)):
        values = told.utility.isel(measure=i).values.ravel()
        if np.isfinite(values).all():
            ideal = float(told.ideal[i])
            worst = float(values[np.argmax(np.abs(values - ideal))])
            found[str(key)] = UtilityValue(worst, ideal, str(name), str(label))
    return found
