"""Options that several verbs share, and what they stand for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterscale.errors import InputError

if TYPE_CHECKING:
    from clusterscale.config import Config
    from clusterscale.runtime import Cluster

__all__ = ["ClusterName", "ConfigFile", "Force", "Memory", "Output", "Workers"]
__all__ += ["load_config", "parse_memory", "pick_cluster"]

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
