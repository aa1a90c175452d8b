"""Options that several commands share, and functions that resolve them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterscale.cli.console import out
from clusterscale.errors import InputError
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


Address = Annotated[str, typer.Option(callback=check_address)]
OptionalAddress = Annotated[str | None, typer.Option(callback=check_address)]
OptionalAddresses = Annotated[list[str] | None, typer.Option(callback=check_addresses)]
AddressArgument = Annotated[str, typer.Argument(callback=check_address)]
AddressArguments = Annotated[list[str], typer.Argument(callback=check_addresses)]
JsonFile = Annotated[str | None, typer.Option("--json")]
JunitFile = Annotated[str | None, typer.Option("--junit")]
GroupSize = Annotated[int | None, typer.Option(min=2)]
OnlyList = Annotated[bool, typer.Option("--list")]
ConfigFile = Annotated[Path | None, typer.Argument()]
Workers = Annotated[int | None, typer.Option(min=1)]
Full = Annotated[bool, typer.Option("--full")]
Explain = Annotated[bool, typer.Option("--explain")]
Force = Annotated[bool, typer.Option("--force")]


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
