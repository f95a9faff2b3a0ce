import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from fedcast import load_scenario
from fedcast.data import Population, load_dataset, populate
from fedcast.errors import FedcastError
from fedcast.federation import Device, FederationRun, Loopback, load_state, start_run, write_samples
from fedcast.federation.planning import plan_devices
from fedcast.plan import load_plan, make_world
from fedcast.report import write_report
from fedcast.runs import facts_of, load_runs, prepare_run, train_prepared
from tests.federation.devices import fingerprint, trust

USERS = 6
SETTINGS = {
    "data.num_users": USERS, "data.partition": "dirichlet", "training.batch_size": 50, "training.local_epochs": 1,
    "training.rounds": 2, "training.precision": "float64",
    "training.model": "mlp", "training.model_weights": 2410, "allocation.method": "fixed", "training.engine": "stacked",
}  # fmt: skip
CONSENT = 'kinds = ["raw"]\nmax_ratio = 1\n'


def scenario_with(**changed):
    values = SETTINGS | {key.replace("__", "."): value for key, value in changed.items()}
    return load_scenario(base="digits", overrides=values)


def start_devices(root, population, names, consent=CONSENT):
    folders = {name: root / name for name in names}
    for user, name in enumerate(names):
        write_samples(folders[name] / "data", population.dataset, population.assignment.of(user))
        (folders[name] / "consent.toml").write_text(consent)
    known = {name: fingerprint(folder) for name, folder in folders.items()}
    for name, folder in folders.items():
        trust(folder, *((other, known[other]) for other in names if other != name))
    return {name: Device(name, folder) for name, folder in folders.items()}


def federation(tmp_path, scenario, **options):
    dataset = load_dataset(scenario.data)
    population = populate(dataset, scenario.data, scenario.seed)
    names = [f"site-{user}" for user in range(USERS)]
    loopback = Loopback(start_devices(tmp_path, population, names))
    return FederationRun(tmp_path / "run", loopback, scenario, **options), population, names


def simulated(run, population, names):
    """The same scenario by the engines: planned from the tables of the run, shared and trained in one process."""
    scenario = load_plan(run.folder / "plan.json").scenario
    named = Population(population.counts, population.class_names, population.dataset, population.assignment,
                       np.array(names))  # fmt: skip
    return train_prepared(prepare_run(scenario, world=make_world(scenario, population=named)))


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"clustering__rule": "gain", "training__algorithm": "scaffold", "training__momentum": 0.5},
        {"training__algorithm": "feddyn", "training__participation": 0.5, "training__local_epochs": 2},
        # With the usual, smaller epsilon local steps are unstable here and magnify rounding a million times.
        {
            "training__algorithm": "fednova",
            "training__server_optimizer": "adam",
            "training__server_epsilon": 0.1,
            "clustering__rule": "none",
        },
    ],
    ids=["fedavg", "scaffold", "feddyn", "fednova"],
)
def test_a_federation_gives_the_weights_of_the_simulation(tmp_path, changed):
    run, population, names = federation(tmp_path, scenario_with(**changed))
    result = run.run()
    expected = simulated(run, population, names)
    assert expected.outcome.engine == "StackedEngine"
    np.testing.assert_array_equal(result.plan.head_of, expected.plan.head_of)
    np.testing.assert_array_equal(result.plan.shared, expected.plan.shared)
    if changed.get("clustering__rule") != "none":
        assert len(expected.ledger) > 0
        assert sum(result.state.samples) == population.sizes.sum() + len(expected.ledger)
    for one, other in zip(result.outcome.weights, expected.outcome.weights, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)
    assert result.outcome.history.column("accuracy") == expected.history.column("accuracy")
    assert result.outcome.history.column("seconds") == expected.history.column("seconds")
    assert result.outcome.history.column("drift")[-1] > 1e-3


