"""Run or resume a study on its cube, and compare its results with the paper's numbers."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.resources import files
from time import monotonic

import numpy as np
import yaml

from clusterscale.analyses.audit import AuditAnalysis, count_failed
from clusterscale.analyses.marginals import MarginalsAnalysis
from clusterscale.analyses.recovery import RecoveryAnalysis
from clusterscale.analyses.traits import TraitsAnalysis
from clusterscale.contracts import hash_of
from clusterscale.cube import Calendar, Grid, TraceCube
from clusterscale.cube.synthetic import PRESETS, open_or_synthesise
from clusterscale.errors import ClusterscaleError, ConfigError, InputError
from clusterscale.papers.compare import Results, check_claims, compare
from clusterscale.papers.figures import plot_figures
from clusterscale.papers.study import PAPERS, PaperStudy
from clusterscale.reporting.papers import Missing, StudyReport
from clusterscale.seeds import stream
from clusterscale.storage import exists, put, read
from clusterscale.study import Analysis, Tell, run
from clusterscale.study.execution import MEMORY, Executor


@dataclass(frozen=True, slots=True)
class RealData:
    """Data that a paper used: who is in them, and how a cube of their records is made.

    Cells are those of ``grid``, epochs are hours. ``room`` is the share by which the number of
    users may differ, ``least_events`` the number of events of a target that the paper draws, None
    if its studies list users of these data. Other files than Parquet with the columns user,
    timestamp, lat and lon are read by ``reader``, with ``settings``.
    """

    users: str
    n_users: int
    n_hours: int
    grid: str
    start: str
    timezone: str
    reader: str
    settings: Mapping[str, str] = field(default_factory=dict)
    room: float = 0.0
    least_events: int | None = None

    def ingest(self, source: str, uri: str) -> None:
        """Write the cube of the records at ``source``."""
        from clusterscale.ingestion import READERS, IngestOptions, ingest

        is_parquet = source.endswith(".parquet")
        reader = (
            READERS.create("events") if is_parquet else READERS.create(self.reader, **self.settings)
        )
        calendar = Calendar.parse(self.start, "1h", self.n_hours, self.timezone)
        locator = Grid.parse(self.grid)
        ingest(source, uri, IngestOptions(reader=reader, locator=locator, calendar=calendar))

    def check(self, cube: TraceCube, where: str) -> TraceCube:
        """Return the cube, if it has the shape of the paper's and is not a preset's.

        Raises InputError if it is another cube.
        """
        grid, shape = Grid.parse(self.grid), (cube.n_users, cube.n_rois, cube.n_epochs)
        n_rois = grid.n_lat * grid.n_lon
        fits = abs(cube.n_users - self.n_users) <= self.room * self.n_users
        if not fits or shape[1:] != (n_rois, self.n_hours):
            about = "about " if self.room else ""
            raise InputError(
                f"{where}: the papers have {about}{self.n_users:,} {self.users}, {n_rois} ROIs and "
                f"{self.n_hours} hours, but this cube has {shape[0]:,}, {shape[1]:,} and "
                f"{shape[2]:,}"
            )
        if "preset" in cube.attributes["provenance"]:
            raise InputError(f"{where}: this cube is synthetic; give one of real {self.users}")
        return cube


_FILE = files("clusterscale.papers") / "real_data.yaml"

REAL: Mapping[str, RealData] = {
    name: RealData(**about) for name, about in yaml.safe_load(_FILE.read_bytes()).items()
}
"""Data that can be given, by the name of a study's cube."""


