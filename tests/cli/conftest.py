import pytest

from fedcast.cli.app import run


@pytest.fixture
def fedcast(capsys):
    def call(*words):
        code = run([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