def test_results_are_those_of_a_run_with_measured_seconds(tmp_path):
    run, population, names = federation(tmp_path, scenario_with())
    run.run()
    (stored,) = load_runs(run.folder)
    expected = facts_of(simulated(run, population, names))
    assert stored.facts == expected
    assert stored.history.column("round") == [0, 1, 2]
    page = write_report([stored], tmp_path / "report.html").read_text()
    assert "a round, measured on devices (median)" in page
    assert f"Measured on {USERS} real devices, not simulated" in page
    assert "measured time of a round (median)" in page
    assert "simulated seconds" not in page
    assert "planned seconds" in page
    # The map has the names of devices, and neither places nor a scale that nobody gave.
    assert "Places are not known: the layout is schematic." in page
    assert all(page.count(name) > 1 for name in names)
    assert "fedcast federation run PROJECT scenario.toml" in page
    assert "fedcast compare" not in page


def test_results_count_what_members_received(tmp_path):
    run, *_ = federation(tmp_path, scenario_with())
    lost = []

    def carry(_sender, receiver, message):
        if receiver == "site-0" and message["topic"] != "probe":
            lost.append(message)
            return None
        return message

    run.transport.carry = carry
    result = run.run()
    assert lost
    (stored,) = load_runs(run.folder)
    delivered = {head: len(answer["delivered"]) * answer["count"] for head, answer in result.state.shared.items()}
    assert stored.facts.received_samples == sum(delivered.values()) < result.plan.received.sum()


def test_a_silent_device_is_named_and_the_others_go_on(tmp_path):
    run, *_ = federation(tmp_path, scenario_with())
    lost = run.transport.devices.pop("site-3")
    run.transport.names = lambda: [f"site-{user}" for user in range(USERS)]
    asked = []
    ask = run.transport.ask
    run.transport.ask = lambda call, requests, timeout_s: (
        asked.append((call, set(requests))) or ask(call, requests, timeout_s)
    )
    result = run.run()
    assert {entry["device"] for entry in run.state.missing} == {"site-3"}
    # It has no part in the plan, so that nobody waits for it any more.
    assert (run.state.away, [call for call, names in asked if "site-3" in names]) == ([], ["alive"])
    assert result.plan.num_users == USERS - 1
    assert lost.name not in [device["name"] for device in run.state.devices]


def test_a_device_that_dies_in_training_is_left_out_of_later_rounds(tmp_path):
    run, *_ = federation(tmp_path, scenario_with(training__rounds=3))

    def die(record):
        if record.round == 1:
            run.transport.devices.pop("site-2")

    run.progress = die
    result = run.run()
    assert result.outcome.history.column("participants") == [0, USERS, USERS - 1, USERS - 1]
    assert [(entry["device"], entry["when"]) for entry in run.state.missing] == [("site-2", "round 2")]


def test_a_device_that_comes_back_trains_again(tmp_path, monkeypatch):
    monkeypatch.setattr("fedcast.federation.phases._LOOK_EVERY_S", 0.0)
    run, *_ = federation(tmp_path, scenario_with(training__rounds=4))
    away = []

    def leave_and_return(record):
        if record.round == 1:
            away.append(run.transport.devices.pop("site-2"))
        if record.round == 3:
            run.transport.devices["site-2"] = away.pop()

    run.progress = leave_and_return
    assert run.run().outcome.history.column("participants") == [0, USERS, USERS - 1, USERS - 1, USERS]
    first, *later = run.state.missing
    assert first == {"device": "site-2", "when": "round 2", "reason": "not connected", "back": "round 4"}
    assert not [miss for miss in later if "back" not in miss]
    assert run.state.away == load_state(run.folder).away == []


def test_a_device_that_is_back_in_a_resumed_run_is_not_missing_any_longer(tmp_path):
    run, *_ = federation(tmp_path, scenario_with())
    run.should_stop = lambda: len(run.state.training_s) == 1
    names = run.transport.names()
    run.transport.names = lambda: names
    run.describe()
    run.plan()
    run.state.phase = "share"
    away = run.transport.devices.pop("site-2")
    run.run()
    assert load_state(run.folder).away == ["site-2"]
    run.transport.devices["site-2"] = away
    state = FederationRun(run.folder, run.transport).run().state
    assert {(miss["device"], miss["reason"], miss["back"]) for miss in state.missing} == {
        ("site-2", "no answer", "after round 1")
    }


