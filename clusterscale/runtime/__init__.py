"""Where work runs: in this process, or on a Dask cluster."""

from clusterscale.runtime.clusters import CLUSTERS, Address, Allocation, Cluster, Local, Serial
from clusterscale.runtime.serial import SerialExecutor

__all__ = ["CLUSTERS", "Address", "Allocation", "Cluster", "Local", "Serial", "SerialExecutor"]
