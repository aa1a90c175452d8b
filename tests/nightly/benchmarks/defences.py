"""Time every mechanism against NumPy's own draw of as many numbers, in one run.

A fair peer is the least that the work could be: the draw itself for noise on counts, a forward and
an inverse transform for noise on coefficients, one copy for what only rewrites values.

    python tests/nightly/benchmarks/defences.py --help
"""

from collections.abc import Callable
from typing import Annotated

import numpy as np
import typer
from clock import least_in_turn
from scipy import fft
from show import at_most, environment, out, print_table, sum_up
from threadpoolctl import threadpool_limits

from clusterscale import mechanisms
from clusterscale.contracts import Bounds, Counts, Mechanism

BOUNDS = Bounds(event=1, user_day=30, user=207, series=60, rois=20, null_roi=False)
GROUP_SIZE = 1000
MOST_OF_DRAW, MOST_SECONDS = 1.3, 3.0

DEFENCES = [
    {"name": "laplace", "epsilon": 1.0},
    {"name": "laplace", "epsilon": 1.0, "clip": True, "integers": "round"},
    {"name": "laplace", "epsilon": 1.0, "discrete": True},
    {"name": "gaussian", "epsilon": 1.0, "delta": 0.1},
    {"name": "fourier", "epsilon": 1.0, "coefficients": 25},
    {"name": "enhanced_fourier", "epsilon": 1.0, "delta": 0.1},
    {"name": "randomized_response", "p": 0.3},
    {"name": "sample_events", "remove": 0.2},
    {"name": "perturb_small", "below": 20, "epsilon": 0.1},
    {"name": "suppress_small", "below": 20},
    {"name": "suppress_unpopular", "fraction": 0.8},
    {"name": "fixed_ranges", "size": 10},
    {"name": "adaptive_ranges", "ranges": 8},
]


def main(
    groups: Annotated[int, typer.Option(min=1, help="Groups.")] = 500,
    rois: Annotated[int, typer.Option(min=1, help="ROIs.")] = 583,
    epochs: Annotated[int, typer.Option(min=50, help="Epochs.")] = 168,
    cells: Annotated[int, typer.Option(min=1, help="Cells for the draw of Laplace.")] = 10**7,
    repeats: Annotated[int, typer.Option(min=1, help="The least of so many is told.")] = 5,
) -> None:
    """Print seconds, and how many times the peer's these are."""
    rng = np.random.default_rng(1)
    with threadpool_limits(limits=1):
        environment(1)
        counts = rng.integers(0, 100, (groups, rois, epochs), dtype=np.int32)
        peers = _peers(counts, rng)
        rows = []
        for fields in DEFENCES:
            mechanism = mechanisms.create(**fields).bind(BOUNDS)
            peer = PEERS.get(str(fields["name"]), "copy")
            release = _release(mechanism, counts, rng)
            ours, theirs = least_in_turn([release, peers[peer]], max(1, repeats // 2))
            rows.append(
                (mechanism.label, f"{ours:.2f}", peer, f"{theirs:.2f}", f"{ours / theirs:.2f}")
            )
        columns = ("mechanism", "seconds", "peer", "its seconds", "times")
        title = f"Releases of {groups} groups, {rois} × {epochs} cells each, on one core"
        print_table(title, columns, rows)
        seconds = next(float(row[1]) for row in rows if row[0].startswith("fourier"))
        at_most("fourier, seconds", seconds, MOST_SECONDS)
        flat = rng.integers(0, 100, (cells // 100, 100), dtype=np.int32)
        laplace = mechanisms.create("laplace", epsilon=1.0).bind(BOUNDS)
        pair = [_release(laplace, flat, rng), lambda: rng.laplace(0.0, 207.0, flat.shape)]
        ours, theirs = least_in_turn(pair, repeats)
        out.print(f"laplace of {flat.size:,} cells {ours:.3f} s, the draw alone {theirs:.3f} s")
        at_most("laplace, times the draw", ours / theirs, MOST_OF_DRAW)
        sum_up("defences", f"laplace / draw {ours / theirs:.2f}", f"fourier {seconds:.2f} s")


PEERS = {
    "laplace": "draw",
    "gaussian": "draw",
    "perturb_small": "draw",
    "fourier": "transforms",
    "enhanced_fourier": "transforms",
    "randomized_response": "binomial",
    "sample_events": "binomial",
}


def _peers(counts: Counts, rng: np.random.Generator) -> dict[str, Callable[[], object]]:
    def transform() -> None:
        for group in counts:
            fft.irfft(fft.rfft(group.astype(np.float64)), counts.shape[-1])

    return {
        "draw": lambda: rng.laplace(0.0, 1.0, counts.shape),
        "transforms": transform,
        "binomial": lambda: rng.binomial(counts, 0.8),
        "copy": lambda: counts.astype(np.float64),
    }


def _release(
    mechanism: Mechanism, counts: Counts, rng: np.random.Generator
) -> Callable[[], object]:
    return lambda: mechanism.release(counts, group_size=GROUP_SIZE, rng=rng)


if __name__ == "__main__":
    typer.run(main)
