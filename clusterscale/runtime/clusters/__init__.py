"""Registry of the clusters by their name in a config."""

from clusterscale.registry import Registry
from clusterscale.runtime.clusters.address import Address, Gateway
from clusterscale.runtime.clusters.allocation import Allocation
from clusterscale.runtime.clusters.base import Cluster
from clusterscale.runtime.clusters.jobqueue import BATCH_SYSTEMS
from clusterscale.runtime.clusters.kubernetes import Kubernetes
from clusterscale.runtime.clusters.local import Local, Serial

__all__ = [
    "CLUSTERS",
    "Address",
    "Allocation",
    "Cluster",
    "Gateway",
    "Kubernetes",
    "Local",
    "Serial",
]

CLUSTERS: Registry[Cluster] = Registry(
    "cluster",
    Serial,
    Local,
    *BATCH_SYSTEMS,
    Allocation,
    Kubernetes,
    Gateway,
    Address,
    base=Cluster,
    plugins="clusterscale.clusters",
)
