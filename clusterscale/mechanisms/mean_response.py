"""Mean and variance of the published value of a count."""

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
    """Moments of the published values of counts, float64, shape (count,)."""

    mean: Floats
    variance: Floats


def respond(
    mechanism: Mechanism, counts: NDArray[Any], *, group_size: int, rng: np.random.Generator
) -> Response:
    """Return the mean and variance of the published value of each count.

    They are computed without random draws if the output distribution is known. Otherwise releases
    of constant series of that count are drawn from ``rng``.

    Parameters
    ----------
    mechanism
        A bound mechanism.
    counts
        Whole numbers between 0 and the group size, shape (count,).
    group_size
        Members of a group.

    Raises
    ------
    ConfigError
        If one count can change the whole release, or a sensitivity is not known.
    """
    if mechanism.reach == "release":
        raise ConfigError(
            f"{mechanism.label}: a published value depends on all counts, so a single count has no "
            "mean response"
        )
    if law := mechanism.law(group_size):
        return Response(*law.moments(counts))
    values = np.repeat(np.asarray(counts, np.int32)[:, None], _DRAWS, axis=1)
    released = mechanism.release(values, group_size=group_size, rng=rng)
    return Response(released.mean(axis=1), released.var(axis=1))
