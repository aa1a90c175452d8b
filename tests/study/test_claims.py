"""Of several studies that claim a folder at the same time, one succeeds."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from clusterscale.errors import ExistsError, InputError
from clusterscale.study.identity import Identity, require_same_code


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


def coded(version="1.0", digest="0" * 32):
    code = {"distribution": "acme-privacy", "version": version, "digest": digest}
    return Identity("audit", "plan", "cube", code={"acme_privacy.mechanism:UniformNoise": code})


def holds(folder):
    return (folder / "result").exists()


@pytest.fixture
def claimed(tmp_path):
    coded().claim(str(tmp_path), {}, force=False)
    (tmp_path / "result").touch()
    return tmp_path


def test_results_of_the_same_code_are_kept_without_force(claimed):
    coded().claim(str(claimed), {}, force=False)
    coded().claim(str(claimed), {}, force=True, keep=True)
    assert holds(claimed)
    coded().claim(str(claimed), {}, force=True)
    assert not holds(claimed)


@pytest.mark.parametrize(
    "other", [coded("1.1"), coded(digest="1" * 32), Identity("audit", "plan", "cube")]
)
def test_results_of_other_code_are_removed_with_a_warning(other, claimed):
    with pytest.raises(ExistsError, match="holds results of other code of acme_privacy"):
        other.claim(str(claimed), {}, force=False, keep=True)
    with pytest.warns(
        UserWarning, match=r"UniformNoise \(acme-privacy 1.0 0{8} then, .* now\): they"
    ):
        other.claim(str(claimed), {}, force=False)
    assert not holds(claimed)


def test_results_of_code_that_cannot_be_read_are_not_reused(tmp_path):
    unread = coded(digest="")
    unread.claim(str(tmp_path), {}, force=False)
    (tmp_path / "result").touch()
    with pytest.warns(UserWarning, match="cannot be read now"):
        unread.claim(str(tmp_path), {}, force=False)
    assert not holds(tmp_path)


def test_a_run_of_other_code_is_not_evaluated(claimed):
    with pytest.raises(InputError, match="the audit used other code of acme_privacy"):
        require_same_code(str(claimed))