def test_devices_know_a_run_by_the_name_of_its_folder_and_take_no_other_of_that_name(tmp_path):
    run, *_ = federation(tmp_path, scenario_with(training__rounds=1))
    state = run.run().state
    head = next(iter(state.shared))
    member = state.shared[head]["delivered"][0]
    devices = run.transport.devices
    assert state.run == run.folder.name
    assert list(devices[member].ledger.runs_with_samples()) == [run.folder.name]
    assert f"run {run.folder.name}" in devices[head].ledger.entries()[0].detail
    again = FederationRun(tmp_path / "elsewhere" / run.folder.name, run.transport, run.scenario)
    with pytest.raises(FedcastError, match="samples were exchanged in another run of the name 'run'"):
        again.describe()
    assert {head, member} <= {entry["device"] for entry in again.state.missing}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return federation(tmp_path_factory.mktemp("uninterrupted"), scenario_with())[0].run()


@pytest.mark.parametrize("phase", ["describe", "plan", "share", "train"])
def test_a_server_that_dies_resumes_with_the_same_result(tmp_path, uninterrupted, phase):
    run, *_ = federation(tmp_path, scenario_with())
    asked = run.transport.ask
    calls = {"describe": "describe", "plan": "share", "share": "share", "train": "train_round"}

    def dying(call, requests, timeout_s):
        first = next(iter(requests.values()))
        answers = asked(call, requests, timeout_s)
        if call == calls[phase] and (call != "train_round" or first["number"] == 2):
            raise KeyboardInterrupt
        return answers

    run.transport.ask = dying
    with pytest.raises(KeyboardInterrupt):
        run.run()
    run.transport.ask = asked
    resumed = FederationRun(run.folder, run.transport)
    assert resumed.state.phase == ("share" if phase == "plan" else phase)
    asked_rounds = []
    resumed.progress = lambda record: asked_rounds.append(record.round)
    result = resumed.run()
    assert asked_rounds == ([2] if phase == "train" else [1, 2])
    for one, other in zip(result.outcome.weights, uninterrupted.outcome.weights, strict=True):
        assert torch.equal(one, other)
    assert resumed.state.samples == uninterrupted.state.samples
    assert _shared(resumed) == {name: _of(answer) for name, answer in uninterrupted.state.shared.items()}


def _shared(run):
    return {name: _of(answer) for name, answer in run.state.shared.items()}


def _of(answer):
    return answer["count"], sorted(answer["delivered"])


def test_a_member_that_was_away_gets_its_samples_when_sharing_is_resumed(tmp_path):
    run, *_ = federation(tmp_path, scenario_with())
    run.describe()
    run.plan()
    plan = load_plan(run.folder / "plan.json")
    member = int(np.flatnonzero(plan.head_of >= 0)[0])
    name, sent = f"site-{member}", []
    away = run.transport.devices.pop(name)
    run.share()
    before = list(run.state.samples)
    assert before[member] == run.state.devices[member]["size"]
    run.transport.devices[name] = away
    run.transport.carry = lambda _, receiver, message: sent.append(receiver) or message
    run.share()
    assert set(sent) == {name}
    assert run.state.samples[member] == before[member] + plan.shared[plan.head_of[member]]


def test_a_member_that_comes_back_in_training_gets_its_samples(tmp_path):
    """A run that is resumed shares again before it trains, and sends nothing to those who have all."""
    run, *_ = federation(tmp_path, scenario_with(training__rounds=3))
    run.describe()
    run.plan()
    plan = load_plan(run.folder / "plan.json")
    member = int(np.flatnonzero(plan.head_of >= 0)[0])
    name, sent = f"site-{member}", []
    run.state.phase = "share"
    away = run.transport.devices.pop(name)
    run.should_stop = lambda: len(run.state.training_s) == 1
    run.run()
    assert run.state.phase == "train"
    run.transport.devices[name] = away
    run.transport.carry = lambda _, receiver, message: sent.append(receiver) or message
    result = FederationRun(run.folder, run.transport).run()
    assert set(sent) == {name}
    received = plan.shared[plan.head_of[member]]
    assert result.state.samples[member] == result.state.devices[member]["size"] + received
    assert result.outcome.history.column("participants") == [0, USERS - 1, USERS, USERS]


