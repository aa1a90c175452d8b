"""Analyses: what a study of one kind has to define, and how any of them is run and resumed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Source
from clusterscale.foreign import call_foreign
from clusterscale.storage import absolute
from clusterscale.study.execution import MEMORY, Executor
from clusterscale.study.foreign_code import code_of
from clusterscale.study.identity import Identity
from clusterscale.study.preflight import Probe, packages_of
from clusterscale.study.stage import Stage, Tell
from clusterscale.validation_messages import check_kinds

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """One analysis of one cube, as its stages see it.

    Attributes
    ----------
    cube, source
        The traces, and their address for tasks.
    run_uri, uri
        Folder of the run, and the folder in it that belongs to this analysis.
    input_digest
        Digest of the results of the run that the analysis starts from, empty if there are none.
    memory, n_workers
        Bytes that a worker may use, and how many tasks run at once; neither changes a result.
    """

    cube: TraceCube
    source: Source
    run_uri: str
    uri: str
    input_digest: str
    memory: int
    n_workers: int


class Plan(Protocol):
    """Settings of an analysis."""

    @property
    def digest(self) -> str:
        """Digest of the settings that decide results."""

    def describe(self) -> Mapping[str, Any]:
        """Return the settings as plain values that may be shown to anyone."""


class Analysis(ABC):
    """A kind of study: a plan, stages of tasks, and a dataset.

    It has no driver, no journal and no claim of a folder of its own: :func:`run` has them.
    """

    kind: ClassVar[str]
    """Name of the kind; also of its folder below that of the run, unless ``folder`` says else."""

    folder: ClassVar[str | None] = None
    own: ClassVar[Collection[str] | None] = None
    """Names in the folder that belong to this analysis; all of them where None."""

    shared: ClassVar[Collection[str]] = ()
    """Names in the folder that belong to other studies."""

    once: ClassVar[bool] = False
    """Whether it must not be done again in its folder, even if code of others changed."""

    before: Sequence[Analysis] = ()
    """Analyses that are run first, in the folder of the same run; see :meth:`after`."""

    plan: Plan
    seed: int
    null_roi: bool

    def after(self, *others: Analysis) -> Self:
        """Return this analysis, to be run after others whose results are shown beside its own."""
        self.before = others
        return self

    @property
    def digest(self) -> str:
        """Digest of the settings that decide results."""
        return self.plan.digest

    def describe(self) -> Mapping[str, Any]:
        """Return the plan as plain values that may be shown to anyone."""
        return self.plan.describe()

    def settings(self) -> Any:
        """Return the settings whose classes, if of other packages, decide results."""
        return getattr(self, "plan", None)

    def claim(
        self, uri: str, cube: TraceCube, digest: str = "", *, force: bool, keep: bool
    ) -> None:
        """Make a folder that of this analysis; see :meth:`Identity.claim`.

        ``digest`` is that of the results it starts from.
        """
        code = code_of(self.settings(), type(self))
        identity = Identity(self.kind, self.digest, cube.fingerprint, digest, code=code)
        about, keep = self.describe(), keep or self.once
        identity.claim(uri, about, force=force, own=self.own, shared=self.shared, keep=keep)

    @abstractmethod
    def check(self, cube: TraceCube, memory: int) -> None:
        """Raise :class:`ConfigError`, naming the keys, if ``cube`` or ``memory`` does not do."""

    @abstractmethod
    def stages(self, job: Study) -> Iterator[Stage[Any, Any]]:
        """Yield the stages in order; each is run before the next is asked for."""

    @abstractmethod
    def open(self, uri: str) -> xr.Dataset:
        """Open the finished dataset below the folder of a run, lazily."""

    def requires(self) -> Sequence[Analysis]:
        """Return the analyses whose results this one needs, in the folder of the same run."""
        return ()

    def input_digest(self, cube: TraceCube, run_uri: str) -> str:
        """Return a digest of the results of the run that this analysis starts from."""
        return ""

    def explain(self, cube: TraceCube, memory: int, n_workers: int) -> dict[str, str]:
        """Return what a run would do and take, by name, without running anything."""
        return {}

    def uri(self, run_uri: str) -> str:
        """Return the folder of this analysis below that of a run."""
        folder = self.kind if self.folder is None else self.folder
        return f"{run_uri}/{folder}" if folder else run_uri


def run(
    analysis: Analysis,
    cube: TraceCube,
    output: str | Path,
    executor: Executor,
    *,
    memory: int = MEMORY,
    force: bool = False,
    on_progress: Tell = lambda progress: None,
) -> xr.Dataset:
    """Run an analysis of ``cube``, or resume it, and return its dataset, kept under ``output``.

    Each finished task is durable at once. Called again with the same plan and cube, it runs only
    the tasks that are left, failed ones included, and ends with the same bits, whatever the
    workers, the memory and the order of tasks.

    Parameters
    ----------
    analysis, cube
        What is studied.
    output
        Folder of the run, a local path or fsspec URL that all workers reach.
    executor
        Where the tasks run.
    memory
        Bytes that a worker may use.
    force
        Overwrite the results of another plan, cube or revision.
    on_progress
        Called at the start of each stage and after each batch of tasks.

    Returns
    -------
    xr.Dataset
        Read lazily.

    Raises
    ------
    InputError
        If the cube is something else.
    ConfigError
        If the cube cannot answer the plan, or memory is too short.
    ExistsError
        If the folder holds another study and ``force`` is not set.
    Exception
        The first error of a task, if the analysis does not keep errors in its results.
    """
    check_kinds(cube=(cube, TraceCube))
    call_foreign(analysis, "check", analysis.check, cube, memory)
    run_uri = absolute(str(output)).rstrip("/")
    digest = analysis.input_digest(cube, run_uri)
    source = Source.of(cube, null_roi=analysis.null_roi, seed=analysis.seed)
    executor.preflight(Probe(source, packages_of(analysis.settings())))
    uri = analysis.uri(run_uri)
    analysis.claim(uri, cube, digest, force=force, keep=False)
    for required in (*analysis.before, *analysis.requires()):
        run(
            required, cube, run_uri, executor, memory=memory, force=force, on_progress=on_progress
        ).close()
    job = Study(cube, source, run_uri, uri, digest, memory, executor.n_workers)
    for stage in call_foreign(analysis, "stages", analysis.stages, job):
        stage.run(executor, on_progress)
    results: xr.Dataset = call_foreign(analysis, "open", analysis.open, run_uri)
    return results
