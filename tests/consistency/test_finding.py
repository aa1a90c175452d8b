"""Findings are plain values that go through pickle."""

import pickle

import numpy as np
import pytest

from clusterscale.release.checks import CheckResult
from clusterscale.release.checks.table import agree


def test_a_finding_is_frozen_and_picklable():
    found = CheckResult("totals", "unknown", np.nan, 0.0, 3, "why")
    assert repr(pickle.loads(pickle.dumps(found))) == repr(found)
    with pytest.raises(AttributeError):
        found.level = "consistent"


def test_verbs_agree_with_their_numbers():
    assert [agree(n, "follow") for n in (0, 1, 2)] == ["follow", "follows", "follow"]
