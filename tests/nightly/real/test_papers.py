"""What the papers say in words, each statement by itself, as quick studies find it.

``CLUSTERSCALE_PAPERS=runs/papers pytest -m 'nightly(group="papers")' -n 0`` tests the whole studies
instead, which ``clusterscale reproduce all`` has left in that folder, and ``runs/papers/quick`` the
quick ones left there; missing results are computed. A statement passes where it holds, is skipped
where too few people leave it open, and fails where our results contradict it by more than chance,
unless its study gives the reason.
"""

import functools
import os
from pathlib import Path

import pytest

from clusterscale.config import find_studies, load_study
from clusterscale.reporting.papers import AGREES, BREAKS, EXPLAINED, NOT_REPRODUCED, OPEN

pytest.importorskip("distributed")
pytestmark = [pytest.mark.nightly(group="papers"), pytest.mark.dask, pytest.mark.timeout(7200)]

DONE = os.environ.get("CLUSTERSCALE_PAPERS")
QUICK = not DONE or Path(DONE).name == "quick"
STUDIES = {name: load_study(path, quick=QUICK) for name, path in find_studies(["all"]).items()}
STATEMENTS = [
    pytest.param(name, claim.text, id=f"{name}: {claim.text}")
    for name, study in STUDIES.items()
    for claim in study.claims
]
COMPARED = [name for name, study in STUDIES.items() if study.is_real and study.published]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Return what a study tells, computed when it is asked for first."""
    from clusterscale.papers import Cubes, reproduce
    from clusterscale.runtime import Local

    folder = Path(DONE or tmp_path_factory.mktemp("papers") / "quick")
    root = folder.parent if QUICK else folder
    data = os.environ.get("CLUSTERSCALE_DATA")
    cubes = Cubes(f"{root}/cubes", {"cabs": f"{data}/sfcabs.parquet"} if data else {})
    with Local(workers=2, memory="5GB").open() as executor:

        @functools.cache
        def tell(name):
            study = STUDIES[name]
            if not cubes.has(study):
                pytest.skip("set CLUSTERSCALE_DATA to a folder of real mobility data")
            return reproduce(name, study, cubes, f"{folder}/{name}", executor, memory=5_000_000_000)

        yield tell


@pytest.mark.parametrize(("name", "text"), STATEMENTS)
def test_statement(told, name, text):
    found = {each.text: each for each in told(name).claims}
    if text not in found:
        pytest.skip("left out of the quick study")
    kept = found[text]
    margin = f"margin {kept.margin:+.3f} ± {kept.half:.3f} ({kept.numbers})"
    print(margin)
    if kept.verdict == OPEN:
        pytest.skip(f"open: {margin}")
    if kept.verdict == BREAKS and kept.why:
        pytest.xfail(f"{kept.why}: {margin}")
    assert kept.verdict != BREAKS, margin


def test_numbers_of_the_cabs(told):
    """Most agree or are explained; of nearly all others it is said why they do not.

    A twentieth of the numbers may differ by chance, of which nothing can be said.
    """
    found = [each for name in COMPARED for each in told(name).compared]
    compared = [each for each in found if each.verdict in (AGREES, EXPLAINED, NOT_REPRODUCED)]
    others = [each for each in compared if each.verdict == NOT_REPRODUCED]
    unknown = [each for each in others if not each.why]
    for each in unknown:
        print(f"{each.item} {each.setting}: {each.paper}, ours {each.ours:.4g} ± {each.room:.2g}")
    assert len(others) < 0.2 * len(compared)
    assert len(unknown) < 0.05 * len(compared)
