"""A small recalibrator, fitted and saved."""

import pytest

import nearcal as nc
from tests.persistence.cases import local


@pytest.fixture(scope="module")
def small():
    return local(1, 20, k=5)()


@pytest.fixture
def saved(small, tmp_path):
    nc.save(small, tmp_path / "it")
    return tmp_path / "it"
