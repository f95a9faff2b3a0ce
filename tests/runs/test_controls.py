"""Work controls, against a plain loop of FedAvg and numbers computed by hand."""

import copy
import csv
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from fedcast import load_scenario, make_world, with_overrides
from fedcast.data import Assignment, load_dataset, population_from, skew_of
from fedcast.errors import FedcastError
from fedcast.formatting import SPACE
from fedcast.runs import (
    epochs_notes,
    facts_of,
    gains,
    gains_table,
    grid,
    prepare_run,
    run_folder,
    run_scenario,
    tables_of,
)
from fedcast.runs.prepare import train_prepared
from fedcast.runs.seed_statistics import Interval
from fedcast.runs.stored_run import load_run
from fedcast.training import build_model
from tests.runs.test_compare import stored

# One batch holds all samples of a user, so that a plain loop needs no order of batches.
WHOLE = [
    "data.num_users=8", "data.partition=dirichlet", "data.dirichlet.alpha=0.3", "allocation.method=fixed",
    "training.model=mlp", "training.precision=float64", "training.batch_size=2000", "training.local_epochs=2",
    "training.rounds=3", "training.learning_rate=0.3", "rounds.form=law",
]  # fmt: skip
KINDS = ("work_control", "epochs_control")


def scenario_of(*changes, rule="blend", kind="raw"):
    return load_scenario(base="digits", overrides=[*WHOLE, *changes, f"clustering.rule={rule}", f"sharing.kind={kind}"])


@pytest.fixture(scope="module")
def prepared():
    return {kind: prepare_run(scenario_of(kind=kind)) for kind in ("raw", *KINDS)}


def fedavg(run, weights):
    """Return the weights after plain FedAvg: full-batch SGD on every user's list of samples, one user at a time."""
    scenario, dataset = run.world.scenario, run.world.population.dataset
    inputs = torch.from_numpy(dataset.inputs.astype(np.float64) * (dataset.scale or 1.0))
    labels = torch.from_numpy(dataset.labels)
    server = build_model("mlp", dataset.sample_shape, dataset.num_classes, scenario.seed).double()
    for _ in range(scenario.training.rounds):
        total = [torch.zeros_like(weight) for weight in server.parameters()]
        for user, share in enumerate(weights / weights.sum()):
            local, samples = copy.deepcopy(server), torch.from_numpy(run.shared.assignment.of(user))
            steps = torch.optim.SGD(local.parameters(), scenario.training.learning_rate)
            for _ in range(scenario.training.local_epochs):
                steps.zero_grad()
                torch.nn.functional.cross_entropy(local(inputs[samples]), labels[samples]).backward()
                steps.step()
            for entry, weight in zip(total, local.parameters(), strict=True):
                entry += share * weight.detach()
        with torch.no_grad():
            for weight, entry in zip(server.parameters(), total, strict=True):
                weight.copy_(entry)
    return [weight.detach() for weight in server.parameters()]


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_loop_over_repeated_samples_gives_the_same_weights(prepared, kind, engine):
    world = prepared[kind].world
    world = replace(world, scenario=with_overrides(world.scenario, {"training.engine": engine}))
    run = replace(prepared[kind], world=world)
    own, after = run.world.population.sizes, run.shared.assignment.sizes
    assert (after > own).any()
    expected = fedavg(run, (after if kind == "work_control" else own).astype(np.float64))
    for found, weight in zip(train_prepared(run).outcome.weights, expected, strict=True):
        assert (found - weight).abs().max() < 1e-9


def test_other_weights_of_the_scenario_hold_for_controls_too(prepared):
    for name in ("own", "uniform"):
        for run in prepared.values():
            scenario = with_overrides(run.world.scenario, {"training.aggregation": name})
            assert replace(run, world=replace(run.world, scenario=scenario)).training.aggregation == name


def test_the_work_control_trains_as_much_as_its_plan_and_shares_nothing(prepared):
    plan, control = prepared["raw"].plan, prepared["work_control"].plan
    assert plan.received.any()
    assert np.array_equal(prepared["work_control"].shared.assignment.sizes, prepared["raw"].shared.assignment.sizes)
    for name in ("frequency_hz", "energy_j", "download_s", "compute_s", "upload_s", "round_j", "round_bytes"):
        assert getattr(control, name) == pytest.approx(getattr(plan, name), rel=1e-12), name
    _shares_nothing(prepared["work_control"])


