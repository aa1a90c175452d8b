"""A toy analysis: the share of epochs in which each user is seen, block by block."""

from itertools import pairwise

import numpy as np

from clusterscale.cube.blocks import open_source, ranges
from clusterscale.schema import Variable
from clusterscale.seeds import stream
from clusterscale.storage.result_table import TableStore, create_table, open_table
from clusterscale.study import Analysis, Stage, describe_cost, each

VARIABLES = {
    "user": Variable(("user",), "iu", "1", "index of the user in the cube"),
    "share": Variable(("user",), "f", "1", "share of epochs with an event, plus noise"),
}


def measure(task):
    source, start, stop = task
    cube = open_source(source)
    offsets, cells = cube.offsets[start : stop + 1], cube.traces().cells
    users = [cells[first:last] for first, last in pairwise(offsets)]
    seen = [len(np.unique(events % cube.n_epochs)) / cube.n_epochs for events in users]
    noise = stream(source.seed, "toy", start).normal(size=stop - start)
    return np.asarray(seen) + 0.01 * noise


class Toy(Analysis):
    kind, seed, null_roi, digest = "toy", 3, False, "toy-1"

    def describe(self):
        return {"noise": 0.01}

    def check(self, cube, memory):
        pass

    def explain(self, cube, memory, n_workers):
        return describe_cost(read="1 MB", worker="1 MB", core_seconds=1.0, seconds=(1.0,))

    def open(self, uri):
        return open_table(self.uri(uri), "toy", "toy", VARIABLES)

    def stages(self, job):
        n_users = job.cube.n_users

        def create(uri):
            about = {"format": "toy", "complete": False}
            create_table(uri, VARIABLES, {"user": range(n_users)}, {"user": 8}, about)

        store = TableStore(job.uri, "toy", create)
        tasks = [(job.source, *part) for part in ranges(0, n_users, 8)]
        left = [task for task in tasks if str(task[1]) not in store.done()]

        def keep(task, values):
            store.array("share")[task[1] : task[2]] = values
            store.mark_done(str(task[1]))

        yield Stage("measure", measure, left, each(keep), len(tasks), len(tasks) - len(left))
        store.finish()
