from dataclasses import replace

import numpy as np
import pytest

from fedcast.clustering import cluster
from fedcast.cost import task_cost
from fedcast.errors import FedcastError
from fedcast.plan import make_plan, make_world, sharing_cost_of
from fedcast.scenario import load_scenario


def world(*overrides):
    return make_world(load_scenario(overrides=["data.num_users=40", *overrides]))


def cost_of(here, clustering):
    return task_cost(sharing_cost_of(here, clustering), here.fleet, clustering.after.sizes)


def test_the_default_scenario_over_a_hundred_seeds():
    """Mean degree 8 to 16, under 1 % isolated, everybody able to train the small CNN."""
    from fedcast.cost import feasibility, fleet_of
    from fedcast.network.geometry import place_users
    from fedcast.plan.world import network_of

    degrees, isolated = [], 0
    for seed in range(100):
        scenario = load_scenario(overrides=[f"seed={seed}", "training.model=cnn"])
        layout = place_users(100, scenario.geometry, seed)
        graph = network_of(scenario, layout)
        degrees.append(graph.degrees.mean())
        isolated += int((graph.degrees == 0).sum())
        assert feasibility(fleet_of(scenario, layout), np.full(100, 600)).feasible.all()
    assert min(degrees) > 8
    assert max(degrees) < 16
    assert isolated < 0.01 * 100 * 100


def test_cost_of_sharing_by_hand():
    here = world("clustering.rule=daca", "clustering.sharing_ratio=0.5")
    clustering = cluster(here.problem())
    cost = cost_of(here, clustering)
    delays = []
    for head in clustering.heads:
        rates = []
        for member in clustering.members_of(int(head)):
            row = here.graph.links_of(int(member))
            rates.append(here.graph.rate_bps[row][here.graph.neighbours[row] == head][0])
        delays.append(256 * clustering.shared[head] / min(rates))
    assert cost.sharing.sharing_s == pytest.approx(max(delays), rel=1e-6)
    assert cost.sharing.energy_j.sum() == pytest.approx(0.01 * sum(delays), rel=1e-6)
    assert cost.sharing.sent_bytes == pytest.approx(32 * clustering.shared.sum())
    assert cost.round.round_s > 0
    assert cost.round_bytes == pytest.approx(41 * 1898 * 4)


def test_central_sharing_takes_the_downlink():
    here = world("clustering.rule=central")
    clustering = cluster(here.problem())
    cost = cost_of(here, clustering)
    expected = clustering.broadcast.volume * 256 * here.fleet.links.down_s_per_bit.max()
    assert cost.sharing.sharing_s == pytest.approx(expected)
    assert cost.sharing.energy_j.sum() == 0


def test_every_base_station_sends_what_the_server_shares():
    here = world("clustering.rule=central", "geometry.layout=density", "geometry.users_per_cell=20")
    clustering = cluster(here.problem())
    stations = len(here.layout.base_stations_m)
    assert stations > 1
    sent = sharing_cost_of(here, clustering).sent_bytes
    assert sent == pytest.approx(clustering.broadcast.volume * 32 * stations)


def test_no_sharing_costs_nothing():
    here = world("clustering.rule=none")
    assert sharing_cost_of(here, cluster(here.problem())).sharing_s == 0


def test_consent_limits_volumes(tmp_path):
    table = tmp_path / "devices.csv"
    table.write_text("user,consent\n" + "".join(f"{user},{0 if user % 2 else 1}\n" for user in range(40)))
    here = world(f"devices.devices_file={table}", "clustering.sharing_ratio=0.3", "clustering.rule=daca")
    volumes = here.problem().volumes
    assert (volumes[1::2] == 0).all()
    assert (volumes[::2] > 0).all()
    assert all(head % 2 == 0 for head in cluster(here.problem()).heads)


def test_own_links(tmp_path):
    table = tmp_path / "links.csv"
    table.write_text("user_a,user_b,rate_bps,closeness\n0,1,1e6,0.9\n1,2,1e6,0.2\n")
    here = world(f"trust.links_file={table}")
    assert here.graph.num_links == 1
    assert here.graph.degrees[:3].tolist() == [1, 1, 0]


def test_bits_of_a_sample_can_be_set():
    assert world("data.bits_per_sample=1000").bits_per_sample == 1000
    assert world("data.dataset=synthetic").bits_per_sample == 6272


