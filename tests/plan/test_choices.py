"""The choice of local epochs and of the rule, against plans with each of them given."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given as given_values
from hypothesis import settings
from hypothesis import strategies as st

from fedcast.clustering import can_share
from fedcast.cost import round_cost
from fedcast.data import Population
from fedcast.errors import FedcastError, NotReachableError
from fedcast.plan import make_plan, make_world, plan_from_json, plan_to_json
from fedcast.rounds import Conditions, RoundsFit, fit_accuracy, load_fit, local_steps, save_fit
from fedcast.scenario import load_scenario, with_overrides

SIZE = ("data.dataset=synthetic", "data.num_users=20", "training.model=cnn", "rounds.beta_samples=50")
EPOCHS = (1, 3, 8)


def scenario(*overrides):
    return load_scenario(overrides=[*SIZE, *overrides])


@pytest.fixture(scope="module")
def chosen():
    return make_plan(scenario(f"training.local_epochs={list(EPOCHS)}"))


def test_the_best_of_all_rules_and_epochs_is_chosen(chosen):
    """Every rule at every number of local epochs, planned on its own, is no more than 1 % faster."""
    delays = {}
    for rule, epochs in itertools.product(("none", "daca", "gain"), EPOCHS):
        given = scenario(f"clustering.rule={rule}", f"training.local_epochs={epochs}", "clustering.max_passes=1")
        delays[rule, epochs] = make_plan(given, with_curve=False).delay_s
    assert chosen.delay_s <= min(delays.values()) * 1.01
    assert {outcome.rule for outcome in chosen.rules} >= {"none", "daca", "scc", "cec", "gain", "blend", "central"}
    fastest = min((one for one in chosen.rules if one.rule != "central"), key=lambda one: one.delay_s)
    assert (fastest.rule, fastest.local_epochs) == (chosen.rule, chosen.local_epochs)
    assert chosen.delay_s <= fastest.delay_s


def test_epochs_of_a_rule_are_the_best_of_the_set():
    for rule in ("none", "daca"):
        plan = make_plan(scenario(f"clustering.rule={rule}", f"training.local_epochs={list(EPOCHS)}"), with_curve=False)
        each = {
            epochs: make_plan(
                scenario(f"clustering.rule={rule}", f"training.local_epochs={epochs}"), with_curve=False
            ).delay_s
            for epochs in EPOCHS
        }
        assert plan.local_epochs == min(each, key=each.get), rule
        assert plan.delay_s == pytest.approx(each[plan.local_epochs], rel=0.01)


def test_slow_devices_train_fewer_epochs():
    """Work that costs time is worth it only as far as it saves rounds."""
    plans = [
        make_plan(scenario("clustering.rule=none", f"devices.cycles_per_sample={cycles}"), with_curve=False)
        for cycles in (1e3, 1e8)
    ]
    assert plans[0].local_epochs == 8
    assert plans[1].local_epochs < 8


def test_the_baselines_are_those_of_the_law_and_the_cost_model():
    """Rounds and delay without sharing, computed anew from the law and the cost of a round, for all E and rates."""
    here = scenario("clustering.rule=daca", "training.learning_rate=0.1")
    plan, world, law = make_plan(here, with_curve=False), make_world(here), load_fit("mnist").law(0.9)
    sizes = world.skew.sizes
    emd = np.abs(world.skew.distributions - world.skew.global_distribution).sum(axis=1) @ sizes / sizes.sum()
    delays = {}
    for epochs, rate in itertools.product((1, 2, 3, 5, 8), np.geomspace(0.025, 0.2, 7)):
        rounds = law.rounds(Conditions(emd, local_steps(sizes, sizes, epochs, 10), rate)) + 0.5
        delays[epochs, rate] = float(rounds) * round_cost(replace(world.fleet, local_epochs=epochs), sizes).round_s
    best = min(delays, key=delays.get)
    assert (plan.best_without.local_epochs, plan.best_without.learning_rate) == pytest.approx(best)
    assert plan.best_without.delay_s == pytest.approx(delays[best], rel=0.05), "the plan's is a mean over the bootstrap"
    assert plan.without.local_epochs == 1
    assert plan.without.learning_rate == 0.1
    rounds = float(law.rounds(Conditions(emd, local_steps(sizes, sizes, 1, 10), 0.1))) + 0.5
    assert plan.without.rounds == pytest.approx(rounds, rel=0.05)
    assert plan.speed_up == pytest.approx(plan.best_without.delay_s / plan.delay_s)
    assert any("learning_rate = 0.1" in note for note in plan.notes)


def test_nothing_is_shared_where_sharing_does_not_pay():
    """IID data and a slow sidelink: the plan is the best without sharing, and says so."""
    plan = make_plan(scenario("data.partition=iid", "sidelink.bandwidth_hz=1e3", "sidelink.min_rate_bps=0.0"))
    assert (plan.rule, len(plan.heads), plan.average_sharing_ratio) == ("none", 0, 0)
    assert plan.delay_s == pytest.approx(plan.leakage[0].delay_s)
    assert len(plan.leakage) == 1


def test_an_unreachable_target_is_said_and_sharing_can_make_it_reachable():
    one_class = ("data.label_skew.single_class_share=1.0", "rounds.target_accuracy=0.95")
    one_class = (*one_class, "training.local_epochs=3")
    plan = make_plan(scenario(*one_class, "clustering.rule=gain", "allocation.max_sharing_ratio=1.0"))
    assert (plan.without, plan.best_without, plan.speed_up) == (None, None, None)
    assert np.isfinite(plan.delay_s)
    assert plan.leakage[0].average_sharing_ratio > 0
    with pytest.raises(NotReachableError, match="0.95 is not reachable at an average EMD of 1.8"):
        make_plan(scenario(*one_class, "clustering.rule=gain", "allocation.max_sharing_ratio=0.001"))


def test_forms_without_local_work_are_planned_with_the_smallest_number_of_epochs():
    plan = make_plan(
        scenario(
            "clustering.rule=daca",
            "rounds.fit=paper-0.95",
            "rounds.target_accuracy=0.95",
            "data.label_skew.single_class_share=0.5",
        ),
        with_curve=False,
    )
    assert (plan.form, plan.local_epochs, plan.rounds_interval) == ("paper", 1, None)
    assert plan.best_without == plan.without
    assert any("does not depend on local epochs" in note for note in plan.notes)


def test_a_better_learning_rate_is_noted_only_if_it_matters():
    for rate, noted in ((0.14, False), (0.1, True)):
        given = scenario("clustering.rule=none", "training.local_epochs=3", f"training.learning_rate={rate}")
        plan = make_plan(given, with_curve=False)
        assert plan.best_without.learning_rate == pytest.approx(0.2)
        assert (plan.without.delay_s > 1.02 * plan.best_without.delay_s) == noted
        assert any("try it before you share" in note for note in plan.notes) == noted


def test_a_target_above_what_runs_of_an_older_fit_reached_is_noted(tmp_path):
    model = replace(load_fit("mnist-0.95").model("paper"), accuracy=fit_accuracy([0, 1.3, 1.35], [0.98, 0.96, 0.9]))
    save_fit(RoundsFit("mine", {"paper": model}, {}, "mnist"), tmp_path / "mine.json")
    mine = (f"rounds.fit={tmp_path / 'mine.json'}", "rounds.target_accuracy=0.95", "training.local_epochs=1")
    for rule, start in (("none", ""), ("gain", "without sharing, ")):
        shares = ("data.label_skew.single_class_share=0.7", "allocation.max_sharing_ratio=1.0")
        plan = make_plan(scenario(*mine, *shares, f"clustering.rule={rule}"), with_curve=False)
        assert plan.rounds > 1
        assert plan.notes[-1].startswith(f"{start}rounds.target_accuracy = 0.95: runs of fit mine reached 0.9"), rule


@given_values(
    seed=st.integers(0, 10**6),
    users=st.integers(3, 10),
    rule=st.sampled_from(["daca", "scc", "cec", "gain"]),
    most=st.sampled_from([0.1, 0.5, 1.0]),
    bits=st.sampled_from([800.0, 1e5, 1e6]),
)
@settings(max_examples=8)
def test_more_leakage_never_takes_longer(seed, users, rule, most, bits):
    """The curve falls from the best plan without sharing to the plan itself, for any data, links and sizes."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 120, (users, 4)) * (rng.random((users, 4)) < 0.5)
    counts[:, 0] += 1
    given = scenario(
        f"data.num_users={users}", f"seed={seed}", f"clustering.rule={rule}", "training.local_epochs=[1, 3]",
        f"allocation.max_sharing_ratio={most}", f"data.bits_per_sample={bits}", "geometry.cell_radius_m=200.0",
    )  # fmt: skip
    plan = make_plan(given, world=make_world(given, population=Population(counts, tuple("abcd"))))
    ratios, delays = zip(*((point.average_sharing_ratio, point.delay_s) for point in plan.leakage), strict=True)
    assert (np.diff(ratios) > 0).all()
    assert (np.diff(delays) < 0).all()
    assert (ratios[0], ratios[-1]) == (0, pytest.approx(plan.average_sharing_ratio))
    assert delays[-1] == pytest.approx(plan.delay_s, rel=1e-3)
    assert delays[0] >= plan.best_without.delay_s * (1 - 1e-9)


