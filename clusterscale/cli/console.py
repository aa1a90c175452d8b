"""Output of the command line: consoles, progress bar and summary of a cube."""

from clusterscale.api.execution import PlainConsole
from clusterscale.cli.tables import show_pairs
from clusterscale.cube import TraceCube

out = PlainConsole(highlight=False)
err = PlainConsole(stderr=True, highlight=False)


def show_cube(cube: TraceCube) -> None:
    """Print a summary of a cube."""
    from clusterscale.api import inspect
    from clusterscale.cube.attributes import describe_origins, describe_sizes
    from clusterscale.study import describe_bytes

    summary = inspect(cube)
    rows = {
        **describe_sizes(cube.attributes),
        "events a user": _mean_sd(summary.events),
        "unique ROIs a user": _mean_sd(summary.unique_rois),
        "active epochs a user": _mean_sd(summary.active_epochs),
        "size on disk": f"{describe_bytes(summary.stored_bytes)}  "
        f"({summary.compression:.1f} times smaller)",
        **describe_origins(cube.attributes),
    }
    show_pairs(out, cube.uri, rows)


def _mean_sd(pair: tuple[float, float]) -> str:
    return f"{pair[0]:,.1f} ± {pair[1]:,.1f}"
