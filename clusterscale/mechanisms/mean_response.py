"""What a mechanism publishes of a count on average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Mechanism
from clusterscale.errors import ConfigError

__all__ = ["Response", "respond"]

Floats = NDArray[np.float64]

_DRAWS = 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class Response:
    """Moments of what is published of some counts, float64, shape (count,)."""

    mean: Floats
    variance: Floats


def respond(
    mechanism: Mechanism, counts: NDArray[Any], *, group_size: int, rng: np.random.Generator
) -> Response:
    """Return the mean and variance of what is published of each count.

    Where its law is known nothing is left to chance. Otherwise releases of nothing but that count
    are drawn from ``rng``, which for a mechanism that looks at whole series is what it makes of a
    constant one.

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
    if law := mechanism.law(group_size):
        return Response(*law.moments(counts))
    values = np.repeat(np.asarray(counts, np.int32)[:, None], _DRAWS, axis=1)
    found = mechanism.release(values, group_size=group_size, rng=rng)
    return Response(found.mean(axis=1), found.var(axis=1))
