"""Test which users can take part, and the budgets that they would need."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcast import cost
from fedcast.cost.round import rounded_up
from fedcast.network.geometry import place_users
from fedcast.scenario import Scenario, preset
from tests.cost.fleets import fleet_at, scenario


def test_paper_preset_leaves_out_most_of_the_cell():
    """Uniform in a disc of 1 km, 0.7 Mbit, 5 mJ: those within 526 m can take part, 27.7 %."""
    changes = {"training": {"model_weights": 700_000, "bits_per_weight": 1}, "geometry": {"layout": "cell"}}
    paper = Scenario.model_validate({**preset("paper").model_dump(), **changes})
    layout = place_users(20_000, paper.geometry, seed=0)
    found = cost.feasibility(cost.fleet_of(paper, layout), np.full(20_000, 600))
    assert found.feasible.mean() == pytest.approx(0.277, abs=0.01)
    distance = layout.cell_distance_m()
    assert found.feasible[distance < 525.5].all()
    assert not found.feasible[distance > 526.5].any()
    assert (found.smallest_budget_j[found.infeasible_users] > 0.005).all()


@pytest.mark.parametrize("seed", range(20))
def test_default_preset_leaves_nobody_out(seed):
    base = scenario()
    fleet = cost.fleet_of(base, place_users(100, base.geometry, seed))
    assert cost.feasibility(fleet, np.full(100, 600)).feasible.all()
    assert np.isfinite(cost.round_cost(fleet, np.full(100, 600)).round_s)


@given(st.integers(0, 1000), st.sampled_from([4e-26, 1e-28]))
@settings(max_examples=30, deadline=None)
def test_the_smallest_budget_does_and_the_upload_energy_does_not(seed, coefficient):
    rng = np.random.default_rng(seed)
    distances, samples = rng.uniform(0, 1500, 12), rng.uniform(1, 900, 12)
    devices = {"energy_coefficient": coefficient, "energy_budget_j": 1e-3}
    found = cost.feasibility(fleet_at(distances, scenario(devices=devices)), samples)

    def with_budget(user, budget):
        return fleet_at(distances[[user]], scenario(devices={**devices, "energy_budget_j": float(budget)}))

    for user in found.infeasible_users:
        sample = samples[[user]]
        assert not cost.feasibility(with_budget(user, found.upload_energy_j[user]), sample).feasible[0]
        enough = with_budget(user, found.smallest_budget_j[user])
        assert cost.feasibility(enough, sample).feasible[0]
        # It computes as fast as it would today if its upload were free.
        free = cost.best_frequency_hz(enough.cycles(sample), 1e-3, 1.2e9, coefficient)
        np.testing.assert_allclose(cost.round_cost(enough, sample).frequency_hz, free, rtol=1e-6)


def test_a_user_without_data_needs_no_energy_to_compute():
    fleet = fleet_at([500, 500], scenario(devices={"energy_budget_j": 0.1}))
    exact = scenario(devices={"energy_budget_j": float(fleet.upload_energy_j[0])})
    assert cost.feasibility(fleet_at([500, 500], exact), [0, 1]).feasible.tolist() == [True, False]


def test_advice_is_rounded_up_so_that_it_does(tmp_path):
    """1,020,300 bits at 1 Mbit/s and 1 W take 1.0203 J; computing one sample at most 36 uJ."""
    file = tmp_path / "devices.csv"
    file.write_text("user,up_rate_bps,power_w\n0,1e6,1\n1,1e6,0.1\n")

    def report(budget):
        task = {"model_weights": 1_020_300, "bits_per_weight": 1}
        devices = {"devices_file": str(file), "energy_budget_j": budget}
        return cost.feasibility(fleet_at([100, 100], scenario(training=task, devices=devices)), [1, 1])

    short = report(1.02)
    assert short.explain(0) == "user 0: the upload takes 1.03 J of a budget of 1.02 J per round; 1.03 J would suffice"
    assert short.smallest_budget_j[0] == pytest.approx(1.020336)
    assert short.enough_j == 1.03
    assert report(1.03).feasible.all()
    assert report(1.03).enough_j == 0.0


@given(st.floats(1e-12, 1e12))
def test_rounding_up_is_never_below_and_never_a_whole_step_above(value):
    up = rounded_up(value)
    assert value <= up <= value * 1.01
    assert up == float(f"{up:.3g}")
    assert rounded_up(up) == up


def test_a_report_names_user_upload_budget_and_way_out():
    found = cost.feasibility(fleet_at([100, 1000], scenario(devices={"energy_budget_j": 0.005})), [600, 600])
    assert found.infeasible_users.tolist() == [1]
    assert "would suffice" not in found.explain(0)
    assert found.explain(1).startswith(
        "user 1: the upload takes 0.0291 J of a budget of 0.005 J per round; 0.0341 J would suffice"
    )
