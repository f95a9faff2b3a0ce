import pytest

from fedcast.study.reproduce import Job, find_reproduction

_made = {}


@pytest.fixture(scope="session")
def smoke():
    """The smoke result of an id, computed once."""

    def result(name):
        if name not in _made:
            _made[name] = find_reproduction(name).data(Job("smoke"))
        return _made[name]

    return result
