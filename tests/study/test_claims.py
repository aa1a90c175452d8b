"""Of several studies that claim a folder at the same time, one succeeds."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from clusterscale.errors import ExistsError
from clusterscale.study.identity import Identity


@pytest.mark.parametrize("attempt", range(20))
def test_one_of_several_claims_succeeds(tmp_path, attempt):
    n_claims, uri = 4, str(tmp_path / "run")
    start = Barrier(n_claims)

    def claim(number):
        start.wait()
        try:
            Identity("audit", f"plan-{number}", "cube").claim(uri, {}, force=False)
        except ExistsError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(n_claims) as pool:
        messages = sorted(pool.map(claim, range(n_claims)))
    assert messages[0] == ""
    assert all("holds an audit of another plan" in message for message in messages[1:])


def test_the_same_study_may_claim_again(tmp_path):
    for _ in range(2):
        Identity("audit", "plan", "cube").claim(str(tmp_path), {}, force=False)
