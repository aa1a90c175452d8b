"""Certify every user of a cube on two processors: seconds, certificates and memory.

``python tests/nightly/benchmarks/certify.py CUBE [--null-roi] [--workers 2] [--first 0] [--epochs
168]``

Without a cube at the address, ten million commuters are drawn there first, which takes minutes.
"""

import argparse
import resource
import tempfile
import time

from show import sum_up

from clusterscale import study
from clusterscale.analyses.certify import Certification, CertifyAnalysis, CertifyPlan
from clusterscale.cube.synthetic import open_or_synthesise
from clusterscale.mechanisms import create
from clusterscale.runtime import Local


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cube")
    parser.add_argument("--users", type=int, default=10_000_000)
    parser.add_argument("--null-roi", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=168)
    options = parser.parse_args()
    cube = open_or_synthesise("tfl", options.cube, users=options.users, seed=1)
    certification = Certification(
        seed=1,
        null_roi=options.null_roi,
        periods=(("week", (options.first, options.first + options.epochs)),),
        group_sizes=(1000,),
        mechanisms=(create("laplace", epsilon=1.0, unit="event"),),
        plan=CertifyPlan(),
    )
    stages = {}
    with Local(workers=options.workers).open() as executor, tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()

        def tell(progress):
            stages.setdefault(progress.stage, time.perf_counter() - start)

        found = study.run(CertifyAnalysis(certification), cube, folder, executor, on_progress=tell)
        seconds = time.perf_counter() - start
        n_changed = found.n_changed.values
        worst = found.auc.sel(neighbours="add_remove").max().item()
    print(f"{cube.n_users:,} users, {cube.n_events:,} events: {seconds:.1f} s, by stage {stages}")
    print(f"changed: mean {n_changed.mean():.1f}, most {n_changed.max()}; worst AUC {worst:.4f}")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"memory of the driver: {memory:.0f} MiB")
    sum_up("certify", f"{1e6 * seconds / cube.n_users:.1f} µs a user, {memory:.0f} MiB")


if __name__ == "__main__":
    main()
