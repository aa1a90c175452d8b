"""When to stop asking about a target."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, Strict

from clusterscale.contracts import ConfigModel, Even

__all__ = ["Precision", "interim_looks"]


class Precision(ConfigModel):
    """Add challenges to a target until its AUC is known well enough.

    After the first challenges, and each time their number has doubled, every mechanism and attack
    is looked at: if the interval of each AUC is narrower than ``width``, the target is done. It
    never gets more than ``most`` challenges. Training is done once, and of the challenges the
    first ones are the same whatever is asked for here.

    With K looks possible, any of which may end it, each interval is made at a confidence of
    1 − .05/K (Bonferroni), so that the one that is reported, the last, holds with 95 % after all.
    """

    width: Annotated[float, Strict(), Field(gt=0, lt=1)]
    most: Even = 800


def interim_looks(first: int, precision: Precision | None) -> tuple[int, ...]:
    """Return the numbers of challenges at which a target is looked at, increasing.

    ``first`` challenges, doubled as long as there are no more than ``precision.most``; nothing is
    added where no precision is asked for.
    """
    found = [first]
    while precision is not None and 2 * found[-1] <= precision.most:
        found.append(2 * found[-1])
    return tuple(found)
