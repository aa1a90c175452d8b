"""The dataset of advice: one row per candidate, and the advised mechanism as YAML."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import yaml

from clusterscale.analyses.advise.candidate import Candidate
from clusterscale.analyses.advise.choosing import Search
from clusterscale.analyses.advise.measuring import Measured
from clusterscale.analyses.advise.plan import Advice
from clusterscale.contracts import ConfigModel, Mechanism, names_of
from clusterscale.schema import TEXT, Variable, name_variables

ADVICE_FORMAT = "clusterscale-advice"

_ONE = ("mechanism",)
_EACH = ("mechanism", "measure")
_WHERE = {"": "in the search", "confirmed_": "in the confirmation"}
_NUMBERS = {
    "score": "weighted mean of the normalised measures",
    "released_share": "smallest share that a release keeps of the events, or of the counts above 0",
    "certified_auc": "AUC that no adversary exceeds, for all but the planned share of users",
    "certified_worst": "the same, for the user who changes most counts",
    "screened_loss": "mean privacy loss of users in the screen, strongest attack",
    "screened_share": "share of users above the limit of the screen",
    "screened_low": "lower end of the interval of screened_share",
    "screened_high": "upper end of the interval of screened_share",
    "attacked_auc": "mean AUC over attacked users, strongest attack",
    "attacked_low": "lower end of the interval of attacked_auc",
    "attacked_high": "upper end of the interval of attacked_auc",
    "worst_auc": "largest AUC of an attacked user",
    "worst_high": "largest upper end of the interval of the AUC of an attacked user",
}
_FIELDS = {
    "released_share": ("measured", "released_share"),
    "certified_auc": ("certificate", "auc"),
    "certified_worst": ("certificate", "worst"),
    "screened_loss": ("screened", "mean"),
    "screened_share": ("screened", "share"),
    "screened_low": ("screened", "low"),
    "screened_high": ("screened", "high"),
    "attacked_auc": ("attacked", "mean"),
    "attacked_low": ("attacked", "low"),
    "attacked_high": ("attacked", "high"),
    "worst_auc": ("attacked", "worst"),
    "worst_high": ("attacked", "worst_high"),
}

ADVICE: Mapping[str, Variable] = {
    **name_variables("mechanism", "candidate"),
    "settings": Variable(_ONE, TEXT, "", "settings of the candidate, as YAML"),
    **name_variables("measure", "measure of utility"),
    "ideal": Variable(("measure",), "f", "1", "value of the measure for raw counts"),
    "weight": Variable(("measure",), "f", "1", "weight of the measure in the score"),
    "reached": Variable(_ONE, TEXT, "", "last stage that the candidate took part in"),
    "reason": Variable(_ONE, TEXT, "", "why it fell out; empty if it did not"),
    "on_front": Variable(_ONE, "iu", "1", "1 if no other is both more useful and less exposed"),
    "n_groups": Variable(_ONE, "iu", "1", "groups on which utility was measured in the search"),
    "guarantee_unit": Variable(_ONE, TEXT, "", "what its guarantee protects"),
    "guarantee_epsilon": Variable(_ONE, "f", "1", "ε of its guarantee"),
    "guarantee_delta": Variable(_ONE, "f", "1", "δ of its guarantee"),
    **{
        f"{prefix}{name}": Variable(_ONE, "f", "1", f"{text}, {where}")
        for prefix, where in _WHERE.items()
        for name, text in _NUMBERS.items()
    },
    **{
        f"{prefix}{name}": Variable(_EACH, "f", "", f"{text}, {where}")
        for prefix, where in _WHERE.items()
        for name, text in {
            "utility": "mean of the measure over groups",
            "utility_error": "standard error of utility",
        }.items()
    },
}
"""Variables and coordinates of the dataset of advice."""


def to_yaml(mechanism: Mechanism | Mapping[str, Any]) -> str:
    """Return the settings of a mechanism that differ from their defaults, as one line of YAML.

    Parameters
    ----------
    mechanism
        The mechanism; or plain values, all of which are shown.

    Returns
    -------
    str
        Such as ``{name: laplace, epsilon: 1.0}``.
    """
    plain = _plain(mechanism)
    return yaml.safe_dump(
        plain, sort_keys=False, default_flow_style=True, width=10**6, allow_unicode=True
    ).strip()


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(part) for part in value]
    if not isinstance(value, ConfigModel):
        return value
    fields = type(value).model_fields
    chosen = {
        key: _plain(getattr(value, key))
        for key, field in fields.items()
        if key != "name" and getattr(value, key) != field.get_default(call_default_factory=True)
    }
    return {"name": value.name, **chosen} if "name" in fields else chosen  # type: ignore[attr-defined]


def lay_out(
    advice: Advice, searches: Sequence[Search], advised: Candidate | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns of the dataset of finished searches, and the attributes of the answer.

    A mechanism that several searches evaluated is in the state of the last one.
    """
    every = {one.id: one for search in searches for one in search.candidates}
    candidates = list(every.values())
    about = {
        "advised": "" if advised is None else advised.id,
        "yaml": "" if advised is None else f"- {to_yaml(advised.mechanism)}",
        "findings": json.dumps([] if advised is None else _findings(advice, advised)),
        "price": _price(searches, len(candidates)),
        "n_attacked": sum(one.attacked is not None for one in candidates),
        "group_size": min(searches[-1].advice.audit.group_sizes),
        "goal": "bounds" if advice.plan.by_bounds else "score",
    }
    return _columns(advice, candidates), about


