"""Outcomes on the labelled dimensions of the dataset, and statistics pooled over targets."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.analyses.audit.finished_tasks import Entry
from clusterscale.analyses.audit.task import Key
from clusterscale.errors import InputError
from clusterscale.game import CONFIDENCE, Outcome
from clusterscale.metrics import (
    pooled_epsilon_lower_bound,
    pooled_resolvable_fpr,
    pooled_tpr_at_fpr,
    privacy_gain,
    privacy_loss,
)
from clusterscale.schema import RAW_COUNTS, RESULTS, Coordinates, empty_variable

if TYPE_CHECKING:
    import xarray as xr


LONGEST_ERROR = 300
"""Number of characters of an error that are kept."""

_MEASURED = tuple(field.name for field in fields(Outcome) if field.type != "str")

_POOLED = ("pooled_epsilon_lower", "pooled_tpr", "resolvable_fpr")

Arrays = dict[str, NDArray[Any]]


def lay_out_cases(
    coords: Coordinates,
    entries: dict[Key, Entry],
    attacked: NDArray[np.bool_] | None = None,
) -> Arrays:
    """Return all variables for the targets of ``coords``.

    Cases of tasks without an entry are ``missing``, or ``unseen`` where the target is not attacked
    in the period (bool, shape (period, target)); those of failed tasks ``failed`` with the error.
    Their numbers are NaN, and their counts 0.
    """
    dims = RESULTS["auc"].dims
    variables = {name: empty_variable(coords, name) for name in (*_MEASURED, "privacy_loss")}
    status, error = empty_variable(coords, "status"), empty_variable(coords, "error")
    status[:] = "missing"
    if attacked is not None:
        status[~attacked.T] = "unseen"
    keys = {dim: coords["period_id" if dim == "period" else dim][1].tolist() for dim in dims}
    index = {dim: {value: i for i, value in enumerate(values)} for dim, values in keys.items()}
    for key, entry in entries.items():
        at = tuple(index[dim][value] for dim, value in zip(dims, key, strict=False))
        if entry.error:
            status[at], error[at] = "failed", entry.error[:LONGEST_ERROR]
        for outcome in entry.outcomes:
            case = (*at, index["mechanism"][outcome.mechanism], index["attack"][outcome.attack])
            status[case] = "done"
            for name in _MEASURED:
                variables[name][case] = getattr(outcome, name)
            variables["privacy_loss"][case] = privacy_loss(outcome.auc)
    gain = _gains(variables["auc"], coords["mechanism"][1].tolist())
    return {**variables, "privacy_gain": gain, "status": status, "error": error}


def lay_out_pooled(cases: xr.Dataset, false_positive_rate: float) -> Arrays:
    """Return the statistics pooled over targets, one setting at a time; see :func:`pool`.

    ``cases`` has the variables of :func:`lay_out_cases`, and is read lazily.
    """
    dims = RESULTS["pooled_tpr"].dims
    shape = tuple(cases.sizes[dim] for dim in dims)
    variables = {name: np.full(shape, np.nan) for name in _POOLED}
    for at in np.ndindex(shape[:-1]):
        setting = cases.isel(dict(zip(dims, at, strict=False)))
        pooled = pool(
            setting.level_inside.values,
            setting.level_outside.values,
            setting.epsilon_lower.values,
            false_positive_rate,
        )
        for name, values in pooled.items():
            variables[name][at] = values
    return variables


def pool(
    inside: NDArray[np.integer[Any]],
    outside: NDArray[np.integer[Any]],
    epsilon_lower: NDArray[np.float64],
    false_positive_rate: float,
) -> Arrays:
    """Return statistics pooled over targets, for each setting, group size and attack.

    Parameters
    ----------
    inside, outside
        int, shape (target, …, attack, level): see :func:`clusterscale.metrics.calibrated_counts`.
    epsilon_lower
        float, shape (target, …, attack): NaN where challenges give no bound on ε.
    false_positive_rate
        False-positive rate at which the true-positive rate is reported.

    Returns
    -------
    dict
        ``pooled_epsilon_lower``, at a confidence that holds for the largest over all attacks,
        ``pooled_tpr`` and ``resolvable_fpr``, each float64, shape (…, attack); NaN where there
        are too few targets.
    """
    shape = epsilon_lower.shape[1:]
    pooled = {name: np.full(shape, np.nan) for name in _POOLED}
    for at in np.ndindex(shape):
        cell = (slice(None), *at)
        counted = inside[cell].any(axis=1) & outside[cell].any(axis=1)
        bounding = counted & np.isfinite(epsilon_lower[cell])
        pair = inside[cell][counted], outside[cell][counted]
        try:
            pooled["resolvable_fpr"][at] = pooled_resolvable_fpr(*pair)
            pooled["pooled_tpr"][at] = pooled_tpr_at_fpr(*pair, false_positive_rate)
            pooled["pooled_epsilon_lower"][at] = pooled_epsilon_lower_bound(
                inside[cell][bounding],
                outside[cell][bounding],
                confidence=CONFIDENCE,
                tries=shape[-1],
            )
        except InputError:  # too few targets
            continue
    return pooled


def _gains(auc: NDArray[np.float64], mechanisms: list[str]) -> NDArray[np.float64]:
    """Return the privacy gain of each mechanism over raw counts; NaN if these were not attacked."""
    if RAW_COUNTS not in mechanisms:
        return np.full_like(auc, np.nan)
    axis = RESULTS["auc"].dims.index("mechanism")
    raw = np.take(auc, [mechanisms.index(RAW_COUNTS)], axis=axis)
    return np.asarray(privacy_gain(np.broadcast_to(raw, auc.shape), auc))
