"""Options that several commands share, and functions that resolve them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from copy import copy
from inspect import signature
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer

from clusterscale.cli.console import out
from clusterscale.errors import InputError
from clusterscale.models import read_descriptions
from clusterscale.redaction import check_url
from clusterscale.study.execution import MEMORY

if TYPE_CHECKING:
    from clusterscale.config import Config, ReleasesConfig
    from clusterscale.runtime import Cluster


def say_command(shows: str, *words: str) -> None:
    """Print a command of this program to copy, and what it shows."""
    line = f"{shows}: {shlex.join(('clusterscale', *words))}"
    out.print(line, markup=False, soft_wrap=True)


def check_address(address: str | None) -> str | None:
    """Reject an address that contains credentials, before anything is opened or shown."""
    return address if address is None else check_url(address)


def check_addresses(addresses: list[str] | None) -> list[str]:
    """Reject addresses that contain credentials; None is an empty list."""
    for address in addresses or ():
        check_address(address)
    return addresses or []


def add_command(app: typer.Typer, verb: Callable[..., None], name: str | None = None) -> None:
    """Add a command, whose docstring has its help, and that of its options as `Parameters`.

    Indented paragraphs keep their lines. Options without a text there keep their own help.
    """
    text, helps = read_descriptions(verb.__doc__, "Parameters")
    made, given = [], signature(verb, eval_str=True)
    for one in given.parameters.values():
        if one.name in helps:
            kind, option = one.annotation, typer.Option()
            if get_origin(kind) is Annotated:
                kind, option = get_args(kind)
            elif one.default is one.empty:
                option = typer.Argument()
            option = copy(option)
            option.help = helps[one.name]
            one = one.replace(annotation=Annotated[kind, option])
        made.append(one)
    command: Any = verb
    command.__signature__ = given.replace(parameters=made)
    parts = [
        f"\b\n{dedent(part)}" if part.startswith(" ") else part.replace("\n", " ")
        for part in text.split("\n\n")
    ]
    app.command(name, help="\n\n".join(parts))(command)


Address = Annotated[str, typer.Option(callback=check_address)]
OptionalAddress = Annotated[str | None, typer.Option(callback=check_address)]
OptionalAddresses = Annotated[list[str] | None, typer.Option(callback=check_addresses)]
AddressArgument = Annotated[str, typer.Argument(callback=check_address)]
AddressArguments = Annotated[list[str], typer.Argument(callback=check_addresses)]
JsonFile = Annotated[str | None, typer.Option("--json")]
JunitFile = Annotated[str | None, typer.Option("--junit")]
GroupSize = Annotated[int | None, typer.Option(min=2)]
OnlyList = Annotated[bool, typer.Option("--list")]
ConfigFile = Annotated[
    Path | None, typer.Argument(help="YAML file; by default the built-in quickstart.")
]
Output = Annotated[
    str | None, typer.Option(help="Folder of the run: path or URL.", callback=check_address)
]
ClusterName = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="serial, local, slurm, slurm-allocation, kubernetes, …, or tls://HOST:PORT; with the "
        "settings of the config if it names the same cluster.",
    ),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Number of workers of the cluster.")]
Memory = Annotated[
    str | None,
    typer.Option(help="Memory for each worker, e.g. 4GB; by default 70 % of its memory, or 2GB."),
]
Full = Annotated[bool, typer.Option("--full", help="Show all cases, not only the strongest.")]
Explain = Annotated[bool, typer.Option("--explain", help="Only show what would run.")]
Users = Annotated[
    float | None, typer.Option(help="With --explain, of a cube that is not there: users.")
]
Places = Annotated[float | None, typer.Option(help="The same: places.")]
Epochs = Annotated[float | None, typer.Option(help="The same: epochs, of an hour.")]
EventsPerUser = Annotated[float | None, typer.Option(help="The same: mean events of a user.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing results.")]


def load_config(path: Path | None, *, mechanism: Mapping[str, Any] | None = None) -> Config:
    """Return the config of a file, or the quickstart; with the mechanism to publish, if given."""
    from clusterscale.config import QUICKSTART, built_in, load, parse

    if path is None:
        return parse(built_in(), where=QUICKSTART)
    return load(path, mechanism=mechanism)


def load_either(path: Path | None, **options: Any) -> Config | ReleasesConfig:
    """Return the config of a run or of a catalogue from a file, or the quickstart.

    ``options`` are those of :func:`clusterscale.config.load_either`.
    """
    from clusterscale.config import load_either

    return load_either(path, **options) if path else load_config(None)


def pick_cluster(
    configured: Cluster, name: str | None, workers: int | None, *, serve: bool = True
) -> Cluster:
    """Return the cluster of a config, or the one that ``name`` selects instead.

    A cluster of the kind that the config names keeps its settings. In a task of a Slurm allocation
    that is not the driver, this function runs the scheduler or a worker and does not return, if it
    is to ``serve``.

    Raises
    ------
    InputError
        If ``workers`` is given and the cluster's number of workers cannot be set.
    """
    from clusterscale.runtime import Allocation

    cluster = _find_cluster(configured, name) if name else configured
    if workers is not None:
        cluster = cluster.resize(workers)
    if serve and isinstance(cluster, Allocation):
        cluster.serve()
    return cluster


def _find_cluster(configured: Cluster, name: str) -> Cluster:
    from clusterscale.runtime import CLUSTERS, Address

    if "://" not in name:
        return configured if configured.name == name else CLUSTERS.create(name)
    known = configured.model_dump(exclude={"name"}) if isinstance(configured, Address) else {}
    return CLUSTERS.create("address", **{**known, "address": name})


def parse_memory(text: str | None, cluster: Cluster) -> int:
    """Return the bytes that work may use on each worker of ``cluster``.

    The default is the cluster's usable memory, or 2 GB if that is not known here.

    Raises
    ------
    InputError
        If the text is not a size.
    """
    from pydantic import ValidationError

    from clusterscale.runtime.clusters.base import to_bytes

    if text is None:
        return cluster.usable_memory or MEMORY
    try:
        return to_bytes(text)
    except ValidationError:
        raise InputError(f"--memory {text!r} is not a size such as 4GB or 800MB") from None


def describe_memory(text: str | None, cluster: Cluster) -> str:
    """Return the memory that work may use on each worker, and which setting decides it."""
    from clusterscale.study import describe_bytes

    size = describe_bytes(parse_memory(text, cluster))
    if text is not None:
        return f"{size} per worker, set by `--memory`"
    if cluster.usable_memory is None:
        default = describe_bytes(MEMORY)
        return f"{default} per worker, the default of cluster {cluster.name}; set it by `--memory`"
    return f"{size} per worker, 70 % of its memory; set it by `--memory`"
