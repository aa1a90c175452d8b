"""Seconds to open and close the local cluster, encrypted and in plain text.

Run ``python tests/nightly/benchmarks/local_start.py [REPEATS]``; the two take turns, each in its
own process.
"""

import statistics
import subprocess
import sys

from show import sum_up

CODE = """
import sys, time
from unittest import mock
import distributed
import clusterscale.runtime.clusters.local as local

PLAIN = {"protocol": "tcp://", "security": None}
real = distributed.LocalCluster

if __name__ == "__main__":
    plain = mock.patch("distributed.LocalCluster", lambda **given: real(**given | PLAIN))
    if sys.argv[1] == "plain":
        plain.start()
    began = time.perf_counter()
    with local.Local(workers=2).open():
        pass
    print(time.perf_counter() - began)
"""


def main(repeats: int = 5) -> None:
    """Print the medians."""
    seconds: dict[str, list[float]] = {"plain": [], "tls": []}
    for _ in range(repeats):
        for kind, taken in seconds.items():
            command = [sys.executable, "-c", CODE, kind]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            taken.append(float(done.stdout))
    for kind, taken in seconds.items():
        low, high = min(taken), max(taken)
        print(f"{kind:6} median {statistics.median(taken):.2f} s, {low:.2f} to {high:.2f} s")
    ratio = statistics.median(seconds["tls"]) / statistics.median(seconds["plain"])
    sum_up("local_start", f"encrypted / plain text {ratio:.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
