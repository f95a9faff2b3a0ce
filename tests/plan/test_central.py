"""Plans of rule central: the server sends all users as many samples as members receive under DACA."""

from dataclasses import replace

import numpy as np
import pytest

from fedcast.clustering import cluster
from fedcast.data.skew import average_emd
from fedcast.errors import OutsideFitError
from fedcast.plan import clustering_of, diff_plans, load_plan, make_plan, save_plan
from fedcast.plan.world import make_world
from fedcast.scenario import load_scenario

# No fit covers this target.
UNPREDICTED = (
    "rounds.form=paper", "rounds.fit=paper-0.95", "rounds.target_accuracy=0.5", "training.local_epochs=1",
    "allocation.method=fixed",
)  # fmt: skip


def scenario(*overrides):
    people = ["data.dataset=synthetic", "data.num_users=40", "training.model=cnn", "clustering.rule=central"]
    return load_scenario(overrides=[*people, *overrides])


def plans_of_both(*overrides):
    """The plans of DACA and central in one scenario."""
    scenarios = [scenario(*overrides, f"clustering.rule={rule}") for rule in ("daca", "central")]
    return [make_plan(one, with_curve=False) for one in scenarios]


def test_the_servers_broadcast_is_planned(tmp_path):
    here = scenario()
    world = make_world(here)
    made = make_plan(here, world=world)
    clustering = cluster(replace(world.problem(), server_volume=made.server_samples))
    assert (made.received == made.server_samples).all()
    assert (len(made.heads), made.leakage, made.passes) == (0, (), 1)
    assert made.emd_after == pytest.approx(average_emd(world.skew, clustering.after, "B"))
    assert made.emd_after < made.emd_before
    assert made.rounds < made.rounds_without
    assert made.sharing_s == pytest.approx(6272 * made.server_samples * world.fleet.links.down_s_per_bit.max())
    assert made.delay.total_s == pytest.approx(made.sharing_s + made.rounds * made.round_s)
    again = load_plan(save_plan(made, tmp_path / "plan.json"))
    assert diff_plans(made, again).same
    np.testing.assert_allclose(clustering_of(world, again).after.distributions, clustering.after.distributions)
    more = replace(again, server_samples=2 * made.server_samples)
    assert any("samples from the server" in line for line in diff_plans(made, more).lines())
    assert not diff_plans(made, more).same


@pytest.mark.parametrize(
    "method",
    [
        ("allocation.method=jfvo",),
        ("allocation.method=jfvo", "allocation.max_sharing_ratio=1.0"),
        ("allocation.method=fixed", "allocation.fixed.ratio=0.03"),
        ("allocation.method=fixed", "allocation.fixed.ratio=0.2", "allocation.max_asr=0.08"),
        # The best kind of each head is raw here; the server's samples count as raw ones of any kind.
        ("data.num_users=30", "sharing.kind=best"),
        # Rounds are not predicted: the ratio decides alone.
        (*UNPREDICTED, "allocation.fixed.ratio=0.03"),
        (*UNPREDICTED, "allocation.fixed.ratio=1.0"),
        (*UNPREDICTED, "allocation.fixed.ratio=0.2", "allocation.max_asr=0.08"),
    ],
)
def test_the_server_sends_as_many_samples_as_members_receive_under_daca(method):
    daca, central = plans_of_both(*method)
    assert daca.received.any()
    sizes = make_world(daca.scenario).population.sizes
    assert (daca.shared <= daca.scenario.allocation.max_sharing_ratio * sizes).all()
    assert central.server_samples == round(daca.received[daca.received > 0].mean())
    # Skew and delays of the plan are those of whole samples.
    assert (central.received == central.server_samples).all()
    assert central.sharing_bytes == pytest.approx(daca.sharing_bytes / daca.shared.sum() * central.server_samples)


@pytest.mark.parametrize(
    "limits",
    [
        ("allocation.max_asr=0.0",),
        ("allocation.method=fixed", "allocation.fixed.ratio=0.0"),
        (*UNPREDICTED, "allocation.fixed.ratio=0.1", "allocation.max_asr=0.001"),
    ],
)
def test_the_server_sends_nothing_where_daca_may_not_share(limits):
    daca, central = plans_of_both(*limits)
    assert not daca.received.any()
    assert (central.server_samples, central.sharing_s, central.emd_after) == (0, 0, pytest.approx(central.emd_before))


def test_without_links_the_server_sends_what_users_would():
    world = make_world(scenario("trust.min_closeness=1.0", "data.num_users=20"))
    assert not world.graph.num_links
    made = make_plan(world.scenario, world=world, with_curve=False)
    assert made.server_samples == cluster(world.problem()).broadcast.volume > 0


def test_volumes_of_the_server_need_the_prediction_that_volumes_of_daca_need():
    outside = (*UNPREDICTED, "allocation.method=jfvo")
    for rule in ("daca", "central"):
        with pytest.raises(OutsideFitError, match="allocation.method = fixed"):
            make_plan(scenario(*outside, f"clustering.rule={rule}"))
