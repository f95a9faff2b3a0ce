"""The size of a model, and what an import costs."""

import subprocess
import sys

import numpy as np
import pytest

from fedcast import cost
from fedcast.errors import ScenarioError
from fedcast.scenario import Scenario
from tests.cost.fleets import fleet_at, scenario


@pytest.mark.parametrize(
    ("sections", "bits"),
    [
        ({"training": {"model": "cnn"}}, 698_880),
        ({"data": {"dataset": "mnist"}}, 698_880),
        ({"data": {"dataset": "cifar10"}}, 14_728_266 * 32),
        ({"data": {"dataset": "digits"}}, 1_898 * 32),
        ({"training": {"model_weights": 1_663_370}}, 53_227_840),
        ({"training": {"model": "mine", "model_weights": 1000, "bits_per_weight": 16}}, 16_000),
    ],
)
def test_model_bits(sections, bits):
    assert cost.model_bits(Scenario.model_validate(sections)) == bits


def test_an_unknown_model_is_refused_with_the_way_out():
    with pytest.raises(ScenarioError, match=r"invalid value 'mine' for training.model: .*training.model_weights"):
        cost.model_bits(Scenario.model_validate({"training": {"model": "mine"}}))


def test_epochs_and_cycles_multiply():
    fleet = fleet_at([100, 200], scenario(training={"model": "cnn", "local_epochs": 3}))
    np.testing.assert_allclose(fleet.cycles([2, 4]), [1.5e6, 3e6])


def test_importing_costs_pulls_in_nothing_heavy():
    heavy = "{'scipy', 'numba', 'torch', 'pyarrow', 'matplotlib'}"
    code = f"import sys, fedcast.cost, fedcast.network.sidelink; sys.exit(str({heavy} & set(sys.modules) or ''))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_scaffold_sends_its_control_variates_along():
    """Twice the bits per user and direction: bytes and delays of download and upload double, computing stays."""
    plain, doubled = (
        cost.round_cost(fleet_at([100, 800], scenario(training={"model": "cnn", "algorithm": name})), [600, 600])
        for name in ("fedavg", "scaffold")
    )
    assert plain.uploaded_bytes == 2 * 698_880 / 8
    assert doubled.uploaded_bytes == 2 * plain.uploaded_bytes
    assert doubled.broadcast_bytes == 2 * plain.broadcast_bytes
    np.testing.assert_allclose(doubled.upload_s, 2 * plain.upload_s)
    np.testing.assert_allclose(doubled.broadcast_s, 2 * plain.broadcast_s)
    np.testing.assert_allclose(doubled.upload_energy_j, 2 * plain.upload_energy_j)
