"""Run or resume a study, and compare its results with the paper's numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import nan
from time import monotonic
from typing import TYPE_CHECKING

from clusterscale import audit, recovery
from clusterscale.cube import TraceCube
from clusterscale.errors import ClusterscaleError
from clusterscale.papers.check_claims import check_claims
from clusterscale.papers.compare import compare
from clusterscale.papers.cubes import Cubes
from clusterscale.papers.extract import Results
from clusterscale.papers.study import CABS, PAPERS, PaperStudy
from clusterscale.report.papers import ClaimRow, ComparedNumber, Missing, StudyReport
from clusterscale.storage import put, read
from clusterscale.study import Tell
from clusterscale.study.execution import MEMORY, Executor

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["report_without_results", "reproduce"]


def reproduce(
    name: str,
    study: PaperStudy,
    cubes: Cubes,
    folder: str,
    executor: Executor,
    *,
    memory: int = MEMORY,
    tell: Tell = lambda now: None,
) -> StudyReport:
    """Run or resume a study; completed work in its folder is not repeated.

    Parameters
    ----------
    name, study
        Name and definition of the study.
    cubes
        Source of its cube.
    folder
        Where results are stored: a local path or fsspec URL that all workers can reach.
    executor, memory
        Where tasks run, and bytes available per worker; neither changes a result.
    tell
        Callback for progress.

    Raises
    ------
    ClusterscaleError
        If the cube does not fit the study, tasks fail, or the cluster or a store fails.
    """
    folder = folder.rstrip("/")
    with _counted(f"{folder}/cost.json", executor.n_workers) as cost:
        cube = cubes.open(study)
        datasets = dict(_run(study, cube, f"{folder}/run", executor, memory, tell))
        results = Results(datasets, study.best)
        compared, kept = list(compare(study, results)), list(check_claims(study, results))
    who = "San Francisco cabs" if study.cube == CABS else f"users of the preset {study.cube}"
    return _told(name, study, f"{cube.n_users:,} {who}", cost[0], compared, kept)


def report_without_results(name: str, study: PaperStudy, why: str = "") -> StudyReport:
    """Return the report of a study that was not run; ``why`` states why its items are missing."""
    absent = {item.item for item in study.absent}
    missing = [Missing(item, why) for item in study.items() if why and item not in absent]
    return _told(name, study, "Nothing was run", missing=missing)


def _told(
    name: str,
    study: PaperStudy,
    data: str,
    core_seconds: float = nan,
    compared: Sequence[ComparedNumber] = (),
    kept: Sequence[ClaimRow] = (),
    missing: Sequence[Missing] = (),
) -> StudyReport:
    absent = [Missing(item.item, item.why) for item in study.absent]
    return StudyReport(
        paper=study.paper,
        paper_title=PAPERS[study.paper],
        name=name,
        title=study.title,
        data=data,
        core_seconds=core_seconds,
        compared=compared,
        claims=kept,
        missing=[*absent, *missing],
        remarks=study.remarks,
    )


def _run(
    study: PaperStudy, cube: TraceCube, folder: str, executor: Executor, memory: int, tell: Tell
) -> Iterator[tuple[str, xr.Dataset]]:
    """Yield the kind and results of each analysis of a study."""
    if study.audit is not None:
        yield "audit", _audit(study.audit, cube, folder, executor, memory, tell)
    if study.audit is not None and study.traits is not None:
        traits = audit.traits(
            study.audit,
            cube,
            folder,
            executor,
            how=study.traits,
            memory=memory,
            on_progress=tell,
        )
        yield "traits", traits
    if study.recovery is not None:
        recovered = recovery.run(
            study.recovery, cube, folder, executor, memory=memory, on_progress=tell
        )
        yield "recovery", recovered


def _audit(
    plan: audit.AuditPlan,
    cube: TraceCube,
    folder: str,
    executor: Executor,
    memory: int,
    tell: Tell,
) -> xr.Dataset:
    results = audit.run(plan, cube, folder, executor, memory=memory, on_progress=tell)
    if n_failed := audit.count_failed(results):
        raise ClusterscaleError(
            f"{folder}: {n_failed} cases failed; run the same command to retry them"
        )
    return results


@contextmanager
def _counted(uri: str, n_workers: int) -> Iterator[list[float]]:
    """Yield the core-seconds spent in this folder, including earlier and failed attempts.

    The time of the current attempt is added on exit.
    """
    try:
        earlier = float(json.loads(read(uri))["core_seconds"])
    except FileNotFoundError:
        earlier = 0.0
    cost, began = [earlier], monotonic()
    try:
        yield cost
    finally:
        cost[0] = earlier + (monotonic() - began) * n_workers
        put(uri, json.dumps({"core_seconds": cost[0]}).encode())
