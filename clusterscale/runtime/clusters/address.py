"""Clusters that others run: a scheduler at an address, and a Dask Gateway."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, Strict, model_validator

from clusterscale.contracts import ConfigModel, Count
from clusterscale.errors import ClusterError, ConfigError
from clusterscale.runtime.clusters.base import Distributed, needs
from clusterscale.runtime.security import Encryption

if TYPE_CHECKING:
    from distributed import Security

    from clusterscale.runtime.dask import DaskExecutor


_FIRST = 60.0  # seconds that a scheduler may take to answer the first connection


class Address(Distributed):
    """A running scheduler with its own workers, which keep running when the driver ends.

    The default certificates are those of Dask's own configuration.

    Attributes
    ----------
    address
        Address of the scheduler, e.g. ``tls://10.0.0.7:8786``.
    tls
        Certificates, e.g. ``{ca: ca.pem, certificate: cert.pem, key: key.pem}``; None: those of
        Dask's configuration.
    """

    name: Literal["address"] = "address"
    address: Annotated[str, Field(pattern=r"^(tls|tcp)://\S+:\d+$")]
    tls: Encryption = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        parts = urlsplit(self.address)
        if parts.scheme == "tls" and self.tls is False:
            raise ValueError(f"{self.address} is encrypted: tls cannot be false")
        if parts.scheme == "tcp" and self.tls:
            raise ValueError(f"{self.address} is not encrypted: certificates need tls://…")
        if parts.scheme == "tcp" and self.tls is None and not _is_here(parts.hostname or ""):
            raise ValueError(
                f"{self.address} is not encrypted and not on this machine: use tls://…, or set "
                "tls: false if the network is private"
            )
        return self

    @contextmanager
    def open(self) -> Iterator[DaskExecutor]:
        """Connect to the scheduler, and disconnect at the end.

        Raises ConfigError if it is encrypted and no certificates are configured, and ClusterError
        if it does not answer.
        """
        from clusterscale.runtime.dask import DaskExecutor, SchedulerConnection

        connection = SchedulerConnection(self.address, self._security(), self.patience)
        try:
            client = connection.connect(min(self.patience, _FIRST))
        except OSError as error:
            raise ClusterError(str(error)) from None
        try:
            yield DaskExecutor(client, patience=self.patience, reconnect=connection.reconnect)
        finally:
            connection.close()

    def _security(self) -> Security | None:
        from distributed import Security

        if not self.address.startswith("tls://"):
            return None
        security = self.tls.security() if self.tls else Security()
        if security.tls_ca_file is None or security.tls_client_cert is None:
            raise ConfigError(
                f"{self.address} is encrypted: give tls: {{ca, certificate, key}} in the config, "
                "or set them for Dask (DASK_DISTRIBUTED__COMM__TLS__CA_FILE, …__CLIENT__CERT, "
                "…__CLIENT__KEY)"
            )
        return security


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Option(ConfigModel):
    """One option that a gateway offers its users, such as ``worker_memory``.

    Attributes
    ----------
    option
        Name of the option, e.g. ``worker_memory``.
    value
        Its value, in the unit of the option, e.g. ``8``.
    """

    option: Annotated[str, Field(min_length=1)]
    value: Annotated[int, Strict()] | Annotated[float, Strict()] | str


Options = Annotated[tuple[Option, ...], Field(strict=False)]


class Gateway(Distributed):
    """A cluster that a Dask Gateway creates for this run and deletes at its end.

    ``address`` is the gateway's; ``proxy`` is that of its scheduler proxy, if it differs.
    Authentication is set in Dask's own configuration (``DASK_GATEWAY__AUTH__TYPE`` and similar
    environment variables), never here. Traffic within the cluster is encrypted with the gateway's
    certificates; its own address must be ``https``, unless it is on this machine or ``tls: false``
    is set. The gateway decides the number of threads per worker: it must be one, set by its
    ``options`` or its own configuration.

    Attributes
    ----------
    address
        Address of the gateway, e.g. ``https://gateway.example.org``.
    proxy
        Address of its scheduler proxy, if it differs, e.g. ``tls://gateway.example.org:8786``.
    workers
        Number of workers.
    options
        Options that the gateway offers, e.g. ``[{option: worker_memory, value: 8}]``.
    tls
        Whether the address is encrypted; only ``false`` can be set, e.g. ``false``.
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
            raise ValueError("address contains a user: set credentials in the environment")
        if parts.scheme == "http" and not _is_here(parts.hostname or "") and self.tls is None:
            raise ValueError(
                f"{parts.hostname} is not this machine, and http is not encrypted: use https, or "
                "set `tls: false`"
            )
        return self

    @contextmanager
    def open(self) -> Iterator[DaskExecutor]:
        """Request a cluster from the gateway, connect to it, and shut it down at the end.

        Raises ClusterError if the gateway cannot be reached, refuses, or cannot start the cluster;
        and PackageError without distributed or dask-gateway.
        """
        with needs("gateway", "gateway"):
            from dask_gateway import GatewayCluster

            from clusterscale.runtime.dask import DaskExecutor
        # Created before it starts: a cluster that fails to start also has a thread to stop.
        cluster = GatewayCluster.__new__(GatewayCluster)
        try:
            try:
                cluster.__init__(
                    address=self.address,
                    proxy_address=self.proxy,
                    **{option.option: option.value for option in self.options},
                )
            except Exception as error:
                raise ClusterError(
                    f"the gateway at {self.address} gave no cluster: {error}"
                ) from None
            with cluster, cluster.get_client() as client:
                cluster.scale(self.workers)  # the gateway keeps that number from now on
                yield DaskExecutor(client, patience=self.patience)
        finally:
            _shut_down(cluster)


def _shut_down(cluster: Any) -> None:
    """Stop the threads of a cluster, started or not, and disable its destructors.

    The destructors would stop it again during garbage collection: with a warning, or with a
    deadlock if Dask is starting or stopping a thread at that moment.
    """
    gateway = vars(cluster).pop("gateway", None)
    if gateway is None or "_loop_runner" not in vars(gateway):
        return
    if gateway._loop_runner.is_started():
        gateway.close()
    del gateway._loop_runner