def test_rounds_lie_in_their_interval(chosen):
    low, high = chosen.rounds_interval
    assert 1 <= low <= chosen.rounds <= high


def test_what_was_chosen_survives_json(chosen):
    again = plan_from_json(plan_to_json(chosen))
    for name in ("rule", "local_epochs", "rounds_interval", "without", "best_without", "rules", "notes", "leakage"):
        assert getattr(again, name) == getattr(chosen, name), name


@pytest.mark.parametrize("compare", ["quick", "full"])
def test_a_plan_by_one_rule_says_if_another_is_faster(compare):
    given = scenario("clustering.rule=cec", "training.local_epochs=3", "clustering.max_passes=2")
    plan = make_plan(given, with_curve=False, compare_rules=compare)
    gain = make_plan(with_overrides(given, {"clustering.rule": "gain"}), with_curve=False, compare_rules=compare)
    assert plan.rule == "cec"
    assert gain.delay_s < plan.delay_s / 1.02
    said = re.search(r"rule (\w+) is ([\d.]+)\s% faster than cec: ([\d.]+)\ss instead of ([\d.]+)\ss", *plan.notes)
    assert float(said[4]) == pytest.approx(plan.delay_s, rel=0.01)
    assert float(said[2]) == pytest.approx(100 * (1 - float(said[3]) / float(said[4])), abs=0.2)
    named = make_plan(with_overrides(given, {"clustering.rule": said[1]}), with_curve=False)
    assert named.delay_s <= float(said[3]) * 1.005, "the other rule is at least as fast as said"
    assert not any("faster than" in note for note in named.notes)
    assert (len(plan.rules) > 6) == (compare == "full")


