"""Results are those that were kept, whatever is renamed or moved."""

import numpy as np
import pytest
from golden.golden import CASES, KEPT, compute, differences, machine

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_figures")]


@pytest.mark.parametrize("case", CASES)
def test_results_are_those_that_were_kept(case, tmp_path):
    with np.load(KEPT) as kept:
        assert differences(kept, compute(case, tmp_path)) == []


def test_a_difference_is_seen(tmp_path):
    with np.load(KEPT) as file:
        kept = dict(file)
    found = {name: values for name, values in kept.items() if name.startswith("recovery/")}
    assert differences(kept, found) == []
    name = "recovery/profiling_error"
    changed = found | {name: np.nextafter(found[name], 2.0)}
    assert differences(kept | {"machine": np.array(machine())}, changed) == [name]
    assert differences(kept | {"machine": np.array("another")}, changed) == []
    del changed[name]
    assert differences(kept, changed) == [name]
