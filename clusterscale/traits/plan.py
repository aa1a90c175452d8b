"""What to ask of those who are exposed."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, Strict

from clusterscale.contracts import ConfigModel, Count

__all__ = ["TraitsPlan"]


class TraitsPlan(ConfigModel):
    """How the most and the least exposed are compared (POMACS20 §3).

    The ``share`` of the users with the highest AUC is set against as many with the lowest, by a
    random forest of so many ``trees`` among others. Of a target's principal components the
    ``components`` with the largest weights are told, of ``targets`` targets at most, drawn at
    random.
    """

    share: Annotated[float, Strict(), Field(gt=0, le=0.5)] = 0.1
    components: Count = 5
    trees: Annotated[int, Strict(), Field(ge=50, le=100_000)] = 500
    targets: Count = 150
