"""Where work runs: in this process, or on a Dask cluster."""

from clusterscale.runtime.clusters import CLUSTERS, Address, Allocation, Cluster, Local, Serial
from clusterscale.runtime.serial import SerialExecutor
from clusterscale.runtime.status import Status, read_status
from clusterscale.runtime.status_writer import StatusWriter
