"""An analysis: the visits of each user to cells that nobody else visited."""

from typing import Literal

import numpy as np

from clusterscale.contracts import Count
from clusterscale.cube.blocks import open_source, ranges
from clusterscale.schema import Variable
from clusterscale.study import Analysis, AnalysisPlan, Stage

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


class AloneAnalysis(Analysis):
    kind, seed, null_roi = "alone", 0, False
    schema = VARIABLES

    def __init__(self, plan):
        self.plan = plan

    def check(self, cube, memory):
        pass

    def stages(self, job):
        n_users, block = job.cube.n_users, self.plan.block
        table = self.table(job, {"user": range(n_users)}, {"user": block})

        def write(task, values):
            table.array("alone")[task[1] : task[2]] = values

        tasks = {str(first): (job.source, first, last) for first, last in ranges(0, n_users, block)}
        yield Stage.fill("measure", measure, tasks, table, write)
        table.finish()


class Alone(AnalysisPlan):
    """Share of each user's visits to cells that nobody else visited."""

    name: Literal["alone"] = "alone"
    block: Count = 65_536
    runs = AloneAnalysis
