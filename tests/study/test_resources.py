"""What a large cluster meets is predicted from a few numbers."""

import pytest

from clusterscale.study import describe_cluster


@pytest.mark.parametrize(
    ("n_tasks", "core_seconds", "n_workers", "useful"),
    [
        (20, 1000.0, 64, "up to 20: there are no more tasks, 44 of 64 have no task"),
        (1000, 100.0, 8, "up to 20: more would take longer to start than to work"),
        (10**6, 1e5, 8, "up to 3,179: the driver can follow no more"),
        (10**6, 0.0, 8, "up to 1: the driver can follow no more"),
    ],
)
def test_a_plan_says_how_many_workers_are_of_use(n_tasks, core_seconds, n_workers, useful):
    rows = describe_cluster(
        n_tasks=n_tasks,
        n_cases=2 * n_tasks,
        core_seconds=core_seconds,
        start_seconds=5.0,
        start_bytes=1e9,
        start_chunks=100,
        n_workers=n_workers,
    )
    assert rows["useful workers"] == useful
    assert rows["read at the start"] == (
        f"up to {n_workers:.{n_workers < 10:d}f} GB, once on each node"
    )


def test_batches_are_merged_before_there_are_many_files():
    def rows(n_workers):
        return describe_cluster(
            n_tasks=10**6,
            n_cases=2 * 10**6,
            core_seconds=5e6,
            start_seconds=5.0,
            start_bytes=1e9,
            start_chunks=100,
            n_workers=n_workers,
        )

    assert rows(10)["files"] == "about 1,977 of finished tasks at once, 4.6 GB with the results"
    assert rows(10)["requests"] == "about 2,001,600, if cube and output are in an object store"
    assert rows(10)["driver"] == "about 920 s of one processor", "a batch for each task"
    assert rows(10_000)["driver"] == "about 56 s of one processor", "four batches a worker"
