"""Synthetic cubes that match the published statistics of the papers' data sets."""

from clusterscale.cube.synthetic.generate import synthesise
from clusterscale.cube.synthetic.presets import PRESETS, Preset, Statistic

__all__ = ["PRESETS", "Preset", "Statistic", "synthesise"]
