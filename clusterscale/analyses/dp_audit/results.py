"""Finished evaluations of mechanisms: their records, and their variables of the dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from numpy.typing import NDArray
from pydantic import TypeAdapter

from clusterscale.analyses.dp_audit.evaluation_task import EvaluationKey, MechanismEvaluation
from clusterscale.contracts import Mechanism
from clusterscale.schema import Coordinates, empty_variable
from clusterscale.storage.records import Records

Evaluations = Mapping[EvaluationKey, MechanismEvaluation]
Arrays = dict[str, NDArray[Any]]

_EVALUATION = TypeAdapter(MechanismEvaluation)

# Variable of the dataset: field of a guarantee statement, on (period, mechanism).
_GUARANTEES = {
    "guarantee_unit": "unit",
    "guarantee_epsilon": "epsilon",
    "guarantee_delta": "delta",
    "guarantee_neighbours": "neighbours",
    "guarantee_reason": "reason",
    "sensitivity": "sensitivity",
    "sensitivity_needed": "required_sensitivity",
    "user_epsilon": "user_epsilon",
    "user_delta": "user_delta",
    "composed_epsilon": "composed_epsilon",
    "composed_delta": "composed_delta",
    "auc_ceiling": "ceiling",
}

# Variable of the dataset: field of a test result, on (period, group_size, mechanism).
_TESTS = {"epsilon_seen": "epsilon_seen", "verdict_trials": "trials", "verdict": "verdict"}


def evaluations_in(uri: str) -> Records[MechanismEvaluation]:
    """Return the evaluations that are kept in a folder, a file per period and group size."""
    return Records(
        uri,
        lambda evaluation: (asdict(evaluation), {}),
        lambda plain, _: _EVALUATION.validate_python(plain),
    )


def read_evaluations(records: Records[MechanismEvaluation]) -> Evaluations:
    """Return evaluations by key; of the same task, a success rather than a failure."""
    evaluations: dict[EvaluationKey, MechanismEvaluation] = {}
    for evaluation in records:
        if not evaluation.error or evaluation.key not in evaluations:
            evaluations[evaluation.key] = evaluation
    return evaluations


def lay_out_evaluations(
    coords: Coordinates, mechanisms: Sequence[Mechanism], evaluations: Evaluations
) -> Arrays:
    """Return guarantees, their tests and utility as variables of the dataset.

    Parameters
    ----------
    coords
        Coordinates of the dataset.
    mechanisms
        The mechanisms, in the order of their coordinate.
    evaluations
        Finished evaluations; values of others are missing.

    Returns
    -------
    dict
        Arrays on the dimensions that :data:`clusterscale.schema.RESULTS` states. Guarantees have no
        group size, because they do not depend on it.
    """
    utilities = ("utility", "utility_sd", "released_share", "random_guess")
    names = (*_GUARANTEES, "float_noise", *_TESTS, *utilities)
    variables = {name: empty_variable(coords, name) for name in names}
    variables["float_noise"][:] = [
        "yes" if mechanism.publishes_float_noise else "no" for mechanism in mechanisms
    ]
    for at, evaluation in _placed(coords, evaluations):
        if evaluation.guess:
            variables["random_guess"][at] = evaluation.guess
        for i, key in enumerate(coords["mechanism"][1].tolist()):
            if key in evaluation.guarantees:
                for name, field in _GUARANTEES.items():
                    variables[name][at[0], i] = getattr(evaluation.guarantees[key], field)
            if key in evaluation.dp_tests:
                for name, field in _TESTS.items():
                    variables[name][(*at, i)] = getattr(evaluation.dp_tests[key], field)
            if key in evaluation.utility:
                mean, spread = evaluation.utility[key]
                variables["utility"][(*at, i)] = mean
                variables["utility_sd"][(*at, i)] = spread
                variables["released_share"][(*at, i)] = evaluation.released_share[key]
    return variables


def _placed(
    coords: Coordinates, evaluations: Evaluations
) -> Iterator[tuple[tuple[int, int], MechanismEvaluation]]:
    periods, sizes = (coords[name][1].tolist() for name in ("period_id", "group_size"))
    for (period, size), evaluation in sorted(evaluations.items()):
        yield (periods.index(period), sizes.index(size)), evaluation
