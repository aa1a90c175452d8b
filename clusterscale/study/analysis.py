"""Analyses: what a study of one kind has to define, and how any of them is run and resumed.

A kind is declared once, by its class: the name of its folder, the variables of its dataset, its
stages, cost and checks, its page, its tables in a terminal and as files. Its command, its Python
function, ``--explain``, the report, ``watch`` and the names that other analyses leave alone in the
folder of a run all follow from the class.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self
from warnings import warn

from clusterscale.contracts import NamedModel
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Source
from clusterscale.cube.describe import describe_origin
from clusterscale.errors import ClusterscaleError, ExistsError, InputError, StoreError
from clusterscale.foreign import Fault, call_foreign, returns
from clusterscale.phrases import option
from clusterscale.registry import Registry
from clusterscale.schema import STATUS, Variable
from clusterscale.storage import absolute, check_outputs, remove
from clusterscale.storage.lease import Lease, LeaseHeldError
from clusterscale.storage.result_table import TableStore, create_table, open_table, study_of
from clusterscale.study.execution import MEMORY, Executor
from clusterscale.study.foreign_code import Probe, code_of, packages_of
from clusterscale.study.identity import LEASE, Identity, others_in
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """How a page presents the results of a kind of analysis.

    Attributes
    ----------
    word, title
        Type and title of a page of which this is the first kind.
    heading
        Heading of the sections on a page with several kinds.
    plan
        Label of the plan.
    gist
        The method in a sentence.
    reading
        Heading of the part of the guide's page on reports that explains the terms.
    sections
        Returns the part of the first screen and the sections of a dataset: a function, or its
        ``module:name``.
    """

    word: str
    title: str
    heading: str
    plan: str
    gist: str
    reading: str = "Other analyses"
    sections: Callable[[xr.Dataset], Any] | str = ""


class Analysis(ABC):
    """A kind of study: a plan, stages of tasks, and a dataset, declared once.

    It has no driver, no journal and no claim of a folder of its own: :func:`run` has them.
    """

    kind: ClassVar[str]
    """Name of the kind; also of its folder below that of the run, unless ``folder`` says else."""

    opener: ClassVar[str] = ""
    """Name of the function in Python that opens its finished results."""

    noun: ClassVar[str] = ""
    """Its results in a word, such as ``certificates``; the name of the kind where empty."""

    form: ClassVar[str] = ""
    """Attribute ``format`` of its dataset; ``clusterscale-`` and the kind where empty."""

    schema: ClassVar[Mapping[str, Variable]] = MappingProxyType({})
    """Variables and coordinates of its dataset."""

    page: ClassVar[Page | None] = None
    """How a page presents its dataset; None: as `reporting/templates/pages.yaml` declares, or by a
    summary of each variable."""

    shown: ClassVar[Callable[[xr.Dataset], None] | str] = "clusterscale.cli.analyses:show_variables"
    """Prints a dataset in a terminal: a function, or its ``module:name``."""

    tables: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Tables of a dataset as files: for each name a variable with the dimensions of its rows."""

    folder: ClassVar[str | None] = None
    own: ClassVar[Collection[str] | None] = None
    """Names in the folder that belong to this analysis; all of them where None."""

    shared: ClassVar[Collection[str]] = ()
    """Names in the folder that belong to other studies; in that of the run, all kinds are."""

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
        shared = self.shared
        if self.folder == "":
            shared = {*shared, *others_in(uri), "tables", "report.html", STATUS}
        identity.claim(uri, about, force=force, own=self.own, shared=shared, keep=keep)

    @abstractmethod
    def check(self, cube: TraceCube, memory: int) -> None:
        """Raise :class:`ConfigError`, naming the keys, if ``cube`` or ``memory`` does not do."""

    @abstractmethod
    def stages(self, job: Study) -> Iterator[Stage[Any, Any]]:
        """Yield the stages in order; each is run before the next is asked for."""

    @classmethod
    def read(cls, uri: str | Path) -> xr.Dataset:
        """Open a finished dataset lazily, given the folder of its run, its own, or the store.

        Raises
        ------
        MissingError
            If there is none, or it has not finished.
        FormatError, DamagedError
            If the store has something else, or a file is not the one that was written.
        """
        return open_table(uri, cls.kind, cls.format(), cls.schema)

    def open(self, uri: str) -> xr.Dataset:
        """Open the finished dataset below the folder of a run, lazily."""
        return self.read(self.uri(uri))

    @classmethod
    def failures(cls, results: xr.Dataset) -> int:
        """Return the number of failed tasks in a dataset, which the same run repeats."""
        return 0

    @classmethod
    def format(cls) -> str:
        """Return the attribute ``format`` of its dataset."""
        return cls.form or f"clusterscale-{cls.kind}"

    def table(
        self,
        job: Study,
        columns: Mapping[str, Sequence[Any]],
        chunks: Mapping[str, int],
        about: Mapping[str, Any] | None = None,
    ) -> TableStore:
        """Return the table of the results, created empty if the study has none yet.

        Parameters
        ----------
        job
            The study.
        columns
            Known values: those of every dimension of :attr:`schema`, and optionally others.
        chunks
            Chunk size of dimensions, default 1.
        about
            Attributes of the dataset besides its format, plan, seed and cube.
        """
        attributes = {
            "format": self.format(),
            "complete": False,
            "plan": json.dumps(dict(self.describe())),
            "plan_digest": self.digest,
            "seed": self.seed,
            "study": study_of(job.uri, self.kind),
            **(about or {}),
            **describe_origin(job.cube, null_roi=self.null_roi),
        }

        def create(uri: str) -> dict[str, str]:
            return create_table(uri, self.schema, columns, chunks, attributes)

        return TableStore(job.uri, self.format(), create)

    def requires(self) -> Sequence[Analysis]:
        """Return the analyses whose results this one needs, in the folder of the same run."""
        return ()

    def find_input(self, cube: TraceCube, run_uri: str) -> object:
        """Return what this analysis starts from; raise an error if it is missing in the run."""
        return None

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

    def outputs(self, run_uri: str) -> list[str]:
        """Return the addresses that this analysis may write or replace, below that of a run."""
        uri = self.uri(run_uri)
        own = [uri] if self.own is None else [f"{uri}/{name}" for name in self.own]
        return [*own, f"{run_uri}/{STATUS}"]


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
    StoreError
        If another process computes the study in the folder now.
    Exception
        The first error of a task, if the analysis does not keep errors in its results.
    """
    check_kinds(cube=(cube, TraceCube))
    call_foreign(analysis, "check", analysis.check, cube, memory)
    run_uri = absolute(str(output)).rstrip("/")
    kept = [f"{analysis.uri(run_uri)}/{name}" for name in analysis.shared]  # not replaced
    check_outputs(analysis.outputs(run_uri), [] if absolute(cube.uri) in kept else [cube.uri])
    digest = analysis.input_digest(cube, run_uri)
    source = Source.of(cube, null_roi=analysis.null_roi, seed=analysis.seed)
    executor.preflight(Probe(source, packages_of(analysis.settings())))
    uri = analysis.uri(run_uri)
    options: dict[str, Any] = {"memory": memory, "force": force, "on_progress": on_progress}
    with _alone(uri) as lease:
        analysis.claim(uri, cube, digest, force=force, keep=False)
        for required in (*analysis.before, *analysis.requires()):
            run(required, cube, run_uri, executor, **options).close()
        job = Study(cube, source, run_uri, uri, digest, memory, executor.n_workers)
        for stage in call_foreign(analysis, "stages", analysis.stages, job):
            if lease is not None:
                lease.check()
            stage.run(executor, on_progress)
    return call_foreign(analysis, "open", analysis.open, run_uri)  # type: ignore[no-any-return]


@contextmanager
def _alone(uri: str) -> Iterator[Lease | None]:
    """Work as the only process on the folder of a study, if its store can tell; else warn.

    Raises StoreError, which names the other process, if one is at work.
    """
    with ExitStack() as held:
        lease = None
        try:
            mine = Lease(f"{uri}/{LEASE}", on_wait=partial(warn, stacklevel=2))
            lease = held.enter_context(mine)
        except LeaseHeldError as other:
            since = f" since {other.since}" if other.since else ""
            raise StoreError(
                f"{other.holder} has been at work on {uri}{since}: repeat the command when it has "
                f"ended, or choose another {option('output')}"
            ) from None
        except StoreError as error:  # it cannot create files exclusively, or is only read
            warn(
                f"{uri}: no one can tell whether another process is at work: {error}", stacklevel=4
            )
        try:
            yield lease
        except ExistsError:
            remove(f"{uri}/{LEASE}")  # nothing is left in a folder of something else
            raise


_BUILT_IN = {  # in the order of a page
    "audit": "clusterscale.analyses.audit.analysis:AuditAnalysis",
    "screen": "clusterscale.analyses.screening.analysis:ScreenAnalysis",
    "certify": "clusterscale.analyses.certify.analysis:CertifyAnalysis",
    "traits": "clusterscale.analyses.traits.analysis:TraitsAnalysis",
    "recovery": "clusterscale.analyses.recovery.analysis:RecoveryAnalysis",
    "advise": "clusterscale.analyses.advise.analysis:AdviseAnalysis",
    "publication": "clusterscale.analyses.publish.analysis:PublishAnalysis",
}


class AnalysisPlan(NamedModel):
    """The settings of an analysis that another package defines.

    A subclass has a literal ``name``, which is also the ``kind`` of its analysis, and ``runs``, the
    class of the analysis, which is made from the plan. Its settings decide the identity of a study.
    """

    _registry: ClassVar[str] = "clusterscale.study:ANALYSES"
    _boundary: ClassVar[Mapping[str, Fault | None]] = {"analysis": returns(Analysis)}
    runs: ClassVar[Any] = None
    """The class of the analysis."""

    def analysis(self) -> Analysis:
        """Return the analysis with these settings; its ``plan`` is this object."""
        if self.runs is None:
            raise InputError(f"{type(self).__name__} has no `runs`: set it to the analysis' class")
        return self.runs(self)  # type: ignore[no-any-return]

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain values that may be shown to anyone."""
        return self.model_dump(mode="json")


ANALYSES: Registry[AnalysisPlan] = Registry(
    "analysis", base=AnalysisPlan, plugins="clusterscale.analyses"
)
"""Plans of analyses of other packages, which a config can name."""


def built_in() -> dict[str, type[Analysis]]:
    """Return the classes of the analyses of this package, by kind, in the order of a page."""
    return {kind: resolve_name(path) for kind, path in _BUILT_IN.items()}


def find_kind(kind: str) -> type[Analysis] | None:
    """Return the class of an analysis of this or another package, None if it is not known here."""
    if kind in _BUILT_IN:
        return resolve_name(_BUILT_IN[kind])  # type: ignore[no-any-return]
    try:
        return ANALYSES[kind].runs  # type: ignore[no-any-return]
    except ClusterscaleError:  # it is not installed here, or cannot be loaded
        return None
