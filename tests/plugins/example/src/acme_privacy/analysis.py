"""An analysis: the visits of each user to cells that nobody else visited."""

from typing import Literal

import numpy as np

from clusterscale.contracts import Count
from clusterscale.cube.blocks import open_source, ranges
from clusterscale.schema import Variable
from clusterscale.storage.result_table import TableStore, create_table, open_table
from clusterscale.study import Analysis, AnalysisPlan, Stage, each

VARIABLES = {
    "user": Variable(("user",), "iu", "1", "index of the user in the cube"),
    "alone": Variable(("user",), "f", "1", "share of visits to cells that nobody else visited"),
}


def measure(task):
    source, start, stop = task
    traces = open_source(source).traces()
    visitors = np.bincount(traces.cells, minlength=traces.n_cells)
    n_alone = np.append(0, np.cumsum(visitors[traces.cells] == 1))
    first, last = traces.offsets[start:stop], traces.offsets[start + 1 : stop + 1]
    return (n_alone[last] - n_alone[first]) / np.maximum(last - first, 1)


class Alone(AnalysisPlan):
    """Share of each user's visits to cells that nobody else visited."""

    name: Literal["alone"] = "alone"
    block: Count = 65_536

    def analysis(self):
        return AloneAnalysis(self)


class AloneAnalysis(Analysis):
    kind, seed, null_roi = "alone", 0, False

    def __init__(self, plan):
        self.plan = plan

    def check(self, cube, memory):
        pass

    def open(self, uri):
        return open_table(self.uri(uri), "alone", "alone", VARIABLES)

    def stages(self, job):
        n_users, block = job.cube.n_users, self.plan.block

        def create(uri):
            about = {"format": "alone", "complete": False}
            create_table(uri, VARIABLES, {"user": range(n_users)}, {"user": block}, about)

        def keep(task, values):
            store.array("alone")[task[1] : task[2]] = values
            store.mark_done(str(task[1]))

        store = TableStore(job.uri, "alone", create)
        tasks = [(job.source, *part) for part in ranges(0, n_users, block)]
        left = [task for task in tasks if str(task[1]) not in store.done()]
        yield Stage("measure", measure, left, each(keep), len(tasks), len(tasks) - len(left))
        store.finish()
