"""Bottlenecks, recomputed: by plain loops over users, and by trying all volumes."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from fedcast import load_scenario, make_plan, make_world
from fedcast.allocation import evaluate, make_allocation_problem
from fedcast.plan import clustering_of, find_bottlenecks, link_rates_bps, saved
from fedcast.plan.bottleneck import Bottleneck, Bottlenecks, TaskDelays
from fedcast.rounds import load_rounds
from fedcast.scenario import with_overrides

COUNTS = "user,cat,dog,fox\nhall,40,40,40\ngate,90,0,0\nyard,0,80,0\nroof,0,0,70\nlab,30,30,0\nshop,0,60,0\n"
LINKS = "user_a,user_b,rate_bps,closeness\nhall,gate,5e6,0.9\nhall,yard,4e6,0.8\nhall,roof,4e5,0.7\nlab,shop,6e5,0.9\n"
DEVICES = (
    "user,max_frequency_hz,energy_budget_j,up_rate_bps,down_rate_bps\n"
    "hall,1.2e9,0.9,9e5,4e6\ngate,0.8e9,0.5,4e5,5e6\nyard,1.2e9,0.4,6e5,3e6\n"
    "roof,1.0e9,0.6,2e5,4e6\nlab,1.2e9,0.10,5e5,6e6\nshop,1.4e9,0.5,7e5,2e6\n"
)
EPOCHS = (1, 2)
USERS = ["hall", "gate", "yard", "roof", "lab", "shop"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for name, text in (("counts", COUNTS), ("links", LINKS), ("devices", DEVICES)):
        (folder / f"{name}.csv").write_text(text)
    own = [
        "data.dataset=synthetic", f"data.synthetic.counts_file={folder / 'counts.csv'}", "clustering.rule=gain",
        f"trust.links_file={folder / 'links.csv'}", f"devices.devices_file={folder / 'devices.csv'}",
        f"training.local_epochs={list(EPOCHS)}", "rounds.target_accuracy=0.95", "devices.cycles_per_sample=2e6",
        "rounds.beta_samples=40", "data.bits_per_sample=1e5",
    ]  # fmt: skip
    world = make_world(load_scenario(overrides=own))
    plan = make_plan(world.scenario, world=world, with_curve=False, compare_rules="no")
    assert sorted(plan.names[plan.heads]) == ["hall", "lab"]
    return plan, world, find_bottlenecks(plan, world)


def seconds_of_round(plan, world, user: int, **changes: float) -> tuple[float, float, float]:
    """Download, compute and upload of a user, by the formulas alone; the plan's samples and epochs."""
    rows = [dict(zip(DEVICES.split("\n")[0].split(","), row.split(","), strict=True)) for row in DEVICES.split()[1:]]
    own = {name: float(value) for name, value in rows[user].items() if name != "user"}
    own = {name: value * changes.get(name, 1.0) for name, value in own.items()}
    bits = world.fleet.model_bits
    download = max(bits / float(row["down_rate_bps"]) for row in rows)
    upload = bits / own["up_rate_bps"]
    samples = world.population.sizes[user] + plan.received[user]
    cycles = world.scenario.devices.cycles_per_sample * plan.local_epochs * samples
    left = own["energy_budget_j"] - world.scenario.devices.power_w * upload
    allowed = (left / (world.scenario.devices.energy_coefficient * cycles)) ** 0.5
    return download, cycles / min(own["max_frequency_hz"], allowed), upload


