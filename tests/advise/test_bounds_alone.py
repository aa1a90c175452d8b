"""With bounds alone, nobody who keeps them is less exposed than the advised mechanism."""

import pytest
from advise.bounds_alone import compare


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
def test_the_advised_one_is_the_least_exposed_by_attacks_on_all(number, tmp_path):
    name, gap, n, _ = compare(number, tmp_path)
    assert n > 1
    assert name
    assert gap <= 0
