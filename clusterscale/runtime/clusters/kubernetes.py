"""Run scheduler and workers in Kubernetes pods, created by the Dask operator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from clusterscale.errors import ClusterError
from clusterscale.runtime.clusters.base import needs
from clusterscale.runtime.clusters.pods import PodSettings, dask_cluster

if TYPE_CHECKING:
    from distributed import Client

    from clusterscale.runtime.clusters.resource import ClusterMonitor
    from clusterscale.runtime.dask import DaskExecutor
    from clusterscale.runtime.scheduler_connection import SchedulerConnection


_CHECK = 10.0  # seconds between checks of pods that have not started yet


class Kubernetes(PodSettings):
    """Pods of one worker with one thread each, created for this run by the Dask operator.

    The driver must run in a pod of the same Kubernetes cluster, because it reaches the scheduler by
    the name of its service. Kubernetes replaces lost workers, and a lost scheduler under the same
    name.

    ``image`` has this package in the same version; the default is the image of the driver's pod.
    ``instance`` is the name of the created resource; ``namespace`` is by default that of the
    driver. A worker may use ``memory``, its pod has a quarter more. ``tls`` are the paths of the
    certificates on the driver; ``secret`` holds the same certificates for the pods. The keys of the
    secrets in ``environment`` become environment variables of the workers, such as credentials of
    an object store; ``volumes`` are mounted on the workers.
    """

    @contextmanager
    def open(self) -> Iterator[DaskExecutor]:
        """Create the pods, connect to the scheduler, and delete the pods at the end.

        Raises
        ------
        ClusterError
            If the API server refuses, another run uses the name, or the pods cannot start.
        MissingError
            If a certificate does not exist.
        PackageError
            If distributed or kubernetes is not installed.
        """
        with needs("kubernetes", "kubernetes"):
            from clusterscale.runtime.clusters.resource import connect, hosted, own_image
            from clusterscale.runtime.dask import DaskExecutor
            from clusterscale.runtime.scheduler_connection import SchedulerConnection
        security = self.tls.security() if self.tls else None
        with ExitStack() as stack:
            api = stack.enter_context(connect(self.namespace))
            manifest = dask_cluster(self, api.namespace, self.image or own_image(api))
            monitor = stack.enter_context(hosted(manifest, api))
            address = self.scheduler_address(api.namespace)
            connection = stack.enter_context(
                closing(SchedulerConnection(address, security, self.patience))
            )

            def join() -> Client:
                connection.close()
                return _join(connection, monitor, self.patience)

            try:
                client = join()
            except OSError as error:
                raise ClusterError(str(error)) from None
            yield DaskExecutor(
                client, patience=self.patience, replace_lost=monitor.check, reconnect=join
            )


def _join(connection: SchedulerConnection, monitor: ClusterMonitor, patience: float) -> Client:
    """Wait for the scheduler; stop waiting if its pod cannot start."""
    until = monotonic() + patience
    while True:
        try:
            return connection.connect(min(_CHECK, patience))
        except OSError:
            if monotonic() > until:
                raise
        monitor.check()
