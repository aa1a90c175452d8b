"""Clusters by name, as a config names them."""

from clusterscale.registry import Registry
from clusterscale.runtime.clusters.local import Local
from clusterscale.runtime.clusters.place import Cluster
from clusterscale.runtime.clusters.serial import Serial

__all__ = ["CLUSTERS", "Cluster", "Local", "Serial"]

CLUSTERS: Registry[Cluster] = Registry("cluster", Serial, Local)
