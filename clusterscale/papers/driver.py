"""Run or resume a study, and compare its results with the paper's numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import nan
from time import monotonic

from clusterscale.analyses.audit import AuditAnalysis, TraitsAnalysis, count_failed
from clusterscale.analyses.recovery import RecoveryAnalysis
from clusterscale.errors import ClusterscaleError
from clusterscale.papers.compare import check_claims, compare
from clusterscale.papers.cubes import Cubes
from clusterscale.papers.extract import Results
from clusterscale.papers.study import CABS, PAPERS, PaperStudy
from clusterscale.reporting.papers import ClaimRow, ComparedNumber, Missing, StudyReport
from clusterscale.storage import put, read
from clusterscale.study import Analysis, Tell, run
from clusterscale.study.execution import MEMORY, Executor


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

    Returns
    -------
    StudyReport
        The paper's numbers and claims beside ours.

    Raises
    ------
    ClusterscaleError
        If the cube does not fit the study, tasks fail, or the cluster or a store fails.
    """
    folder = folder.rstrip("/")
    with _counted(f"{folder}/cost.json", executor.n_workers) as cost:
        cube, uri, datasets = cubes.open(study), f"{folder}/run", {}
        for analysis in _analyses(study):
            dataset = run(analysis, cube, uri, executor, memory=memory, on_progress=tell)
            if analysis.kind == "audit" and (n_failed := count_failed(dataset)):
                raise ClusterscaleError(
                    f"{uri}: {n_failed} cases failed; run the same command to retry them"
                )
            datasets[analysis.kind] = dataset
        results = Results(datasets, study.best)
        compared, claims = list(compare(study, results)), list(check_claims(study, results))
    who = "San Francisco cabs" if study.cube == CABS else f"users of the preset {study.cube}"
    data = f"{cube.n_users:,} {who}"
    return _report(name, study, data, core_seconds=cost[0], compared=compared, kept=claims)


def _analyses(study: PaperStudy) -> Iterator[Analysis]:
    if study.audit is not None:
        yield AuditAnalysis(study.audit)
        if study.traits is not None:
            yield TraitsAnalysis(study.audit, study.traits)
    if study.recovery is not None:
        yield RecoveryAnalysis(study.recovery)


def report_without_results(name: str, study: PaperStudy, why: str = "") -> StudyReport:
    """Return the report of a study that was not run.

    Parameters
    ----------
    name, study
        Name and definition of the study.
    why
        Why its items are missing; empty to list only those that cannot be compared.

    Returns
    -------
    StudyReport
        Without numbers of ours.
    """
    absent = {item.item for item in study.absent}
    missing = [Missing(item, why) for item in study.items() if why and item not in absent]
    return _report(name, study, "Nothing was run", missing=missing)


def _report(
    name: str,
    study: PaperStudy,
    data: str,
    *,
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
