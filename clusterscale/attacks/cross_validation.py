"""The choice of an attack by cross-validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field, Strict

from clusterscale.attacks.base import ATTACKS, BaseAttack, score_groups
from clusterscale.attacks.learned import Forest, Logistic, Nearest, Perceptron, draw_seed
from clusterscale.contracts import Attack, AttackSeconds, Distinguisher, Examples, Ints, Knowledge
from clusterscale.errors import InputError

if TYPE_CHECKING:
    Candidates = tuple[Attack, ...]
else:
    Candidates = Annotated[
        tuple[ATTACKS.field(skip="cross_validated"), ...],
        Strict(False),
        Field(min_length=1, max_length=20),
    ]


class CrossValidated(BaseAttack):
    """The best of several attacks, by cross-validation on the training releases alone.

    The papers' "best" is the attack of highest AUC on the challenges. No adversary can know it, and
    its AUC is biased upwards, more so the more attacks are tried. Here each candidate is trained on
    all ``folds`` but one and scored on that one, with no block on both sides; the candidate of
    highest mean AUC (the first if tied) is then trained on everything.

    Attributes
    ----------
    candidates
        Attacks to choose from.
    folds
        Number of folds.
    """

    name: Literal["cross_validated"] = "cross_validated"
    seconds = AttackSeconds(0.0, 0.0, group=1.6e-3, pair=5e-6, statistics=True)
    candidates: Candidates = (Logistic(), Nearest(), Forest(), Perceptron())
    folds: Annotated[int, Strict(), Field(ge=2, le=10)] = 2

    @property
    def _label(self) -> str:  # with the candidates where they are not the papers' four
        given = self.model_dump(exclude={"name", "title", "candidates"}, exclude_defaults=True)
        fields = [f"{key}={value!r}" for key, value in given.items()]
        if self.candidates != type(self).model_fields["candidates"].default:
            fields.insert(0, " | ".join(candidate.label for candidate in self.candidates))
        return f"{self.name}({', '.join(fields)})" if fields else self.name

    @property
    def needs_whereabouts(self) -> bool:  # type: ignore[override]
        """Whether any candidate needs to know where the target was."""
        return any(candidate.needs_whereabouts for candidate in self.candidates)

    @property
    def validates(self) -> bool:  # type: ignore[override]
        """Whether any candidate uses validation groups."""
        return any(candidate.validates for candidate in self.candidates)

    def _fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> Distinguisher:
        return self.choose(knowledge, rng=rng).fit(knowledge, rng=rng)

    def choose(self, knowledge: Knowledge, *, rng: np.random.Generator) -> Attack:
        """Return the candidate of highest mean AUC over the folds."""
        from sklearn.metrics import roc_auc_score

        scores = np.zeros(len(self.candidates))
        for learn, check in self.split(knowledge.training, rng=rng):
            part = Knowledge(knowledge.training.take(learn), knowledge.whereabouts)
            held_out = knowledge.training.take(check)
            for i, candidate in enumerate(self.candidates):
                fold_scores = score_groups(
                    candidate, candidate.fit(part, rng=rng), held_out.release
                )
                scores[i] += roc_auc_score(held_out.labels, np.nan_to_num(fold_scores))
        return self.candidates[int(np.argmax(scores))]

    def split(self, training: Examples, *, rng: np.random.Generator) -> list[tuple[Ints, Ints]]:
        """Return the training and the check rows of each fold; blocks are never split.

        Raises
        ------
        InputError
            If there are fewer blocks with the target, or without, than folds.
        """
        sides = (training.labels, ~training.labels)
        n_blocks = min(len(np.unique(training.blocks[side])) for side in sides)
        if n_blocks < self.folds:
            raise InputError(
                f"{self.name}: {self.folds} folds need as many groups with the target and without, "
                f"but there are only {n_blocks} of one kind"
            )
        from sklearn.model_selection import StratifiedGroupKFold

        folds: Any = StratifiedGroupKFold(self.folds, shuffle=True, random_state=draw_seed(rng))
        return list(folds.split(training.labels, training.labels, training.blocks))
