"""The same work done with care in NumPy, SciPy and scikit-learn."""

from dataclasses import dataclass

import numpy as np
from clock import Stopwatch
from ours import CLASSIFIERS, STEP, model_seed
from scipy.sparse import csr_array
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import RFE
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from clusterscale.contracts import Game, Labels, Members, Scores, Traces

__all__ = ["Outcome", "run_lasso", "run_pipeline", "run_principal", "trace_matrix"]

Floats = np.ndarray


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a pipeline: seconds by phase, statistics of all groups, choices, scores."""

    seconds: dict[str, float]
    statistics: Floats
    ranking: np.ndarray  # of the features: 1 is kept, the highest went first
    scores: dict[str, Scores]

    @property
    def kept(self) -> np.ndarray:
        return np.flatnonzero(self.ranking == 1)


def trace_matrix(traces: Traces) -> csr_array:
    """Return users × cells, the null ROI among them."""
    users = np.repeat(np.arange(traces.n_users), np.diff(traces.offsets))
    cells = traces.cells
    if traces.idle is not None:
        lost, epochs = np.nonzero(traces.idle)
        users = np.concatenate([users, lost])
        cells = np.concatenate([cells, traces.n_cells - traces.n_epochs + epochs])
    ones = np.ones(len(users), np.int32)
    return csr_array((ones, (users, cells)), shape=(traces.n_users, traces.n_cells))


def run_pipeline(
    visits: csr_array, n_epochs: int, training: Members, challenge: Members, labels: Labels
) -> Outcome:
    """Count, summarise, eliminate a tenth a round, fit and score; groups come ready drawn."""
    watch = Stopwatch()
    with watch.phase("draw and count"):
        samples = [count(visits, members) for members in (training, challenge)]
    with watch.phase("statistics"):
        statistics = [summarise(counts.reshape(len(counts), -1, n_epochs)) for counts in samples]
    inputs, tests = statistics
    model = LogisticRegression(solver="liblinear")
    choice = RFE(model, n_features_to_select=min(inputs.shape), step=STEP)
    watch.of("elimination", lambda: choice.fit(inputs, labels))
    scores = {}
    for name in CLASSIFIERS:
        with watch.phase(name):
            kept = choice.support_
            scores[name] = _score(_model(name).fit(inputs[:, kept], labels), tests[:, kept])
    return Outcome(watch.seconds, np.concatenate(statistics), choice.ranking_, scores)


def count(visits: csr_array, members: Members) -> np.ndarray:
    """Multiply membership by traces; with membership dense, SciPy takes half the time."""
    pool, places = np.unique(members, return_inverse=True)
    inside = np.zeros((len(pool), len(members)), np.int32)
    inside[places.reshape(members.shape), np.arange(len(members))[:, None]] = 1
    return np.ascontiguousarray((visits[pool].T @ inside).T)


def summarise(counts: np.ndarray) -> Floats:
    """Return the seven statistics in the engine's order, shape (group, roi * 7)."""
    total = counts.sum(axis=-1, dtype=np.float64)
    variance = counts.var(axis=-1)
    parts = (
        variance,
        counts.min(axis=-1),
        counts.max(axis=-1),
        np.median(counts, axis=-1),
        total / counts.shape[-1],
        np.sqrt(variance),
        total,
    )
    return np.stack(parts, axis=-1).reshape(len(counts), -1)


def run_principal(game: Game) -> tuple[float, Scores]:
    """Return seconds and scores of principal components, then logistic regression."""
    training, challenge = _flatten(game)
    watch = Stopwatch()
    with watch.phase("principal"):
        components = PCA(svd_solver="full")
        model = LogisticRegression(solver="liblinear")
        model.fit(components.fit_transform(training), game.adversary.training.labels)
        scores = model.decision_function(components.transform(challenge))
    return watch.seconds["principal"], scores


def run_lasso(game: Game) -> tuple[float, Scores]:
    """Return seconds and scores of L1 regression on all cells.

    Since scikit-learn 1.8 ``l1_ratio`` alone chooses the penalty; it must be 1.8 or newer.
    """
    training, challenge = _flatten(game)
    watch = Stopwatch()
    with watch.phase("lasso"):
        model = LogisticRegression(l1_ratio=1, solver="liblinear", random_state=0)
        model.fit(training, game.adversary.training.labels)
        scores = model.decision_function(challenge)
    return watch.seconds["lasso"], scores


def _flatten(game: Game) -> list[Floats]:
    """Convert to float64, of which the peer is not charged."""
    samples = (game.adversary.training.counts, game.challenge.counts)
    return [counts.reshape(len(counts), -1).astype(np.float64) for counts in samples]


def _model(name: str):
    if name == "logistic":
        return LogisticRegression(solver="liblinear")
    if name == "nearest":
        return KNeighborsClassifier(5)
    if name == "forest":
        return RandomForestClassifier(30, max_features=None, random_state=model_seed())
    return make_pipeline(StandardScaler(), MLPClassifier((200,), random_state=model_seed()))


def _score(model, inputs: Floats) -> Scores:
    if isinstance(model, LogisticRegression):  # probabilities round to 0 and 1, and tie
        return model.decision_function(inputs)
    return model.predict_proba(inputs)[:, 1]
