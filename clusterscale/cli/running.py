"""Run an analysis from the command line: options, cluster, progress, status and report."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from inspect import Parameter, Signature, signature
from pkgutil import resolve_name
from textwrap import dedent
from threading import Timer, main_thread
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer
from rich.markup import escape

from clusterscale.api.execution import new_bar, run_analysis, teller
from clusterscale.cli import options as shared
from clusterscale.cli.console import err, out
from clusterscale.cli.reports import write_page
from clusterscale.cli.tables import show_pairs
from clusterscale.errors import InputError, SignalExit
from clusterscale.models import read_descriptions
from clusterscale.storage import check_outputs, exists
from clusterscale.storage.outputs import inputs_in

if TYPE_CHECKING:
    import xarray as xr

    from clusterscale.config import Config
    from clusterscale.cube import TraceCube
    from clusterscale.runtime import Cluster, StatusWriter
    from clusterscale.study import Analysis, Progress, Tell
    from clusterscale.study.execution import Executor


_ENDING = (signal.SIGINT, signal.SIGTERM)
_SIZES = ("users", "places", "epochs", "events_per_user")
_HERE = ("serial", "local")  # clusters of this machine
_AGAIN = 0.05  # seconds until a signal whose exception was dropped is resent


@dataclass(frozen=True)
class RunOptions:
    """Options of every command that runs an analysis; other commands have some of them.

    Attributes
    ----------
    config
        YAML file; by default the built-in quickstart.
    output
        Folder of the run: path or URL.
    cluster
        serial, local, slurm, slurm-allocation, kubernetes, …, or tls://HOST:PORT; with the settings
        of the config if it names the same cluster.
    workers
        Number of workers of the cluster.
    memory
        Memory for each worker, e.g. 4GB; by default 70 % of its memory, or 2GB.
    explain
        Only show what would run.
    force
        Overwrite existing results.
    """

    config: shared.ConfigFile = None
    output: shared.OptionalAddress = None
    cluster: str | None = None
    workers: shared.Workers = None
    memory: str | None = None
    explain: shared.Explain = False
    force: shared.Force = False

    @cached_property
    def loaded(self) -> Config:
        """The config."""
        return shared.load_config(self.config)

    @cached_property
    def cube(self) -> TraceCube:
        """The cube of the config."""
        return self.loaded.cube.open()

    @property
    def folder(self) -> str:
        """The folder of the run."""
        return (self.output or self.loaded.output).rstrip("/")


@dataclass(frozen=True)
class SizedOptions(RunOptions):
    """The same, and for ``explain`` the sizes of a cube that is not there.

    Attributes
    ----------
    users
        With --explain, of a cube that is not there: users.
    places
        The same: places.
    epochs
        The same: epochs, of an hour.
    events_per_user
        The same: mean events of a user.
    """

    users: float | None = None
    places: float | None = None
    epochs: float | None = None
    events_per_user: float | None = None

    @cached_property
    def cube(self) -> TraceCube:
        """The cube of the config, or one of these sizes; for ``explain`` it need not be there."""
        from clusterscale.cube.sized import SizedCube

        given = {name: size for name in _SIZES if (size := getattr(self, name)) is not None}
        if given:
            return SizedCube(**self._check_sizes(given))
        source = self.loaded.cube
        if self.explain and source.preset and not exists(source.path):
            return SizedCube.of_preset(source.preset, source.users)
        return source.open()

    def _check_sizes(self, given: dict[str, float]) -> dict[str, Any]:
        checked: dict[str, Any] = dict(given)
        for name in _SIZES if self.explain else given:
            option = f"--{name.replace('_', '-')}"
            if not self.explain:
                raise InputError(f"{option} is for --explain, which is missing")
            if name not in given:
                raise InputError(f"{option} is missing: a cube that is not there needs all of them")
            if name != _SIZES[-1]:
                checked[name] = int(given[name])
            if checked[name] != given[name]:
                raise InputError(f"{option} {given[name]:g} is no whole number")
        return checked


def with_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the fields of ``options`` as options, and the other parameters.

    ``options``: the first parameter of ``verb``, :class:`RunOptions` or a class derived from it.
    """
    own = dict(signature(verb, eval_str=True).parameters)
    kind = own.pop("options").annotation
    fields = dict(signature(kind, eval_str=True).parameters)

    def command(**given: Any) -> None:
        verb(kind(**{name: given.pop(name) for name in fields}), **given)

    made: Any = command
    made.__signature__ = Signature(
        [one.replace(kind=Parameter.KEYWORD_ONLY) for one in (fields | own).values()]
    )
    made.__name__, made.__doc__, made.__annotations__ = verb.__name__, verb.__doc__, {}
    return command


