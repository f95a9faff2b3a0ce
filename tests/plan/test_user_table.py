"""The table of a plan against plain loops and the plan's own totals."""

import builtins

import numpy as np
import pytest

from fedcast import load_scenario, make_plan, make_world
from fedcast.errors import FedcastError
from fedcast.io import save_table
from fedcast.plan import plan_table


@pytest.fixture(scope="module")
def planned():
    changes = {"data.num_users": 30, "allocation.method": "fixed", "devices.energy_budget_j": 0.02}
    changes |= {"allocation.infeasible_users": "exclude", "clustering.rule": "daca"}
    world = make_world(load_scenario(base="digits", overrides=changes))
    return make_plan(world.scenario, world=world, with_curve=False), world


def test_emd_by_a_plain_loop(planned):
    plan, world = planned
    table, counts = plan_table(plan, world), world.population.counts
    overall = counts.sum(axis=0) / counts.sum()
    for user, before in enumerate(table["emd_before"]):
        assert before == pytest.approx(np.abs(counts[user] / counts[user].sum() - overall).sum())
    alone = [user for user in range(30) if plan.head_of[user] < 0]
    assert [table["emd_after"][user] for user in alone] == [table["emd_before"][user] for user in alone]
    members = [user for user in range(30) if plan.head_of[user] >= 0]
    assert members
    assert all(table["emd_after"][user] != table["emd_before"][user] for user in members)


def test_the_slowest_user_sets_the_round(planned):
    plan, world = planned
    seconds = plan_table(plan, world)["round_s"]
    assert max(time for time in seconds if time is not None) == pytest.approx(plan.round_s)
    assert [time is not None for time in seconds] == plan.trained.tolist()


def test_rates_are_those_of_links_to_heads(planned):
    plan, world = planned
    for user, rate in enumerate(plan_table(plan, world)["rate_bps"]):
        head = plan.head_of[user]
        assert (rate is None) == (head < 0)
        if head >= 0:
            links = world.graph.links_of(user)
            assert rate == world.graph.rate_bps[links][world.graph.neighbours[links] == head]


def test_as_a_data_frame_and_as_a_file(planned, tmp_path):
    pandas = pytest.importorskip("pandas")
    plan, world = planned
    frame = plan.to_pandas(world)
    assert frame.index.tolist() == list(range(30))
    read = pandas.read_csv(save_table(plan_table(plan, world), tmp_path / "p.csv"), index_col="user")
    assert read.columns.tolist() == frame.columns.tolist()
    assert np.allclose(read["round_s"], frame["round_s"].astype(float), equal_nan=True)
    assert "emd_after" not in plan.to_pandas()


def test_without_pandas(planned, monkeypatch):
    real = builtins.__import__

    def missing(name, *rest):
        if name == "pandas":
            raise ImportError
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(FedcastError, match="a data frame needs pandas: pip install pandas"):
        planned[0].to_pandas()
