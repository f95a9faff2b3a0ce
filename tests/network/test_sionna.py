"""38.901 UMi and UMa against NVIDIA's implementation, over random geometries.

Sionna is not among the dependencies: ``pip install sionna-no-rt`` to run this. It computes the breakpoint with
c = 299 792 458 m/s, where the standard (and ns-3, and we) take 3.0e8: its breakpoint lies 0.07 % further out, losses
beyond it are 0.006 dB lower. Both are tested: equal with its c, 0.006 dB apart with the standard's.
"""

import numpy as np
import pytest

from fedcast.network import propagation as p

pytest.importorskip("torch", reason="comparison with Sionna: torch is not installed")
pytest.importorskip("sionna.phy", reason="comparison with Sionna: pip install sionna-no-rt")

import torch
from sionna.phy.channel.tr38901 import PanelArray, UMaScenario, UMiScenario

SIONNA_LIGHT_SPEED_M_S = 299_792_458.0
USERS = 5000
CARRIERS_HZ = [0.7e9, 2e9, 3.5e9, 28e9, 73e9]
SCENARIOS = {"umi": (p.UMI, UMiScenario, 10.0, 22.5), "uma": (p.UMA, UMaScenario, 25.0, 12.9)}


def geometries(seed, max_height_m):
    """Distances on the ground from 10 m to 5 km, logarithmic; heights from 1.5 m."""
    rng = np.random.default_rng(seed)
    distance = 10 ** rng.uniform(1, np.log10(5000), USERS)
    angle, height = rng.uniform(0, 2 * np.pi, USERS), rng.uniform(1.5, max_height_m, USERS)
    return distance, height, np.stack([distance * np.cos(angle), distance * np.sin(angle), height], axis=-1)


def theirs(scenario_class, carrier_hz, base_height_m, places, los):
    antenna = PanelArray(
        num_rows_per_panel=1,
        num_cols_per_panel=1,
        polarization="single",
        polarization_type="V",
        antenna_pattern="omni",
        carrier_frequency=carrier_hz,
        precision="double",
        device="cpu",
    )
    scenario = scenario_class(carrier_hz, "low", antenna, antenna, "downlink", precision="double", device="cpu")
    zeros = torch.zeros(1, len(places), 3, dtype=torch.float64)
    station = torch.tensor([[[0.0, 0.0, base_height_m]]], dtype=torch.float64)
    scenario.set_topology(
        torch.tensor(places[None], dtype=torch.float64),
        station,
        zeros,
        torch.zeros(1, 1, 3, dtype=torch.float64),
        zeros,
        torch.zeros(1, len(places), dtype=torch.bool),
        los=los,
    )
    return scenario


def ours(function, scenario, distance, carrier_hz, base_height_m, heights):
    triples = zip(distance, heights, strict=True)
    return np.array([float(function(scenario, d, carrier_hz, base_height_m, h)) for d, h in triples])


@pytest.mark.parametrize("carrier_hz", CARRIERS_HZ)
@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("los", [True, False])
def test_path_loss(monkeypatch, name, carrier_hz, los):
    scenario, scenario_class, base_height_m, max_height_m = SCENARIOS[name]
    distance, heights, places = geometries(int(carrier_hz / 1e8), max_height_m)
    sionna = theirs(scenario_class, carrier_hz, base_height_m, places, los).basic_pathloss[0, 0].numpy()
    function = p.los_loss_db if los else p.nlos_loss_db
    standard = np.abs(ours(function, scenario, distance, carrier_hz, base_height_m, heights) - sionna)
    monkeypatch.setattr(p, "_STANDARD_LIGHT_SPEED_M_S", SIONNA_LIGHT_SPEED_M_S)
    same_speed = np.abs(ours(function, scenario, distance, carrier_hz, base_height_m, heights) - sionna)
    print(f"largest difference {standard.max():.2e} dB, with Sionna's c {same_speed.max():.2e} dB")  # shown by -rP
    assert same_speed.max() < 1e-9
    assert standard.max() < 0.0062
    assert np.median(standard) < 0.0058


@pytest.mark.parametrize("name", SCENARIOS)
def test_line_of_sight_probability(name):
    scenario, scenario_class, base_height_m, _ = SCENARIOS[name]
    distance, heights, places = geometries(7, 22.5)  # also users above 13 m, whom UMa sees more often
    sionna = theirs(scenario_class, 3.5e9, base_height_m, places, "random").los_probability[0, 0].numpy()
    pairs = zip(distance, heights, strict=True)
    difference = np.abs(np.array([float(p.los_probability(scenario, d, h)) for d, h in pairs]) - sionna)
    print(f"largest difference {difference.max():.2e}")  # shown by -rP
    assert difference.max() < 1e-12
