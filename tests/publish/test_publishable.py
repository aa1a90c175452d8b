"""Which mechanisms may publish, and that the others are refused with a remedy."""

import numpy as np
import pytest
from oracles.publications import LAPLACE, plan

from clusterscale.analyses.publish.plan import (
    bind_without_data,
    exceeds_sensitivity,
    find_faults,
)
from clusterscale.contracts import Bounds, Guarantee, Mechanism
from clusterscale.errors import ConfigError
from clusterscale.mechanisms import create

REFUSED = {
    "continuous Laplace": (
        {"name": "laplace", "epsilon": 1.0, "sensitivity": 1.0},
        "set discrete: true",
    ),
    "rounded Laplace": (
        {"name": "laplace", "epsilon": 1.0, "sensitivity": 1.0, "integers": "round"},
        "set discrete: true",
    ),
    "gaussian": (
        {"name": "gaussian", "epsilon": 1.0, "delta": 0.1, "l2_sensitivity": 3.0},
        "its noise is continuous",
    ),
    "fourier": (
        {"name": "fourier", "epsilon": 1.0, "coefficients": 3, "l2_sensitivity": 1.0},
        "its noise is continuous",
    ),
    "truncated": ({"name": "truncated_laplace", "epsilon": 1.0}, "its guarantee is false"),
    "randomised response": ({"name": "randomized_response", "p": 0.3}, "binomial"),
    "sampled events": ({"name": "sample_events", "remove": 0.3}, "use sample_traces"),
    "cell keys": ({"name": "cell_key", "deviation": 3, "variance": 1.0}, "averaged away"),
    "small counts": ({"name": "perturb_small", "below": 5, "epsilon": 1.0}, "floating-point"),
    "a sensitivity of the data": (
        {"name": "laplace", "epsilon": 1.0, "unit": "user", "discrete": True},
        "which is private: state it, put cap_contributions before it",
    ),
    "a day of the data": (
        {"name": "laplace", "epsilon": 1.0, "unit": "user_day", "discrete": True},
        "which is private",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_why(name, tmp_path):
    mechanism, words = REFUSED[name]
    assert any(words in fault for fault in find_faults(create(**mechanism), null_roi=False))
    for budget in ({"unit": "user", "epsilon": 9.0}, None):
        with pytest.raises(Exception, match="mechanism") as raised:
            plan(tmp_path, mechanism=mechanism, budget=budget)
        assert words in str(raised.value)


def test_a_step_of_a_chain_is_named_by_its_key():
    steps = [{"name": "sample_events", "remove": 0.2}, {"name": "threshold", "k": 3}]
    (fault,) = find_faults(create("chain", steps=steps), null_roi=False)
    assert fault.startswith("mechanism.steps.0: sample_events")


@pytest.mark.parametrize(
    "mechanism",
    [
        {"name": "exact"},
        {"name": "threshold", "k": 5, "shown": "hidden"},
        {"name": "adaptive_ranges", "ranges": 4},
        {"name": "round_to_base", "base": 3},
        {"name": "coarsen_time", "factor": 2},
        {"name": "sample_traces", "remove": 0.5},
        {"name": "expand", "factor": 2.5},
        {"name": "laplace", "epsilon": 1.0, "unit": "event", "discrete": True},
        LAPLACE,
    ],
    ids=lambda fields: fields["name"],
)
def test_what_can_be_published(mechanism):
    assert not [*find_faults(create(**mechanism), null_roi=False)]


def test_the_sensitivity_of_an_event_is_known_without_data():
    event = create("laplace", epsilon=1.0, unit="event", discrete=True)
    assert bind_without_data(event, null_roi=False).sensitivity == 1.0
    assert bind_without_data(event, null_roi=True).sensitivity == 2.0


def test_capped_days_need_no_data():
    steps = [
        {"name": "cap_contributions", "per_day": 7},
        {"name": "laplace", "epsilon": 1.0, "unit": "user_day", "discrete": True},
    ]
    bound = bind_without_data(create("chain", steps=steps), null_roi=False)
    assert bound.steps[1].sensitivity == 7.0


@pytest.mark.parametrize(("visits", "exceeds"), [(47, False), (48, False), (49, True)])
def test_data_that_exceed_a_stated_sensitivity_are_noticed(visits, exceeds):
    bounds = Bounds(1, 5, visits, 5, 5, False)
    assert exceeds_sensitivity(create(**LAPLACE), bounds) is exceeds


class Doubling(Mechanism):
    """A plug-in that draws as it likes."""

    name: str = "doubling"

    @property
    def guarantee(self):
        return Guarantee("none", np.inf, 0.0, "add_remove", "nothing is added")

    def release(self, counts, *, group_size, rng):
        return 2.0 * counts


def test_mechanisms_of_other_packages_are_refused():
    (fault,) = find_faults(Doubling(), null_roi=False)
    assert "not known to draw its numbers from the operating system" in fault


GAUSSIAN = {"name": "gaussian", "epsilon": 1.0, "delta": 1e-6, "l2_sensitivity": 5.0}
GAUSSIAN |= {"discrete": True}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"budget": None}, "budget: missing"),
        ({"mechanism": GAUSSIAN, "budget": None}, "unit: user, epsilon: 4, delta: 4e-06}"),
        ({"mechanism": GAUSSIAN}, "budget.delta: 0, but gaussian"),
        ({"budget": {"unit": "event", "epsilon": 1.0}}, "state the same unit"),
        ({"mechanism": {"name": "exact"}}, "has no guarantee"),
        ({"series": "a/b"}, "series"),
        ({"series": "../up"}, "series"),
        ({"format": "xlsx"}, "format"),
    ],
)
def test_plans_that_do_not_fit_together_are_refused(fields, words, tmp_path):
    with pytest.raises(Exception, match=r"(?s).*") as raised:
        plan(tmp_path, **fields)
    assert words in str(raised.value)


def test_weights_are_not_used_after_noise(tmp_path):
    steps = [LAPLACE, {"name": "expand", "factor": "weights"}]
    with pytest.raises(Exception, match="weights after noise"):
        plan(tmp_path, mechanism={"name": "chain", "steps": steps}, budget=None)


def test_config_errors_name_the_key(tmp_path):
    from clusterscale.config import parse

    text = f"""
cube: cube.zarr
output: run
publish:
  series: a
  releases: {tmp_path}
  period: {{name: w}}
  mechanism: {{name: laplace, epsilon: 1.0, unit: event}}
  budget: {{unit: event, epsilon: 1.0}}
"""
    with pytest.raises(ConfigError, match=r"publish: mechanism: laplace.*set discrete: true"):
        parse(text)
