"""What a mechanism publishes of a count on average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from clusterscale.contracts import Mechanism, Noise
from clusterscale.errors import ConfigError
from clusterscale.mechanisms.chain import Chain
from clusterscale.mechanisms.defence import Noisy, Revision

__all__ = ["Response", "respond"]

Floats = NDArray[np.float64]

_QUANTILES = 1 << 14  # the mean of clipped noise is then off by 5e-5 of its scale


@dataclass(frozen=True, slots=True, eq=False)
class Response:
    """Moments of what is published of some counts, float64, shape (count,)."""

    mean: Floats
    variance: Floats


def respond(
    mechanism: Mechanism, counts: NDArray[Any], *, group_size: int, rng: np.random.Generator
) -> Response:
    """Return the mean and variance of what is published of each count.

    Where all that is drawn is noise of a known law, and what follows looks at one value at a time,
    the quantiles of the law take the place of draws and nothing is left to chance. Otherwise
    releases of nothing but that count are drawn from ``rng``, which for a mechanism that looks at
    whole series is what it makes of a constant one.

    Parameters
    ----------
    mechanism
        What publishes, bound.
    counts
        Whole numbers between 0 and the group size, shape (count,).
    group_size
        Members of a group.

    Raises
    ------
    ConfigError
        If one count can change everything that is published, or a sensitivity is not known.
    """
    if mechanism.reach == "release":
        raise ConfigError(
            f"{mechanism.label}: what it publishes of a count hangs on all others, so there is no "
            "mean to be told for a count alone"
        )
    values = np.repeat(np.asarray(counts, np.int32)[:, None], _QUANTILES, axis=1)
    steps: tuple[object, ...] = mechanism.steps if isinstance(mechanism, Chain) else (mechanism,)
    first, *rest = [step for step in steps if getattr(step, "stage", "") != "trace"] or [None]
    noise = first.noise if isinstance(first, Noisy) else None
    revisions = [step for step in rest if isinstance(step, Revision)]
    if isinstance(first, Noisy) and noise is not None and len(revisions) == len(rest):
        found = values + _quantiles(noise)
        first.finish(found, group_size)
        for step in revisions:
            step.revise(found)
    else:
        found = mechanism.release(values, group_size=group_size, rng=rng)
    return Response(found.mean(axis=1), found.var(axis=1))


def _quantiles(noise: Noise) -> Floats:
    """Return values that stand for equal shares of the law, increasing."""
    if not np.isfinite(noise.scale):
        raise ConfigError(f"{noise.law} noise: its scale is not known; bind the mechanism first")
    laws: dict[str, Any] = {
        "laplace": lambda: stats.laplace(scale=noise.scale),
        "geometric": lambda: stats.dlaplace(1 / noise.scale),
        "gaussian": lambda: stats.norm(scale=noise.scale),
    }
    middles = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    return np.asarray(laws[noise.law]().ppf(middles), np.float64)
