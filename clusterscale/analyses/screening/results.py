"""The dataset of a screen: one row per user."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from clusterscale.schema import Variable, name_variables

if TYPE_CHECKING:
    import xarray as xr

_SCREENED = ("user", "period", "group_size", "mechanism", "attack")

SCREEN: Mapping[str, Variable] = {
    "user": Variable(("user",), "iu", "1", "index of the user in the cube"),
    "n_events": Variable(("user", "period"), "iu", "1", "events of the user in the period"),
    "period": Variable(("period",), "OUT", "", "epochs of the release"),
    "n_seen": Variable(("period",), "iu", "1", "users of the cube with an event in the period"),
    "group_size": Variable(("group_size",), "iu", "1", "members in each group"),
    "mechanism": Variable(("mechanism",), "OUT", "", "how counts were published"),
    **name_variables("mechanism"),
    "attack": Variable(("attack",), "OUT", "", "how the adversary decides"),
    **name_variables("attack"),
    "n_groups": Variable(
        ("user", "period", "group_size"), "iu", "1", "groups compared, those without the user"
    ),
    "auc": Variable(_SCREENED, "f", "1", "area under the ROC curve over pairs of groups"),
    "auc_low": Variable(_SCREENED, "f", "1", "lower end of the interval of auc"),
    "auc_high": Variable(_SCREENED, "f", "1", "upper end of the interval of auc"),
    "privacy_loss": Variable(_SCREENED, "f", "1", "max(0, 2 auc - 1)"),
    "score_gap": Variable(
        _SCREENED, "f", "1", "mean score with the user minus without, in standard deviations"
    ),
}
"""Variables and coordinates of the dataset of a screen."""


def is_counted(screened: xr.Dataset) -> xr.DataArray:
    """Return in which periods each user of a screen counts in its statistics.

    Users without an event in a period have nothing to expose, and count only if the plan has
    ``unseen: include``. People who are simulated to complete a population never count.

    Parameters
    ----------
    screened
        Dataset of a screen, conforming to :data:`SCREEN`.

    Returns
    -------
    xr.DataArray
        bool, (user, period).
    """
    includes = json.loads(screened.attrs["plan"]).get("unseen") == "include"
    least = 0 if includes else 1
    n_known = json.loads(screened.attrs.get("cube", "{}")).get("n_known", np.inf)
    seen = screened["n_events"].transpose("user", "period") >= least
    counted: xr.DataArray = seen & (screened["user"] < n_known)
    return counted
