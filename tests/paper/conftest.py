import pytest

from fedcast_paper import Job, find_reproduction

_made = {}


@pytest.fixture(scope="session")
def smoke():
    """The smoke result of an id, computed once."""

    def result(name):
        if name not in _made:
            _made[name] = find_reproduction(name).data(Job("smoke"))
        return _made[name]

    return result


@pytest.fixture
def job(tmp_path):
    """Full scale, nothing trained, an empty archive."""
    return Job("full", store=tmp_path / "runs", archive=tmp_path / "archive", only_finished=True)
