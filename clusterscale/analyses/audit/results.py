"""The dataset of an audit: all outcomes on labelled dimensions, written by block of targets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from numpy.typing import NDArray

from clusterscale import metrics
from clusterscale.analyses.audit.finished_tasks import Entry, FinishedTasks, TargetBlock
from clusterscale.analyses.audit.plan import AuditPlan
from clusterscale.analyses.audit.targets import Chosen, Presence
from clusterscale.analyses.audit.task import Key
from clusterscale.analyses.dp_audit.evaluation import Evaluations, lay_out_evaluations
from clusterscale.contracts import names_of
from clusterscale.cube import TraceCube
from clusterscale.cube.describe import describe_origin
from clusterscale.errors import DamagedError, FormatError, InputError, MissingError
from clusterscale.game import CONFIDENCE, Outcome
from clusterscale.schema import RAW_COUNTS, RESULTS, RESULTS_FORMAT, Coordinates, empty_variable
from clusterscale.storage import exists, manifest, put, remove, result_table
from clusterscale.storage.atomic import staged
from clusterscale.study import Stage, each

if TYPE_CHECKING:
    import xarray as xr

_TARGETS = 4096  # written at once, or more so that there are at most
_BLOCKS = 64  # of them, as far as at most
_OUTCOMES = 1 << 18  # are in memory, of about a kilobyte each
_TRACEBACKS = 100  # tasks whose tracebacks are written


LONGEST_ERROR = 300
"""Number of characters of an error that are kept."""

_MEASURED = tuple(field.name for field in fields(Outcome) if field.type is not str)

_DIMS = {dim for variable in RESULTS.values() for dim in variable.dims}
_DTYPES: dict[str, Any] = dict.fromkeys(("n_challenges", "level_inside", "level_outside"), np.int32)
_DTYPES |= {name: np.float64 for name, variable in RESULTS.items() if variable.kinds == "f"}
_POOLED = ("pooled_epsilon_lower", "pooled_tpr", "resolvable_fpr")

Arrays = dict[str, NDArray[Any]]


def lay_out_cases(
    coords: Coordinates,
    entries: dict[Key, Entry],
    attacked: NDArray[np.bool_] | None = None,
    seen: NDArray[np.bool_] | None = None,
) -> Arrays:
    """Return all variables for the targets of ``coords``.

    Cases of tasks without an entry are ``missing``, or ``unseen`` where the target is not attacked
    in the period (bool, shape (period, target)); those that failed, alone or with their task, are
    ``failed`` with the error.
    Their numbers are NaN, and their counts 0. Cases of targets that are not ``seen`` in the period
    (the same shape) are ``unseen``, too, though attacked: they are no evidence.
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
            status[case] = "failed" if outcome.error else "done"
            error[case] = outcome.error[:LONGEST_ERROR]
            if not outcome.error:
                for name in _MEASURED:
                    variables[name][case] = getattr(outcome, name)
                variables["privacy_loss"][case] = metrics.privacy_loss(outcome.auc)
    if seen is not None:
        status[(status == "done") & ~seen.T.reshape(*seen.T.shape, 1, 1, 1, 1)] = "unseen"
    gain = _gains(variables["auc"], coords["mechanism"][1].tolist())
    return {**variables, "privacy_gain": gain, "status": status, "error": error}


