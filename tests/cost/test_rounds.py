"""Rounds against the printed formulas, cell by cell, and within every budget."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcast import cost
from fedcast.cost.uplink import schedule
from fedcast.errors import FedcastError
from fedcast.network.geometry import place_users
from fedcast.scenario import Scenario
from tests.cost.fleets import fleet_at, scenario

UPLINKS = ["parallel", "waves", "fractional"]


@pytest.mark.parametrize(
    ("coefficient", "model", "frequency_mhz", "round_s"),
    [(4e-26, "macro", 25.0, 6.13), (4e-26, "uma", 21.9, 7.08), (1e-28, "macro", 500, 0.43), (1e-28, "uma", 437, 0.56)],
)
def test_a_round_of_one_user_at_200_m_with_5_mj(coefficient, model, frequency_mhz, round_s):
    base = Scenario.model_validate(
        {
            "training": {"model_weights": 700_000, "bits_per_weight": 1},
            "devices": {"energy_coefficient": coefficient, "energy_budget_j": 0.005},
            "cellular": {"path_loss": model},
        }
    )
    one = cost.round_cost(fleet_at([200], base), [600])
    assert one.frequency_hz[0] == pytest.approx(frequency_mhz * 1e6, rel=2e-3)
    assert one.round_s == pytest.approx(round_s, abs=6e-3)
    assert one.energy_j[0] == pytest.approx(0.005)


def test_the_default_budget_just_reaches_the_edge_of_the_cell():
    base = Scenario.model_validate({"training": {"model_weights": 700_000, "bits_per_weight": 1}})
    one = cost.round_cost(fleet_at([1000], base), [600])
    assert one.upload_energy_j[0] == pytest.approx(29.1e-3, rel=2e-3)
    assert one.frequency_hz[0] == pytest.approx(1.180e9, rel=1e-3)
    assert one.compute_s[0] == pytest.approx(0.127, abs=5e-4)


def fleets(draw_seed, uplink, cells=True):
    rng = np.random.default_rng(draw_seed)
    base = scenario(cellular={"uplink": uplink}, geometry={"users_per_cell": 30}, devices={"energy_budget_j": 0.4})
    users = int(rng.integers(1, 150)) if cells else int(rng.integers(1, 30))
    layout = place_users(users, base.geometry, draw_seed)
    return cost.fleet_of(base, layout), rng.uniform(0, 900, users)


@pytest.mark.parametrize("uplink", UPLINKS)
@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_a_round_ends_when_the_last_cell_ends(uplink, seed):
    fleet, samples = fleets(seed, uplink)
    whole = cost.round_cost(fleet, samples)
    cells = [fleet.links.cell_of == cell for cell in np.unique(fleet.links.cell_of)]
    parts = [cost.round_cost(fleet.of(cell), samples[cell]) for cell in cells]
    assert whole.round_s == pytest.approx(max(part.round_s for part in parts), rel=2e-5)
    assert sum(whole.phases_s) == whole.round_s
    assert whole.broadcast_bytes == pytest.approx(len(cells) * 698_880 / 8)
    assert whole.uploaded_bytes == pytest.approx(len(samples) * 698_880 / 8)


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_parallel_is_the_printed_formula(seed):
    fleet, samples = fleets(seed, "parallel", cells=False)
    ours = cost.round_cost(fleet, samples)
    down = fleet.model_bits * fleet.links.down_s_per_bit
    up = fleet.model_bits * fleet.links.up_s_per_bit
    frequency = np.minimum(1.2e9, np.sqrt((0.4 - 0.01 * up) / (1e-28 * 2.5e5 * np.maximum(samples, 1e-300))))
    assert ours.round_s == pytest.approx(down.max() + (2.5e5 * samples / frequency + up).max())
    np.testing.assert_allclose(ours.frequency_hz, frequency)
    np.testing.assert_allclose(ours.energy_j, 0.01 * up + 1e-28 * 2.5e5 * samples * frequency**2)


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_waves_are_parallel_up_to_the_number_of_subcarriers(seed):
    rng = np.random.default_rng(seed)
    distances, samples = rng.uniform(0, 1000, 10), rng.uniform(0, 900, 10)
    parallel, waves = (
        cost.round_cost(fleet_at(distances, scenario(cellular={"uplink": uplink})), samples).round_s
        for uplink in ("parallel", "waves")
    )
    assert waves == parallel
    more = np.append(distances, 500.0), np.append(samples, 600.0)
    slower = cost.round_cost(fleet_at(more[0], scenario(cellular={"uplink": "waves"})), more[1]).round_s
    assert slower >= parallel


@pytest.mark.parametrize("uplink", UPLINKS)
@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_every_budget_holds(uplink, seed):
    fleet, samples = fleets(seed, uplink)
    ours = cost.round_cost(fleet, samples)
    assert np.isfinite(ours.round_s)
    assert (ours.energy_j <= fleet.devices.energy_budget_j * (1 + 1e-9)).all()
    assert (ours.frequency_hz <= fleet.devices.max_frequency_hz).all()


def test_fractional_beats_the_equal_split_it_starts_from():
    base = scenario(cellular={"uplink": "fractional"}, devices={"energy_budget_j": 1.0})
    fleet = fleet_at(np.linspace(50, 1000, 40), base)
    samples = np.linspace(900, 100, 40)
    ours = cost.round_cost(fleet, samples)
    equal = ours.broadcast_s + ours.compute_s + fleet.upload_s
    assert ours.round_s < 0.8 * equal.max()


def test_fractional_does_not_spend_the_energy_of_early_users():
    """Users that have computed early could send for long on little bandwidth, but their energy would not last."""
    base = scenario(cellular={"uplink": "fractional"}, devices={"energy_budget_j": 0.03})
    fleet = fleet_at(np.linspace(50, 700, 40), base)
    samples = np.where(np.arange(40) == 0, 6000.0, 10.0)
    ours = cost.round_cost(fleet, samples)
    unlimited = schedule(fleet.model_bits, ours.compute_s, fleet.links, fleet.cellular)
    assert (0.01 * unlimited.upload_s + ours.compute_energy_j > 0.03).any()
    assert (ours.energy_j <= 0.03 * (1 + 1e-9)).all()


def test_given_frequencies_are_kept():
    fleet = fleet_at([200, 400])
    ours = cost.round_cost(fleet, [600, 300], frequency_hz=[1e9, 5e8])
    np.testing.assert_allclose(ours.compute_s, [0.15, 0.15])
    np.testing.assert_allclose(ours.compute_energy_j, [0.015, 1e-28 * 7.5e7 * 2.5e17])


def test_who_overspends_at_a_given_frequency_sends_no_longer_than_under_an_equal_split():
    """Nothing is left of its budget for the upload, so that only the equal split bounds it: the round still ends."""
    base = scenario(cellular={"uplink": "fractional"}, devices={"energy_budget_j": 0.03})
    fleet = fleet_at([100, 300, 500, 700], base)
    ours = cost.round_cost(fleet, [6000, 10, 10, 10], frequency_hz=np.full(4, 1.2e9))
    np.testing.assert_array_equal(ours.compute_energy_j > 0.03, [True, False, False, False])
    assert ours.upload_s[0] <= fleet.upload_s[0]
    assert (ours.energy_j[1:] <= 0.03 * (1 + 1e-9)).all()
    equal = ours.broadcast_s + ours.compute_s + fleet.upload_s
    assert ours.round_s < 0.99 * equal.max()


@pytest.mark.parametrize("uplink", UPLINKS)
def test_an_infeasible_user_makes_the_round_endless_but_nothing_nan(uplink):
    base = scenario(cellular={"uplink": uplink}, devices={"energy_budget_j": 1e-3})
    fleet = fleet_at([100, 1000], base)
    ours = cost.round_cost(fleet, [600, 600])
    assert ours.round_s == np.inf
    assert ours.critical_user == 1
    for name in ("broadcast_s", "compute_s", "upload_s", "span_s", "frequency_hz", "energy_j"):
        assert not np.isnan(getattr(ours, name)).any()
    assert np.isfinite(cost.round_cost(fleet.of([0]), [600]).round_s)


def test_task():
    assert cost.task_s(2.0, 0.5, 100) == 52
    assert cost.task_s(2.0, math.inf, 100) == math.inf
    with pytest.raises(FedcastError, match="rounds"):
        cost.task_s(2.0, math.inf, 0)
