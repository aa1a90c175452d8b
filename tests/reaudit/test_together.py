"""A new release is checked together with its series, and the ledger says what it opened."""

from __future__ import annotations

import json

import numpy as np
import pytest
from oracles.releases import dataset, write
from oracles.verdicts import verdict

from clusterscale.groups import count_visits
from clusterscale.reauditing import Catalogue, Reaudit, ReauditPlan, Webhook, find_releases
from clusterscale.reauditing import notify as telling
from clusterscale.reauditing.ledger import Ledger
from clusterscale.reauditing.notify import post_new
from clusterscale.runtime import SerialExecutor

PLAN = {
    "audit": {
        "seed": 3,
        "targets": {"random": 2},
        "priors": [{"name": "known_subset", "alpha": 0.5, "training": 20, "challenges": 10}],
        "attacks": [{"name": "projection"}],
        "utility": {"measures": [{"name": "pearson"}]},
        "control": False,
    },
    "everyone": False,
    "together": {},
}
HIDES = {"name": "suppress_small", "below": 3}


def publish(folder, cube, name, first=0, named=True, below=3):
    """Publish half a day of ten users; return how many counts are hidden."""
    counts = count_visits(cube.traces(None, (first, first + 12)), np.arange(10)[None])[0]
    values = np.where(counts < below, np.nan, counts)
    axes = (list(cube.regions.names), np.arange(first, first + 12)) if named else ()
    told = dataset(values, *axes)
    mechanism = HIDES | {"below": below} if below else {"name": "exact"}
    told.attrs = {"group_size": 10, "mechanism": json.dumps(mechanism), "first": first}
    write(told, folder, name=name, mode="w")
    return int(np.isnan(values).sum())


def work(folder, cube, **changed):
    output = str(folder.parent / "out")
    known = Catalogue(find_releases(str(folder)), cube.uri, f"{output}/listed.json")
    return Reaudit(ReauditPlan(**PLAN | changed), known, output)


def evaluate(work):
    return [work.evaluate(each, SerialExecutor()) for each in work.pending()]


def reason(row, check="opened"):
    (found,) = (why for why in row.why if why["check"] == check)
    return found


@pytest.mark.slow
def test_the_ledger_names_the_release_that_opened_counts(cube, tmp_path):
    folder = tmp_path / "releases"
    folder.mkdir()
    n_hidden = publish(folder, cube, "day-0")
    publish(folder, cube, "day-0-revised", below=0)
    publish(folder, cube, "day-1", 12)
    rows = evaluate(work(folder, cube))
    levels = [reason(row)["level"] for row in rows]
    assert levels == ["pass", "fail", "pass"]
    assert reason(rows[1])["text"] == (
        f"release day-0-revised opened {n_hidden} counts of earlier tables and 0 of its own"
    )
    cells = [why for why in rows[1].why if why["check"] == "open_cell"]
    assert len(cells) == min(n_hidden, 100)
    assert all(why["text"].startswith("day-0: ") for why in cells)
    assert all("day-0-revised shows" in why["text"] for why in cells)
    again = work(folder, cube)
    assert again.pending() == []
    other = work(folder, cube, policy={"consistency": "warn"})
    assert [reason(row)["level"] for row in evaluate(other)] == ["pass", "warn", "pass"]
    # what an earlier release showed before it was replaced cannot be read any more
    publish(folder, cube, "day-0", below=0)
    (row,) = evaluate(work(folder, cube))
    assert reason(row)["level"] == "warn"
    assert "not compared with day-0: " in reason(row)["text"]


@pytest.mark.slow
@pytest.mark.parametrize("why", ["unread", "unnamed"])
def test_what_cannot_be_compared_is_inconclusive(cube, tmp_path, why):
    folder = tmp_path / "releases"
    folder.mkdir()
    publish(folder, cube, "day-0", named=why != "unnamed")
    publish(folder, cube, "day-0-revised")
    if why == "unread":
        (folder / "day-0.zarr" / "zarr.json").write_text("{")
    row = evaluate(work(folder, cube))[-1]
    assert reason(row)["level"] == "warn"
    told = {"unread": "not compared with day-0: ", "unnamed": "needs the names of places"}
    assert told[why] in reason(row)["text"]


def test_the_webhook_has_numbers_only(tmp_path, monkeypatch):
    posted = []
    monkeypatch.setattr(telling, "post", lambda url, content: posted.append(content))
    monkeypatch.setenv("CLUSTERSCALE_WEBHOOK", "https://example.org")
    told = {"level": "fail", "measured": None, "limit": None}
    texts = {"opened": "release day-1 opened 1 count", "open_cell": "day-0: A at 8 is 3"}
    reasons = [told | {"check": check, "text": text} for check, text in texts.items()]
    Ledger(str(tmp_path)).append(verdict(0, verdict="fail", reasons=reasons))
    assert post_new(Webhook(), Ledger(str(tmp_path))) is None
    (release,) = posted[0]["releases"]
    assert [why["check"] for why in release["reasons"]] == ["opened"]
    assert Ledger(str(tmp_path)).rows[0].why == reasons


def test_how_releases_are_related_is_part_of_the_verdict_and_not_of_the_audit():
    none, some = ReauditPlan(**PLAN | {"together": None}), ReauditPlan(**PLAN)
    assert none.rules == none.policy.digest != some.rules
    assert none.question == some.question
