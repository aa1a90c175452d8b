"""Why knowing places alone does so well in table 11 of POPETS24, and not here.

The published code scales cells on the training and the validation groups together, and leaves the
target's whole trace in the validation groups of a known subset. Cells where the target really was
then have a mean of their own, which the classifier, whose intercept is penalised, prefers.

    python tests/nightly/real/leaked_times.py [milan | cdr] [number of targets] [mean visits]

With a mean of visits, such as the 21.54 that the published code calls the true one, the adversary
assumes this in place of that of the users whom it knows (table 10).
"""

import sys
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory

import numpy as np

from clusterscale import mechanisms, priors
from clusterscale.attacks.lasso import fit_lasso
from clusterscale.contracts import GroupRequest
from clusterscale.cube.synthetic import synthesise
from clusterscale.metrics import auc
from clusterscale.priors.zero_knowledge.target_information import KnownPlaces
from clusterscale.seeds import stream

SIZE, EXACT = 1000, mechanisms.create("exact")
ALPHA = {"milan": 0.5165, "cdr": 0.45455}


@dataclass(frozen=True)
class Visits:
    """The target's places, with a mean of visits that is known from elsewhere."""

    places: KnownPlaces
    mean: float

    def assume_cells(self, population, *, rng):
        return self.places.assume_cells(population.with_mean(self.mean), rng=rng)


def people(preset, folder, n_targets):
    """Return the traces of a preset, and targets with ten visits or more, at random."""
    traces = synthesise(preset, f"{folder}/{preset}.zarr", seed=1).traces()
    active = np.flatnonzero(np.diff(traces.offsets) >= 10)
    return traces, stream(0, "targets").permutation(active)[:n_targets]


def play(traces, target, alpha, mean=None, **places):
    """Return the AUC of who knows only places: cells scaled as here, and as published."""
    games = [
        priors.create("known_subset", alpha=alpha, sampling="paired", **fields).set_up(
            GroupRequest(
                traces,
                target,
                group_size=SIZE,
                validate=True,
                rng=stream(0, "groups", int(target)),
            )
        )
        for fields in (places, {})
    ]
    adversary = games[0].adversary
    if mean:
        adversary = replace(adversary, places=Visits(adversary.places, mean))
    own, whole = (
        each.study(None, EXACT, rng=stream(0, "study", int(target)))
        for each in (adversary, games[1].adversary)
    )
    inputs, labels, challenge = own.training.release.flat, own.training.labels, games[0].challenge
    for groups in ([inputs], [inputs, whole.validation.release.flat]):
        n = sum(map(len, groups))
        centre = sum(group.sum(axis=0) for group in groups) / n
        spread = np.sqrt(sum(((group - centre) ** 2).sum(axis=0) for group in groups) / n)
        scale = np.divide(1.0, spread, out=np.ones_like(spread), where=spread > 0)
        cells, weights, _ = fit_lasso(inputs, labels, tolerance=1e-10, centre=centre, scale=scale)
        flat = challenge.counts.reshape(len(challenge), -1)
        yield auc(challenge.labels, flat[:, cells] @ (weights * scale[cells]))


def main():
    preset = sys.argv[1] if len(sys.argv) > 1 else "milan"
    n_targets = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    mean = float(sys.argv[3]) if len(sys.argv) > 3 else None
    with TemporaryDirectory() as folder:
        traces, targets = people(preset, folder, n_targets)
        for times in ("random", "greedy"):
            for top in (1, 2, 3, None):
                fields = {"knows": "rois", "top_rois": top, "times": times}
                found = [
                    [*play(traces, target, ALPHA[preset], mean, **fields)] for target in targets
                ]
                ours, published = np.mean(found, axis=0)
                print(f"{times}, {top or 'all'}: {ours:.3f} here, {published:.3f} as published")


if __name__ == "__main__":
    main()
