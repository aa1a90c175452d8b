"""Describe a plan for notebooks; listed users are counted, not named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterscale.html_tables import Cell

if TYPE_CHECKING:
    from clusterscale.audit.plan import AuditPlan

__all__ = ["describe_plan", "describe_size"]


def describe_plan(plan: AuditPlan) -> dict[str, Cell]:
    """Return the settings of a plan by name."""
    return {
        "targets": _targets(plan),
        "group sizes": ", ".join(f"{size:,}" for size in plan.group_sizes),
        "periods": [period.label for period in plan.periods],
        "priors": [prior.label for prior in plan.priors],
        "mechanisms": [mechanism.label for mechanism in plan.mechanisms],
        "attacks": [attack.label for attack in plan.attacks],
        "results of a target": describe_size(plan),
        "controls": "yes" if plan.control else "none",
        "seed": str(plan.seed),
        "digest": plan.digest,
    }


def describe_size(plan: AuditPlan) -> str:
    """Return the number of results per target, as a product."""
    parts = (
        (len(plan.periods), "period"),
        (len(plan.priors), "prior"),
        (len(plan.group_sizes), "group size"),
        (len(plan.mechanisms), "mechanism"),
        (len(plan.attacks), "attack"),
    )
    return " × ".join(f"{n} {noun}{'' if n == 1 else 's'}" for n, noun in parts)


def _targets(plan: AuditPlan) -> str:
    targets = plan.describe()["targets"]
    return ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in targets.items())