def test_the_epochs_control_spreads_the_same_work_over_all_users(prepared):
    run, own = prepared["epochs_control"], prepared["raw"].world.population.sizes
    after = run.shared.assignment.sizes
    multiple = prepared["raw"].shared.assignment.sizes.sum() / own.sum()
    assert after.sum() == prepared["raw"].shared.assignment.sizes.sum()
    assert np.abs(after - multiple * own).max() < 1
    _shares_nothing(run)
    devices, training = run.world.scenario.devices, run.world.scenario.training
    cycles = devices.cycles_per_sample * training.local_epochs * after
    assert run.cost.round.compute_s == pytest.approx(cycles / run.plan.frequency_hz, rel=1e-12)
    left = devices.energy_budget_j - run.world.fleet.upload_energy_j
    best = np.minimum(devices.max_frequency_hz, np.sqrt(left / (devices.energy_coefficient * cycles)))
    assert run.plan.frequency_hz == pytest.approx(best, rel=1e-12)
    computing = devices.energy_coefficient * cycles * best**2
    assert run.plan.energy_j == pytest.approx(computing + run.world.fleet.upload_energy_j, rel=1e-12)


def _shares_nothing(run):
    facts, plan, before = facts_of(run), run.plan, skew_of(run.world.population.counts)
    counted = ("heads", "members", "sent_samples", "received_samples", "distinct_samples", "largest_revealed_share")
    assert not any(getattr(facts, name) for name in counted)
    assert not any(
        (plan.sharing_s, plan.sharing_j, plan.sharing_bytes, plan.average_sharing_ratio, plan.server_samples)
    )
    assert not plan.received.any()
    assert plan.rounds is plan.delay is plan.speed_up is None
    assert len(run.shared.ledger) == 0
    # The distribution of every user is unchanged, and users count as much as they train.
    after = run.shared.assignment.sizes
    average = pytest.approx(after @ before.emd / after.sum(), rel=1e-12)
    assert (facts.emd_after, facts.emd_after_b) == (average, average)
    assert facts.emd_after_a == pytest.approx(after @ before.emd / before.sizes.sum(), rel=1e-12)
    assert facts.emd_after_c == pytest.approx(facts.emd_before, rel=1e-12)
    users = tables_of(run)["users"]
    assert users["emd_after"] == users["emd_before"]
    assert run.clock.sharing_s == 0.0
    assert run.clock.round_s == plan.round_s


@pytest.mark.parametrize("rule", ["central", "none"])
def test_the_broadcast_of_the_server_has_controls_and_no_sharing_is_its_own(rule):
    plain, control = (prepare_run(scenario_of(rule=rule, kind=kind)) for kind in ("raw", "work_control"))
    assert np.array_equal(control.shared.assignment.sizes, plain.shared.assignment.sizes)
    assert (control.shared.assignment.sizes > control.world.population.sizes).all() == (rule == "central")
    _shares_nothing(control)


def world_with(sizes, *changes, kind):
    """A world whose users hold so many of the digits each, in their order, which is random in its classes."""
    scenario = scenario_of(*changes, f"data.num_users={len(sizes)}", rule="central", kind=kind)
    users = Assignment(np.arange(sum(sizes)), np.concatenate([[0], np.cumsum(sizes)]))
    return make_world(scenario, population=population_from(load_dataset(scenario.data), users))


@pytest.mark.parametrize("kind", KINDS)
def test_a_user_without_samples_repeats_nothing_and_does_not_train(kind):
    sizes = [90, 0, 40, 5, 60, 80]
    plain, control = (
        prepare_run(world.scenario, world=world) for world in (world_with(sizes, kind=one) for one in ("raw", kind))
    )
    assert plain.plan.received[1] > 0
    assert plain.trained[1]
    assert control.trained.tolist() == [True, False, True, True, True, True]
    after = plain.shared.assignment.sizes
    assert control.shared.assignment.sizes.sum() == after.sum() - after[1]
    assert train_prepared(control).history.records[-1].participants == 5


