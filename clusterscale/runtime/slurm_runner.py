"""Run scheduler, driver and workers as tasks of one Slurm job; they connect through a file."""

import asyncio
from pathlib import Path
from time import monotonic
from typing import Any

from dask_jobqueue.slurm import SLURMRunner
from distributed import Security
from distributed.core import rpc

from clusterscale.errors import ClusterError
from clusterscale.runtime.security import Tls

_TOGETHER = 300.0  # seconds that tasks may start after the first one
_TICK = 0.2


class EncryptedSlurmRunner(SLURMRunner):  # type: ignore[misc]
    """A runner whose tasks communicate over TLS.

    The scheduler writes its address to ``file``; certificates of the run are in the same folder.
    ``tls`` exists when the file does; None for no encryption. ``network`` are keywords of the
    scheduler and of the workers: interface and protocol; ``worker`` further ones of a worker.
    """

    def __init__(
        self, file: Path, tls: Tls | None, network: dict[str, Any], worker: dict[str, Any]
    ) -> None:
        self.security: Security | None = None
        self._tls = tls
        super().__init__(
            scheduler_file=str(file),
            scheduler_options={**network, "dashboard_address": "127.0.0.1:0"},
            worker_class="distributed.Nanny",
            worker_options={**network, **worker},
        )

    async def before_scheduler_start(self) -> None:
        """Read the certificates."""
        self.scheduler_options["security"] = self._secure()

    async def before_worker_start(self) -> None:
        """Wait for the scheduler, and read the certificates."""
        await self.get_scheduler_address()
        self.worker_options["security"] = self._secure()

    async def before_client_start(self) -> None:
        """Use TLS also for the connection that ends the scheduler."""
        security = self._secure()
        arguments = security.get_connection_args("client") if security else None
        # 5.0: that the scheduler may take to answer a request to end
        self.scheduler_comm: Any = rpc(
            self.scheduler_address, timeout=5.0, connection_args=arguments
        )

    async def get_scheduler_address(self) -> str:
        """Wait for the file of the scheduler; raises ClusterError if it does not appear."""
        since = monotonic()
        while not self.scheduler_file.exists():
            if monotonic() - since > _TOGETHER:
                raise ClusterError(
                    f"task 0 did not write {self.scheduler_file} within {_TOGETHER:g} seconds: "
                    "did it start, and do all nodes share that folder?"
                )
            await asyncio.sleep(_TICK)
        return str(await super().get_scheduler_address())

    def _secure(self) -> Security | None:
        if self._tls is not None:
            # Task 0 deletes the files when it ends, and others may still try to reconnect.
            self.security = self._tls.security(in_memory=True)
        return self.security
