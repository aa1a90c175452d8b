"""Run a study, or go on with it, and lay its numbers beside the paper's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import nan
from time import monotonic
from typing import TYPE_CHECKING

from clusterscale import audit, recovery
from clusterscale.contracts import MEMORY, Executor
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
    """Run a study, or go on with it: what was done in its folder is not done again.

    Parameters
    ----------
    name, study
        Which.
    cubes
        Where its cube is.
    folder
        Where its results are kept, a local path or fsspec URL that all workers reach.
    executor, memory
        Where the work is done, and the bytes that a worker may use; neither changes a number.
    tell
        Told how far it is.

    Raises
    ------
    ClusterscaleError
        If the cube cannot answer, tasks failed, or the cluster or a store gave out.
    """
    folder = folder.rstrip("/")
    with _counted(f"{folder}/cost.json", executor.n_workers) as cost:
        cube = cubes.open(study)
        datasets = dict(_run(study, cube, f"{folder}/run", executor, memory, tell))
        found = Results(datasets, study.best)
        compared, kept = list(compare(study, found)), list(check_claims(study, found))
    who = "San Francisco cabs" if study.cube == CABS else f"users of the preset {study.cube}"
    return _told(name, study, f"{cube.n_users:,} {who}", cost[0], compared, kept)


def report_without_results(name: str, study: PaperStudy, why: str = "") -> StudyReport:
    """Return what is told of a study that was not run; ``why`` of one that could be."""
    absent = {each.item for each in study.absent}
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
    absent = [Missing(each.item, each.why) for each in study.absent]
    return StudyReport(
        paper=study.paper,
        paper_title=PAPERS[study.paper],
        name=name,
        title=study.title,
        data=data,
        core_seconds=core_seconds,
        compared=compared,
        kept=kept,
        missing=[*absent, *missing],
        remarks=study.remarks,
    )


def _run(
    study: PaperStudy, cube: TraceCube, folder: str, executor: Executor, memory: int, tell: Tell
) -> Iterator[tuple[str, xr.Dataset]]:
    """Yield the results of whatever a study asks, by what they are of."""
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
        raise ClusterscaleError(f"{folder}: {n_failed} cases failed; the same command tries again")
    return results


@contextmanager
def _counted(place: str, n_workers: int) -> Iterator[list[float]]:
    """Yield the core-seconds that work in this folder took: of earlier attempts, at the end of all.

    Also of an attempt that fails the time counts.
    """
    try:
        before = float(json.loads(read(place))["core_seconds"])
    except FileNotFoundError:
        before = 0.0
    cost, began = [before], monotonic()
    try:
        yield cost
    finally:
        cost[0] = before + (monotonic() - began) * n_workers
        put(place, json.dumps({"core_seconds": cost[0]}).encode())
