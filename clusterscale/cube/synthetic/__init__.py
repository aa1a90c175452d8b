"""Synthetic cubes that match the published statistics of the papers' data sets."""

from clusterscale.cube.synthetic.presets import PRESETS, open_or_synthesise, synthesise
