"""A config that ``clusterscale init`` writes fits the cube, for every answer."""

import json
import re
import sys
from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml
from jsonschema import Draft202012Validator
from loops import for_each, mostly_slow
from oracles.verdicts import FOUND
from typer.testing import CliRunner

from clusterscale.analyses.advise.results import to_yaml
from clusterscale.analyses.publish.plan import find_faults
from clusterscale.cli import app, init_proposals
from clusterscale.config import load, load_gate, load_policy
from clusterscale.config.policy_limits import limit_by_policy
from clusterscale.cube import Calendar, Grid, new_cube
from clusterscale.cube.calendar import Step
from clusterscale.cube.synthetic import synthesise
from clusterscale.errors import ExistsError, InputError
from clusterscale.metrics import mean_interval
from clusterscale.reauditing.known_part import KnownPart
from clusterscale.reauditing.policy_evaluation import evaluate_policy, verdict_of
from clusterscale.reauditing.release_metrics import IntervalEstimate
from clusterscale.storage import absolute


@pytest.fixture(scope="module")
def weeks(tmp_path_factory):
    """A cube of four weeks."""
    return synthesise("tfl", str(tmp_path_factory.mktemp("init") / "cube.zarr"), users=200, seed=1)


def init(*words):
    return CliRunner().invoke(app, ["init", *map(str, words)], catch_exceptions=False)


@pytest.mark.slow
@pytest.mark.parametrize("knows", ["users", "past", "release"])
def test_what_it_writes_fits_the_cube(weeks, tmp_path, knows):
    file = tmp_path / "new" / "audit.yaml"
    words = ("--knows", knows, "--publishes", "hidden,noise,capped", "--often", "weekly")
    done = init(file, "--cube", weeks.uri, *words)
    assert done.exit_code == 0, done.output
    config = load(file)
    config.check(weeks)
    assert len(config.audit.periods) == (1 if knows == "past" else 2)
    assert len(config.audit.mechanisms) == 4  # raw counts are always there for comparison
    text = file.read_text()
    # editors look for the schema beside the file
    (named,) = re.findall(r"^# yaml-language-server: \$schema=(\S+)$", text, re.MULTILINE)
    validator = Draft202012Validator(json.loads((file.parent / named).read_text()))
    validator.validate(yaml.safe_load(text))
    assert not validator.is_valid(yaml.safe_load(text.replace("tertiles", "tertile")))


def test_what_is_there_is_kept(weeks, tmp_path):
    file = tmp_path / "audit.yaml"
    file.write_text("mine")
    with pytest.raises(ExistsError, match="--force"):
        init(file, "--cube", weeks.uri)
    assert file.read_text() == "mine"
    assert init(file, "--cube", weeks.uri, "--size", 30, "--force").exit_code == 0
    assert load(file).audit.group_sizes == (30,)


def test_titles_and_names_of_files_are_data(weeks, tmp_path):
    for mark in ("\n", "\u2028"):  # other controls are refused
        lines = f"b{mark}    - {{name: fourier, k: 3}}"
        file = tmp_path / f"a{mark}x: 1.yaml"
        title = {"name": "threshold", "k": 5, "title": lines}
        done = init(file, "--cube", weeks.uri, "--publishes", json.dumps(title), "--force")
        assert done.exit_code == 0
        names = [type(one).__name__ for one in load(file).audit.mechanisms]
        assert "Threshold" in names
        assert "Fourier" not in "".join(names)
        for path in tmp_path.glob("*.yaml"):
            assert "x" not in yaml.safe_load(path.read_text())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "name the cube to audit"),
        (("--knows", "user"), "--knows 'user' is not known: choose from"),
        (("--publishes", "counts,none"), "--publishes 'counts,none' is not known: .*; or a mech"),
        (("--size", "all"), "--who 'all': give everyone, a number of 2 or more, or a file"),
        (("--often", "yearly"), "--often 'yearly' is not known: choose from once, daily"),
        (("--length", "90min"), "--length 90min: give a multiple of an epoch, 3600 s, and at most"),
        (("--length", "5w"), "at most the 672 of the cube"),
        (("--cell", "hour"), "--cell: epoch 'hour' is not a step such as"),
        (("--limit", "worst=1"), "--limit 'worst=1': worst takes a number above 0 and below 1"),
        (("--limit", "exposed=0.5"), "exposed takes no number"),
        (("--limit", "day=1,person=2"), "give one of event, day, person"),
    ],
)
def test_what_cannot_be_written_is_refused(weeks, tmp_path, words, says):
    cube = ("--cube", weeks.uri) if words else ()
    with pytest.raises(InputError, match=says):
        init(tmp_path / "audit.yaml", *cube, *words)
    assert not list(tmp_path.iterdir())