def test_of_many_users_two_rules_are_planned_fully(monkeypatch):
    monkeypatch.setattr("fedcast.plan.search._MANY_USERS", 20)
    plan = make_plan(scenario("training.local_epochs=3", "data.num_users=24"), with_curve=False)
    assert len(plan.rules) in (2, 3)
    assert "blend" not in {one.rule for one in plan.rules}
    assert any("blend not tried" in note for note in plan.notes)


def test_outside_of_the_fits_local_steps_rounds_follow_a_power():
    few = make_plan(scenario("clustering.rule=none", "training.batch_size=20", "training.local_epochs=1"))
    assert any("extrapolated" in note for note in few.notes)
    fewer = make_plan(with_overrides(few.scenario, {"training.batch_size": 40}))
    # Steps are 30.5 and 15.5 (E (n/B + 1/2)); the exponent lies between -1 and 0.
    assert 1 < (fewer.rounds - 0.5) / (few.rounds - 0.5) <= 30.5 / 15.5 + 1e-9


def test_a_rule_that_needs_more_users_than_can_share_does_not_compete():
    """Of ten users of this partition nine have enough samples to share, and `random` would draw ten heads."""
    values = {
        "data.num_users": 10,
        "data.partition": "dirichlet",
        "data.dirichlet.alpha": 0.1,
        "training.local_epochs": 1,
    }
    ten = load_scenario(base="digits", overrides=values)
    assert can_share(make_world(ten).problem()) == 9
    plan = make_plan(ten, with_curve=False)
    assert "random" not in {outcome.rule for outcome in plan.rules}
    assert len(plan.rules) > 4
    with pytest.raises(FedcastError, match="there are 9; set it to 9 or less"):
        make_plan(with_overrides(ten, {"clustering.rule": "random"}))
    nine = {"clustering.rule": "random", "clustering.random.num_clusters": 9}
    # The volumes of a first plan may leave fewer users that share something: that is no error.
    assert make_plan(with_overrides(ten, nine), with_curve=False).rule == "random"
    # Where nobody has a whole sample to share, the best plan shares nothing.
    nobody = with_overrides(ten, {"clustering.sharing_ratio": 0.001})
    assert can_share(make_world(nobody).problem()) == 0
    assert make_plan(nobody, with_curve=False).rule == "none"