def test_a_head_that_is_away_when_a_run_is_resumed_keeps_what_it_delivered(tmp_path):
    run, *_ = federation(tmp_path, scenario_with(training__rounds=2))
    run.should_stop = lambda: len(run.state.training_s) == 1
    before = run.run().state
    head = next(iter(before.shared))
    run.transport.devices.pop(head)
    after = FederationRun(run.folder, run.transport).run().state
    assert after.phase == "done"
    assert (after.shared, after.samples) == (before.shared, before.samples)
    assert [entry["device"] for entry in after.missing] == [head]


def test_a_head_that_dies_while_it_shares_is_named_once(tmp_path):
    run, *_ = federation(tmp_path, scenario_with())
    answer, heads = run.transport._call, []

    def die(name, call, request):
        if call == "share":
            heads.append(name)
            run.transport.devices.pop(name)
        return answer(name, call, request) if name in run.transport.devices else None

    names = run.transport.names()
    run.transport.names = lambda: names
    run.transport.ask = lambda call, requests, _: {
        name: found for name, request in requests.items() if (found := die(name, call, request)) is not None
    }
    state = run.run().state
    assert state.phase == "done"
    assert [(entry["device"], entry["when"]) for entry in state.missing] == [(head, "share") for head in heads]


def test_a_device_of_the_project_that_is_not_connected_is_named(tmp_path):
    run, _, names = federation(tmp_path, scenario_with(), expected=[*(f"site-{user}" for user in range(USERS)), "late"])
    run.describe()
    assert run.state.missing == [{"device": "late", "when": "describe", "reason": "not connected"}]
    assert [device["name"] for device in run.state.devices] == names


def test_only_pairs_that_accept_each_other_are_linked(tmp_path):
    run, *_ = federation(tmp_path, scenario_with())
    folder = run.transport.devices["site-0"].folder
    text = (folder / "trust.toml").read_text()
    (folder / "trust.toml").write_text(text.replace('["site-1"]', '["somebody"]'))
    run.describe()
    planned = plan_devices(run.scenario, run.state.devices, tmp_path)
    assert planned.world.graph.num_links == USERS * (USERS - 1) // 2 - 1
    assert "somebody" not in json.dumps(run.state.devices)


def test_an_impostor_under_the_name_of_a_device_gets_and_gives_no_sample(tmp_path):
    """Whoever holds the key of the certificate authority can join under any name, but not with its pinned keys."""
    run, population, _ = federation(tmp_path, scenario_with())
    real = run.transport.devices["site-1"]
    folder = tmp_path / "impostor"
    write_samples(folder / "data", population.dataset, population.assignment.of(1))
    for name in ("consent.toml", "trust.toml"):
        (folder / name).write_text((real.folder / name).read_text())
    run.transport.devices["site-1"] = impostor = Device("site-1", folder)
    result = run.run()
    assert "site-1" not in (run.folder / "links.csv").read_text()
    assert sum(len(answer["delivered"]) for answer in result.state.shared.values()) > 0
    # The server may ask for more than was planned, and the impostor may offer samples by itself.
    members = {"site-1": impostor.keys.public.to_bytes()}
    request = {"run": run.state.run, "count": 5, "kind": "raw", "balanced": False, "seed": 0, "user": 0}
    others = {name: device for name, device in run.transport.devices.items() if name != "site-1"}
    for name, device in others.items():
        answer = device.share({**request, "members": members}, partial(run.transport._send, name))
        assert answer["untrusted"] == ["site-1"]
    offered = {name: device.keys.public.to_bytes() for name, device in others.items()}
    answer = impostor.share({**request, "members": offered}, partial(run.transport._send, "site-1"))
    assert (answer["count"], answer["delivered"], answer["rejected"].keys()) == (5, [], others.keys())
    assert impostor.inbox.files() == []


