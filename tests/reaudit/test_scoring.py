"""One AUC of many attacks on the values themselves: that of the best, by counting pairs."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import write_cube
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.analyses.audit import AuditPlan
from clusterscale.game import ReleasePlacement
from clusterscale.metrics import auc_interval
from clusterscale.reauditing import scoring
from clusterscale.reauditing.release_metrics import IntervalEstimate
from clusterscale.reauditing.scoring import Membership, pool


def standing(rank, score=0.0):
    return ReleasePlacement("forest", score, True, rank, rank)


def counted(labels, ranks):
    """Return the share of pairs in the right order, of equals half."""
    pairs = [
        (one > other) + (one == other) / 2
        for one, inside in zip(ranks, labels, strict=True) if inside
        for other, within in zip(ranks, labels, strict=True) if not within
    ]  # fmt: skip
    return sum(pairs) / len(pairs)


RANKS = st.lists(st.integers(0, 8).map(lambda i: i / 8), min_size=6, max_size=6)


@given(st.lists(RANKS, min_size=1, max_size=4))
def test_the_best_of_all_attacks(tables):
    users, labels = [4, 9, 2, 31, 7, 12], [True, False, True, False, True, False]
    inside = dict(zip(users, labels, strict=True))
    scores = {
        ("known", f"attack {i}"): dict(zip(users, map(standing, ranks), strict=True))
        for i, ranks in enumerate(tables)
    }
    found, label = pool(scores, inside)
    aucs = [counted(labels, ranks) for ranks in tables]
    assert found.value == pytest.approx(max(aucs))
    best = aucs.index(max(aucs))
    assert label == f"attack {best} · known"
    order = np.argsort(users)
    told = auc_interval(
        np.array(labels)[order],
        np.array(tables[best])[order],
        confidence=1 - 0.05 / len(tables),
        scale="odds",
    )
    assert (found.low, found.high) == pytest.approx(told, nan_ok=True)


def test_ranks_count_and_not_scores():
    """What a score means differs from target to target."""
    inside = {1: True, 2: False, 3: True, 4: False}
    scores = {("known", "a"): {
        1: standing(0.9, -50.0), 2: standing(0.1, 70.0), 3: standing(0.8, 0.0), 4: standing(0.2, 9)
    }}  # fmt: skip
    assert pool(scores, inside)[0].value == 1.0


def test_nothing_known():
    assert repr(pool({}, {})) == repr((IntervalEstimate(), ""))
    lost = {("known", "a"): {1: standing(0.5), 3: standing(0.9)}}
    assert repr(pool(lost, {1: True, 2: False, 3: True})) == repr((IntervalEstimate(), ""))


@pytest.mark.parametrize(("unseen", "inside", "outside"), [("exclude", 4, 4), ("include", 6, 6)])
def test_known_users_without_an_event_are_not_asked_about(
    dense, tmp_path, plan_fields, monkeypatch, unseen, inside, outside
):
    """They are told by nothing that was published, and would pull the AUC to one half."""
    sparse, asked = dense.copy(), []
    sparse[[1, 2, 31, 32], :, 24:] = False
    cube = write_cube(str(tmp_path / "cube"), sparse)
    late = [{"name": "late", "first": 24, "epochs": 24}]
    targets = {"random": 4, "unseen": unseen}
    plan = AuditPlan(**plan_fields | {"periods": late, "targets": targets})

    def listed(plan, cube, users, *more):
        asked.extend(users.tolist())
        return []

    monkeypatch.setattr(scoring, "list_published", listed)
    members = Membership(np.arange(1, 7), np.arange(31, 37))
    labels = scoring.PublishedScores(plan, cube, members, 20, "").labels
    assert (sum(labels.values()), len(labels)) == (inside, inside + outside)
    assert sorted(labels) == asked
    assert bool(set(asked) & {1, 2, 31, 32}) == (unseen == "include")
