"""Users that a plan leaves out, in a small federation in which every reason is known."""

from __future__ import annotations

import numpy as np
import pytest

from fedcast import load_plan, load_scenario, make_plan, make_world, save_plan
from fedcast.errors import FedcastError
from fedcast.plan import find_left_out, refused_links, world_of_plan

# hub leads a, b and c; shy is linked to nobody but has a link that nobody trusts; far has no link; slow has a slow one;
# weak cannot upload; void has no data; d is linked to a member alone.
COUNTS = (
    "user,x,y,z\nhub,60,60,60\na,90,0,0\nb,0,90,0\nc,0,0,90\nshy,0,70,0\nfar,50,0,0\nslow,0,0,40\nweak,30,0,0\nvoid,0,0,0\n"
    "d,0,20,0\n"
)
LINKS = (
    "user_a,user_b,rate_bps,closeness\nhub,a,5e6,0.9\nhub,b,5e6,0.9\nhub,c,5e6,0.9\nhub,shy,5e6,0.1\na,shy,5e6,0.2\n"
    "hub,slow,1e3,0.9\na,d,5e6,0.9\nhub,weak,5e6,0.9\n"
)
DEVICES = "user,energy_budget_j,consent,up_rate_bps,down_rate_bps\n" + "".join(
    f"{name},{1e-4 if name == 'weak' else 0.5},{0 if name in ('d', 'far') else 1},5e5,5e6\n"
    for name in ("hub", "a", "b", "c", "shy", "far", "slow", "weak", "void", "d")
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for name, text in (("counts", COUNTS), ("links", LINKS), ("devices", DEVICES)):
        (folder / f"{name}.csv").write_text(text)
    return folder


@pytest.fixture(scope="module")
def made(tables):
    own = [
        "data.dataset=synthetic", f"data.synthetic.counts_file={tables / 'counts.csv'}", "clustering.rule=gain",
        f"trust.links_file={tables / 'links.csv'}", f"devices.devices_file={tables / 'devices.csv'}",
        "training.local_epochs=1", "rounds.target_accuracy=0.95", "allocation.infeasible_users=exclude",
    ]  # fmt: skip
    world = make_world(load_scenario(overrides=own))
    return make_plan(world.scenario, world=world, with_curve=False, compare_rules="no"), world


def test_every_reason_is_told_apart(made):
    plan, world = made
    assert plan.names[plan.heads].tolist() == ["hub"]
    counts, rows = find_left_out(plan, world, refused_links(world))
    told = {str(plan.names[row.user]): row for row in rows}
    assert set(told) == {"shy", "far", "slow", "weak", "void", "d"}
    assert sum(counts.values()) == 6
    assert "not trusted: 2 users are in reach" in told["shy"].why[0]
    assert (told["shy"].linked, told["shy"].untrusted, told["shy"].too_slow) == (0, 2, 0)
    assert told["far"].why == (
        "out of reach: it has no link to anybody",
        "it does not consent to share, so that it cannot lead",
    )
    assert told["far"].consent == 0
    assert "too slow: none of its 1 link meets" in told["slow"].why[0]
    assert "none of those it is linked to leads a cluster" in told["d"].why[0]
    assert "no data" in told["void"].why[0]
    weak = told["weak"]
    assert (weak.trains, told["d"].trains, told["void"].trains) == (False, True, False)
    assert "cannot upload within its energy budget" in weak.why[-1]
    upload_j = world.fleet.model_bits / 5e5 * world.scenario.devices.power_w
    assert weak.energy_missing_j >= upload_j - 1e-4 > 0
    assert [row.trains for row in rows] == sorted(row.trains for row in rows), "those that do not train come first"


def test_a_limit_shortens_the_list_and_not_the_counts(made):
    plan, world = made
    counts, rows = find_left_out(plan, world, most=2)
    assert (sum(counts.values()), len(rows)) == (6, 2)
    assert rows[0].untrusted is None


def test_where_nobody_shares_only_training_is_a_reason(made):
    _, world = made
    none = world.scenario.model_copy(
        update={"clustering": world.scenario.clustering.model_copy(update={"rule": "none"})}
    )
    other = make_world(none)
    plan = make_plan(none, world=other, with_curve=False, compare_rules="no")
    _, rows = find_left_out(plan, other)
    assert {str(plan.names[row.user]) for row in rows} == {"weak", "void"}


def test_the_world_of_a_plan_is_made_again_unless_its_tables_changed(made, tables):
    plan, world = made
    path = save_plan(plan, tables / "plan.json")
    again = world_of_plan(load_plan(path))
    np.testing.assert_array_equal(again.graph.rate_bps, world.graph.rate_bps)
    for name, old, new, told in (
        ("counts", "hub,60", "hub,99", "the average EMD was"),
        ("counts", "shy,", "bold,", "they have other users"),
        ("links", "hub,a,5e6", "hub,a,4e5", "the delay of sharing was"),
        ("links", "hub,b,5e6,0.9\n", "", "no link joins them"),
        ("devices", "a,0.5,1,5e5,5e6", "a,0.5,1,1e5,5e6", "the delay of a round was"),
        ("devices", "hub,0.5,1,", "hub,0.5,0,", "user hub no longer consents"),
    ):
        text = (tables / f"{name}.csv").read_text()
        (tables / f"{name}.csv").write_text(text.replace(old, new))
        renamed = "devices" if old == "shy," else None
        if renamed:
            devices = (tables / "devices.csv").read_text()
            (tables / "devices.csv").write_text(devices.replace(old, new))
            links = (tables / "links.csv").read_text()
            (tables / "links.csv").write_text(links.replace("shy", "bold"))
        with pytest.raises(FedcastError, match=f"tables of the plan have changed.*{told}"):
            world_of_plan(load_plan(path))
        (tables / f"{name}.csv").write_text(text)
        if renamed:
            (tables / "devices.csv").write_text(devices)
            (tables / "links.csv").write_text(links)
