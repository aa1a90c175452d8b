"""Settings of the analysis of traits."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, Strict

from clusterscale.contracts import ConfigModel, Count

__all__ = ["TraitsPlan"]


class TraitsPlan(ConfigModel):
    """How the most and the least exposed are compared (POMACS20 §3).

    The ``share`` of the users with the highest AUC is compared with as many with the lowest, among
    others by a random forest with ``trees`` trees. For at most ``targets`` random targets, the
    ``components`` principal components with the largest weights are reported.
    """

    share: Annotated[float, Strict(), Field(gt=0, le=0.5)] = 0.1
    components: Count = 5
    trees: Annotated[int, Strict(), Field(ge=50, le=100_000)] = 500
    targets: Count = 150
