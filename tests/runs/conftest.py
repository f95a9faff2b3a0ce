import pytest

from fedcast import load_scenario

SMALL = [
    "data.num_users=20",
    "allocation.method=fixed",
    "clustering.rule=daca",
    "training.model=mlp",
    "training.local_epochs=1",
    "training.rounds=4",
    "training.checkpoint_every=1",
]


@pytest.fixture(scope="session")
def small():
    """A scenario whose run takes a second."""
    return load_scenario(base="digits", overrides=SMALL)
