"""A cluster of a Dask Gateway."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, Strict, model_validator

from clusterscale.contracts import ConfigModel, Count
from clusterscale.errors import ClusterError
from clusterscale.runtime.clusters.base import Distributed, needs

if TYPE_CHECKING:
    from clusterscale.runtime.dask import DaskExecutor

__all__ = ["Gateway", "Option"]

_HERE = ("localhost", "127.0.0.1", "::1")


class Option(ConfigModel):
    """One thing that a gateway lets its users choose, such as ``worker_memory``."""

    option: Annotated[str, Field(min_length=1)]
    value: Annotated[int, Strict()] | Annotated[float, Strict()] | str


if TYPE_CHECKING:
    Options = tuple[Option, ...]
else:

    def _tuple(value):
        return tuple(value) if isinstance(value, list) else value

    Options = Annotated[tuple[Option, ...], BeforeValidator(_tuple)]


class Gateway(Distributed):
    """A cluster that a Dask Gateway makes for this run, and takes away at its end.

    ``address`` is the gateway's; ``proxy`` is that of its scheduler proxy, where it is another.
    Who asks is said by Dask's own configuration (``DASK_GATEWAY__AUTH__TYPE`` and its like in the
    environment), never here. Between the parts of the cluster everything is encrypted by the
    gateway's certificates; its own address must be ``https`` but on this machine, or
    ``tls: false`` must be said. How many threads a worker has is up to the gateway: it must be
    one, by its ``options`` or its own configuration.
    """

    name: Literal["gateway"] = "gateway"
    address: Annotated[str, Field(pattern=r"^https?://[^/@\s]+")]
    proxy: Annotated[str, Field(min_length=1)] | None = None
    workers: Count = 8
    options: Options = ()
    tls: Literal[False] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        parts = urlsplit(self.address)
        if parts.username is not None:
            raise ValueError("address holds a user: say who you are in the environment")
        if parts.scheme == "http" and parts.hostname not in _HERE and self.tls is None:
            raise ValueError(
                f"{parts.hostname} is not this machine, and http is not encrypted: use https, or "
                "say `tls: false`"
            )
        return self

    @contextmanager
    def open(self) -> Iterator[DaskExecutor]:
        """Ask the gateway for a cluster, join it, and give it back at the end.

        Raises
        ------
        ClusterError
            If the gateway cannot be reached, refuses, or cannot start the cluster.
        PackageError
            If distributed or dask-gateway is not installed.
        """
        with needs("gateway", "gateway"):
            from dask_gateway import GatewayCluster

            from clusterscale.runtime.dask import DaskExecutor
        # Held before it starts: one that fails to has a thread to be stopped like any other.
        cluster = GatewayCluster.__new__(GatewayCluster)
        try:
            try:
                cluster.__init__(
                    address=self.address,
                    proxy_address=self.proxy,
                    **{each.option: each.value for each in self.options},
                )
            except Exception as error:
                raise ClusterError(
                    f"the gateway at {self.address} gave no cluster: {error}"
                ) from None
            with cluster, cluster.get_client() as client:
                cluster.scale(self.workers)  # from now on the gateway keeps up that number
                yield DaskExecutor(client, patience=self.patience)
        finally:
            _let_go(cluster)


def _let_go(cluster: Any) -> None:
    """Stop what a cluster, started or not, has running here, and disarm its destructors.

    They would stop it again, whenever memory is next tidied up: with a warning, or for ever if
    that happens while Dask itself starts or stops a thread.
    """
    gateway = vars(cluster).pop("gateway", None)
    if gateway is None or "_loop_runner" not in vars(gateway):
        return
    if gateway._loop_runner.is_started():
        gateway.close()
    del gateway._loop_runner