def add_command(app: typer.Typer, verb: Callable[..., None], name: str | None = None) -> None:
    """Add a command, whose docstring has its help, and that of its options as `Parameters`.

    Options that are not described there are as in other commands. Indented paragraphs keep their
    lines.
    """
    text, helps = read_descriptions(verb.__doc__, "Parameters")
    for kind in (RunOptions, SizedOptions):
        helps = read_descriptions(kind.__doc__)[1] | helps
    made, given = [], signature(verb, eval_str=True)
    for one in given.parameters.values():
        if one.name in helps:
            hint, option = one.annotation, typer.Option()
            if get_origin(hint) is Annotated:
                hint, option = get_args(hint)
            elif one.default is one.empty:
                option = typer.Argument()
            option = copy(option)
            option.help = helps[one.name]
            one = one.replace(annotation=Annotated[hint, option])
        made.append(one)
    command: Any = verb
    command.__signature__ = given.replace(parameters=made)
    parts = [
        f"\b\n{dedent(part)}" if part.startswith(" ") else part.replace("\n", " ")
        for part in text.split("\n\n")
    ]
    app.command(name, help="\n\n".join(parts))(command)


def run_verb(
    analysis: Analysis,
    options: RunOptions,
    show: Callable[[xr.Dataset], None] | None = None,
    *,
    cube: TraceCube | None = None,
    page: bool = True,
) -> xr.Dataset | None:
    """Run an analysis, show its results, and write the report.

    Parameters
    ----------
    analysis
        The analysis.
    options
        Options from the command line; with ``explain`` nothing is run.
    show
        Prints the results; None: as its kind declares.
    cube
        Cube in place of that of the options.
    page
        Whether there is a table of results, of which a page is written.

    Returns
    -------
    xr.Dataset or None
        The results, None if nothing was run.
    """
    from clusterscale.study.resources import describe_waiting

    cluster = shared.pick_cluster(
        options.loaded.cluster, options.cluster, options.workers, serve=not options.explain
    )
    cube, folder = options.cube if cube is None else cube, options.folder
    memory = shared.parse_memory(options.memory, cluster)
    home = analysis.uri(folder)
    read = options.loaded.model_dump(exclude={"output": True, "publish": {"releases": True}})
    check_outputs(analysis.outputs(folder), [options.config, *inputs_in(read)])
    if options.explain:
        for first in analysis.before:
            show_pairs(out, f"first: {first.kind}", first.explain(cube, memory, cluster.n_workers))
        rows = analysis.explain(cube, memory, cluster.n_workers)
        rows |= describe_waiting(cluster.n_workers) if cluster.name in _HERE else {}
        about = {"memory": shared.describe_memory(options.memory, cluster), "output": home}
        show_pairs(out, "what would run", {"cluster": cluster.label, **rows, **about})
        return None
    analysis.find_input(cube, folder)  # before a cluster is started
    with report_status(folder, analysis.kind) as status:
        with running_cluster(cluster, analysis.kind, status) as (executor, tell):
            results = run_analysis(
                analysis, cube, folder, executor, memory=memory, force=options.force, progress=tell
            )
        status.update("report", 0, 0)
        printed: Any = show or type(analysis).shown
        (resolve_name(printed) if isinstance(printed, str) else printed)(results)
        if page:
            out.print(f"results  {home}/results.zarr", soft_wrap=True)
            write_page(folder)
    return results


