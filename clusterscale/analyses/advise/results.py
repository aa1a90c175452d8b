"""The dataset of advice: one row per candidate, and the advised mechanism as YAML."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import yaml

from clusterscale.analyses.advise.candidate import Candidate
from clusterscale.analyses.advise.choosing import Search
from clusterscale.analyses.advise.plan import Advice
from clusterscale.contracts import ConfigModel, Mechanism, names_of
from clusterscale.schema import TEXT, Variable, name_variables

ADVICE_FORMAT = "clusterscale-advice"

_ONE = ("mechanism",)
_EACH = ("mechanism", "measure")
_WHERE = {"": "in the search", "confirmed_": "in the confirmation"}
_NUMBERS = {  # what has it and its field there, and what it is
    "score": ("", "weighted mean of the normalised measures"),
    "released_share": (
        "measured.released_share",
        "smallest share that a release keeps of the events, or of the counts above 0",
    ),
    "certified_auc": (
        "certificate.auc",
        "AUC that no adversary exceeds, for all but the planned share of users",
    ),
    "certified_worst": ("certificate.worst", "the same, for the user who changes most counts"),
    "screened_loss": (
        "screened.mean",
        "mean privacy loss of users in the screen, strongest attack",
    ),
    "screened_share": ("screened.share", "share of users above the limit of the screen"),
    "screened_low": ("screened.low", "lower end of the interval of screened_share"),
    "screened_high": ("screened.high", "upper end of the interval of screened_share"),
    "attacked_auc": ("attacked.mean", "mean AUC over attacked users, strongest attack"),
    "attacked_low": ("attacked.low", "lower end of the interval of attacked_auc"),
    "attacked_high": ("attacked.high", "upper end of the interval of attacked_auc"),
    "worst_auc": ("attacked.worst", "largest AUC of an attacked user"),
    "worst_high": (
        "attacked.worst_high",
        "largest upper end of the interval of the AUC of an attacked user",
    ),
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
        for name, (_, text) in _NUMBERS.items()
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
    """Return the columns of the dataset; NaN where a stage was not reached."""
    aims, unknown = advice.plan.goal, np.full(len(advice.plan.goal), np.nan)
    measures = [aim.measure for aim in aims]
    found = {
        **names_of("mechanism", [candidate.mechanism for candidate in candidates]),
        **names_of("measure", measures),
        "settings": [to_yaml(candidate.mechanism) for candidate in candidates],
        "ideal": [measure.ideal for measure in measures],
        "weight": [aim.factor for aim in aims],
        "on_front": [int(candidate.on_front) for candidate in candidates],
    }

    def add(name: str, some: Sequence[Any], path: str, missing: Any = np.nan) -> None:
        found[name] = np.array([_find(one, path, missing) for one in some])

    add("reached", candidates, "reached")
    add("reason", candidates, "reason")
    add("n_groups", candidates, "measured.n_groups", 0)
    for name, missing in (("unit", ""), ("epsilon", np.nan), ("delta", np.nan)):
        add(f"guarantee_{name}", candidates, f"certificate.{name}", missing)
    for prefix, some in (("", candidates), ("confirmed_", [one.confirmed for one in candidates])):
        for name, (path, _) in _NUMBERS.items():
            add(f"{prefix}{name}", some, path)
        add(f"{prefix}utility", some, "measured.values", unknown)
        add(f"{prefix}utility_error", some, "measured.errors", unknown)
        measured = [_find(one, "measured", None) for one in some]
        found[f"{prefix}score"] = [np.nan if m is None else m.score(aims) for m in measured]
    return found


def _find(one: Any, path: str, missing: Any) -> Any:
    """Return what is at a dotted path of attributes."""
    for name in path.split("."):
        one = getattr(one, name, None)
    return missing if one is None else one
