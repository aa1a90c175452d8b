"""Hold the tasks of an audit on its workers, so that a fault strikes while work is left.

Dask imports this file in every worker, because the test names it in the environment
(``distributed.worker.preload``). It is imported by its path and must not import other test modules.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

FOLDER = "CLUSTERSCALE_TEST_GATE"
TICK = 0.05  # seconds between two looks at the folder


class Gate:
    """While it is shut, it lets as many tasks begin as it has tickets; then they are journalled."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.environment = {
            FOLDER: str(self.folder),
            "DASK_DISTRIBUTED__WORKER__PRELOAD": str(Path(__file__)),
        }

    def shut(self, n_tickets, *, firmly=False):
        """Let ``n_tickets`` tasks begin, and hold all others until the gate is opened.

        A worker that closes ends its task, unless the gate is shut firmly.
        """
        for number in range(n_tickets):
            (self.folder / f"ticket-{number}").touch()
        if firmly:
            (self.folder / "firm").touch()
        (self.folder / "shut").touch()

    def open(self):
        """Let all tasks begin, also those that are held."""
        (self.folder / "shut").unlink(missing_ok=True)
        for ticket in self.folder.glob("ticket-*"):
            ticket.unlink(missing_ok=True)

    def expire_one_worker(self):
        """Have one worker do what it does when its lifetime is over."""
        (self.folder / "expire").touch()

    @property
    def lifetimes(self):
        """Return the lifetime of every worker so far, in seconds."""
        return [float(file.read_text()) for file in self.folder.glob("lifetime-*")]


def dask_setup(worker):
    """Prepare a worker; Dask calls this when the worker starts."""
    from cloudpickle import loads
    from tornado.ioloop import PeriodicCallback

    from clusterscale.analyses.audit.task import AuditTask
    from clusterscale.runtime import scheduling

    folder = Path(os.environ[FOLDER])
    if worker.lifetime is not None:
        partial = folder / f"partial-{worker.id}"
        partial.write_text(str(worker.lifetime))
        partial.rename(folder / f"lifetime-{worker.id}")
    run = scheduling.run_batch

    def run_gated(packed, seconds):
        _, items, _ = loads(packed)
        while (folder / "shut").exists():
            seconds = 0.0  # a batch ends after its first task, so that one ticket is one task
            if not isinstance(items[0], AuditTask) or _take_ticket(folder):
                break
            closes = worker.status.name != "running"
            if closes and not (folder / "firm").exists():  # it waits for its task before it closes
                break
            time.sleep(TICK)
        return run(packed, seconds)

    scheduling.run_batch = run_gated

    async def expire():
        with suppress(FileNotFoundError):
            (folder / "expire").unlink()  # only one worker can
            callback.stop()
            await worker.close_gracefully(reason="worker-lifetime-reached")

    callback = PeriodicCallback(expire, 1000 * TICK)
    callback.start()


def _take_ticket(folder):
    for ticket in folder.glob("ticket-*"):
        with suppress(FileNotFoundError):
            ticket.unlink()
            return True
    return False