def best_of_all(plan, world, *, without: str | None = None) -> float:
    """The least delay over all volumes and local epochs, with the clusters of the plan."""
    clustering = clustering_of(world, plan)
    budget = world.fleet.devices.energy_budget_j.copy()
    if without is not None:
        gone = USERS.index(without)
        budget[gone] = 1e-15
        head_of = np.where(clustering.head_of == gone, -1, clustering.head_of)
        head_of[gone] = -1
        clustering = replace(clustering, head_of=head_of)
    fleet = replace(world.fleet, devices=replace(world.fleet.devices, energy_budget_j=budget))
    scenario = with_overrides(world.scenario, {"allocation.infeasible_users": "exclude"})
    model = load_rounds(scenario.rounds, scenario.training.learning_rate, scenario.data.dataset)
    found = []
    for epochs in EPOCHS:
        problem = make_allocation_problem(
            clustering, replace(fleet, local_epochs=epochs), model, scenario.allocation, beta_samples=40,
            bits_per_sample=world.bits_per_sample, rate_bps=link_rates_bps(world, clustering),
            batch_size=scenario.training.batch_size,
        )  # fmt: skip
        heads = clustering.heads
        limits = np.floor(0.2 * world.population.sizes[heads]).astype(int)
        for volumes in product(*(range(limit + 1) for limit in limits)):
            each = np.zeros(len(USERS))
            each[heads] = volumes
            found.append(evaluate(problem, each).objective_s)
    return min(found)


def test_the_plan_itself_is_found_again(made):
    plan, _, found = made
    assert found.planned.task_s == pytest.approx(plan.delay_s, rel=1e-12)
    assert found.planned.rounds == pytest.approx(plan.rounds, rel=1e-12)
    assert found.adapted


def test_who_finishes_last_by_the_formulas(made):
    plan, world, found = made
    phases = np.array([seconds_of_round(plan, world, user) for user in range(6)])
    order = np.argsort(-phases.sum(axis=1))
    assert found.slowest.tolist() == order.tolist()
    np.testing.assert_allclose(found.phases_s, phases[order], rtol=1e-9)
    parts = {part.part: part for part in found.parts if part.part != "sharing"}
    assert parts["round"].user == order[0]
    assert parts["download"].user == USERS.index("shop")
    for part, column in (("compute", 1), ("upload", 2)):
        longest = int(phases[:, column].argmax())
        assert (parts[part].user if part in parts else parts["round"].user) == longest


def test_who_shares_longest_by_the_table_of_links(made):
    plan, world, found = made
    rates = {"hall": {"gate": 5e6, "yard": 4e6, "roof": 4e5}, "lab": {"shop": 6e5}}
    durations = {}
    for head, links in rates.items():
        slowest = min(links, key=links.__getitem__)
        samples = plan.shared[USERS.index(head)]
        durations[head] = samples * world.bits_per_sample / links[slowest], slowest
    expected = sorted(durations, key=lambda head: -durations[head][0])
    assert [plan.names[head] for head in found.heads] == expected
    assert found.multicast_s == pytest.approx([durations[head][0] for head in expected])
    assert [plan.names[member] for member in found.slowest_members] == [durations[head][1] for head in expected]
    head, member = (part for part in found.parts if part.part == "sharing")
    assert (plan.names[head.user], plan.names[head.peer]) == (expected[0], durations[expected[0]][1])
    assert (member.user, member.peer) == (head.peer, head.user)


@pytest.mark.parametrize(("part", "place"), [("download", 0), ("round", 0), ("sharing", 0), ("sharing", 1)])
def test_without_a_user_by_trying_all_volumes(made, part, place):
    plan, world, found = made
    one = [entry for entry in found.parts if entry.part == part][place]
    expected = best_of_all(plan, world, without=USERS[one.user])
    assert one.without.task_s == pytest.approx(expected, rel=2e-3)
    assert one.without.task_s >= expected * (1 - 1e-9)


def test_relief_by_trying_all_volumes(made):
    plan, world, found = made
    waited = next(part for part in found.parts if part.part == "round")
    assert waited.reliefs, "the round waits for one user alone"
    fields = {"twice the upload rate": ("links", "up_s_per_bit", 0.5)}
    fields["twice the CPU frequency"] = ("devices", "max_frequency_hz", 2.0)
    fields["twice the energy budget"] = ("devices", "energy_budget_j", 2.0)
    gains = []
    for name, outcome in waited.reliefs.items():
        gains.append(saved(found.planned, outcome))
        if name not in fields:
            continue
        room, field, factor = fields[name]
        table = getattr(world.fleet, room)
        values = getattr(table, field).copy()
        values[waited.user] *= factor
        fleet = replace(world.fleet, **{room: replace(table, **{field: values})})
        expected = best_of_all(plan, replace(world, fleet=fleet))
        assert outcome.task_s == pytest.approx(expected, rel=2e-3)
        assert expected < found.planned.task_s
    assert gains == sorted(gains, reverse=True)
    assert min(gains) > 1e-3


