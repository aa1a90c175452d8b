"""Attacks and the distinguishability game, on arrays of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from clusterscale import contracts
from clusterscale.api import arrays
from clusterscale.attacks.base import ATTACKS, score_groups
from clusterscale.contracts import Attack, Mechanism, Traces
from clusterscale.cube.bounds import measure_bounds
from clusterscale.errors import ConfigError, InputError
from clusterscale.game import Outcome
from clusterscale.game import play as play_game
from clusterscale.groups import count_visits
from clusterscale.mechanisms import MECHANISMS
from clusterscale.priors.auxiliary import AuxiliaryDataAdversary
from clusterscale.seeds import stream

Named = Mapping[str, Any] | str
_LEAST = 10  # challenge groups of each kind


def attack(
    releases: ArrayLike | xr.DataArray,
    labels: ArrayLike,
    challenge: ArrayLike | xr.DataArray,
    attack: Attack | Mapping[str, Any] | str = "logistic",
    *,
    group_size: int,
    mechanism: Mechanism | Mapping[str, Any] | str | None = None,
    blocks: ArrayLike | None = None,
    whereabouts: contracts.TargetKnowledge | None = None,
    seed: int = 0,
) -> xr.Dataset:
    """Train an attack on labelled releases, and score challenge releases.

    Parameters
    ----------
    releases
        Published values of training groups, shape (group, roi, epoch), visits.
    labels
        Bool, shape (group,): whether the target is in each training group.
    challenge
        Published values of other groups, shape (group, roi, epoch), of the same regions, epochs
        and group size.
    attack
        An object, a name, or a mapping with a name and settings; :mod:`clusterscale.attacks` lists
        them.
    group_size
        Members of each group.
    mechanism
        What the publisher says about how the values were made; None: nothing, as for most attacks.
    blocks
        Integers, shape (group,): training groups that share members have the same number, so that
        one is not used to validate what was learnt from another. None: all differ.
    whereabouts
        What the adversary knows of the target and of other users; only some attacks need it.
    seed
        Root seed of the attack.

    Returns
    -------
    xr.Dataset
        Over ``group``, the challenges: ``score``, float64, higher = more likely inside, and
        ``says_inside``, bool, whether it is at least ``attrs["threshold"]``, which was chosen in
        training.

    Raises
    ------
    InputError
        If shapes do not fit, a value is NaN or infinite, no training group has the target or none
        lacks it, or the attack needs ``whereabouts``.
    ConfigError, UnknownNameError
        If there is no such attack or mechanism.
    """
    chosen = arrays.make(ATTACKS, attack)
    declared = None if mechanism is None else arrays.make(MECHANISMS, mechanism)
    inside = arrays.read_labels(labels)
    examples = contracts.Examples(
        arrays.read_releases(releases, group_size, declared, "releases"),
        inside,
        np.arange(len(inside)) if blocks is None else np.asarray(blocks),
    )
    rng = stream(seed, "attack", chosen.id)
    trained = chosen.fit(contracts.Knowledge(examples, whereabouts), rng=rng)
    asked = arrays.read_releases(challenge, group_size, declared, "challenge")
    scores = score_groups(chosen, trained, asked)
    threshold = float(trained.threshold)
    return xr.Dataset(
        {"score": ("group", scores), "says_inside": ("group", scores >= threshold)},
        attrs={"attack": chosen.label, "threshold": threshold},
    )


def play(
    traces: Traces | ArrayLike | xr.DataArray,
    target: int,
    training: ArrayLike,
    challenge: ArrayLike,
    mechanisms: Sequence[Mechanism | Named] = ("exact",),
    attacks: Sequence[Attack | Named] = ("logistic",),
    *,
    reference: ArrayLike | None = None,
    days: ArrayLike | None = None,
    control: bool = True,
    seed: int = 0,
) -> xr.Dataset:
    """Play the distinguishability game for one target on groups of one's own.

    The adversary has the training groups, with their labels, published by the same mechanism; it
    must say which challenge groups contain the target.

    Parameters
    ----------
    traces
        Bool or 0 and 1, shape (user, roi, epoch): who was where; or
        :class:`~clusterscale.contracts.Traces`.
    target
        Row of the target.
    training, challenge
        Rows of users, shape (group, member), distinct within a group; all groups have the same
        size. Some must contain the target and some not; among the challenges at least 10 of each.
    mechanisms, attacks
        Objects, names, or mappings with a name and settings. All pairs are played.
    reference
        Rows of users whose traces the adversary knows; with it, it also knows the target's own
        trace. None: the adversary knows groups only, and attacks that need more are refused.
    days
        Int, shape (epoch,), not decreasing: number of the local day of each epoch, for mechanisms
        whose unit is a day of a user. None: all epochs are of one day.
    control
        Also attack with shuffled labels: ``control_auc`` should be about ½.
    seed
        Root seed of noise and attacks.

    Returns
    -------
    xr.Dataset
        Over (mechanism, attack): ``auc``, ``auc_low`` and ``auc_high`` (95 % interval),
        ``privacy_loss`` = max(0, 2 auc − 1), ``accuracy``, ``tpr`` at a false positive rate of .1,
        ``epsilon_lower``, ``control_auc``, ``naive_auc`` and ``n_challenges``, as in
        :data:`clusterscale.schema.RESULTS`. ``epsilon_lower`` is NaN if a challenge group is also
        a training group: the adversary may then recognise it whoever is inside.

    Raises
    ------
    InputError
        If a row or a shape is wrong, groups are too few, or an attack needs ``reference``.
    ConfigError, UnknownNameError
        If there is no such mechanism or attack, a mechanism changes traces before counting, or it
        does not fit the groups, or uses weights and ``traces`` have none.
    """
    users = traces if isinstance(traces, Traces) else arrays.read_traces(traces)
    users.check_user(target)
    known = arrays.read_groups(users, training, "training")
    asked = arrays.read_groups(users, challenge, "challenge")
    if known.shape[1] != asked.shape[1]:
        raise InputError(
            f"training groups have {known.shape[1]} members, but challenge groups {asked.shape[1]}"
        )
    size = known.shape[1]
    publishers = tuple(arrays.make(MECHANISMS, one) for one in mechanisms)
    chosen = tuple(arrays.make(ATTACKS, one) for one in attacks)
    _check_parts(users, size, publishers, chosen, has_reference=reference is not None)
    whereabouts = None if reference is None else _whereabouts(users, target, reference)
    known_sets, asked_sets = (set(map(frozenset, rows.tolist())) for rows in (known, asked))
    samples = [
        arrays.count_groups(users, target, rows, name, least)
        for rows, name, least in ((known, "training", 1), (asked, "challenge", _LEAST))
    ]
    game = contracts.Game(
        group_size=size,
        adversary=AuxiliaryDataAdversary(size, samples[0], whereabouts),
        challenge=samples[1],
        reuses_training_groups=bool(known_sets & asked_sets),
    )
    of_epoch = np.zeros(users.n_epochs, np.int64) if days is None else np.asarray(days, np.int64)
    outcomes = play_game(
        game,
        publishers,
        chosen,
        seed=seed,
        path=("play",),
        bounds=measure_bounds(users, of_epoch),
        control=control,
    )
    return _dataset(list(outcomes), publishers, chosen)


def _whereabouts(traces: Traces, target: int, reference: ArrayLike) -> contracts.TargetKnowledge:
    rows = np.unique(arrays.read_rows(traces, reference, "reference", 1))
    occupancy = count_visits(traces, rows[None])[0]
    weights = None
    if traces.weights is not None:  # as if the target were one of the reference
        own, others = traces.weight(target), traces.weights[rows[rows != target]]
        weights = own, own + float(others.sum()) * (len(rows) - 1) / max(len(others), 1)
    return contracts.TargetKnowledge(traces.trace(target), True, occupancy, len(rows), weights)


def _check_parts(
    traces: Traces,
    size: int,
    mechanisms: Sequence[Mechanism],
    attacks: Sequence[Attack],
    *,
    has_reference: bool,
) -> None:
    """Raise an error if a mechanism or an attack cannot be used on these groups."""
    for mechanism in mechanisms:
        if mechanism.trace_steps:
            raise ConfigError(
                f"{mechanism.label} changes traces before they are counted: apply it to the "
                "traces, or run an audit of a cube"
            )
        if mechanism.uses_weights and traces.weights is None:
            raise ConfigError(
                f"{mechanism.label} uses the weights of users: give `traces` as "
                "clusterscale.contracts.Traces with weights"
            )
        mechanism.check(group_size=size, n_rois=traces.n_rois, n_epochs=traces.n_epochs)
    for one in attacks:
        if one.needs_whereabouts and not has_reference:
            raise InputError(
                f"{one.name} needs the locations of the target and of other users: give `reference`"
            )


def _dataset(
    outcomes: Sequence[Outcome], mechanisms: Sequence[Mechanism], attacks: Sequence[Attack]
) -> xr.Dataset:
    shape, dims = (len(mechanisms), len(attacks)), ("mechanism", "attack")
    names = ("auc", "auc_low", "auc_high", "accuracy", "tpr", "epsilon_lower", "control_auc")
    found: dict[str, Any] = {
        name: (dims, np.array([getattr(item, name) for item in outcomes]).reshape(shape))
        for name in (*names, "naive_auc", "n_challenges")
    }
    found["privacy_loss"] = (dims, np.maximum(0.0, 2 * found["auc"][1] - 1))
    coords = {
        key: (dim, np.array(values, object))
        for dim, items in (("mechanism", mechanisms), ("attack", attacks))
        for key, values in contracts.names_of(dim, items).items()
    }
    return xr.Dataset(found, coords=coords)
