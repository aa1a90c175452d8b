"""Run one analysis as stages of another, in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Source
from clusterscale.study import Analysis, Stage, Study


def substages(
    analysis: Analysis, job: Study, name: str, cube: TraceCube | None = None
) -> Iterator[Stage[Any, Any]]:
    """Yield the stages of an analysis that belongs to the study ``job``.

    It keeps its results in the folder ``name`` of the study and is resumed like any other.

    Parameters
    ----------
    analysis
        The analysis; it has checked ``cube``.
    job
        The study that it is a part of.
    name
        Folder below that of the study; begins the names of the stages.
    cube
        The traces, if they are others than those of the study.
    """
    cube = job.cube if cube is None else cube
    folder = f"{job.uri}/{name}"
    uri = analysis.uri(folder)
    analysis.claim(uri, cube, force=True, keep=True)
    source = Source.of(cube, null_roi=analysis.null_roi, seed=analysis.seed)
    part = Study(cube, source, folder, uri, "", job.memory, job.n_workers)
    for stage in analysis.stages(part):
        yield replace(stage, name=f"{name}: {stage.name}")
