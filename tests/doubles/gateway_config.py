"""Configuration of a Dask Gateway on this machine; read by dask-gateway-server, not by Python."""

import os

from dask_gateway_server.options import Integer, Options

c = get_config()  # noqa: F821
ports = os.environ["GATEWAY_PORTS"].split(",")
c.Proxy.address = f"127.0.0.1:{ports[0]}"
c.Proxy.tcp_address = f"127.0.0.1:{ports[1]}"
c.DaskGateway.address = f"127.0.0.1:{ports[2]}"
c.DaskGateway.backend_class = "dask_gateway_server.backends.local.UnsafeLocalBackend"
c.DaskGateway.authenticator_class = "dask_gateway_server.auth.SimpleAuthenticator"
c.SimpleAuthenticator.password = os.environ["GATEWAY_PASSWORD"]
c.UnsafeLocalBackend.clusters_directory = os.environ["GATEWAY_FOLDER"]
c.UnsafeLocalBackend.inherited_environment = ["PATH", "PYTHONPATH", "VIRTUAL_ENV", "LANG", "HOME"]
# The default commands are gone from Dask.
c.ClusterConfig.scheduler_cmd = ["dask", "scheduler"]
c.ClusterConfig.worker_cmd = ["dask", "worker"]
c.ClusterConfig.worker_cores = 2


def configure(options):
    return {"worker_threads": options.worker_threads}


c.Backend.cluster_options = Options(Integer("worker_threads", 2, min=1), handler=configure)