def test_the_slowest_together_by_the_formulas_where_volumes_stay(made, monkeypatch):
    plan, world, _ = made
    monkeypatch.setattr("fedcast.plan.bottleneck.MAX_ADAPTED", 0)
    found = find_bottlenecks(plan, world)
    assert not found.adapted
    names = {"twice the CPU frequency": "max_frequency_hz", "twice the upload rate": "up_rate_bps"}
    for count, outcomes in found.together.items():
        for name, column in names.items():
            rounds = [
                sum(seconds_of_round(plan, world, user, **{column: 2.0 if user in found.slowest[:count] else 1.0}))
                for user in range(6)
            ]
            assert outcomes[name].round_s == pytest.approx(max(rounds), rel=1e-9)
            assert outcomes[name].rounds == pytest.approx(plan.rounds, rel=1e-12)
    single = next(part for part in found.parts if part.part == "round")
    others = [sum(seconds_of_round(plan, world, user)) for user in range(6) if user != single.user]
    assert single.without.round_s == pytest.approx(max(others), rel=1e-9)
    assert single.without.rounds > plan.rounds * 0.5


def test_a_plan_that_shares_nothing_has_no_bottleneck_of_sharing(made):
    _, world, _ = made
    none = with_overrides(world.scenario, {"clustering.rule": "none"})
    other = make_world(none)
    found = find_bottlenecks(make_plan(none, world=other, with_curve=False, compare_rules="no"), other)
    assert {part.part for part in found.parts} <= {"download", "round", "compute", "upload"}
    assert found.planned.sharing_s == 0
    assert len(found.heads) == 0


def test_what_the_server_sends_waits_for_the_slowest_download(made):
    _, world, _ = made
    central = with_overrides(world.scenario, {"clustering.rule": "central"})
    other = make_world(central)
    plan = make_plan(central, world=other, with_curve=False, compare_rules="no")
    sharing = [part for part in find_bottlenecks(plan, other).parts if part.part == "sharing"]
    assert [plan.names[part.user] for part in sharing] == (["shop"] if plan.server_samples else [])


def test_one_user_alone_has_nobody_to_do_without(tmp_path):
    (tmp_path / "counts.csv").write_text("user,a,b\nonly,30,10\n")
    own = ["data.dataset=synthetic", f"data.synthetic.counts_file={tmp_path / 'counts.csv'}", "clustering.rule=none"]
    world = make_world(load_scenario(overrides=[*own, "training.local_epochs=1"]))
    found = find_bottlenecks(make_plan(world.scenario, world=world, with_curve=False, compare_rules="no"), world)
    assert all(part.without is None for part in found.parts)
    assert found.together == {}


def test_savings_without_a_prediction_are_of_sharing_and_a_round():
    assert saved(TaskDelays(2.0, 8.0, None), TaskDelays(2.0, 3.0, None)) == pytest.approx(0.5)
    assert saved(TaskDelays(2.0, 8.0, 10.0), TaskDelays(2.0, 8.0, None)) == -np.inf


def test_the_worst_user_is_named_with_what_relieves_it_most():
    """One user sets the download and the end of a round; only a faster upload helps much."""
    planned, without = TaskDelays(0.0, 4.0, 2.0), TaskDelays(0.0, 3.0, 2.0)
    download = Bottleneck("download", 7, 1.0, None, without, {"twice the download rate": TaskDelays(0.0, 3.9, 2.0)})
    ends = Bottleneck("round", 7, 4.0, None, without, {"twice the upload rate": TaskDelays(0.0, 3.2, 2.0)})
    nobody = np.zeros(0, dtype=np.int64)
    rest = (nobody, np.zeros((0, 3)), {}, True, nobody, np.zeros(0), nobody)
    for parts in ((download, ends), (ends, download)):
        assert Bottlenecks(planned, parts, *rest).worst is ends
