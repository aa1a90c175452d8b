"""Options that several verbs share, and what they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterscale.cli.show import err, progress
from clusterscale.errors import InputError

if TYPE_CHECKING:
    from clusterscale.config import Config
    from clusterscale.contracts import Executor
    from clusterscale.runtime import Cluster

__all__ = ["ClusterName", "ConfigFile", "Force", "Memory", "Output", "Workers"]
__all__ += ["at_work", "load_config", "parse_memory", "pick_cluster"]

ConfigFile = Annotated[
    Path | None, typer.Argument(help="YAML file; the built-in quickstart where none is given.")
]
Output = Annotated[str | None, typer.Option(help="Folder of the run.")]
ClusterName = Annotated[str | None, typer.Option("--cluster", help="local or serial.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Workers of a local cluster.")]
Memory = Annotated[
    str | None,
    typer.Option(help="What a worker may use while everyone is screened, e.g. 4GB; 2GB if not."),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]


def load_config(path: Path | None) -> Config:
    """Return the config of a file, or the quickstart."""
    from clusterscale.config import QUICKSTART, built_in, load, parse

    return load(path) if path else parse(built_in(), where=QUICKSTART)


def pick_cluster(configured: Cluster, name: str | None, workers: int | None) -> Cluster:
    """Return the cluster of a config, or the one that was asked for instead.

    Raises
    ------
    InputError
        If workers are asked of a cluster that has none to choose.
    """
    from clusterscale.runtime import CLUSTERS, Local

    place = CLUSTERS.create(name) if name else configured
    if workers is None:
        return place
    if not isinstance(place, Local):
        raise InputError(f"--workers does not go with cluster {place.name!r}")
    return place.model_copy(update={"workers": workers})


@contextmanager
def at_work(
    place: Cluster, what: str
) -> Iterator[tuple[Executor, Callable[[str, int, int], None]]]:
    """Open a cluster under a progress bar; yield its executor, and what moves the bar.

    The latter takes what is being done, how much of it there is, and how much is done.
    """
    with ExitStack() as stack:
        with err.status(f"starting {place.label}"):
            executor = stack.enter_context(place.open())
        bar = stack.enter_context(progress())
        line = bar.add_task(what)
        if link := getattr(executor, "dashboard", None):
            bar.print(f"dashboard {link}")

        def tell(doing: str, total: int, done: int) -> None:
            bar.update(line, description=doing, total=total, completed=done)

        yield executor, tell


def parse_memory(text: str | None) -> int:
    """Return bytes; without a text, what a screen takes by default.

    Raises
    ------
    InputError
        If the text is no size.
    """
    from pydantic import ByteSize, TypeAdapter, ValidationError

    from clusterscale.screening import MEMORY

    if text is None:
        return MEMORY
    try:
        return int(TypeAdapter(ByteSize).validate_python(text))
    except ValidationError:
        raise InputError(f"--memory {text!r} is not a size such as 4GB or 800MB") from None
