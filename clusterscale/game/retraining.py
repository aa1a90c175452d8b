"""AUCs of attacks that are trained again without some of their groups, for intervals of an AUC.

DeLong's variance is that of the challenges, for one trained attack. An adversary who draws other
groups to train on has another AUC: the jackknife over parts of the groups estimates its variance.
``tests/nightly/benchmarks/refits.py`` measures how often the intervals contain the mean AUC.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from clusterscale.attacks.base import score_groups
from clusterscale.attacks.statistics import take_groups
from clusterscale.contracts import Attack, Examples, Floats, Ints, Knowledge, Labels, Release
from clusterscale.errors import InputError
from clusterscale.metrics import auc

N_PARTS = 5
"""Parts of the training groups, each of which is left out once."""


@contextmanager
def named(attack: Attack) -> Iterator[None]:
    """Give errors of an attack its id as ``part``: other attacks on the release have not failed."""
    try:
        yield
    except Exception as error:
        error.part = attack.id  # type: ignore[attr-defined]
        raise


def refit_aucs(
    attacks: Sequence[Attack],
    knowledge: Knowledge,
    challenge: Release,
    labels: Labels,
    *,
    make_rng: Callable[..., np.random.Generator],
) -> list[Floats]:
    """Return for each attack its AUCs after training without one part of the groups, (part,).

    None (shape (0,)) for an attack that does not learn from groups; NaN where the groups that are
    left are too few to train on. ``make_rng`` returns the generator of a purpose.
    """
    training, learning = knowledge.training, [attack for attack in attacks if attack.trains]
    aucs = {attack.id: np.full(N_PARTS, np.nan) for attack in learning}
    parts = _split(training, make_rng("parts")) if learning else ()
    for part in range(N_PARTS) if learning else ():
        left = replace(knowledge, training=take_groups(training, np.flatnonzero(parts != part)))
        for attack in learning:
            with named(attack):
                try:
                    trained = attack.fit(left, rng=make_rng("refit", attack.id, part))
                except InputError:
                    continue
                aucs[attack.id][part] = auc(labels, score_groups(attack, trained, challenge))
    return [aucs.get(attack.id, np.zeros(0)) for attack in attacks]


def _split(training: Examples, rng: np.random.Generator) -> Ints:
    """Return the part of each training group; all groups of a block are in one part.

    Blocks with the target first, and those that begin without it, are dealt out in turn, so that
    parts have as many of both.
    """
    blocks, first, of_row = np.unique(training.blocks, return_index=True, return_inverse=True)
    order = np.lexsort((rng.permutation(len(blocks)), training.labels[first]))
    parts = np.empty(len(blocks), np.int64)
    parts[order] = np.arange(len(blocks)) % N_PARTS
    return parts[of_row]