@mostly_slow(
    ("knows", "size", "n_people"),
    [("users", "everyone", 800), ("release", 199, 398), ("users", 30, 200), ("past", 60, 200)],
)
def test_an_audit_is_made_at_the_size_of_the_release(weeks, tmp_path, knows, size, n_people):
    """Where the users are too few for groups of that size, others are simulated."""
    file = tmp_path / "audit.yaml"
    done = init(file, "--cube", weeks.uri, "--knows", knows, "--size", size)
    assert done.exit_code == 0, done.output
    n_counted = 200 if size == "everyone" else size
    config = load(file)
    assert config.audit.group_sizes == (n_counted,)
    assert load_policy(file.with_suffix(".policy.yaml")).group_size == n_counted
    cube = config.cube.open()
    assert cube.n_users == n_people
    config.check(cube)
    if n_people == 200:
        assert cube.uri == weeks.uri
        return
    assert cube.n_known == 200
    assert not cube.uri.startswith(f"{absolute(config.output)}/"), "an audit needs an empty folder"
    assert "simulated" in file.read_text()
    users = config.audit.choose(cube).users
    assert users.max() < 200, "targets are known people"
    assert load(file).cube.open().fingerprint == cube.fingerprint


@mostly_slow(
    ("limit", "cell", "unit", "epsilon"),
    [
        ("person=1,worst=0.6", "1h", "user", 0.01923),
        ("few,anyone=0.9", "6h", "none", None),
        ("event", "1h", "event", 1.0),
        ("day=2", "1d", "user_day", 2.0),
    ],
)
def test_what_is_proposed_can_be_published(
    weeks, tmp_path, monkeypatch, limit, cell, unit, epsilon
):
    """All but what is published now; the policy and the release have the limit as well."""
    file = tmp_path / "audit.yaml"
    words = ("--publishes", "threshold(k=5)", "--limit", limit, "--cell", cell, "--often", "weekly")
    done = init(file, "--cube", weeks.uri, *words)
    assert done.exit_code == 0, done.output
    assert "before you publish" not in done.output
    assert f"reaudit {file.with_suffix('.policy.yaml')}" in " ".join(done.output.split())
    config, rules = load(file), load_policy(file.with_suffix(".policy.yaml"))
    now, exact, *proposed = config.audit.mechanisms
    assert now.title == "as now"
    assert "threshold" in to_yaml(now)
    assert {one.guarantee.unit for one in proposed} >= {unit}
    for one in (exact, *proposed, *(each for f in config.advise.families for each in f.members())):
        assert not list(find_faults(one, null_roi=False)), one
        if cell != "1h":
            assert "coarsen_time" in to_yaml(one)
    text = file.with_suffix(".release.yaml").read_text()
    advised = [family.members()[0] for family in config.advise.families if unit != "none"]
    assert any(one.guarantee.delta for one in advised) == (unit == "user_day")
    for one in (*proposed, *advised):
        if one.guarantee.unit != "none":
            text = text.replace("# budget: {unit: event", f"budget: {{unit: {one.guarantee.unit}")
        (tmp_path / "release.yaml").write_text(text)
        settings = yaml.safe_load(to_yaml(one))
        load(tmp_path / "release.yaml", mechanism=settings).check(weeks)
        text = file.with_suffix(".release.yaml").read_text()
    assert "  per_year: 52 " in text
    sign = f"--mechanism TITLE --policy {file.with_suffix('.policy.yaml')} --release"
    assert f"the page to sign: clusterscale report {config.output} --sign-off {sign}" in done.output
    checked = CliRunner().invoke(app, ["config", "check", str(file.with_suffix(".release.yaml"))])
    assert checked.exit_code == 0, checked.output
    assert "publish.mechanism comes from a run" in checked.output
    monkeypatch.setitem(sys.modules, "opendp", None)
    again = init(file, "--cube", weeks.uri, *words, "--force")
    assert again.output.count("before you publish with noise, install OpenDP: pip install") == 1
    limits = limit_by_policy(config.advise, rules).limits
    assert (limits.guarantee and limits.guarantee.epsilon) == epsilon
    gate = load_gate(file.with_suffix(".policy.yaml"), None)
    assert gate.audit.priors == config.audit.priors