def test_strange_devices_are_refused_and_named(tmp_path):
    run, *_ = federation(tmp_path, scenario_with())
    device = run.transport.devices["site-4"]
    device.own.format = replace(device.own.format, num_classes=11)
    describe = run.transport.devices["site-5"].describe
    run.transport.devices["site-5"].describe = lambda *request: describe(*request) | {"size": -3}
    run.describe()
    assert len(run.state.devices) == USERS - 2
    assert [entry["reason"].split(":")[0] for entry in run.state.missing] == [
        "samples of another format", "an invalid description",
    ]  # fmt: skip


def test_a_device_trains_installed_code_only(tmp_path):
    run, *_ = federation(tmp_path, scenario_with())
    device = run.transport.devices["site-0"]
    request = {"run": run.state.run, "number": 1, "weights": [], "context": []}
    for task in (None, "{}", json.dumps({"settings": {}}), json.dumps({"model": "evil.py:model"})):
        with pytest.raises(FedcastError, match="invalid task"):
            device.train_round(request | {"task": task})
    with pytest.raises(FedcastError, match="installed code only"):
        FederationRun(tmp_path / "other", run.transport, scenario_with(training__model_file="evil.py"))


def test_a_device_refuses_small_batches_if_its_owner_says_so(tmp_path):
    run, *_ = federation(tmp_path, scenario_with())
    folder = run.transport.devices["site-0"].folder
    (folder / "consent.toml").write_text(CONSENT + "min_batch_size = 64\n")
    result = run.run()
    assert result.outcome.history.column("participants") == [0, USERS - 1, USERS - 1]
    assert "batches of 50" in run.state.missing[0]["reason"]


def test_a_change_that_is_not_finite_is_left_out(tmp_path):
    run, *_ = federation(tmp_path, scenario_with())
    device = run.transport.devices["site-1"]
    train = device.train_round

    def damaged(request):
        found = train(request)
        found["change"][0][:] = np.nan
        return found

    device.train_round = damaged
    result = run.run()
    assert result.outcome.history.column("participants") == [0, USERS - 1, USERS - 1]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"clustering__rule": "central"}, "clustering.rule"),
        ({"sharing__kind": "work_control"}, "invalid value 'work_control' for sharing.kind: expected raw"),
        ({"data__descriptor": "values"}, "data.descriptor"),
        ({"training__upload": "top_k"}, "invalid value 'top_k' for training.upload"),
        ({"training__user_test": "own"}, "invalid value 'own' for training.user_test: expected labels"),
        ({"training__fine_tune_epochs": 2}, "invalid value 2 for training.fine_tune_epochs: devices do not fine-tune"),
        ({"training__dropout_file": "out.csv"}, "training.dropout_file"),
        ({"training__deadline_s": 2.0}, "training.deadline_s: it is judged by the simulated clock"),
        ({"training__buffer_size": 2}, "training.buffer_size"),
    ],
)
def test_what_a_federation_cannot_do_is_an_error_at_the_start(tmp_path, changed, message):
    with pytest.raises(FedcastError, match=message):
        FederationRun(tmp_path, Loopback({}), scenario_with(**changed))


@pytest.mark.parametrize("content", ["", "{", "[" * 10_000, '{"version": 1}', "[]", '{"version": 0}', "\0"])
def test_a_damaged_state_is_one_clear_error(tmp_path, content):
    (tmp_path / "federation.json").write_text(content)
    with pytest.raises(FedcastError, match="federation.json") as error:
        FederationRun(tmp_path, Loopback({}))
    assert len(str(error.value).splitlines()) == 1


def test_a_server_in_another_folder_finds_the_files_of_the_scenario(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scenario = scenario_with(data__dataset="file", data__file="test.npz")
    with pytest.raises(FedcastError, match=r"no such file: test\.npz"):
        start_run("run", scenario)
    Path("test.npz").touch()
    start_run("run", scenario)
    assert load_state("run").scenario["data"]["file"]["path"] == str(tmp_path / "test.npz")


def test_there_must_be_a_run_and_devices(tmp_path):
    with pytest.raises(FedcastError, match="no run to resume"):
        FederationRun(tmp_path, Loopback({}))
    with pytest.raises(FedcastError, match="no device with samples answered"):
        FederationRun(tmp_path, Loopback({}), scenario_with()).run()
