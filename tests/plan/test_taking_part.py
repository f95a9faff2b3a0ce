"""Test which users a plan counts (without samples, left out, heads that send nothing), and worlds that do not fit."""

from __future__ import annotations

import numpy as np
import pytest

from fedcast.clustering import cluster
from fedcast.cost import task_cost
from fedcast.data import Population
from fedcast.errors import FedcastError
from fedcast.plan import clustering_of, make_plan
from fedcast.plan.world import make_world, sharing_cost_of
from fedcast.scenario import load_scenario, with_overrides

COUNTS = np.array([[40, 40, 40], [90, 0, 0], [0, 80, 0], [0, 0, 70], [0, 0, 0]])
MODEL_BITS = 21_840 * 32
SLOW_BPS = 1e5


def world_with_empty_user(folder, *, linked=False, up_rate_bps=1e6, down_rate_bps=5e6, budget_j=0.2):
    """Four users and an empty one, number 4, whose links to the base station are given; user 0 reaches all others."""
    links = folder / "links.csv"
    reached = [1, 2, 3, 4] if linked else [1, 2, 3]
    links.write_text("user_a,user_b,rate_bps,closeness\n" + "".join(f"0,{user},5e6,0.9\n" for user in reached))
    rows = [(user, 0.2, 1e6, 5e6) for user in range(4)] + [(4, budget_j, up_rate_bps, down_rate_bps)]
    devices = folder / "devices.csv"
    devices.write_text(
        "user,energy_budget_j,up_rate_bps,down_rate_bps\n" + "".join(f"{','.join(map(str, row))}\n" for row in rows)
    )
    files = [f"trust.links_file={links}", f"devices.devices_file={devices}"]
    people = ["data.dataset=synthetic", "data.num_users=5", "training.model=cnn", "clustering.rule=gain"]
    return make_world(load_scenario(overrides=[*people, *files]), population=Population(COUNTS, ("a", "b", "c")))


def plan_of(world):
    return make_plan(world.scenario, world=world, with_curve=False)


def test_an_empty_user_without_a_head_neither_uploads_nor_holds_up_rounds(tmp_path):
    plan = plan_of(world_with_empty_user(tmp_path, up_rate_bps=SLOW_BPS))
    assert plan.trained.tolist() == [True, True, True, True, False]
    assert plan.energy_j[4] == 0
    assert plan.round_bytes == 5 * MODEL_BITS / 8, "four uploads and a broadcast"
    assert plan.delay.upload_s == pytest.approx(plan.rounds * MODEL_BITS / 1e6)


@pytest.mark.parametrize("linked", [False, True])
def test_no_plan_is_refused_because_of_a_user_that_holds_nothing(tmp_path, linked):
    plan = plan_of(world_with_empty_user(tmp_path, linked=linked, budget_j=1e-6))
    assert not plan.trained[4]
    assert plan.head_of[4] == -1


def test_an_empty_user_with_a_head_trains_on_what_it_receives(tmp_path):
    world = world_with_empty_user(tmp_path, linked=True)
    plan = plan_of(world)
    assert plan.head_of.tolist() == [-1, 0, 0, 0, 0]
    assert plan.trained.all()
    devices = world.scenario.devices
    cycles = devices.cycles_per_sample * plan.local_epochs * plan.shared[0]
    computing_j = devices.energy_coefficient * cycles * plan.frequency_hz[4] ** 2
    assert plan.energy_j[4] == pytest.approx(computing_j + devices.power_w * MODEL_BITS / 1e6)


@pytest.mark.parametrize("slow", [{"up_rate_bps": SLOW_BPS}, {"down_rate_bps": SLOW_BPS}])
def test_nobody_waits_for_a_user_that_brings_no_samples(tmp_path, slow):
    alone = plan_of(world_with_empty_user(tmp_path))
    served = plan_of(world_with_empty_user(tmp_path, linked=True, **slow))
    assert served.head_of.tolist() == alone.head_of.tolist() == [-1, 0, 0, 0, -1]
    assert served.delay == alone.delay


def test_a_fixed_ratio_of_nothing_leaves_an_empty_member_without_work(tmp_path):
    world = world_with_empty_user(tmp_path, linked=True)
    fixed = with_overrides(world.scenario, {"allocation.method": "fixed", "allocation.fixed.ratio": 0.001})
    plan = make_plan(fixed, world=make_world(fixed, population=world.population))
    assert len(plan.heads) == 0
    assert plan.trained.tolist() == [True, True, True, True, False]
    assert plan.delay.total_s == pytest.approx(plan.leakage[0].delay_s)


def tight(*overrides):
    """Little energy: some cannot upload, some heads had better send nothing."""
    energy = ("devices.energy_coefficient=4e-26", "devices.energy_budget_j=0.03", "allocation.infeasible_users=exclude")
    people = ("data.dataset=synthetic", "data.num_users=24", "training.model=cnn", "clustering.rule=daca")
    return load_scenario(overrides=[*people, *energy, *overrides])


def test_averages_are_of_those_who_train():
    plan = make_plan(tight("devices.energy_budget_j=0.01"), with_curve=False)
    world = make_world(plan.scenario)
    counts, whole = world.population.counts, world.population.counts.sum(axis=0) / world.population.counts.sum()
    assert 0 < (~plan.trained).sum() < 24
    held_before = held_after = weighed_before = weighed_after = 0.0
    for user in np.flatnonzero(plan.trained):
        before = counts[user].astype(float)
        after, head = before.copy(), plan.head_of[user]
        if head >= 0:
            after += plan.shared[head] * counts[head] / counts[head].sum()
        held_before, held_after = held_before + before, held_after + after
        weighed_before += np.abs(before - before.sum() * whole).sum()
        weighed_after += np.abs(after - after.sum() * whole).sum()
    assert plan.emd_before == pytest.approx(weighed_before / held_before.sum())
    assert plan.emd_after == pytest.approx(weighed_after / held_after.sum())
    assert plan.shift == pytest.approx(np.abs(held_after / held_after.sum() - whole).sum())


def test_heads_that_send_nothing_are_none():
    plan = make_plan(tight("seed=2"), with_curve=False)
    world = make_world(plan.scenario)
    led = cluster(world.problem()).heads
    assert 0 < len(plan.heads) < len(led), "some were solved to 0"
    assert (plan.shared[plan.heads] > 0).all()
    assert (plan.shared > 0).sum() == len(plan.heads)
    clustering = clustering_of(world, plan)
    cost = task_cost(sharing_cost_of(world, clustering), world.fleet, clustering.after.sizes, plan.trained)
    assert (clustering.received > 0).sum() == (plan.head_of >= 0).sum()
    assert plan.delay.sharing_s + plan.rounds * cost.round.round_s == pytest.approx(plan.delay.total_s)
    assert cost.sharing.sharing_s == plan.delay.sharing_s


def test_a_world_of_another_scenario_is_refused():
    world = make_world(load_scenario(overrides=["data.num_users=30"]))
    other = with_overrides(world.scenario, {"seed": 1, "clustering.rule": "gain"})
    with pytest.raises(FedcastError, match=r"world: made from another scenario \(seed, clustering differ\)"):
        make_plan(other, world=world)


def test_a_population_of_another_size_is_refused():
    scenario = load_scenario(overrides=["data.dataset=synthetic", "data.num_users=4"])
    with pytest.raises(FedcastError, match=r"invalid value 4 for data.num_users: the population has 5 users"):
        make_world(scenario, population=Population(COUNTS, ("a", "b", "c")))
