"""Precision: how many challenges a target gets."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, Strict

from clusterscale.contracts import ConfigModel, Even

__all__ = ["Precision", "interim_looks"]


class Precision(ConfigModel):
    """Add challenges to a target until its AUC is known well enough.

    After the first challenges, and each time their number has doubled, there is an interim look: if
    for every mechanism and attack the interval of the AUC is narrower than ``width``, the target is
    done. It never gets more than ``most`` challenges. Training is done once, and the first
    challenges do not depend on these settings.

    With up to K looks, each of which may be the last, each interval has a confidence of 1 − .05/K
    (Bonferroni), so that the reported interval, of the last look, has a confidence of 95 %.
    """

    width: Annotated[float, Strict(), Field(gt=0, lt=1)]
    most: Even = 800


def interim_looks(first: int, precision: Precision | None) -> tuple[int, ...]:
    """Return the numbers of challenges at interim looks, increasing.

    ``first`` challenges, doubled up to ``precision.most``; only ``first`` without a precision.
    """
    looks = [first]
    while precision is not None and 2 * looks[-1] <= precision.most:
        looks.append(2 * looks[-1])
    return tuple(looks)