def test_heads_that_send_at_once_slow_each_other_down():
    """In the clock of training and in the plan alike; the rates are those of the function of the wireless room."""
    from fedcast import make_plan
    from fedcast.network.sidelink import concurrent_rate_bps

    quiet, loud = world("clustering.rule=daca"), world("clustering.rule=daca", "sidelink.interference=concurrent")
    clustering = cluster(loud.problem())
    members = clustering.members
    scenario = loud.scenario
    rates = concurrent_rate_bps(
        loud.layout.positions_m,
        members,
        clustering.head_of[members],
        scenario.sidelink,
        scenario.geometry,
        scenario.seed,
    )
    slowest = {int(head): rates[clustering.head_of[members] == head].min() for head in clustering.heads}
    delays = [loud.bits_per_sample * clustering.shared[head] / slowest[int(head)] for head in clustering.heads]
    assert sharing_cost_of(loud, clustering).sharing_s == pytest.approx(max(delays), rel=1e-6)
    assert make_plan(loud.scenario, world=loud, with_curve=False).delay.sharing_s != pytest.approx(
        make_plan(quiet.scenario, world=quiet, with_curve=False).delay.sharing_s, rel=1e-3
    )


def test_a_list_of_closeness_alone_leaves_rates_to_the_radio(tmp_path):
    """Listed is whom the scenario's own trust would have linked: the same graph, and the same interference."""
    loud = ("clustering.rule=daca", "sidelink.interference=concurrent")
    drawn = world(*loud)
    graph = drawn.graph
    listed = [
        f"{user},{graph.neighbours[place]},{graph.closeness[place]}"
        for user in range(graph.num_users)
        for place in range(graph.offsets[user], graph.offsets[user + 1])
        if user < graph.neighbours[place]
    ]
    table = tmp_path / "trust.csv"
    table.write_text("\n".join(["user_a,user_b,closeness", *listed[:-1]]))
    own = world(*loud, f"trust.links_file={table}")
    first, second, _ = listed[-1].split(",")
    assert own.graph.num_links == graph.num_links - 1, f"{first} and {second} are not listed"
    clustering = cluster(own.problem())
    assert sharing_cost_of(own, clustering).sharing_s == sharing_cost_of(drawn, clustering).sharing_s
    table.write_text("\n".join(["user_a,user_b,closeness,rate_bps", *(f"{line},1e9" for line in listed)]))
    measured = world(*loud, f"trust.links_file={table}")
    assert (measured.graph.rate_bps == 1e9).all()
    assert sharing_cost_of(measured, clustering).sharing_s < sharing_cost_of(drawn, clustering).sharing_s


def test_clusters_across_the_graph_have_no_delay():
    here = world("clustering.rule=random", "clustering.random.respect_graph=false")
    with pytest.raises(
        FedcastError, match=r"user \d+ has head user \d+, but there is no link between them, so that the delay of shar"
    ):
        sharing_cost_of(here, cluster(here.problem()))
    people = replace(here.population, names=[f"dev-{user}" for user in range(40)])
    named = replace(here, population=people)
    with pytest.raises(FedcastError, match=r"user dev-\d+ has head user dev-\d+, but"):
        sharing_cost_of(named, cluster(named.problem()))


@pytest.mark.parametrize("extent_m", [600, 3000])
def test_a_shift_of_all_coordinates_changes_no_plan(tmp_path, extent_m):
    """Places are whole eighths of a metre, so that their differences are exact wherever they are."""
    places = np.random.default_rng(2).integers(-8 * extent_m, 8 * extent_m, (40, 2)) / 8
    plans = []
    for shift in ([0, 0], [691_607, 5_334_760]):
        rows = [f"{user},{x!r},{y!r}" for user, (x, y) in enumerate((places + shift).tolist())]
        (tmp_path / "p.csv").write_text("\n".join(["user,x_m,y_m", *rows]))
        tables = ("clustering.rule=gain", "training.local_epochs=1", f"geometry.positions_file={tmp_path / 'p.csv'}")
        here = world(*tables, "allocation.infeasible_users=exclude")
        plans.append(make_plan(here.scenario, world=here, with_curve=False))
    first, shifted = plans
    assert extent_m > 600 or len(first.heads)
    np.testing.assert_array_equal(first.head_of, shifted.head_of)
    np.testing.assert_array_equal(first.shared, shifted.shared)
    assert shifted.delay_s == pytest.approx(first.delay_s, rel=1e-9)
