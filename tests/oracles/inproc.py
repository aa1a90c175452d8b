"""A Dask cluster inside the test's own process, with one worker thread: quick, and patchable."""

from contextlib import contextmanager


@contextmanager
def open_executor(**options):
    """Yield an executor whose scheduler and only worker live in this process."""
    import dask
    from distributed import Client, LocalCluster

    from clusterscale.runtime.clusters.base import SETTINGS
    from clusterscale.runtime.dask import DaskExecutor

    with (
        dask.config.set(SETTINGS),
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield DaskExecutor(client, **options)