def running_verb(make: Callable[[Config], Analysis | Sequence[Analysis]]) -> Callable[..., None]:
    """Return the command that runs the analyses which ``make`` makes of a config."""

    def verb(options: SizedOptions) -> None:
        made = make(options.loaded)
        for analysis in made if isinstance(made, Sequence) else (made,):
            run_verb(analysis, options)

    verb.__name__, verb.__doc__ = make.__name__, make.__doc__
    return with_options(verb)


@contextmanager
def report_status(folder: str, work: str) -> Iterator[StatusWriter]:
    """Write the status of the work in ``folder`` for `clusterscale watch`.

    SIGTERM and SIGINT end the context like an error.
    """
    from clusterscale.runtime import StatusWriter

    def warn(message: str) -> None:
        err.print(f"[yellow]{escape(message)}[/]", soft_wrap=True)

    with _orderly_end(), StatusWriter(folder, work, warn=warn) as status:
        yield status


@contextmanager
def running_cluster(
    cluster: Cluster, what: str, status: StatusWriter | None = None
) -> Iterator[tuple[Executor, Tell]]:
    """Open a cluster with a progress bar; yield its executor and a progress callback.

    The callback also updates ``status``. SIGTERM and SIGINT end the work like an error: the cluster
    is closed, and its jobs are cancelled.
    """
    with ExitStack() as stack:
        stack.enter_context(_orderly_end())
        with err.status(f"starting {cluster.label}"):
            executor = stack.enter_context(cluster.open())
        bar = stack.enter_context(new_bar(err))
        show = teller(bar, bar.add_task(what))
        if link := executor.dashboard:
            bar.print(f"dashboard {link}")
        if status is not None:
            stack.enter_context(status.show_workers_of(executor))

        def tell(now: Progress) -> None:
            show(now)
            if status is not None:
                status.update(now.stage, now.n_tasks, now.n_done, now.n_failed, now.n_merging)

        yield executor, tell


class _Leave:
    """Signal handler that raises ``SystemExit`` once.

    A signal may arrive in a callback of compiled code or in a destructor, where Python reports and
    drops an exception; :meth:`report` then resends the signal shortly afterwards.
    """

    def __init__(self) -> None:
        self._raised: SystemExit | None = None

    def __call__(self, number: int, _: object) -> None:
        if self._raised is None:
            self._raised = SignalExit(128 + number)
            for ending in _ENDING:
                signal.signal(ending, signal.SIG_IGN)
            raise self._raised

    def report(
        self,
        unraisable: sys.UnraisableHookArgs,
        otherwise: Callable[[sys.UnraisableHookArgs], object],
    ) -> None:
        """Handle a dropped exception; ``otherwise`` handles exceptions of other origin."""
        dropped = unraisable.exc_value
        if not isinstance(dropped, SystemExit) or dropped is not self._raised:
            otherwise(unraisable)
            return
        for ending in _ENDING:
            signal.signal(ending, self)
        Timer(_AGAIN, self._send, [int(dropped.code or 0) - 128]).start()

    def _send(self, number: int) -> None:
        self._raised = None
        signal.pthread_kill(main_thread().ident or 0, number)


@contextmanager
def _orderly_end() -> Iterator[None]:
    """Turn SIGINT and SIGTERM into ``SystemExit``; only the outermost context does so."""
    before = {number: signal.getsignal(number) for number in _ENDING}
    if any(isinstance(handler, _Leave) for handler in before.values()):
        yield
        return
    leave, otherwise = _Leave(), sys.unraisablehook
    sys.unraisablehook = partial(leave.report, otherwise=otherwise)
    for number in before:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = otherwise
