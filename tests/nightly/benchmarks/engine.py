"""Time the engine against the papers' pipeline and against scikit-learn, in one run.

Everybody gets the same groups, a target at a time, and as many BLAS threads. Peers are given what
they need beside the timed work: drawn groups, traces as a sparse matrix, counts in float64.
Goals are for the default sizes.

    python tests/nightly/benchmarks/engine.py --help
"""

import tempfile
from typing import Annotated

import papers
import typer
from bandwidth import show_bandwidth
from compare import compare_attacks, compare_pipelines, warm_up
from ours import Task
from scaling import show_scaling
from show import environment, out, sum_up
from threadpoolctl import threadpool_limits

from clusterscale.contracts import Traces
from clusterscale.cube import TraceCube, with_null_roi
from clusterscale.cube.synthetic import synthesise
from clusterscale.errors import ClusterscaleError
from clusterscale.priors.known_subset import KnownSubset
from clusterscale.seeds import stream
from clusterscale.storage import exists

EPOCHS = (0, 168)


def main(
    preset: Annotated[str, typer.Option(help="Synthetic users to take.")] = "tfl",
    users: Annotated[int, typer.Option(min=2, help="How many of them.")] = 10_000,
    alpha: Annotated[float, typer.Option(help="Share of users that are known.")] = 0.11,
    group_size: Annotated[int, typer.Option(min=1, help="Members of a group.")] = 1000,
    targets: Annotated[int, typer.Option(min=1, help="Targets, one after the other.")] = 3,
    rfe_part: Annotated[
        int, typer.Option(min=1, help="Eliminations to time at each point of the papers' path.")
    ] = 3,
    threads: Annotated[int, typer.Option(min=1, help="BLAS threads.")] = 1,
    cube: Annotated[str | None, typer.Option(help="Keep the users here, or find them.")] = None,
    without_papers: Annotated[
        bool, typer.Option("--without-papers", help="Do without tsfresh.")
    ] = False,
    scaling: Annotated[bool, typer.Option("--scaling", help="Also vary every size.")] = False,
) -> None:
    """Print how fast the engine is, how fast others are, and whether the results agree."""
    if not without_papers:
        papers.load_tsfresh()
    with threadpool_limits(limits=threads):
        environment(threads)
        try:
            traces = _load(preset, users, cube)
            prior = KnownSubset(alpha=alpha)
            prior.check(traces.n_users, group_size)
        except ClusterscaleError as error:
            raise SystemExit(str(error)) from error
        out.print(
            f"{preset}: {traces.n_users:,} users, {traces.n_rois} ROIs with null × "
            f"{traces.n_epochs} epochs; known_subset alpha {alpha}, m = {group_size:,}, "
            f"{prior.training} training + {prior.challenges} challenge groups, {targets} target(s)"
        )
        chosen = stream(0, "targets").choice(traces.n_users, targets, replace=False)
        tasks = [Task(traces, prior, group_size, int(target)) for target in chosen]
        warm_up(papers_too=not without_papers)
        ratios = compare_pipelines(tasks, None if without_papers else rfe_part)
        ratios["scikit-learn's spectral"] = compare_attacks(tasks)
        show_bandwidth(traces, tasks[0].listen()[1])
        if scaling:
            show_scaling()
    sum_up("engine", *(f"{rival} / ours {ratio:.1f}" for rival, ratio in ratios.items()))


def _load(preset: str, users: int, uri: str | None) -> Traces:
    """Return the first week of a cube, which is written if it is not there."""
    with tempfile.TemporaryDirectory() as folder:
        place = uri or f"{folder}/cube"
        stored = TraceCube(place) if exists(place) else synthesise(preset, place, users=users)
        return with_null_roi(stored.traces(epochs=EPOCHS))


if __name__ == "__main__":
    typer.run(main)