def _findings(advice: Advice, advised: Candidate) -> list[str]:
    """Return what was confirmed: each limit and bound, and then the measures without a bound."""
    confirmed = advised.confirmed
    assert confirmed is not None
    measured = zip(
        advice.plan.goal, confirmed.measured.values, confirmed.measured.errors, strict=True
    )
    return [finding.text for finding in confirmed.findings(advice.plan)] + [
        f"{aim.measure.heading} {value:.3f} ± {2 * error:.3f} (raw counts {aim.measure.ideal:g})"
        for aim, value, error in measured
        if aim.bound is None
    ]


def _price(searches: Sequence[Search], n_candidates: int) -> str:
    """Return what the choice itself gives away, in words."""
    n_tried = sum(one.confirmed is not None for search in searches for one in search.candidates)
    times = "once" if n_tried == 1 else f"{n_tried} times"
    if not searches[0].confirmed_on_search_cube:
        return (
            "The mechanism was chosen on other data. The data of the confirmation were only asked "
            f"{times} whether the limits hold; that answer is not covered by any guarantee."
        )
    return (
        f"The mechanism was chosen among {n_candidates} on the data that it would "
        "publish. The choice depends on these data, and no guarantee, not even that of the "
        "mechanism, covers what it gives away. If that matters, search on synthetic or past data "
        "(--on) and only confirm on these."
    )


def _columns(advice: Advice, candidates: Sequence[Candidate]) -> dict[str, Any]:
    aims = advice.plan.goal
    rows = [_numbers(advice, candidate) for candidate in candidates]
    measures = [aim.measure for aim in aims]
    return {
        **names_of("mechanism", [candidate.mechanism for candidate in candidates]),
        **names_of("measure", measures),
        "settings": [to_yaml(candidate.mechanism) for candidate in candidates],
        "ideal": [measure.ideal for measure in measures],
        "weight": [aim.factor for aim in aims],
        "reached": [candidate.reached for candidate in candidates],
        "reason": [candidate.reason for candidate in candidates],
        "on_front": [int(candidate.on_front) for candidate in candidates],
        "n_groups": [0 if one.measured is None else one.measured.n_groups for one in candidates],
        "guarantee_unit": [
            "" if one.certificate is None else one.certificate.unit for one in candidates
        ],
        **{name: np.array([row[name] for row in rows]) for name in rows[0]},
        **_utilities("", [one.measured for one in candidates], len(aims)),
        **_utilities(
            "confirmed_",
            [None if one.confirmed is None else one.confirmed.measured for one in candidates],
            len(aims),
        ),
    }


def _utilities(prefix: str, measured: Sequence[Measured | None], n: int) -> dict[str, Any]:
    unknown = np.full(n, np.nan)
    return {
        f"{prefix}utility": np.array([unknown if m is None else m.values for m in measured]),
        f"{prefix}utility_error": np.array([unknown if m is None else m.errors for m in measured]),
    }


def _numbers(advice: Advice, candidate: Candidate) -> dict[str, float]:
    """Return the numbers of a candidate by variable; NaN where a stage was not reached."""
    values = dict[str, float]()
    for name in ("epsilon", "delta"):
        values[f"guarantee_{name}"] = getattr(candidate.certificate, name, np.nan)
    for prefix, one in (("", candidate), ("confirmed_", candidate.confirmed)):
        measured = None if one is None else one.measured
        values[f"{prefix}score"] = np.nan if measured is None else measured.score(advice.plan.goal)
        for name, (part, field) in _FIELDS.items():
            values[f"{prefix}{name}"] = getattr(getattr(one, part, None), field, np.nan)
    return values
