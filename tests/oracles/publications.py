"""Publications of small cubes."""

from clusterscale import study
from clusterscale.analyses.publish import PublishAnalysis, PublishPlan
from clusterscale.reauditing import Gate
from clusterscale.runtime import SerialExecutor

LAPLACE = {
    "name": "laplace",
    "epsilon": 1.0,
    "unit": "user",
    "sensitivity": 48.0,
    "discrete": True,
}
BUDGET = {"unit": "user", "epsilon": 2.0}

AUDIT = {
    "seed": 1,
    "targets": {"random": 2},
    "priors": [{"name": "known_subset", "alpha": 0.5, "training": 20, "challenges": 20}],
    "attacks": [{"name": "projection"}],
    "verdict": {"trials": 100},
    "control": False,
}


def plan(folder, *, week=1, **fields):
    """Return the plan of a release in ``folder``, with a guarantee and a budget unless given."""
    given = {
        "mechanism": LAPLACE,
        "period": {"name": f"week-{week}", "first": 0, "epochs": 48},
        "series": "places",
        "budget": BUDGET,
        "releases": f"{folder}/releases",
        "without_guarantee": fields.get("budget", BUDGET) is None,
    } | fields
    return PublishPlan.model_validate(given)


def publish(cube, made, run, gate=None, executor=None, **options):
    """Publish, and return the release as a dataset."""
    gate = None if gate is None else Gate.model_validate(gate)
    executor = executor or SerialExecutor()
    return study.run(PublishAnalysis(made, gate), cube, str(run), executor, **options)