@pytest.mark.parametrize("rule", ["blend", "central"])
@pytest.mark.parametrize("kind", KINDS)
def test_users_that_the_plan_leaves_out_are_left_out_of_the_work(kind, rule, tmp_path):
    devices = tmp_path / "devices.csv"
    budgets = [1e-9 if user == 2 else 0.05 for user in range(8)]
    devices.write_text("user,energy_budget_j\n" + "".join(f"{user},{joules}\n" for user, joules in enumerate(budgets)))
    changes = (f"devices.devices_file={devices}", "allocation.infeasible_users=exclude")
    plain, control = (prepare_run(scenario_of(*changes, rule=rule, kind=one)) for one in ("raw", kind))
    assert not plain.trained[2]
    assert np.array_equal(control.trained, plain.trained)
    assert control.shared.assignment.sizes.sum() == plain.shared.assignment.sizes.sum()


def test_a_control_that_was_stopped_resumes(tmp_path):
    scenario = scenario_of("training.checkpoint_every=1", kind="epochs_control")
    whole = run_scenario(scenario, tmp_path / "whole")
    assert run_scenario(scenario, tmp_path / "parts", should_stop=lambda: True) is None
    parts = run_scenario(scenario, tmp_path / "parts")
    assert whole.name == parts.name == run_folder(tmp_path, scenario).name
    assert "-epochs_control-0-" in whole.name
    for file in ("history.json", "plan.json", "facts.json"):
        assert (whole / file).read_bytes() == (parts / file).read_bytes()
    with (whole / "ledger.csv").open() as stream:
        assert list(csv.reader(stream)) == [["sample", "sender", "receiver"]]
    assert load_run(parts).plan.not_predicted.startswith("a control is not planned")


def test_the_grid_has_a_control_for_every_strategy_that_shares():
    rules, methods, controls = ["none", "daca", "central"], ["fixed", "jfvo"], ["work", "epochs"]
    scenarios = grid(scenario_of(), rules, methods, seeds=[0, 1], controls=controls)
    found = [(one.clustering.rule, one.allocation.method, one.sharing.kind) for one in scenarios if one.seed == 1]
    kinds = ("raw", *KINDS)
    expected = [("none", "fixed", "raw")]
    for rule in ("daca", "central"):
        expected += [(rule, method, kind) for method in ("fixed", "jfvo") for kind in kinds]
    assert found == expected


def test_controls_that_cannot_be_made():
    with pytest.raises(FedcastError, match="invalid value 'wrok' for controls: expected work or epochs"):
        grid(scenario_of(), ["none", "daca"], controls=["wrok"])
    with pytest.raises(FedcastError, match="add none to the rules daca, blend"):
        grid(scenario_of(), ["daca", "blend"], controls=["work"])
    with pytest.raises(FedcastError, match="controls: expected a list"):
        grid(scenario_of(), ["none", "daca"], controls="work")


def made(rule, seed, rounds, *, kind="raw", algorithm="fedavg", last=0.9, sharing_s=0.0):
    """A run that reaches its target after so many rounds of 6 s; None: never."""
    course = [0.1] * rounds + [last] if rounds is not None else [0.1, 0.2]
    run = stored(rule, seed, course, algorithm=algorithm, sharing_s=sharing_s)
    run.scenario = with_overrides(run.scenario, {"sharing.kind": kind})
    return run


# Rounds to the target of three seeds; accuracies after the last round differ by seed, too.
ROUNDS = {("none", "raw"): (9, 8, 10), ("daca", "work_control"): (6, 6, 7), ("daca", "raw"): (4, 2, 5)}
LAST = dict(zip(ROUNDS, [(0.7, 0.72, 0.8), (0.75, 0.7, 0.82), (0.9, 0.8, 0.9)], strict=True))


def made_runs():
    return [
        made(rule, seed, rounds, kind=kind, last=LAST[rule, kind][seed], sharing_s=2.0 * (rule, kind).count("daca"))
        for (rule, kind), courses in ROUNDS.items()
        for seed, rounds in enumerate(courses)
    ]


