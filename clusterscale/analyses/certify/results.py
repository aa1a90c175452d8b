"""Stored certificates: one row per user."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.analyses.certify.plan import Certification
from clusterscale.contracts import Ints, names_of
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import block_size
from clusterscale.cube.describe import describe_origin
from clusterscale.schema import Variable, name_variables
from clusterscale.storage.result_table import TableStore, create_table

if TYPE_CHECKING:
    pass


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


class CertificateStore(TableStore):
    """Writes certificates block by block."""

    def __init__(self, uri: str, certification: Certification, cube: TraceCube) -> None:
        create = partial(_create, certification=certification, cube=cube)
        super().__init__(uri, CERTIFICATES_FORMAT, create)

    def add(
        self, start: int, period: int, mechanism: int, cells: Ints, values: list[NDArray[Any]]
    ) -> None:
        """Write the certificates of a block of users in one period and by one mechanism.

        ``values``: by group size, float32, shape (neighbours, statistic, user).
        """
        users = slice(start, start + len(cells))
        self.array("n_changed")[users, period, mechanism] = cells
        every = np.stack(values, axis=-1)  # neighbours, statistic, user, size
        auc, accuracy, tpr = every[:, 0], every[:, 1], every[:, 2:]
        self.array("auc")[users, period, :, mechanism] = auc.transpose(1, 2, 0)
        self.array("accuracy")[users, period, :, mechanism] = accuracy.transpose(1, 2, 0)
        self.array("tpr")[users, period, :, mechanism] = tpr.transpose(2, 3, 0, 1)

    def state(self, period: int, size: int, mechanism: int, *, tight: bool, reason: str) -> None:
        """Write why the certificates of one case hold."""
        self.array("tight")[period, size, mechanism] = "yes" if tight else "no"
        self.array("reason")[period, size, mechanism] = reason


def has_public_rows(cube: TraceCube) -> bool:
    """Return whether the places and epochs of a cube do not follow from its records."""
    return cube.public == {"places", "calendar"}


def _create(uri: str, certification: Certification, cube: TraceCube) -> None:
    rates = certification.plan.false_positive_rates
    columns: dict[str, Sequence[Any]] = {
        "period": [name for name, _ in certification.releases],
        "group_size": certification.group_sizes,
        **names_of("mechanism", certification.mechanisms),
        "neighbours": ["add_remove", "replace"],
        "false_positive_rate": rates,
        "user": range(cube.n_users),
    }
    create_table(
        uri,
        CERTIFICATES,
        columns,
        {"user": block_size(cube), "neighbours": 2, "false_positive_rate": len(rates)},
        {
            "format": CERTIFICATES_FORMAT,
            "complete": False,
            "plan": json.dumps(certification.describe()),
            "plan_digest": certification.digest,
            "prior": certification.plan.prior,
            "covers": "the number of people counted is held fixed and public",
            "rows": "public" if has_public_rows(cube) else "records",
            **describe_origin(cube, null_roi=certification.null_roi),
        },
    )
