"""Figures of the report, one by one: Bokeh models, and pictures for papers.

Each function takes the dataset of an audit and returns a list of
:class:`~clusterscale.reporting.figures.Figure`: ``figure.model`` is the Bokeh figure, and
``figure.save("auc.svg")`` writes a picture (PNG, SVG or PDF), for which matplotlib must be
installed: ``pip install 'clusterscale[figures]'``. To draw fewer, select: for example
``cs.figures.auc(results.sel(mechanism=["exact"]))``; select with lists, which keep the dimensions.
"""

import xarray as xr

from clusterscale.reporting.figures import Figure
from clusterscale.reporting.notebook import Plots


def auc(results: xr.Dataset) -> list[Figure]:
    """Draw the distribution of AUC over targets, a curve for each attack.

    Parameters
    ----------
    results
        Dataset of an audit.

    Returns
    -------
    list of Figure
        One for each period, prior, mechanism and group size with a result.

    Raises
    ------
    FormatError
        If the dataset is not one of an audit.
    """
    return Plots(results).auc()


def loss(results: xr.Dataset) -> list[Figure]:
    """Draw box plots of the privacy loss of targets, by group size and attack.

    Parameters
    ----------
    results
        Dataset of an audit.

    Returns
    -------
    list of Figure
        One for each period, prior and mechanism with a result.

    Raises
    ------
    FormatError
        If the dataset is not one of an audit.
    """
    return Plots(results).loss()


def tradeoff(results: xr.Dataset) -> list[Figure]:
    """Draw mean privacy gain against utility loss, a mark for each mechanism.

    Parameters
    ----------
    results
        Dataset of an audit.

    Returns
    -------
    list of Figure
        One for each prior, period, group size and measure of utility; empty if the audit has no
        raw counts, to which gains are relative, or no measure of utility.

    Raises
    ------
    FormatError
        If the dataset is not one of an audit.
    """
    return Plots(results).tradeoff()
