"""Fixtures of the tests that need a cluster."""

import pytest
from doubles.slurm import start_slurm


@pytest.fixture(scope="session")
def slurm():
    """The environment in which the commands of a real Slurm reach it; each test leaves it empty."""
    with start_slurm() as env:
        yield env
