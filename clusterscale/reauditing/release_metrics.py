"""Metrics of a release from its audit and screen, as limited by a policy."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from clusterscale.analyses.audit import count_failed
from clusterscale.analyses.screening import is_counted
from clusterscale.contracts import Ints, Values
from clusterscale.errors import DamagedError, InputError
from clusterscale.metrics import mean_interval, worst_interval
from clusterscale.phrases import GUARANTEE_VERDICTS
from clusterscale.reauditing.known_part import KnownPart
from clusterscale.reporting.findings import Finding, find_exposures, find_promises, worst_findings
from clusterscale.schema import RAW_COUNTS, find_mechanism
from clusterscale.validation_messages import name_best


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """A number and its interval, NaN if not known."""

    value: float = np.nan
    low: float = np.nan
    high: float = np.nan

    @classmethod
    def exact(cls, value: float) -> "IntervalEstimate":
        """Return a number without uncertainty."""
        return cls(value, value, value)

    @property
    def known(self) -> bool:
        """Whether the number is known."""
        return bool(np.isfinite(self.value))


@dataclass(frozen=True, slots=True, eq=False)
class Exposures:
    """Privacy loss of users and its 95 % interval, by the attack that is strongest on average.

    ``users`` are rows in the cube, increasing, int64; ``loss``, ``low`` and ``high`` float64; all
    of shape (user,). ``everyone``: these are all users that a screen counts, not targets, or known
    people among others.
    """

    users: Ints
    loss: Values
    low: Values
    high: Values
    attack: str
    everyone: bool

    def known(self, part: KnownPart | None) -> "Exposures":
        """Return the exposure of known people; of the simulated ones if none are known."""
        if part is None:
            return self
        kept = self.users < part.n_known
        kept = kept if kept.any() else np.ones(len(kept), np.bool_)
        loss, low, high = (values[kept] for values in (self.loss, self.low, self.high))
        return Exposures(self.users[kept], loss, low, high, self.attack, everyone=False)


class UtilityValue(NamedTuple):
    """A measure at its worst: the value, its ideal, and the name and label of the measure."""

    value: float
    ideal: float
    name: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class ReleaseMetrics:
    """Metrics of a release.

    ``finding`` is the worst verdict on exposure, over periods, priors and group sizes. By the
    strongest attack with its prior, by mean privacy loss, ``mean_loss`` is that of the
    ``n_targets`` finished targets of the audit; ``worst_loss`` is the largest of any target by any
    attack. ``share_exposed`` is the share of the ``n_screened`` users with a privacy loss above
    ``exposed_above``.

    ``epsilon_seen``, ``epsilon_declared`` and ``verdict`` are the result of the test of the
    guarantee, for its ``unit``; without a guarantee, the declared ε is infinite and the verdict
    ``nothing promised``. ``guarantee_reason`` is a clause: why it holds, and what it means for a
    person. ``utility`` is by id of the measure, without measures that are unknown in some setting.
    ``lacks_noise`` says whether noise is scaled to less than one unit changes in any period.
    ``float_noise`` says whether continuous noise is published unrounded: ``yes``, ``no``, or empty
    if not known.
    """

    finding: Finding
    n_targets: int
    attack: str
    mean_loss: IntervalEstimate
    worst_loss: IntervalEstimate
    share_exposed: IntervalEstimate
    n_screened: int
    exposed_above: float
    epsilon_seen: float
    epsilon_declared: float
    verdict: str
    unit: str
    utility: dict[str, UtilityValue] = field(default_factory=dict)
    float_noise: str = ""
    guarantee_reason: str = ""
    lacks_noise: bool = False


_STATUSES = ("done", "failed", "missing", "unseen")


def measure(
    audit: xr.Dataset, exposures: Exposures, mechanism: str, *, exposed_above: float
) -> ReleaseMetrics:
    """Return the metrics of one mechanism, at its worst over periods, priors and group sizes.

    ``audit`` conforms to :data:`clusterscale.schema.RESULTS`, ``exposures`` are those of the same
    mechanism, and unknown numbers are NaN. Raises InputError if the results have no such mechanism,
    no case of it has finished, or tasks failed; and DamagedError if a part of them is missing.
    """
    results = _select(audit, mechanism)
    _check_whole(audit, mechanism)
    targets = exposures_of(audit, None, mechanism)
    losses = targets.loss
    low, high = mean_interval(losses)
    exposed = exposures.loss > exposed_above
    share = IntervalEstimate.exact(float(exposed.mean()))
    if not exposures.everyone:
        share = IntervalEstimate(share.value, *mean_interval(exposed))
    return ReleaseMetrics(
        finding=worst_findings(find_exposures(audit))[mechanism],
        n_targets=len(losses),
        attack=targets.attack,
        mean_loss=IntervalEstimate(float(losses.mean()), low, high),
        worst_loss=_worst(_attacked(audit, mechanism)),
        share_exposed=share,
        n_screened=len(exposures.users),
        exposed_above=exposed_above,
        **_guarantee_test(results),
        utility=_utility(results),
        float_noise=_float_noise(results),
    )


def _worst(attacked: xr.Dataset) -> IntervalEstimate:
    """Return the largest privacy loss of any target, and the interval of the largest true one."""
    names = ("auc", "auc_low", "auc_high", *({"auc_degrees"} & attacked.data_vars.keys()))
    auc, *others = xr.broadcast(*(attacked[name] for name in names))
    ends = worst_interval(auc, *others)
    return IntervalEstimate(*(max(0.0, 2 * float(end) - 1) for end in (auc.max(), *ends)))


def exposures_of(audit: xr.Dataset, screen: xr.Dataset | None, mechanism: str) -> Exposures:
    """Return the exposure of all users, or of the targets if no screen has the mechanism.

    All users are those that the screen counts, with an event in the period. Raises InputError as
    :func:`measure`.
    """
    everyone = screen is not None and mechanism in screen.mechanism.values
    table, who = _attacked(audit, mechanism), "target"
    if everyone and screen is not None:
        table, who = _attacked(screen, mechanism), "user"
    table = table.transpose(..., who)
    flat = {name: table[name].values.reshape(-1, table.sizes[who]) for name in table.data_vars}
    best, label = _best(table["privacy_loss"], flat["privacy_loss"])
    known = np.isfinite(flat["auc"][best])
    ends = (np.maximum(2 * flat[name][best][known] - 1, 0) for name in ("auc_low", "auc_high"))
    low, high = (end.astype(np.float64) for end in ends)
    loss = flat["privacy_loss"][best][known].astype(np.float64)
    return Exposures(table[who].values[known], loss, low, high, label, everyone)


def _attacked(results: xr.Dataset, mechanism: str) -> xr.Dataset:
    """Return the attacks on a mechanism; on raw counts those on all, since all can be applied.

    Numbers are NaN for people without an event, who are no evidence.
    """
    table = _select(results, mechanism).expand_dims("mechanism")
    if mechanism == find_mechanism(results, RAW_COUNTS):
        table = results
    if "status" in table:
        held = table["status"] == "done"
    else:
        held = is_counted(results) & (results["n_events"] > 0)
    return table[["privacy_loss", "auc", "auc_low", "auc_high"]].where(held)


def _check_whole(audit: xr.Dataset, mechanism: str) -> None:
    """Raise unless every case of a mechanism has ended, and has all its values."""
    selected = _select(audit, mechanism)
    status = selected.status.values.astype(object)
    if n_failed := count_failed(audit):
        raise InputError(f"{n_failed} tasks of this audit failed; run it again first")
    if (status == "missing").any():
        raise InputError("the audit has not finished; run it again first")
    done = status == "done"
    auc = selected.auc.transpose(*selected.status.dims).values
    known = np.isin(status, _STATUSES).all() and np.isfinite(auc[done]).all()
    if not known or not np.isin(selected.verdict.values.astype(object), GUARANTEE_VERDICTS).all():
        raise DamagedError("a part of the results is missing; remove them and run the audit again")


def _select(results: xr.Dataset, mechanism: str) -> xr.Dataset:
    if mechanism not in results.mechanism.values:
        raise InputError(
            f"there are no results of {mechanism}; there are results of: "
            + ", ".join(map(str, results.mechanism.values))
        )
    return results.sel(mechanism=mechanism)


def _best(table: xr.DataArray, loss: Values) -> tuple[int, str]:
    """Return the row of ``loss`` with the largest mean, and the name of that setting."""
    known = np.isfinite(loss)
    means = np.where(known, loss, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    means[~known.any(axis=1)] = -np.inf
    best = int(np.argmax(means))
    if not np.isfinite(means[best]):
        raise InputError("no case of a person with an event has finished")
    return best, name_best([_name(table, row) for row in range(len(means))], means)


def _name(table: xr.DataArray, row: int) -> str:
    """Return the name of an attack, with the dimensions of its setting that vary."""
    dims = [str(dim) for dim in table.dims[:-1]]
    index = np.unravel_index(row, [table.sizes[dim] for dim in dims])
    names = {dim: str(table[dim].values[i]) for dim, i in zip(dims, index, strict=True)}
    several = [names[dim] for dim in dims if dim == "attack" or table.sizes[dim] > 1]
    return " · ".join(reversed(several))


def _guarantee_test(results: xr.Dataset) -> dict[str, Any]:
    """Return the fields of the test of the guarantee, at the worst period and group size."""
    verdicts = [str(verdict) for verdict in results.verdict.values.ravel()]
    observed = results.epsilon_seen.transpose(*results.verdict.dims).values.ravel()
    ranks = [GUARANTEE_VERDICTS.index(verdict) for verdict in verdicts]
    worst = int(np.lexsort((-observed, ranks))[0])  # for equal verdicts, the largest observed ε
    index = np.unravel_index(worst, results.verdict.shape)
    period = {"period": dict(zip(results.verdict.dims, index, strict=True))["period"]}
    return {
        "epsilon_seen": float(observed[worst]),
        "epsilon_declared": float(results.guarantee_epsilon.isel(period)),
        "verdict": verdicts[worst],
        "unit": str(results.guarantee_unit.isel(period).values),
        "guarantee_reason": str(results.guarantee_reason.isel(period).values),
        "lacks_noise": bool(find_promises(results)[1].any()),
    }


def _float_noise(results: xr.Dataset) -> str:
    """Return ``yes`` if it is for any period, ``no`` if it is for all, else an empty string."""
    words = set(map(str, results["float_noise"].values)) if "float_noise" in results else {""}
    return next((word for word in ("yes", "") if word in words), "no")


def _utility(results: xr.Dataset) -> dict[str, UtilityValue]:
    """Return each measure that is known in all settings, at its worst: furthest from the ideal."""
    utility, labels = {}, results.measure.values
    ids, names = (results.get(k, results.measure).values for k in ("measure_id", "measure_name"))
    for i, (key, name, label) in enumerate(zip(ids, names, labels, strict=True)):
        values = results.utility.isel(measure=i).values.ravel()
        if np.isfinite(values).all():
            ideal = float(results.ideal[i])
            worst = float(values[np.argmax(np.abs(values - ideal))])
            utility[str(key)] = UtilityValue(worst, ideal, str(name), str(label))
    return utility
