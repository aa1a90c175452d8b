"""The dataset of advice: one row per candidate, and the advised mechanism as YAML."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clusterscale.analyses.advise.candidate import Candidate
from clusterscale.analyses.advise.choosing import Search
from clusterscale.analyses.advise.plan import Advice
from clusterscale.contracts import ConfigModel, Mechanism, names_of
from clusterscale.models import dump_yaml
from clusterscale.schema import Variable, read_variables

ADVICE_FORMAT = "clusterscale-advice"

_NUMBERS = {  # where each is in a candidate, and in its confirmation
    "released_share": "measured.released_share",
    "certified_auc": "certificate.auc",
    "certified_worst": "certificate.worst",
    "screened_loss": "screened.mean",
    "screened_share": "screened.share",
    "screened_low": "screened.low",
    "screened_high": "screened.high",
    "attacked_auc": "attacked.mean",
    "attacked_low": "attacked.low",
    "attacked_high": "attacked.high",
    "worst_auc": "attacked.worst",
    "worst_high": "attacked.worst_high",
}

ADVICE: Mapping[str, Variable] = read_variables(Path(__file__).with_name("variables.md"))
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
    return dump_yaml(plain, default_flow_style=True, width=10**6, allow_unicode=True).strip()


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
        "n_unattacked": len(searches[-1].unattacked),
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
        for name, path in _NUMBERS.items():
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