def test_parts_of_a_gain_are_paired_and_add_up():
    found = {gain.measure: gain for gain in gains(reversed(made_runs()))}
    assert list(found) == ["rounds", "total_s", "accuracy"]
    for name, values in (("rounds", ROUNDS), ("accuracy", LAST)):
        gain, (start, middle, end) = found[name], map(np.array, values.values())
        assert (gain.strategy.name, gain.control.name, gain.seeds) == ("daca", "daca, work control", (0, 1, 2))
        assert (gain.without.mean, gain.shared.mean) == (pytest.approx(start.mean()), pytest.approx(end.mean()))
        for test, differences in ((gain.work, middle - start), (gain.skew, end - middle), (gain.total, end - start)):
            low, high = stats.t.interval(0.95, 2, differences.mean(), stats.sem(differences))
            assert test.difference.mean == pytest.approx(differences.mean(), rel=1e-12)
            assert test.difference.half_width == pytest.approx((high - low) / 2, rel=1e-9)
            assert test.p_value == pytest.approx(stats.ttest_1samp(differences, 0).pvalue, rel=1e-9)
        parts = gain.work.difference.mean + gain.skew.difference.mean
        assert parts == pytest.approx(gain.total.difference.mean, rel=1e-12)
    # Rounds of 6 s; sharing takes 2 s in these runs of daca.
    assert found["total_s"].total.difference.mean == pytest.approx(6 * (11 / 3 - 9) + 2)
    table = gains_table(list(found.values()))
    assert table["control"] == ["work"] * 3
    assert table["skew"][0] == pytest.approx(11 / 3 - 19 / 3)
    assert {len(column) for column in table.values()} == {3}


def test_all_parts_of_a_gain_are_in_one_unit():
    (rounds, time, accuracy) = gains(made_runs())
    small = replace(
        time, without=Interval(1.25, None, 3), shared=Interval(0.509, None, 3),
        work=replace(time.work, difference=Interval(-0.013, 0.002, 3)),
    )  # fmt: skip
    texts = [small.text(part, "s") for part in ("without", "work", "shared")]
    assert [[text and text.replace(SPACE, " ") for text in pair] for pair in texts] == [
        ["1.25 s", None], ["−0.0130 s", "± 0.0020"], ["0.509 s", None],
    ]  # fmt: skip
    # Sharing may also make a task longer.
    longer = replace(small, without=small.shared, shared=small.without)
    assert longer.text("without", "s")[0].replace(SPACE, " ") == "0.509 s"
    assert rounds.text("without") == ("9", None)
    assert accuracy.text("shared", "%")[0].replace(SPACE, " ") == "86.7 %"


def test_rounds_are_over_the_seeds_in_which_all_three_reach_the_target():
    runs = [made("none", 0, 9), made("none", 1, None), made("none", 2, 8), made("daca", 3, 1)]
    runs += [made("daca", seed, 3 + seed, kind=kind) for seed in range(3) for kind in ("raw", "work_control")]
    seeds = {gain.measure: gain.seeds for gain in gains(runs)}
    assert seeds == {"rounds": (0, 2), "total_s": (0, 2), "accuracy": (0, 1, 2)}


def test_other_local_epochs_without_sharing_are_named():
    runs = made_runs()
    assert epochs_notes(gains(runs)) == []
    for run in runs:
        if run.rule == "none":
            run.plan = SimpleNamespace(local_epochs=(2, 2, 5)[run.scenario.seed])
        else:
            run.plan = SimpleNamespace(local_epochs=1)
    # A seed without sharing is left out.
    assert epochs_notes(gains([run for run in runs if run.rule == "none" or run.scenario.seed < 2])) == [
        "daca has 1 local epochs on average, FedAvg 2: more work includes the difference; give one number to "
        "training.local_epochs to leave it out."
    ]
    assert epochs_notes(gains(runs)) == [
        "daca has 1 local epochs on average, FedAvg 3: more work includes the difference; give one number to "
        "training.local_epochs to leave it out."
    ]


def test_a_gain_is_over_the_same_algorithm_without_sharing():
    runs = [made("none", 0, 9), made("none", 0, 5, algorithm="scaffold")]
    runs += [made("daca", 0, 3, kind=kind, algorithm="scaffold") for kind in ("raw", *KINDS)]
    found = gains(runs)
    assert [gain.without.mean for gain in found if gain.measure == "rounds"] == [5, 5]
    assert [gain.control.control for gain in found if gain.measure == "rounds"] == ["work", "epochs"]
    assert found[0].strategy.without_sharing.name == "scaffold"


def test_without_a_control_or_without_no_sharing_there_are_no_parts():
    runs = made_runs()
    assert gains([run for run in runs if run.scenario.sharing.kind == "raw"]) == []
    assert gains([run for run in runs if run.rule != "none"]) == []
    assert gains([replace_kind(run, "epochs_control") for run in runs if run.rule == "none"]) == []


def replace_kind(run, kind):
    run.scenario = with_overrides(run.scenario, {"sharing.kind": kind})
    return run