def test_a_terminal_is_asked_for_what_is_not_said(weeks, tmp_path, monkeypatch):
    """Only what is usual has a default; an answer that is not understood is asked for again.

    The option that is left out and the empty answer are the same.
    """
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("clusterscale.cli.init.sys", terminal)
    file = tmp_path / "audit.yaml"
    answers = "\nthirty\n30\n\n1d\n\ncounts\nworst=2\nworst\n"
    words = ["init", str(file), "--cube", weeks.uri]
    done = CliRunner().invoke(app, words, input=answers, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert done.output.count("answer again") == 2
    config = load(file)
    assert config.audit.group_sizes == (30,)
    assert config.audit.periods[0].epochs == 24
    assert config.audit.mechanisms[0].title == "as now"
    assert load_policy(file.with_suffix(".policy.yaml")).worst_privacy_loss.fail == 0.5
    assert "reaudit" not in done.output
    assert "What is published today, before the new rule?" in done.output
    answers = "30\n\n\n\n\n\n"
    done = CliRunner().invoke(app, [*words, "--force"], input=answers, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "answer again" not in done.output
    said = load(file), load_policy(file.with_suffix(".policy.yaml"))
    monkeypatch.undo()
    assert init(file, "--cube", weeks.uri, "--who", 30, "--force").exit_code == 0
    assert (load(file), load_policy(file.with_suffix(".policy.yaml"))) == said


@mostly_slow(
    ("who", "limit", "is_open"),
    [
        ("everyone", "worst=0.5,average", ["worst"]),
        ("everyone", "anyone,worst", ["worst"]),
        (150, "anyone,worst", ["anyone", "worst"]),
        ("everyone", "exposed,average,few,day", []),
        (50, "worst", []),
    ],
)
def test_a_limit_that_nothing_can_pass_is_told_with_what_to_change(
    weeks, tmp_path, who, limit, is_open
):
    """A policy cannot pass a limit on everyone where some people are simulated."""
    file, words = tmp_path / "audit.yaml", ("--cube", weeks.uri, "--who", who, "--limit", limit)
    done = init(file, *words)
    said = " ".join(done.output.split())
    assert ("no release can pass the limit" in said) == bool(is_open)
    policy = load_policy(file.with_suffix(".policy.yaml"))
    assert policy.counts_everyone == (who == "everyone" and "anyone" in limit)
    text = file.with_suffix(".policy.yaml").read_text()
    assert text.count("warns at best: some people are simulated") == len(is_open)
    assert ("clusterscale screen" in said) == ("worst" in str(limit) or "few" in limit)
    if is_open:
        size = 200 if who == "everyone" else who
        assert (
            f"no release can pass the limit {' or '.join(is_open)}: groups of {size} need" in said
        )
        assert "or count at most 50 people (--who 50)" in said
        policy = policy.model_copy(update={"certified_auc": None})
    none = IntervalEstimate.exact(0.0)
    nobody = replace(FOUND, worst_loss=none, mean_loss=none, share_exposed=none)
    part = None if who == 50 else KnownPart(200, 800)
    reasons = list(evaluate_policy(policy, nobody, IntervalEstimate(), part))
    assert verdict_of(reasons) == ("warn" if "worst" in is_open else "pass"), reasons


def test_it_says_why_a_release_would_be_refused(weeks, tmp_path):
    """Here nobody lists the thirty people who are counted."""
    done = init(tmp_path / "audit.yaml", "--cube", weeks.uri, "--size", 30)
    assert "before you publish: people.csv" in done.output
    people = tmp_path / "people.csv"
    pd.DataFrame({"user": weeks.user_ids(0, 103)}).to_csv(people, index=False)
    done = init(tmp_path / "b.yaml", "--cube", weeks.uri, "--who", people)
    assert "before you publish" not in done.output, "publish accepts the rounded number"
    assert load(tmp_path / "b.yaml").audit.group_sizes == (100,)
    assert load_policy(tmp_path / "b.policy.yaml").group_size == 100
    release = yaml.safe_load((tmp_path / "b.release.yaml").read_text())["publish"]
    assert (release["group_size"], release["format"]) == (100, "csv")
    (listed,) = yaml.safe_load((tmp_path / "b.policy.yaml").read_text())["releases"]
    assert listed["counts"].endswith("-releases/counts/*.csv"), "as the release is published"
    assert "103" not in "".join(file.read_text() for file in tmp_path.glob("b.*.yaml"))


@for_each(("number", "stated"), [(22157, 22000), (199, 190), (109, 100), (64, 64), (7, 7)])
def test_the_number_of_people_is_rounded_down_to_what_publish_accepts(number, stated):
    assert init_proposals.round_down(number) == stated
    assert number - stated <= max(1, number / 10)


USERS = {"name": "known_subset", "alpha": 0.5, "training": 200, "challenges": 100}


@for_each(("limit", "per_third"), [(0.3, 12), (0.5, 9)])
def test_a_release_with_half_of_the_limit_passes_with_the_targets(weeks, limit, per_third):
    """Nine targets, as there were at first, leave a limit of .3 open even if nobody loses."""
    assert init_proposals.count_targets(weeks, (0, 168), limit, USERS) == (per_third, True)
    rng, n = np.random.default_rng(1), 3 * per_third
    samples = limit * rng.integers(2, size=(20, n)) + rng.normal(0, 0.115, (20, n))
    passed = [mean_interval(losses.clip(0, 1))[1] <= limit for losses in samples]
    assert sum(passed) >= 15
    assert mean_interval(np.zeros(9))[1] > 0.3


def test_a_limit_that_no_number_of_targets_decides_is_not_promised(weeks, tmp_path):
    assert not init_proposals.count_targets(weeks, (0, 168), 0.05, USERS).is_enough
    init(tmp_path / "audit.yaml", "--cube", weeks.uri, "--limit", "average=0.05")
    text = (tmp_path / "audit.yaml").read_text()
    assert "limit of 0.05 on the mean undecided" in text
    assert "interval of the mean is narrow enough" not in text


@for_each(
    ("events", "caps"),
    [
        ([1, 1, 1], [1]),
        ([2] * 99 + [30], [2, 1, 4]),
        ([2, 2], [2, 1]),
        ([3, 3], [2, 1]),
        ([5] * 9 + [9], [8, 4]),
        ([0, 0], [1]),
    ],
)
def test_a_cap_is_near_what_most_days_have_and_never_above_the_most(weeks, events, caps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(init_proposals, "count_by_day", lambda *given: np.array(events))
        assert init_proposals.propose_caps(weeks, (0, 24), 1) == caps


@for_each("factor", [1, 6])
def test_a_cap_is_of_the_events_that_are_counted(weeks, factor):
    """Visits to one place in merged hours are one event."""
    traces, days = weeks.traces(epochs=(0, 168)), weeks.calendar.days()
    user = np.repeat(np.arange(weeks.n_users), np.diff(traces.offsets))
    roi, epoch = np.divmod(traces.cells, 168)
    rows = pd.DataFrame({"user": user, "roi": roi, "epoch": epoch // factor})
    rows["day"] = days[rows["epoch"] * factor]
    n_events = rows.drop_duplicates().groupby(["user", "day"]).size()
    cap, *others = init_proposals.propose_caps(weeks, (0, 168), factor)
    assert max(cap, *others) <= n_events.max()
    assert (n_events <= cap).mean() >= 0.95 > (n_events <= cap // 2).mean()


@mostly_slow(
    ("often", "limit", "why"),
    [
        ("weekly", "average", ""),
        ("daily", "average", "more than 2 times as long"),
        ("weekly", "person", "the sensitivity of one release"),
        ("weekly", "anyone", "would count the first release twice"),
    ],
    n_quick=2,
)
def test_all_releases_of_the_cube_are_audited_as_one_period(weeks, tmp_path, often, limit, why):
    file = tmp_path / "audit.yaml"
    init(file, "--cube", weeks.uri, "--often", often, "--limit", limit, "--who", 30)
    spans = [period.spans[-1] for period in load(file).audit.periods]
    # The fourth week has 167 hours, because clocks in London change on its last day.
    assert spans == [(0, 24 if often == "daily" else 168), *([] if why else [(0, 671)])]
    assert (f"    # Left out, as {why}" if why else "Without this line") in re.sub(
        r"Left out, as .*(?=more than|the sens|would)", "Left out, as ", file.read_text()
    )


@for_each(
    ("start", "n", "length", "bounds"),
    [
        ("2026-10-01", 673, "1w", [0, 168, 336, 504, 673]),  # the fourth week has a day of 25 hours
        ("2026-10-01", 672, "1w", [0, 168, 336, 504]),
        ("2026-10-01", 673, "168h", [0, 168, 336, 504, 672]),
        ("2026-10-19", 400, "1w", [0, 169, 337]),
        ("2026-03-09", 671, "7d", [0, 168, 336, 503, 671]),
        ("2026-10-24", 73, "1d", [0, 24, 49, 73]),
        ("2026-10-19", 72, "1w", [0, 72]),
    ],
)
def test_releases_are_as_long_as_those_of_the_calendar(start, n, length, bounds):
    calendar = Calendar.parse(start, "1h", n, "Europe/Madrid")
    assert init_proposals.split_releases(calendar, Step.parse(length)) == bounds
    if length == "1w" and len(bounds) > 2:  # as `publish --days` takes them
        monday = date.fromisoformat(start)
        days = [monday + timedelta(days=7 * week) for week in range(len(bounds))]
        spans = [calendar.span_of_days(a, b - timedelta(days=1)) for a, b in pairwise(days)]
        assert spans == list(pairwise(bounds))


@pytest.mark.parametrize(
    ("start", "n", "knows", "first", "whole"),
    [
        ("2026-10-05", 505, "users", (0, 168), (0, 505)),
        ("2026-10-19", 505, "users", (0, 169), (0, 505)),
        ("2026-10-05", 505, "past", (336, 504), None),
    ],
)
def test_periods_have_the_hours_of_the_calendar(tmp_path, start, n, knows, first, whole):
    calendar, uri = Calendar.parse(start, "1h", n, "Europe/Madrid"), str(tmp_path / "cube.zarr")
    regions, cells = Grid.parse("50,0,51,1/1x2").regions, np.arange(200) * 5 % (2 * n)
    with new_cube(uri, regions, calendar, provenance={}) as writer:
        writer.append([f"user {user:03}" for user in range(200)], np.ones(200, np.int64), cells)
    file = tmp_path / "audit.yaml"
    done = init(file, "--cube", uri, "--who", 30, "--often", "weekly", "--knows", knows)
    assert done.exit_code == 0, done.output
    periods = load(file).audit.periods
    assert [period.spans[-1] for period in periods] == [first, *([whole] if whole else [])]
    assert periods[0].name.endswith(" week")
    release = yaml.safe_load(file.with_suffix(".release.yaml").read_text())["publish"]["period"]
    says = "# Clocks change: 168 of the 169 epochs of the release are audited" in file.read_text()
    assert says == (knows == "past")
    assert release["epochs"] == (169 if says else first[1])