def pool_cases(cases: zarr.Group, false_positive_rate: float) -> Arrays:
    """Return the statistics pooled over targets, one setting at a time; see :func:`pool`.

    ``cases`` has the variables of :func:`lay_out_cases`.
    """
    parts = []
    for name in ("level_inside", "level_outside", "epsilon_lower"):
        array: Any = cases[name]
        # an array of up to 1 << 28 bytes is read as a whole
        parts.append(array[...] if array.nbytes <= 1 << 28 else array)
    shape = parts[-1].shape[1:]
    variables = {name: np.full(shape, np.nan) for name in _POOLED}
    for at in np.ndindex(shape[:-1]):
        inside, outside, epsilon_lower = (part[(slice(None), *at)] for part in parts)
        for name, values in pool(inside, outside, epsilon_lower, false_positive_rate).items():
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
            pooled["resolvable_fpr"][at] = metrics.pooled_resolvable_fpr(*pair)
            pooled["pooled_tpr"][at] = metrics.pooled_tpr_at_fpr(*pair, false_positive_rate)
            pooled["pooled_epsilon_lower"][at] = metrics.pooled_epsilon_lower_bound(
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
    return np.asarray(metrics.privacy_gain(np.broadcast_to(raw, auc.shape), auc))


@dataclass(frozen=True, slots=True)
class ResultsTask:
    """Some targets of the results: where they are written, and where their entries are.

    Attributes
    ----------
    uri
        Address of the table.
    first
        Position of the first target.
    block
        The targets.
    coords
        Coordinates of the dataset, with the targets of the block.
    attacked, seen
        Periods in which each target is attacked, and has an event, bool, shape (period, target);
        None for all.
    """

    uri: str
    first: int
    block: TargetBlock
    coords: Coordinates
    attacked: NDArray[np.bool_] | None
    seen: NDArray[np.bool_]


def write_block(task: ResultsTask) -> dict[str, str]:
    """Write the results of some targets, and return the digest of each chunk by its path."""
    rows = slice(task.first, task.first + len(task.block.users))
    with result_table.open_for_writing(task.uri) as (group, digests):
        laid_out = lay_out_cases(task.coords, task.block.entries(), task.attacked, task.seen)
        for name, values in laid_out.items():
            group[name][rows] = values
    return digests


def write_results(
    plan: AuditPlan,
    cube: TraceCube,
    chosen: Chosen,
    done: FinishedTasks,
    evaluations: Evaluations,
    uri: str,
) -> Iterator[Stage[Any, Any]]:
    """Yield the stage that writes the results of a run as a dataset.

    It conforms to :data:`clusterscale.schema.RESULTS`, and is written to a Zarr store at ``uri``,
    where it replaces an older one when it is complete. Values are missing for tasks that did not
    run or failed, and for mechanisms without an evaluation.
    """
    presence = Presence.of(cube, plan.periods)
    coords, seen = (
        _coordinates(plan, cube, chosen, presence),
        presence.n_events[:, chosen.users] > 0,
    )
    columns: dict[str, Any] = {name: values for name, (_, values) in coords.items()}
    columns |= lay_out_evaluations(coords, plan.mechanisms, evaluations)
    errors = sorted(one.error[:LONGEST_ERROR] for one in evaluations.values() if one.error)
    about = {
        "format": RESULTS_FORMAT,
        "plan": json.dumps(plan.describe()),
        "plan_digest": plan.digest,
        "seed": plan.seed,
        "study": result_table.study_of(uri.rpartition("/")[0], "audit"),
        **describe_origin(cube, null_roi=plan.null_roi),
        "coordinates": " ".join(sorted(coords.keys() - _DIMS)),
        "evaluation_errors": json.dumps(errors),
    }
    n_targets = len(chosen.users)
    # the targets that are written at once: few files, and little memory
    most = max(1, _OUTCOMES // prod(len(coords[dim][1]) for dim in RESULTS["pooled_tpr"].dims))
    n_rows = max(1, min(most, max(_TARGETS, -(-n_targets // _BLOCKS))))
    with staged(uri, force=True, sealed=True) as staging:
        chunks = {dim: len(coords[dim][1]) for dim in _DIMS} | {"target": n_rows}
        digests = result_table.create_table(staging, RESULTS, columns, chunks, about, _DTYPES)
        tasks = []
        for first in range(0, n_targets, n_rows):
            last = min(first + n_rows, n_targets)
            some = {name: coords[name] for name in (*RESULTS["auc"].dims, "level", "period_id")}
            some["target"] = ("target", chosen.users[first:last])
            attacked = None if chosen.attacked is None else chosen.attacked[:, first:last]
            block, own = done.block(first, last), seen[:, first:last]
            tasks.append(ResultsTask(staging, first, block, some, attacked, own))

        def keep(task: ResultsTask, written: dict[str, str]) -> None:
            digests.update(written)

        yield Stage("results", write_block, tasks, each(keep), len(tasks))
        with result_table.open_for_writing(staging) as (group, written):
            for name, values in pool_cases(group, plan.false_positive_rate).items():
                group[name][...] = values
        manifest.seal(staging, known=digests | written)


def write_failures(
    plan: AuditPlan, done: FinishedTasks, evaluations: Evaluations, uri: str
) -> None:
    """Write each failed task with its traceback to a text file at ``uri``; without any, remove it.

    Targets are named by their index.
    """
    periods = {period.id: period.name for period in plan.periods}
    priors = {prior.id: prior.label for prior in plan.priors}
    parts = [
        f"evaluation of {periods[one.key[0]]}, groups of {one.key[1]:,}\n"
        f"{one.traceback or one.error}"
        for one in evaluations.values()
        if one.error
    ]
    for (target, period, prior, size), entry in sorted(done.failures(_TRACEBACKS).items()):
        parts.append(
            f"target {target}, {periods[period]}, {priors[prior]}, groups of {size:,}\n"
            f"{entry.traceback or entry.error}"
        )
    if parts:
        if done.n_failed > _TRACEBACKS:
            parts.append(f"and {done.n_failed - _TRACEBACKS:,} more tasks")
        put(uri, "\n\n".join(parts).encode())
    else:
        remove(uri)


def count_failed(results: xr.Dataset) -> int:
    """Return the number of failed cases and evaluations of an audit; the same run retries them.

    Parameters
    ----------
    results
        Dataset of an audit, conforming to :data:`clusterscale.schema.RESULTS`.

    Returns
    -------
    int
        0 if nothing failed.
    """
    errors = json.loads(results.attrs["evaluation_errors"])
    return int((results.status == "failed").sum()) + len(errors)


def is_finished(uri: str) -> bool:
    """Return whether there are intact results of an audit of which nothing failed or is missing."""
    try:
        results = open_results(uri)
    except (MissingError, FormatError, DamagedError):
        return False
    return not count_failed(results) and not bool((results.status == "missing").any())


def open_results(uri: str | Path) -> xr.Dataset:
    """Open the dataset of a run lazily.

    Parameters
    ----------
    uri
        Folder of the run, or the store itself: a local path or fsspec URL.

    Returns
    -------
    xr.Dataset
        Conforms to :data:`clusterscale.schema.RESULTS`.

    Raises
    ------
    MissingError
        If there is no dataset.
    FormatError
        If it is not a dataset of an audit.
    DamagedError
        If a file is not the one that was written.
    """
    uri = str(uri).rstrip("/")
    inner = f"{uri}/results.zarr"
    store = inner if exists(inner) else uri
    if not exists(f"{store}/zarr.json"):
        raise MissingError(f"{uri}: there are no results; has the audit finished?")
    if not result_table.is_table(store, RESULTS_FORMAT):
        manifest.check_root(store)
        raise FormatError(f"{store} does not contain the results of an audit")
    result_table.require_own(store, "audit")
    return result_table.open_sealed(store, RESULTS)


def _coordinates(
    plan: AuditPlan, cube: TraceCube, chosen: Chosen, presence: Presence
) -> Coordinates:
    measures = plan.utility.measures
    return {
        "target": ("target", np.asarray(chosen.users, np.int64)),
        "pseudonym": ("target", cube.pseudonyms(chosen.users)),
        "tertile": ("target", np.array(chosen.tertiles, dtype=object)),
        "n_events": ("target", presence.total[chosen.users]),
        "period": ("period", _texts(period.name for period in plan.periods)),
        "period_id": ("period", _texts(period.id for period in plan.periods)),
        "n_seen": ("period", presence.n_seen),
        **_names("prior", plan.priors),
        "group_size": ("group_size", np.array(plan.group_sizes, np.int64)),
        **_names("mechanism", plan.mechanisms),
        **_names("attack", plan.attacks),
        "level": ("level", np.arange(1, metrics.N_PVALUE_BINS + 1) / metrics.N_PVALUE_BINS),
        **_names("measure", measures),
        "measure_name": ("measure", _texts(measure.name for measure in measures)),
        "measure_kind": ("measure", _texts(measure.kind for measure in measures)),
        "ideal": ("measure", np.array([measure.ideal for measure in measures], np.float64)),
    }


def _names(dim: str, items: Iterable[Any]) -> Coordinates:
    return {name: (dim, _texts(values)) for name, values in names_of(dim, items).items()}


def _texts(values: Iterable[str]) -> NDArray[Any]:
    return np.array(list(values), dtype=object)
