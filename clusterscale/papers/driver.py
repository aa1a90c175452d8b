"""Run or resume a study on its cube, and compare its results with the paper's numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import nan
from time import monotonic

from clusterscale.analyses.audit import AuditAnalysis, count_failed
from clusterscale.analyses.recovery import RecoveryAnalysis
from clusterscale.analyses.traits import TraitsAnalysis
from clusterscale.cube import Calendar, Grid, TraceCube
from clusterscale.cube.synthetic import open_or_synthesise
from clusterscale.errors import ClusterscaleError, ConfigError, InputError
from clusterscale.papers.compare import Results, check_claims, compare
from clusterscale.papers.figures import plot_figures
from clusterscale.papers.study import CABS, PAPERS, PaperStudy
from clusterscale.reporting.figures import PaperPlot
from clusterscale.reporting.papers import ClaimRow, ComparedNumber, Missing, StudyReport
from clusterscale.storage import exists, put, read
from clusterscale.study import Analysis, Tell, run
from clusterscale.study.execution import MEMORY, Executor

_GRID = "37.7282,-122.4528,37.8021,-122.3637/10x10"
_START, _HOURS, _ZONE = "2008-05-19T00:00", 504, "America/Los_Angeles"
_SEED = 1


class Cubes:
    """Cubes below a folder that all workers can reach, each created when first opened.

    ``cabs`` are the San Francisco cabs: a cube, a Parquet file of fixes (user, timestamp, lat,
    lon), or the folder of the original text files; None if not available.
    """

    def __init__(self, folder: str, cabs: str | None) -> None:
        self._folder, self._cabs = folder.rstrip("/"), cabs

    def has(self, study: PaperStudy) -> bool:
        """Return whether the cube of a study is available."""
        return study.cube != CABS or self._cabs is not None

    def open(self, study: PaperStudy) -> TraceCube:
        """Return the cube of a study.

        Raises ConfigError if it needs the cabs and none are given, InputError if they are not those
        of the papers, and ExistsError if another cube is at the preset's path.
        """
        if study.cube == CABS:
            return self._open_cabs()
        name = f"{study.cube}-{study.users}" if study.users else study.cube
        uri = f"{self._folder}/{name}.zarr"
        return open_or_synthesise(study.cube, uri, users=study.users, seed=_SEED)

    def _open_cabs(self) -> TraceCube:
        if self._cabs is None:
            raise ConfigError("this study needs the San Francisco cabs: pass `--cabs`")
        if exists(f"{self._cabs.rstrip('/')}/zarr.json"):
            return _checked(TraceCube(self._cabs), self._cabs)
        uri = f"{self._folder}/{CABS}.zarr"
        if not exists(f"{uri}/zarr.json"):
            _ingest(self._cabs, uri)
        return _checked(TraceCube(uri), self._cabs)


def _ingest(source: str, uri: str) -> None:
    """Ingest fixes on a grid of ten by ten cells and hourly epochs, as in NDSS18 §V-A."""
    from clusterscale.ingestion import READERS, IngestOptions, ingest

    ingest(
        source,
        uri,
        IngestOptions(
            reader=READERS.create("events" if source.endswith(".parquet") else "cabspotting"),
            locator=Grid.parse(_GRID),
            calendar=Calendar.parse(_START, "1h", _HOURS, _ZONE),
        ),
    )


def _checked(cube: TraceCube, where: str) -> TraceCube:
    shape = (cube.n_users, cube.n_rois, cube.n_epochs)
    if shape != (534, 100, _HOURS):
        raise InputError(
            f"{where}: the papers have 534 cabs, 100 ROIs and {_HOURS} hours, but this cube has "
            f"{shape[0]:,}, {shape[1]:,} and {shape[2]:,}"
        )
    return cube


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
    """Run or resume a study in a folder that all workers can reach, and compare its results.

    Completed work is not repeated; neither ``executor`` nor ``memory`` (bytes per worker) changes a
    result. Raises ClusterscaleError if the cube does not fit the study, tasks fail, or the cluster
    or a store fails.
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
        plots = list(plot_figures(study, results))
    who = "San Francisco cabs" if study.cube == CABS else f"users of the preset {study.cube}"
    data = f"{cube.n_users:,} {who}"
    return _report(
        name, study, data, core_seconds=cost[0], compared=compared, kept=claims, plots=plots
    )


def _analyses(study: PaperStudy) -> Iterator[Analysis]:
    if study.audit is not None:
        yield AuditAnalysis(study.audit)
        if study.traits is not None:
            yield TraitsAnalysis(study.audit, study.traits)
    if study.recovery is not None:
        yield RecoveryAnalysis(study.recovery)


def report_without_results(name: str, study: PaperStudy, why: str = "") -> StudyReport:
    """Return the report of a study that was not run.

    ``why`` is the reason that its items are missing; empty to list only those that cannot be
    compared.
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
    plots: Sequence[PaperPlot] = (),
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
        plots=plots,
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
