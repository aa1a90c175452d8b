"""Connect to a scheduler that is already running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

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

        Raises
        ------
        PackageError
            If distributed is not installed.
        ConfigError
            If it is encrypted and no certificates are configured.
        ClusterError
            If it does not answer.
        """
        with needs(self.name):
            from clusterscale.runtime.dask import DaskExecutor
            from clusterscale.runtime.scheduler_connection import SchedulerConnection
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
