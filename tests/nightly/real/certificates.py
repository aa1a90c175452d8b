"""Measured ≤ true ≤ certified on real and synthetic people, by mechanism.

``python tests/nightly/real/certificates.py CUBE [--group-size 100] [--targets 24] [--epochs 168]``

For every mechanism: lower limits of the AUCs of all audited people, and of their mean, against the
ceilings. Two mechanisms are
broken: they state Laplace noise of a scale, and draw half and a quarter of it.
"""

import argparse
import tempfile
from typing import Literal

import clusterscale as cs
from clusterscale.analyses.audit import AuditPlan
from clusterscale.mechanisms.noisy_counts import Laplace
from clusterscale.reporting import open_run
from clusterscale.reporting.certificates import read_brackets
from clusterscale.runtime import Local

EVENT = {"unit": "event"}
MECHANISMS = [
    {"name": "exact"},
    {"name": "laplace", "epsilon": 0.05, **EVENT},
    {"name": "laplace", "epsilon": 0.2, **EVENT},
    {"name": "laplace", "epsilon": 1.0, **EVENT},
    {"name": "laplace", "epsilon": 0.2, **EVENT, "discrete": True},
    {"name": "laplace", "epsilon": 0.2, **EVENT, "clip": True, "integers": "round"},
    {"name": "laplace", "epsilon": 1.0},
    {"name": "gaussian", "epsilon": 1.0, "delta": 0.01},
    {"name": "fourier", "epsilon": 1.0, "coefficients": 10},
    {"name": "randomized_response", "p": 0.9},
    {"name": "sample_events", "remove": 0.9},
    {"name": "round_to_base", "base": 10},
    {"name": "threshold", "k": 5},
    {
        "name": "chain",
        "steps": [
            {"name": "sample_events", "remove": 0.5},
            {"name": "laplace", "epsilon": 0.2, **EVENT},
        ],
    },
    {
        "name": "chain",
        "steps": [
            {"name": "laplace", "epsilon": 0.2, **EVENT},
            {"name": "suppress_small", "below": 5},
        ],
    },
]


class QuietLaplace(Laplace):
    """Broken: it states Laplace noise, and draws less.

    Attributes
    ----------
    share
        Share of the stated noise that is drawn, e.g. ``0.5``.
    """

    name: Literal["quiet_laplace"] = "quiet_laplace"
    share: float = 0.5

    def _draw(self, n, rng):
        return super()._draw(n, rng) * self.share


cs.register(QuietLaplace)
BROKEN = [
    {"name": "quiet_laplace", "epsilon": 0.05, **EVENT, "share": share} for share in (0.5, 0.25)
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cube")
    parser.add_argument("--group-size", type=int, default=100)
    parser.add_argument("--targets", type=int, default=24)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=168)
    parser.add_argument("--challenges", type=int, default=200)
    options = parser.parse_args()
    cube = cs.TraceCube(options.cube)
    plan = AuditPlan(
        seed=1,
        null_roi=False,
        targets={"random": options.targets},
        periods=[{"name": "period", "first": options.first, "epochs": options.epochs}],
        priors=[
            {
                "name": "known_subset",
                "alpha": 0.5,
                "training": 100,
                "challenges": options.challenges,
            }
        ],
        group_sizes=[options.group_size],
        mechanisms=[*MECHANISMS, *BROKEN],
        attacks=[{"name": "likelihood"}, {"name": "projection"}, {"name": "logistic"}],
        verdict={"trials": 40},
        utility={"groups": 2},
    )
    with tempfile.TemporaryDirectory() as folder, Local().open() as executor:
        cs.certify(plan, cube, folder, executor, progress=False)
        cs.audit(plan, cube, folder, executor, progress=False)
        run, _ = open_run(folder)
        print(f"{cube.n_users:,} users, groups of {options.group_size}, {options.epochs} epochs")
        print("| mechanism | at least | certified | mean | certified | smallest p | exceeded |")
        print("|---|---|---|---|---|---|---|")
        cases = read_brackets(run)
        for case in cases:
            one = case.bracket
            print(
                f"| {case.mechanism} | {one.low:.3f} | {one.certified:.3f} | "
                f"{one.mean_low:.3f} | {one.mean_certified:.3f} | {one.smallest_p:.2g} | "
                f"{'yes' if one.is_violated else 'no'} |"
            )
        sound = [case for case in cases if "quiet" not in case.mechanism]
        print(f"sound mechanisms: {sum(case.bracket.is_violated for case in sound)} of ", end="")
        print(f"{len(sound)} exceeded")


if __name__ == "__main__":
    main()
