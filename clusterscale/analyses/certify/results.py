"""The dataset of certificates: one row per user."""

from __future__ import annotations

from collections.abc import Mapping

from clusterscale.cube import TraceCube
from clusterscale.schema import Variable, name_variables

CERTIFICATES_FORMAT = "clusterscale-certificates"
"""Value of the attribute ``format`` of certificates."""
ROWS_OF_RECORDS = "if the places and epochs of releases are public, not those of the records"
"""Condition of certificates about a cube whose places or epochs may follow from its records."""

_CASE = ("user", "period", "group_size", "mechanism", "neighbours")
_MADE = ("period", "group_size", "mechanism")

CERTIFICATES: Mapping[str, Variable] = {
    "user": Variable(("user",), "iu", "1", "index of the user in the cube"),
    "period": Variable(("period",), "OUT", "", "epochs of the release"),
    "group_size": Variable(("group_size",), "iu", "1", "members in each group"),
    "mechanism": Variable(("mechanism",), "OUT", "", "how counts were published"),
    **name_variables("mechanism"),
    "neighbours": Variable(
        ("neighbours",), "OUT", "", "add_remove, or replace by a random other user"
    ),
    "false_positive_rate": Variable(
        ("false_positive_rate",), "f", "1", "false positive rate of the best test"
    ),
    "n_changed": Variable(
        ("user", "period", "mechanism"), "iu", "1", "counts that change if the user is added"
    ),
    "auc": Variable(_CASE, "f", "1", "highest AUC of any adversary"),
    "accuracy": Variable(_CASE, "f", "1", "highest share of right answers of any adversary"),
    "tpr": Variable(
        (*_CASE, "false_positive_rate"), "f", "1", "highest true positive rate of any adversary"
    ),
    "tight": Variable(_MADE, "OUT", "", "does an adversary reach the ceiling of adding: yes or no"),
    "reason": Variable(_MADE, "OUT", "", "why no adversary does better"),
}
"""Variables and coordinates of the dataset of certificates."""


def has_public_rows(cube: TraceCube) -> bool:
    """Return whether the places and epochs of a cube do not follow from its records."""
    return cube.public == {"places", "calendar"}