class Cubes:
    """Cubes below a folder that all workers can reach, each created when first opened.

    ``given`` are places of real data by the name of a study's cube, as in :data:`REAL`: a cube, a
    Parquet file (user, timestamp, lat, lon), or the original files. A preset whose data are given
    is replaced by them, except in studies of fewer users.
    """

    def __init__(self, folder: str, given: Mapping[str, str | None]) -> None:
        self._folder = folder.rstrip("/")
        self._given = {name: source for name, source in given.items() if source is not None}

    def has(self, study: PaperStudy) -> bool:
        """Return whether the cube of a study is available."""
        return study.cube in PRESETS or study.cube in self._given

    def is_real(self, study: PaperStudy) -> bool:
        """Return whether a study runs on the data that its paper used."""
        return study.cube in self._given and (study.users is None or study.is_real)

    def describe(self, study: PaperStudy) -> str:
        """Return the name of a study's data, and whether they are real, synthetic or not given."""
        kind = "real" if self.is_real(study) else "synthetic" if self.has(study) else "not given"
        return f"{study.cube} ({kind})"

    def open(self, study: PaperStudy) -> TraceCube:
        """Return the cube of a study.

        Raises ConfigError if it needs data that are not given, or their records and a cube is
        given, InputError if they are not those of the paper, and ExistsError if another cube is at
        the preset's path.
        """
        if self.is_real(study):
            return self._open_given(study)
        if not self.has(study):
            raise ConfigError(
                f"this study needs the {REAL[study.cube].users}: pass `--{study.cube}`"
            )
        name = f"{study.cube}-{study.users}" if study.users else study.cube
        uri = f"{self._folder}/{name}.zarr"
        return open_or_synthesise(study.cube, uri, users=study.users, seed=1)

    def _open_given(self, study: PaperStudy) -> TraceCube:
        source, data = self._given[study.cube], REAL[study.cube]
        is_cube = exists(f"{source.rstrip('/')}/zarr.json")
        if study.grid:
            if is_cube:
                raise ConfigError(
                    f"{source}: this study counts on another grid, {study.grid}: pass the records "
                    "instead of a cube"
                )
            data = replace(data, grid=study.grid)
        if is_cube:
            return data.check(TraceCube(source), source)
        key = hash_of(source + study.grid)[:8]  # not that of another source
        uri = f"{self._folder}/{study.cube}-{key}.zarr"
        if not exists(f"{uri}/zarr.json"):
            data.ingest(source, uri)
        return data.check(TraceCube(uri), source)

    def with_targets(self, study: PaperStudy, cube: TraceCube) -> PaperStudy:
        """Return the study with targets of ``cube`` where it lists users of a preset.

        They are as many, drawn from users with the number of events that the paper requires; those
        of a study with fewer targets are among those of one with more. Raises InputError if there
        are too few such users.
        """
        least = REAL[study.cube].least_events if self.is_real(study) else None
        if least is None or study.audit is None or study.audit.targets.listed is None:
            return study
        n_targets = len(study.audit.targets.listed)
        active = np.flatnonzero(np.diff(cube.offsets) >= least)
        if len(active) < n_targets:
            raise InputError(
                f"{cube.uri}: the study has {n_targets} targets with {least} events or more, but "
                f"{len(active)} users of this cube have as many"
            )
        drawn = stream(study.audit.seed, "targets of a paper").permutation(active)[:n_targets]
        listed = tuple(f"row {user}" for user in np.sort(drawn))
        targets = study.audit.targets.model_copy(update={"listed": listed})
        audit = study.audit.model_copy(update={"targets": targets})
        return study.model_copy(update={"audit": audit})


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
    if cubes.is_real(study) and not study.is_real:
        folder += "/real"  # results on the preset remain beside those on the data that it imitates
    with _counted(f"{folder}/cost.json", executor.n_workers) as cost:
        cube, uri, datasets = cubes.open(study), f"{folder}/run", {}
        study = cubes.with_targets(study, cube)
        for analysis in analyses_of(study):
            dataset = run(analysis, cube, uri, executor, memory=memory, on_progress=tell)
            if analysis.kind == "audit" and (n_failed := count_failed(dataset)):
                raise ClusterscaleError(
                    f"{uri}: {n_failed} cases failed; run the same command to retry them"
                )
            datasets[analysis.kind] = dataset
        results = Results(datasets, study.best)
        compared = list(compare(study, results, is_real=cubes.is_real(study)))
        claims, plots = list(check_claims(study, results)), list(plot_figures(study, results))
    preset = f"synthetic users of the preset {study.cube}"
    data = f"{cube.n_users:,} {REAL[study.cube].users if cubes.is_real(study) else preset}"
    undrawn = {figure.item for figure in study.figures} - {plot.item for plot in plots}
    return replace(
        _report(name, study, data),
        core_seconds=cost[0],
        compared=compared,
        claims=claims,
        plots=plots,
        missing=[
            Missing(item, "this run did not compute what it shows") for item in sorted(undrawn)
        ],
    )


def analyses_of(study: PaperStudy) -> Iterator[Analysis]:
    """Yield the analyses of a study, in the order in which they run."""
    if study.audit is not None:
        yield AuditAnalysis(study.audit)
        if study.traits is not None:
            yield TraitsAnalysis(study.audit, study.traits)
    if study.recovery is not None:
        yield RecoveryAnalysis(study.recovery)
    if study.marginals is not None:
        yield MarginalsAnalysis(study.marginals)


def report_without_results(name: str, study: PaperStudy, why: str) -> StudyReport:
    """Return the report of a study that was not run; ``why`` is the reason."""
    missing = [Missing(item, why) for item in study.items()]
    return replace(_report(name, study, "Nothing was run"), missing=missing)


def _report(name: str, study: PaperStudy, data: str) -> StudyReport:
    title = PAPERS[study.paper]
    return StudyReport(study.paper, title, name, study.title, data, remarks=study.remarks)


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
