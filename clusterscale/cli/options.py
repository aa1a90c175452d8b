"""Options that several verbs share, and what they stand for."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterscale.cli.console import out
from clusterscale.errors import InputError
from clusterscale.redaction import check_url

if TYPE_CHECKING:
    from clusterscale.config import Config, ReleasesConfig
    from clusterscale.runtime import Cluster

__all__ = ["ClusterName", "ConfigFile", "Explain", "Force", "Full", "Memory", "Output", "Workers"]
__all__ += [
    "argument",
    "in_flags",
    "load_config",
    "load_either",
    "option",
    "parse_memory",
]
__all__ += ["describe_memory", "pick_cluster", "say_command"]


_FLAGS = {
    "the reader's `timezone`": "`--setting timezone=`, e.g. to Europe/London",
    "`force=True`": "`--force`",
    "`locator`": "`--grid`, `--points` or `--h3`",
    **{f"`{name}`": f"`--{name}`" for name in ("output", "memory", "pseudonymise")},
    **{f"`{name}`": f"`--{name.replace('_', '-')}`" for name in ("top_users", "min_events")},
}


def in_flags(message: str) -> str:
    """Return a message of the Python interface with its arguments named as they are typed."""
    for argument_name, flag in _FLAGS.items():
        message = message.replace(argument_name, flag)
    return message


def say_command(shows: str, *words: str) -> None:
    """Print a command of this program that can be pasted, and what it shows."""
    line = f"{shows}: {shlex.join(('clusterscale', *words))}"
    out.print(line, markup=False, highlight=False, soft_wrap=True)


def check_address(address: str | None) -> str | None:
    """Refuse an address that carries credentials, before anything is opened or shown."""
    return address if address is None else check_url(address)


def argument(text: str) -> Any:
    """Return what makes a parameter an argument that is a path or URL."""
    return typer.Argument(help=text, callback=check_address)


def option(text: str) -> Any:
    """Return what makes a parameter an option that is a path or URL."""
    return typer.Option(help=text, callback=check_address)


ConfigFile = Annotated[
    Path | None, typer.Argument(help="YAML file; the built-in quickstart where none is given.")
]
Output = Annotated[str | None, option("Folder of the run: path or URL.")]
ClusterName = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="serial, local, slurm, slurm-allocation, kubernetes, …, or tls://HOST:PORT; with the "
        "settings of the config if that names the same.",
    ),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Workers of the cluster.")]
Memory = Annotated[
    str | None,
    typer.Option(help="What a worker may use, e.g. 4GB; if not, 70 % of what it has, or 2GB."),
]
Full = Annotated[bool, typer.Option("--full", help="Show every case, not the strongest alone.")]
Explain = Annotated[bool, typer.Option("--explain", help="Only say what would run.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]


def load_config(path: Path | None) -> Config:
    """Return the config of a file, or the quickstart."""
    from clusterscale.config import QUICKSTART, built_in, load, parse

    return load(path) if path else parse(built_in(), where=QUICKSTART)


def load_either(path: Path | None) -> Config | ReleasesConfig:
    """Return the config of a file, of a run or of a catalogue; or the quickstart."""
    from clusterscale.config import load_either

    return load_either(path) if path else load_config(None)


def pick_cluster(configured: Cluster, name: str | None, workers: int | None) -> Cluster:
    """Return the cluster of a config, or the one that was asked for instead.

    One of the kind that the config names keeps the settings of the config. In a task of an
    allocation that is not the driver this serves the driver, and does not return.

    Raises
    ------
    InputError
        If workers are asked of a cluster that has none to choose.
    """
    from clusterscale.runtime import Allocation

    place = _find_cluster(configured, name) if name else configured
    if workers is not None:
        place = place.resize(workers)
    if isinstance(place, Allocation):
        place.serve()
    return place


def _find_cluster(configured: Cluster, name: str) -> Cluster:
    from clusterscale.runtime import CLUSTERS, Address

    if "://" not in name:
        return configured if configured.name == name else CLUSTERS.create(name)
    known = configured.model_dump(exclude={"name"}) if isinstance(configured, Address) else {}
    return CLUSTERS.create("address", **{**known, "address": name})


def parse_memory(text: str | None, place: Cluster) -> int:
    """Return the bytes that work may use on each worker of ``place``.

    Without a text it is what the place says, or 2 GB where that is not known here.

    Raises
    ------
    InputError
        If the text is no size.
    """
    from pydantic import ValidationError

    from clusterscale.contracts import MEMORY
    from clusterscale.runtime.clusters.base import to_bytes

    if text is None:
        return place.budget or MEMORY
    try:
        return to_bytes(text)
    except ValidationError:
        raise InputError(f"--memory {text!r} is not a size such as 4GB or 800MB") from None


def describe_memory(text: str | None, place: Cluster) -> str:
    """Return how much memory work may use on each worker of ``place``, and what decides it."""
    from clusterscale.contracts import MEMORY
    from clusterscale.study import describe_bytes

    size = describe_bytes(parse_memory(text, place))
    if text is not None:
        return f"{size} of each worker, as `--memory` says"
    if place.budget is None:
        usual = describe_bytes(MEMORY)
        return f"{usual} of each worker, as cluster {place.name} names none; set it by `--memory`"
    return f"{size} of each worker, 70 % of what it has; set it by `--memory`"
