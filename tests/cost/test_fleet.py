"""Test the size of a model and of its upload, and that the import of costs loads no heavy package."""

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
        ({"data": {"dataset": "mnist"}, "training": {"model": "mlp"}}, 25_450 * 32),
        ({"data": {"dataset": "mnist"}, "training": {"model": "small_cnn"}}, (80 + 1_168 + 7_850) * 32),
        ({"data": {"dataset": "cifar10"}, "training": {"model": "mlp"}}, (3_072 * 32 + 32 + 330) * 32),
        ({"data": {"dataset": "synthetic"}, "training": {"model": "mlp"}}, 2_410 * 32),
        ({"training": {"model_weights": 1_663_370}}, 53_227_840),
        ({"training": {"model": "mine", "model_weights": 1000, "bits_per_weight": 16}}, 16_000),
    ],
)
def test_model_bits(sections, bits):
    assert cost.model_bits(Scenario.model_validate(sections)) == bits


@pytest.mark.parametrize(
    ("sections", "note"),
    [
        ({"data": {"dataset": "mnist"}, "training": {"model": "mlp"}}, ""),
        ({"training": {"model": "small_cnn", "model_weights": 1_898}}, ""),
        ({"training": {"model": "mine", "model_weights": 7}}, ""),
        ({"data": {"dataset": "synthetic"}, "training": {"model": "mlp"}}, "2,410 weights assumed, those of model mlp"),
        ({"training": {"model": "cnn"}}, "shape (1, 8, 8); it needs images of at least 16×16"),
        (
            {"data": {"dataset": "mnist"}, "training": {"model": "mlp", "model_weights": 2_410}},
            "training.model_weights = 2410, but model mlp has 25,450 weights on mnist",
        ),
    ],
)
def test_what_is_assumed_of_a_model_or_differs_is_noted(sections, note):
    found = cost.model_size(Scenario.model_validate(sections)).note
    assert note in found
    assert bool(note) == bool(found)


def test_the_shape_of_own_samples_is_read_from_the_header_of_their_file(tmp_path):
    path = tmp_path / "mine.npz"
    labels, test = np.arange(6) % 4, np.array([4])
    np.savez_compressed(
        path, inputs=np.zeros((6, 9, 5)), labels=labels, test_inputs=np.zeros((1, 9, 5)), test_labels=test
    )
    sections = {"data": {"dataset": "file", "file": {"path": str(path)}}, "training": {"model": "mlp"}}
    assert cost.model_size(Scenario.model_validate(sections)).counted == 46 * 32 + 33 * 5
    path.write_bytes(b"PK")
    assert cost.model_size(Scenario.model_validate(sections)).counted is None


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
