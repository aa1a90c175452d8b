"""What a verdict is about: a release of one size, and what was audited of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from math import nan
from typing import TYPE_CHECKING

from clusterscale.analyses.audit.findings import find_emptiness
from clusterscale.contracts import Reason
from clusterscale.reauditing.known_part import KnownPart
from clusterscale.reauditing.policy import Policy
from clusterscale.reporting.run import Run

if TYPE_CHECKING:
    import xarray as xr


def known_part(run: Run) -> KnownPart | None:
    """Return what is known of the people of an audit.

    Parameters
    ----------
    run
        The audit, and what was computed beside it.

    Returns
    -------
    KnownPart or None
        None if nobody is simulated among them.
    """
    about = {} if run.audit is None else json.loads(run.audit.attrs.get("cube", "{}"))
    if "n_known" not in about:
        return None
    return KnownPart(about["n_known"], about["n_users"], basis="the counts of these")


def of_size(run: Run, group_size: int | None) -> Run:
    """Return the results for groups of one size.

    Parameters
    ----------
    run
        Results for groups of one or several sizes.
    group_size
        Number of people of each group; None: any.

    Returns
    -------
    Run
        ``run`` itself if its audit has no groups of that size.
    """
    if run.audit is None or group_size not in run.audit["group_size"].values:
        return run
    found = (data for data in (run.audit, run.screen, run.certify) if data is not None)
    return Run.of((data.sel(group_size=[group_size]) for data in found), name=run.name)


def evaluate_scope(
    policy: Policy,
    audit: xr.Dataset,
    mechanism: str,
    stated: Mapping[str, int | None],
    changes: Sequence[str] = (),
) -> Iterator[Reason]:
    """Yield whether the audit is of a release of that size, and what was audited.

    Parameters
    ----------
    policy
        The limits, and the size of the release if it states one.
    audit
        Results, conforming to :data:`clusterscale.schema.RESULTS`.
    mechanism
        Label of the mechanism.
    stated
        How many people the release counts, by who says so; None: not said.
    changes
        What reading the release has added up or merged, a clause for each.

    Yields
    ------
    Reason
        ``group_size``: exposure at one size says nothing about another, because it is not monotone
        in the size. ``reading``: the audited table is not the published one. ``scope``: sizes of
        groups, periods, targets, priors and attacks, and whether the release is nearly empty.
    """
    said = {who: size for who, size in {**stated, "the policy": policy.group_size}.items() if size}
    audited = [int(size) for size in audit["group_size"].values]
    of = f"the audit is of groups of {_sizes(audited)}"
    texts = [f"{size:,} people by {who}" for who, size in said.items()]
    size = next(iter(said.values()), nan)
    wrong = ""
    if not said:
        wrong = (
            f"it is not stated how many people the release counts ({of}): state it by "
            "`--group-size`, or as `group_size` in the policy"
        )
    elif len(set(said.values())) > 1:
        wrong = f"how many people the release counts is not clear: {', '.join(texts)}"
    elif size not in audited:
        wrong = (
            f"the release counts {size:,} people, but {of}; exposure at one size says nothing "
            f"about another: audit with `group_sizes: [{size}]`"
        )
    level = policy.exposure.inconclusive if wrong else "pass"
    text = wrong or f"the release counts {size:,} people, and so do the audited groups"
    yield Reason("group_size", level, float(audited[0]) if len(audited) == 1 else nan, size, text)
    for change in changes:
        text = f"the audited table is not the published one: {change}"
        yield Reason("reading", policy.exposure.inconclusive, nan, nan, text)
    yield Reason("scope", "pass", nan, nan, _scope(audit, mechanism))


def _scope(audit: xr.Dataset, mechanism: str) -> str:
    """Return what was audited, as a clause."""
    words = find_emptiness(audit, mechanism)
    empty = {"": "is not nearly empty", "unknown": "may be nearly empty, which is not known"}
    labels = (", ".join(map(str, audit[dim].values)) for dim in ("period", "prior", "attack"))
    period, prior, attack = labels
    n = audit.sizes["target"]
    return (
        f"groups of {_sizes(audit['group_size'].values)}; period {period}; "
        f"{n} target{'s' if n > 1 else ''}; prior {prior}; attacks {attack}; "
        f"the release {empty.get(words, f'is {words}')}"
    )


def _sizes(sizes: object) -> str:
    return ", ".join(f"{int(size):,}" for size in sizes)  # type: ignore[attr-defined]
