"""Mistakes in the use of the Python interface, each refused in words that say what is wrong."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from loops import for_each
from oracles.dense import traces_of
from oracles.plays import EXACT, crowd, deal

import clusterscale as cs
from clusterscale import attacks, mechanisms, priors
from clusterscale.analyses.recovery.epoch_belief import EpochBelief
from clusterscale.analyses.recovery.estimates import WeightedBelief, compare
from clusterscale.analyses.screening import ScreenPlan
from clusterscale.attacks import ATTACKS
from clusterscale.attacks.cells import Cells
from clusterscale.attacks.spectral import Spectral
from clusterscale.config import parse
from clusterscale.contracts import GroupRequest, Traces
from clusterscale.cube.bounds import measure_bounds
from clusterscale.errors import ConfigError, InputError, UnknownNameError
from clusterscale.groups import count_visits
from clusterscale.mechanisms.noise import LaplaceNoise
from clusterscale.mechanisms.noisy_counts import Laplace
from clusterscale.metrics import auc
from clusterscale.reauditing import ReauditPlan
from clusterscale.release.checks import PublishedTable

SIZE = 8
LAPLACE = LaplaceNoise(1.0)


@cache
def play(noise=EXACT):
    return deal(0, noise=noise, size=SIZE)


@cache
def trained(name):
    return attacks.create(name).fit(play().knowledge, rng=np.random.default_rng(0))


def bare(values=None, **changes):
    release = play().challenge
    return replace(release, values=release.values if values is None else values, **changes)


def with_value(value, dtype=np.float64):
    values = play().challenge.values.astype(dtype)
    values[3, 2, 1] = value
    return values


SHAPE = r"\(6, 24\)"
RELEASES = {
    "more epochs": (lambda: bare(np.zeros((2, 6, 25), np.int32)), rf"\(6, 25\).*{SHAPE}"),
    "fewer epochs": (lambda: bare(np.zeros((2, 6, 23), np.int32)), rf"\(6, 23\).*{SHAPE}"),
    "more ROIs": (lambda: bare(np.zeros((2, 7, 24), np.int32)), rf"\(7, 24\).*{SHAPE}"),
    "as many cells": (lambda: bare(np.zeros((2, 24, 6), np.int32)), rf"\(24, 6\).*{SHAPE}"),
    "two dimensions": (
        lambda: bare(np.zeros((6, 24), np.int32)),
        r"\(group, roi, epoch\).*\(6, 24\)",
    ),
    "no epochs": (lambda: bare(np.zeros((2, 6, 0), np.int32)), r"one of each, not \(2, 6, 0\)"),
    "an empty release": (lambda: bare(np.zeros((0, 6, 24))), r"one of each, not \(0, 6, 24\)"),
    "larger groups": (lambda: bare(group_size=9), "groups of 9, but .* groups of 8"),
    "no members": (lambda: bare(group_size=0), "group_size is 0"),
    "below 0": (lambda: bare(with_value(-1, np.int32)), "counts from -1 to .* not between 0 and 8"),
    "above m": (
        lambda: bare(with_value(9, np.int32)),
        "counts from 0 to 9 are not between 0 and 8",
    ),
    "half a member": (lambda: bare(with_value(0.5)), "counts are not whole numbers"),
    "NaN": (lambda: bare(with_value(np.nan)), r"1 of 5760 values .* NaN.* \(3, 2, 1\)"),
    "infinity": (lambda: bare(with_value(np.inf)), r"1 of 5760 values .* infinite.* \(3, 2, 1\)"),
    "noisy NaN": (lambda: bare(with_value(np.nan), noise=LAPLACE), "are NaN or infinite"),
    "of no known law": (lambda: bare(with_value(-np.inf), noise=None), "are NaN or infinite"),
    "a list": (lambda: bare([[[1, 2], [3, 4]]]), "array of float64 or int32, not list"),
    "booleans": (lambda: bare(np.zeros((2, 6, 24), bool)), "array of float64 or int32, not bool"),
    "wider numbers": (lambda: bare(np.zeros((2, 6, 24), int)), "float64 or int32, not int64"),
}


@for_each("misuse", list(RELEASES))
@pytest.mark.parametrize("name", list(ATTACKS))
def test_no_distinguisher_scores_what_it_was_not_trained_for(name, misuse):
    release, message = RELEASES[misuse]
    with pytest.raises(InputError, match=message):
        trained(name).score(release())


@for_each("name", list(ATTACKS))
def test_noisy_values_may_be_any_finite_numbers(name):
    values = with_value(-3.5)
    values[1, 1, 1] = 40.25
    assert len(trained(name).score(bare(values, noise=LAPLACE))) == len(values)
    assert len(trained(name).score(bare(values, noise=None))) == len(values)


def knowledge(**changes):
    return replace(play().knowledge, **changes)


def training(**changes):
    return knowledge(training=replace(play().knowledge.training, **changes))


def whereabouts(**changes):
    return knowledge(whereabouts=replace(play().knowledge.whereabouts, **changes))


KNOWLEDGE = {
    "labels of other groups": (lambda: training(labels=np.arange(39) % 2 == 0), "labels are bool"),
    "labels 0 and 1": (lambda: training(labels=np.arange(40) % 2), "labels are int64"),
    "one class": (
        lambda: training(labels=np.ones(40, bool)),
        "40 training groups, 40 contain the target",
    ),
    "no blocks": (lambda: training(blocks=np.zeros(0, np.int64)), r"blocks are int64 of shape \(0"),
    "NaN to learn from": (
        lambda: training(release=bare(with_value(np.nan))),
        "are NaN or infinite",
    ),
    "a validation set of other cells": (
        lambda: knowledge(
            validation=replace(
                play().knowledge.training, release=bare(np.zeros((40, 6, 9), np.int32))
            )
        ),
        rf"\(6, 9\).*{SHAPE}",
    ),
    "whereabouts of other cells": (
        lambda: whereabouts(occupancy=np.zeros((6, 25), np.int32)),
        rf"\(6, 25\).*{SHAPE}",
    ),
    "a trace beyond the cells": (lambda: whereabouts(trace=np.array([3, 144])), "3 to 144, .* 143"),
    "a trace before the cells": (lambda: whereabouts(trace=np.array([-1])), "from -1 to -1"),
    "a cell twice": (lambda: whereabouts(trace=np.array([3, 3])), "not strictly increasing"),
    "a trace of booleans": (lambda: whereabouts(trace=np.zeros(144, bool)), "the trace is bool"),
    "nobody to refer to": (lambda: whereabouts(n_users=0), "n_users is 0"),
    "more seen than there are": (
        lambda: whereabouts(occupancy=np.full((6, 24), 99)),
        "from 99 to 99.* between 0 and",
    ),
    "NaN seen": (lambda: whereabouts(occupancy=np.full((6, 24), np.nan)), "from nan to nan"),
}


@for_each("misuse", list(KNOWLEDGE))
@pytest.mark.parametrize("name", list(ATTACKS))
def test_no_attack_trains_on_what_does_not_fit(name, misuse):
    made, message = KNOWLEDGE[misuse]
    with pytest.raises(InputError, match=message):
        attacks.create(name).fit(made(), rng=np.random.default_rng(0))


def traces(**changes):
    return replace(traces_of(crowd(np.random.default_rng(0))), **changes)


PLAN = {
    "targets": {"random": 2},
    "group_sizes": [5],
    "priors": [{"name": "known_subset", "alpha": 0.3}],
    "mechanisms": [{"name": "exact"}],
    "attacks": [{"name": "projection"}],
}
ONE_PLACE = EpochBelief.of_all(2, 3)
TABLE = ("week 1", np.ones((2, 3)), 4, mechanisms.create("exact"), 0)

MISUSES = {
    "a plan without its parts": (
        lambda: cs.AuditPlan(group_sizes=[5]),
        ConfigError,
        "AuditPlan.targets: is missing\nAuditPlan.priors: is missing",
    ),
    "a key that is misspelt": (
        lambda: cs.AuditPlan(**PLAN, group_size=[5]),
        ConfigError,
        "AuditPlan.group_size: is not a known key: choose from .*did you mean 'group_sizes'",
    ),
    "a mechanism that is misspelt": (
        lambda: cs.AuditPlan(**PLAN | {"mechanisms": [{"name": "laplas", "epsilon": 1.0}]}),
        ConfigError,
        "AuditPlan.mechanisms.0: 'laplas' is not known: .*did you mean 'laplace'",
    ),
    "a part of a plan out of range": (
        lambda: cs.AuditPlan(**PLAN | {"priors": [{"name": "known_subset", "alpha": 1.5}]}),
        ConfigError,
        "AuditPlan.priors.0.known_subset.alpha: is 1.5, but should be less than",
    ),
    "a number as text": (
        lambda: cs.AuditPlan(**PLAN, seed="1"),
        ConfigError,
        "AuditPlan.seed: is '1', but should be a whole number",
    ),
    "a recovery that observes nothing": (
        lambda: cs.RecoveryPlan(observed=0),
        ConfigError,
        "RecoveryPlan.observed: is 0, but should be greater than or equal to 1",
    ),
    "a screen of few groups": (
        lambda: ScreenPlan(groups=1),
        ConfigError,
        "ScreenPlan.groups: is 1, but should be greater than or equal to",
    ),
    "traits of everybody": (
        lambda: cs.TraitsPlan(share=0.9),
        ConfigError,
        "TraitsPlan.share: is 0.9, but should be less than or equal to 0.5",
    ),
    "a reaudit without an audit": (
        lambda: ReauditPlan(published=20),
        ConfigError,
        "ReauditPlan.audit: is missing",
    ),
    "a mapping instead of a plan": (
        lambda: cs.audit(PLAN, None, "run", cs.SerialExecutor()),
        InputError,
        "plan is of type dict, but should be of type AuditPlan",
    ),
    "a path instead of a cube": (
        lambda: cs.screen(cs.AuditPlan(**PLAN), "cube.zarr", "run", cs.SerialExecutor()),
        InputError,
        "cube is of type str, but should be of type TraceCube",
    ),
    "a recovery to be run as an audit": (
        lambda: cs.audit(cs.RecoveryPlan(observed=168), None, "run", cs.SerialExecutor()),
        InputError,
        "plan is of type RecoveryPlan, but should be of type AuditPlan",
    ),
    "a cluster of no workers": (
        lambda: cs.Local(workers=0),
        ConfigError,
        "Local.workers: is 0, but should be greater than or equal to 1",
    ),
    "an ε that is NaN": (
        lambda: Laplace(epsilon=float("nan")),
        ConfigError,
        "Laplace.epsilon: is nan, but should be a finite number",
    ),
    "two rules where one is asked for": (
        lambda: Spectral(components=3, variance=0.5),
        ConfigError,
        "^Spectral: give components or variance, not both$",
    ),
    "a setting of another type": (
        lambda: Cells(standardize="yes"),
        ConfigError,
        "Cells.standardize: is 'yes', but should be true or false",
    ),
    "a prior of another registry": (
        lambda: priors.create("laplace"),
        UnknownNameError,
        "unknown prior 'laplace': choose from",
    ),
    "a target who does not exist": (
        lambda: priors.create("known_subset", alpha=0.3).set_up(
            GroupRequest(traces(), 60, group_size=5, rng=np.random.default_rng(0))
        ),
        InputError,
        "user 60 is not among 60 users",
    ),
    "a target before the first user": (
        lambda: priors.create("same_groups").set_up(
            GroupRequest(traces(), -1, past=[traces()], group_size=5, rng=np.random.default_rng(0))
        ),
        InputError,
        "user -1 is not among 60 users",
    ),
    "users who do not exist": (
        lambda: count_visits(traces(), np.array([[0, 60]])),
        InputError,
        "users from 0 to 60 are not among 60 users",
    ),
    "events in cells that do not exist": (
        lambda: traces(n_rois=5),
        InputError,
        r"cells from 0 to 142 are not within 0 to 119: 5 ROIs and 24 epochs",
    ),
    "events before the first cell": (
        lambda: Traces(np.array([0, 1]), np.array([-1], np.int32), 2, 3),
        InputError,
        "cells from -1 to -1 are not within 0 to 5",
    ),
    "more events than there are": (
        lambda: Traces(np.array([0, 2]), np.zeros(1, np.int32), 2, 3),
        InputError,
        "offsets do not increase from 0 to at most 1 events",
    ),
    "days of other epochs": (
        lambda: measure_bounds(traces(), np.zeros(23, np.int64)),
        InputError,
        r"days are int64 of shape \(23,\), but 24 epochs",
    ),
    "an estimate of other places": (
        lambda: compare(
            ONE_PLACE, WeightedBelief(EpochBelief.of_all(3, 3), np.ones(3), False), 0.5
        ),
        InputError,
        r"the truth is of \(3, 2\) users and ROIs, the estimate of \(3, 3\)",
    ),
    "a table of a list": (
        lambda: PublishedTable(*TABLE, [[-1] * 3] * 2),
        InputError,
        "week 1: counts are of type list, not an array of int32",
    ),
    "a table of infinite values": (
        lambda: PublishedTable(
            "week 1", np.full((2, 3), np.inf), *TABLE[2:], np.ones((2, 3), np.int32)
        ),
        InputError,
        "week 1: 6 values are infinite",
    ),
    "counts to publish that are NaN": (
        lambda: mechanisms.create("exact").release(
            np.full((1, 2, 3), np.nan), group_size=4, rng=np.random.default_rng(0)
        ),
        InputError,
        "6 of 6 counts are NaN or infinite",
    ),
    "scores that are NaN": (
        lambda: auc(np.array([True, False]), np.array([np.nan, 1.0])),
        InputError,
        "1 scores are",
    ),
}


@for_each("misuse", list(MISUSES))
def test_misuse_is_refused(misuse):
    """As the error that is documented, which is a ``ClusterscaleError`` and a ``ValueError``."""
    call, error, message = MISUSES[misuse]
    with pytest.raises(cs.ClusterscaleError, match=message) as caught:
        call()
    assert type(caught.value) is error
    assert isinstance(caught.value, ValueError)


def test_a_fault_in_a_config_file_keeps_its_path():
    """What is nested is validated with the whole, also where Python would build it by itself."""
    text = "cube: a\noutput: b\naudit: {group_sizes: [1], priors: [{name: perfect, alpha: 2}]}"
    with pytest.raises(ConfigError) as caught:
        parse(text, where="run.yaml")
    lines = str(caught.value).splitlines()
    assert "run.yaml: audit.group_sizes.0: is 1, but should be greater than or equal to 2" in lines
    assert any(line.startswith("run.yaml: audit.priors.0.perfect.alpha: is not") for line in lines)
    assert not any("AuditPlan" in line for line in lines)


def test_a_fault_of_a_part_built_by_a_validator_is_reported_where_it_is_given():
    """A ConfigError that a validator meets becomes a fault of the key that it validates."""
    steps = [{"name": "laplace", "epsilon": 1.0, "unit": "event"}, {"name": "exact", "k": 1}]
    with pytest.raises(ConfigError, match=r"^AuditPlan.mechanisms.0.chain.steps.1"):
        cs.AuditPlan(**PLAN | {"mechanisms": [{"name": "chain", "steps": steps}]})


def test_public_names_are_listed():
    assert set(cs.__all__) == set(dir(cs))
    assert set(cs.api.__all__) <= set(cs.__all__)
    assert all(hasattr(cs, name) for name in dir(cs))
    assert cs.__version__.count(".") >= 1
