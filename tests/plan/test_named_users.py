"""Users with names in the place of ids: the same plan, told by names, and re-planned when users come and go."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from tests.user_tables import NAMES, USERS, write_tables

from fedcast.data import read_counts
from fedcast.errors import DataError, FedcastError
from fedcast.io import save_table
from fedcast.plan import diff_plans, make_plan, plan_from_json, plan_to_json
from fedcast.plan.search import Search
from fedcast.plan.world import make_world
from fedcast.scenario import load_scenario


def planned(tables: dict[str, Path], previous=None):
    population = read_counts(tables["counts"])
    scenario = load_scenario(
        overrides=[
            "data.dataset=synthetic",
            "clustering.rule=daca",
            f"data.num_users={population.num_users}",
            f"trust.links_file={tables['links']}",
            f"geometry.positions_file={tables['positions']}",
            f"devices.devices_file={tables['devices']}",
        ]
    )
    world = make_world(scenario, population=population)
    return make_plan(scenario, world=world, previous=previous, with_curve=False)


@pytest.fixture
def folder(tmp_path):
    def make(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    return make


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_names_and_ids_give_one_plan(folder, suffix):
    by_id = planned(write_tables(folder("ids"), int, suffix=suffix))
    by_name = planned(write_tables(folder("names"), NAMES.__getitem__, suffix=suffix))
    assert by_id.names is None
    assert by_name.names.tolist() == NAMES
    assert len(by_id.heads)
    for part in ("head_of", "shared", "frequency_hz", "energy_j"):
        assert np.array_equal(getattr(by_id, part), getattr(by_name, part))
    assert by_id.delay == by_name.delay


def test_plans_keep_names(folder):
    plan = planned(write_tables(folder("names"), NAMES.__getitem__))
    assert plan_from_json(plan_to_json(plan)).names.tolist() == NAMES
    content = json.loads(plan_to_json(plan))
    wrong_names = (
        (NAMES[1:], "names has 11 entries, head_of has 12"),
        (["x"] * USERS, "names: 'x' is blank or the name of two users"),
        ([" ", *NAMES[1:]], "names: ' ' is blank"),
    )
    for wrong, reason in wrong_names:
        with pytest.raises(FedcastError, match=reason):
            plan_from_json(json.dumps({**content, "names": wrong}))


def test_who_joins_and_leaves_is_known_by_name(folder):
    """Users 0 and 5 leave, 10 and 11 join, and all others get other ids: their clusters and volumes are still found."""
    before = planned(write_tables(folder("before"), NAMES.__getitem__, users=range(10)))
    staying = [9, 1, 2, 3, 4, 6, 7, 8]
    now = write_tables(folder("now"), NAMES.__getitem__, users=[11, *staying, 10])
    after = planned(now, previous=before)
    change = diff_plans(before, after)
    assert change.users(change.of("joined")) == [NAMES[11], NAMES[10]]
    assert sorted(change.users(change.of("left"))) == sorted([NAMES[0], NAMES[5]])
    heads = {
        plan: {str(plan.names[u]): str(plan.names[h]) for u, h in enumerate(plan.head_of) if h >= 0}
        for plan in (before, after)
    }
    volumes = {plan: {str(plan.names[h]): int(plan.shared[h]) for h in plan.heads} for plan in (before, after)}
    stay = {NAMES[u] for u in staying}

    def found(*kinds):
        return {name for kind in kinds for name in change.users(change.of(kind))}

    assert found("became a head") == (volumes[after].keys() - volumes[before].keys()) & stay
    assert found("is no longer a head") == (volumes[before].keys() - volumes[after].keys()) & stay
    roles = found("became a head", "is no longer a head")
    assert found("lost its head") == {u for u in stay - roles if u in heads[before] and u not in heads[after]}
    assert found("got a head") == {u for u in stay - roles if u in heads[after] and u not in heads[before]}
    both = heads[before].keys() & heads[after].keys() & stay
    assert found("has another head") == {u for u in both if heads[before][u] != heads[after][u]}
    both = volumes[before].keys() & volumes[after].keys()
    assert found("sends another volume") == {h for h in both if volumes[before][h] != volumes[after][h]}
    assert any(name in change.lines()[0] for name in (NAMES[10], NAMES[11]))


def test_planning_starts_from_the_volumes_of_the_plan_before(folder, monkeypatch):
    before = planned(write_tables(folder("before"), NAMES.__getitem__))
    starts, best_of_passes = [], Search._best_of_passes

    def watched(planner, rule, problem, ratios):
        starts.append(dict(zip(NAMES[::-1], ratios, strict=True)))
        return best_of_passes(planner, rule, problem, ratios)

    monkeypatch.setattr(Search, "_best_of_passes", watched)
    tables = write_tables(folder("now"), NAMES.__getitem__, users=range(USERS - 1, -1, -1))
    planned(tables, previous=before)
    sizes = dict(zip(NAMES, read_counts(tables["counts"]).sizes[::-1], strict=True))
    assert len(before.heads)
    for head in before.heads:
        name = NAMES[head]
        assert starts[0][name] == before.shared[head] / sizes[name]


def test_users_in_another_order_change_nothing(folder):
    """The plan of a shuffled table, started from the plan of the table before, says that all do the same."""
    before = planned(write_tables(folder("before"), NAMES.__getitem__))
    after = planned(
        write_tables(folder("after"), NAMES.__getitem__, users=[3, 7, 1, 0, 2, 11, 10, 9, 8, 4, 5, 6]), before
    )
    assert after.delay.total_s <= before.delay.total_s * (1 + 1e-9)
    assert len(diff_plans(before, after).of("joined")) == 0
    same = [str(after.names[h]) if h >= 0 else None for h in after.head_of]
    was = {str(n): str(before.names[h]) if h >= 0 else None for n, h in zip(before.names, before.head_of, strict=True)}
    assert same == [was[str(name)] for name in after.names]


def test_drawn_networks_are_those_of_the_names(tmp_path):
    """Only counts are given: places, links and trust are drawn, and rows in another order change nothing."""
    rng = np.random.default_rng(3)
    rows = {f"dev-{user}": rng.integers(0, 40, 3).tolist() for user in range(40)}
    plans = []
    for names in (list(rows), list(rows)[::-1]):
        path = tmp_path / "counts.csv"
        path.write_text("user,a,b,c\n" + "".join(f"{name},{','.join(map(str, rows[name]))}\n" for name in names))
        scenario = load_scenario(overrides=["data.dataset=synthetic", "data.num_users=40", "clustering.rule=daca"])
        plans.append(make_plan(scenario, world=make_world(scenario, population=read_counts(path)), with_curve=False))
    assert diff_plans(*plans).same
    assert len(plans[0].heads)
    assert plans[1].delay.total_s == pytest.approx(plans[0].delay.total_s)


def test_names_and_ids_are_not_compared(folder):
    by_id = planned(write_tables(folder("ids"), int))
    tables = write_tables(folder("names"), NAMES.__getitem__)
    with pytest.raises(FedcastError, match="the present plan have names, those of the previous plan only ids"):
        planned(tables, previous=by_id)
    with pytest.raises(FedcastError, match="the previous plan have names, those of the present plan only ids"):
        diff_plans(planned(tables), by_id)


def test_a_link_to_itself_and_a_poor_budget_are_told_by_name(folder):
    tables = write_tables(folder("t"), NAMES.__getitem__)
    good = tables["links"].read_text()
    tables["links"].write_text(good + "node-k,node-k,0.9\n")
    with pytest.raises(DataError, match="user node-k is linked to itself"):
        planned(tables)
    first = good.splitlines()[1].split(",")
    tables["links"].write_text(good + f"{first[0]},{first[1]},0.01\n")
    with pytest.raises(DataError, match=f"user {first[0]} to user {first[1]} is .* here but .* on line 2"):
        planned(tables)
    tables["links"].write_text(good)
    rows = list(csv.DictReader(tables["devices"].read_text().splitlines()))
    poor = [{**row, "energy_budget_j": 1e-9} if row["user"] == "node-q" else row for row in rows]
    save_table({key: [row[key] for row in poor] for key in poor[0]}, tables["devices"])
    with pytest.raises(FedcastError, match=r"1 of 12 users cannot upload.*\n  user node-q: the upload takes"):
        planned(tables)


def test_a_head_out_of_reach_is_told_by_name(folder):
    tables = write_tables(folder("t"), NAMES.__getitem__)
    tables["links"].write_text("user_a,user_b,closeness\n")
    population = read_counts(tables["counts"])
    rule = ["clustering.rule=random", "clustering.random.num_clusters=2", "clustering.random.respect_graph=false"]
    scenario = load_scenario(
        overrides=[
            "data.dataset=synthetic",
            f"data.num_users={USERS}",
            f"trust.links_file={tables['links']}",
            *rule,
        ]
    )
    with pytest.raises(FedcastError, match=r"rate_bps of user node-.: nan bit/s from its head, user node-.; give"):
        make_plan(scenario, world=make_world(scenario, population=population), with_curve=False)
