"""Records are read in parallel, and decoded one at a time."""

import time

import numpy as np

from clusterscale.storage.records import Records


def test_files_are_decoded_one_at_a_time(tmp_path):
    running, most = 0, 0

    def decode(plain, arrays):
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.002)  # other threads run meanwhile, if they may
        running -= 1
        return plain, int(arrays["one"].sum())

    records = Records(str(tmp_path), lambda value: (value, {"one": np.full(3, value)}), decode)
    for value in range(20):
        records.add(value)
    assert sorted(records) == [(value, 3 * value) for value in range(20)]
    assert most == 1
