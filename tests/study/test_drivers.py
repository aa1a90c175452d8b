"""The second of two drivers on a folder is refused; the next takes over from one that died."""

import json
import os

import pytest
from study.toy import Toy

from clusterscale import storage, study
from clusterscale.errors import ExistsError, StoreError
from clusterscale.runtime import SerialExecutor
from clusterscale.storage.lease import Lease, LostLeaseError

ABOUT = {"id": "other", "host": "far", "boot": "b", "process": 1, "beat": 0, "ended": False}


def run(cube, folder, **options):
    return study.run(Toy(), cube, folder, SerialExecutor(), **options)


@pytest.mark.parametrize("force", [False, True])
def test_a_second_driver_is_refused_by_name_and_changes_nothing(force, cube, tmp_path):
    run(cube, tmp_path).close()
    before = {path for path in tmp_path.rglob("*") if "lease" not in path.parts}
    with (
        Lease(f"{tmp_path}/toy/lease", beat=0.05),
        pytest.warns(UserWarning, match=rf"process {os.getpid()} was at work on .*: waiting"),
        pytest.raises(StoreError, match=rf"process {os.getpid()} has been at work on .*/toy since"
        r" \d{4}-\d\d-\d\d \d\d:\d\d UTC: repeat the command when it has ended, or choose another")
    ):  # fmt: skip
        run(cube, tmp_path, force=force)
    assert {path for path in tmp_path.rglob("*") if "lease" not in path.parts} == before
    run(cube, tmp_path, force=force).close()


def test_a_driver_elsewhere_that_gives_no_sign_of_life_is_waited_for(cube, tmp_path, monkeypatch):
    monkeypatch.setitem(Lease.__init__.__kwdefaults__, "patience", 0.01)
    storage.put(f"{tmp_path}/toy/lease/00000001.json", json.dumps(ABOUT).encode())
    with pytest.warns(UserWarning, match="far, process 1 was at work on"):
        run(cube, tmp_path).close()
    assert storage.list_names(f"{tmp_path}/toy/lease") == ["00000002.json"]


def test_nothing_is_left_in_a_folder_of_something_else(cube, tmp_path):
    storage.put(f"{tmp_path}/toy/letter.txt", b"mine")
    with pytest.raises(ExistsError, match="holds something else"):
        run(cube, tmp_path)
    assert storage.list_names(f"{tmp_path}/toy") == ["letter.txt"]


def test_a_store_that_cannot_create_files_exclusively_is_used_with_a_warning(
    cube, tmp_path, monkeypatch
):
    def refuse(uri, content):
        raise StoreError("this store cannot create a file exclusively")

    monkeypatch.setattr(storage, "put_new", refuse)
    with pytest.warns(UserWarning, match="toy: no one can tell whether another process is at work"):
        run(cube, tmp_path).close()
    assert "results.zarr" in storage.list_names(f"{tmp_path}/toy")


def test_a_driver_whose_lease_was_taken_over_starts_no_further_stage(cube, tmp_path):
    class Slow(Toy):
        def stages(self, job):
            storage.put(f"{job.uri}/lease/00000009.json", json.dumps(ABOUT).encode())
            return super().stages(job)

    with pytest.raises(LostLeaseError, match="another process took over"):
        study.run(Slow(), cube, tmp_path, SerialExecutor())
    assert "done" not in storage.list_names(f"{tmp_path}/toy")
