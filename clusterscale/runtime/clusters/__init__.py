"""Registry of the clusters by their name in a config."""

from clusterscale.registry import Registry
from clusterscale.runtime.clusters.address import Address
from clusterscale.runtime.clusters.allocation import Allocation
from clusterscale.runtime.clusters.base import Cluster
from clusterscale.runtime.clusters.local import Local, Serial

__all__ = ["CLUSTERS", "Address", "Allocation", "Cluster", "Local", "Serial"]

CLUSTERS: Registry[Cluster] = Registry.of_package(
    "cluster", "clusterscale.runtime.clusters", Cluster, plugins="clusterscale.clusters"
)
