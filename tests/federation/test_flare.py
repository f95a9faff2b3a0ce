"""Real processes on loopback, TLS on. One project serves all tests of this file."""

import io
import json
import os
import socket
import threading
import time
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("nvflare", reason="nvflare is not installed: pip install fedcast[federation]")

from datetime import UTC

from fedcast.cli.app import run as run_command
from fedcast.data import load_dataset, populate
from fedcast.errors import FedcastError
from fedcast.federation import DeviceLedger, fill_trial, load_state, make_project, start_run
from fedcast.federation.device.samples import OwnSamples
from fedcast.federation.flare import processes
from fedcast.federation.flare.guard import fault_of_app
from fedcast.federation.flare.kits import check_device_policy
from fedcast.federation.flare.names import DEVICE_CONFIG, EXECUTOR
from fedcast.federation.wire import decode, encode
from tests.federation.test_phases import USERS, scenario_with, simulated

SNOOP = Path(__file__).parent / "snoop"
JOB_ID = "0f8fad5b-d9cb-469f-a165-70867728950e"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def scenario():
    return scenario_with(training__rounds=3, allocation__max_sharing_ratio=0.5)


@pytest.fixture(scope="module")
def project(tmp_path_factory, scenario):
    """Six devices and a server whose operator is curious."""
    folder = tmp_path_factory.mktemp("federation") / "project"
    made = make_project(folder, [f"site-{user}" for user in range(USERS)], port=free_port())
    fill_trial(made, scenario)
    policy = made.server / "local" / "authorization.json"
    assert '"byoc": "none"' in policy.read_text()
    policy.write_text(policy.read_text().replace('"byoc": "none"', '"byoc": "any"'))
    before = dict(os.environ)
    try:
        os.environ["FEDCAST_SNOOP"] = str(folder / "snooped")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(SNOOP), before.get("PYTHONPATH", "")])
        processes.start_process(made, "server")
        os.environ.clear()
        os.environ.update(before)
        for name in made.devices:
            processes.start_process(made, name)
        assert processes.wait_for_devices(made, list(made.devices), 120) == list(made.devices)
        yield made
    finally:
        os.environ.clear()
        os.environ.update(before)
        for name in [*made.devices, "server"]:
            processes.stop_process(made, name, kill=True)


def run_job(project, scenario, name, **timeouts):
    folder = project.folder / "runs" / name
    start_run(folder, scenario)
    job = processes.submit_job(project, folder, list(project.devices), {"describe_s": 60.0, **timeouts})
    return folder, processes.follow_job(project, job, folder, lambda _: None)


@pytest.fixture(scope="module")
def finished(project, scenario):
    return run_job(project, scenario, "first")


def test_devices_give_the_weights_of_the_simulation(finished, scenario):
    folder, state = finished
    assert (state.phase, state.failure, state.missing) == ("done", None, [])
    population = populate(load_dataset(scenario.data), scenario.data, scenario.seed)

    class Run:
        pass

    Run.folder = folder
    expected = simulated(Run, population, [device["name"] for device in state.devices])
    assert len(expected.ledger) > 0
    stored = torch.load(folder / "checkpoint.pt", weights_only=True)
    assert stored["completed"] == 3
    for one, other in zip(stored["weights"], expected.outcome.weights, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


def test_the_server_sees_no_sample(project, finished):
    """Everything that it forwarded, received or stored is searched for all samples."""
    _, state = finished
    assert sum(answer["count"] for answer in state.shared.values()) > 0
    seen = (project.folder / "snooped").read_bytes()
    # The hook works: it saw the headers of envelopes, and at least as many bytes as were sent.
    assert seen.count(b"fedcast envelope 1\0") >= len(state.shared)
    assert len(seen) > sum(answer["bytes_sent"] for answer in state.shared.values())
    stored = b"".join(
        file.read_bytes()
        for place in (project.server, project.folder / "runs", project.folder / "logs")
        for file in place.rglob("*")
        if file.is_file()
    )
    shared = [_received(project, member) for answer in state.shared.values() for member in answer["delivered"]]
    for image in np.unique(np.concatenate(shared)["input"], axis=0):
        for form in (image.tobytes(), zlib.compress(image.tobytes())[2:-4]):
            assert form not in seen
            assert form not in stored


def test_members_have_the_samples_of_their_heads(project, finished):
    _, state = finished
    for head, answer in state.shared.items():
        sent = {record.tobytes() for record in _own_records(project, head)}
        for member in answer["delivered"]:
            records = _received(project, member)
            assert len(records) == answer["count"]
            assert {record.tobytes() for record in records} <= sent


def _received(project, name):
    file = min((project.own_files(name) / "received").iterdir(), key=lambda each: each.stat().st_mtime)
    return np.fromfile(file, OwnSamples(project.own_files(name) / "data").format.record)


def _own_records(project, name):
    own = OwnSamples(project.own_files(name) / "data")
    return np.concatenate(list(own.records(np.arange(len(own)), 1000)))


def test_a_job_that_carries_code_is_refused(project, finished):
    """The operator allows it at the server; the devices do not."""
    job = processes.write_job(project.folder / "evil", project.folder, list(project.devices), {})
    marker = project.folder / "ran"
    custom = job / "device_app" / "custom"
    custom.mkdir()
    (custom / "evil.py").write_text(f"open({str(marker)!r}, 'w')\nclass Evil: pass\n")
    config = json.loads(json.dumps(DEVICE_CONFIG).replace(EXECUTOR, "evil.Evil"))
    (job / "device_app" / "config" / "config_fed_client.json").write_text(json.dumps(config))
    with processes.session(project) as connected:
        job_id = connected.submit_job(str(job))
        wait_until(lambda: str(connected.get_job_meta(job_id).get("status")).startswith("FINISHED"))
        assert connected.get_job_meta(job_id)["status"] == "FINISHED:FAILED_TO_RUN"
    for name in project.devices:
        log = (project.folder / "logs" / f"{name}.log").read_text()
        assert "refused to deploy" in log
        assert not list((project.kit(name) / "flare").rglob("evil.py"))
    assert not marker.exists()


def test_commands_on_a_running_project(project, finished, capsys):
    folder = str(project.folder)

    def fedcast(*words):
        code = run_command(["federation", *words])
        return code, *capsys.readouterr()

    code, out, _ = fedcast("status", folder, "first")
    assert code == 0
    assert f"{USERS} of {USERS} devices are connected" in out
    assert "rounds done" in out
    code, out, _ = fedcast("up", folder)
    assert (code, f"{USERS} of {USERS} devices are connected" in out) == (0, True)
    settings = ["data.num_users=6", "training.rounds=1", "allocation.method=fixed", "training.batch_size=50"]
    code, out, err = fedcast("run", folder, *(word for each in settings for word in ("--set", each)))
    assert (code, "results are in" in out) == (0, True), err
    last = sorted(each.name for each in (project.folder / "runs").iterdir())[0]
    assert (project.folder / "runs" / last / "run" / "done.json").exists()
    assert fedcast("resume", folder, "nothing")[0] == 2
    head = next(iter(finished[1].shared))
    code, out, _ = fedcast("ledger", str(project.kit(head)))
    assert (code, "sealed" in out, "sent" in out) == (0, True, True)


def _app(config, **more):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("config/config_fed_client.json", json.dumps(config))
        for name, text in more.items():
            archive.writestr(name.replace("__", "/"), text)
    return content.getvalue()


@pytest.mark.parametrize(
    ("job_id", "meta", "app", "fault"),
    [
        (JOB_ID, {}, _app(DEVICE_CONFIG), ""),
        ("../../device", {}, _app(DEVICE_CONFIG), "job id"),
        (JOB_ID, {"byoc": True}, _app(DEVICE_CONFIG), "code"),
        (JOB_ID, {"launcher_spec": {"docker": {"image": "x"}}}, _app(DEVICE_CONFIG), "code"),
        (JOB_ID, {}, _app(DEVICE_CONFIG, **{"custom__evil.py": "1"}), "installed code only"),
        (JOB_ID, {}, _app(DEVICE_CONFIG, **{"config__config_fed_client.conf": "1"}), "installed code only"),
        (JOB_ID, {}, _app({**DEVICE_CONFIG, "components": [{"path": "os.system", "args": {}}]}), "configuration"),
        (JOB_ID, {}, b"nonsense", "cannot be read"),
    ],
)
def test_a_device_deploys_its_own_job_alone(job_id, meta, app, fault):
    found = fault_of_app(job_id, meta, app)
    assert fault in found
    assert bool(fault) == bool(found)


def test_a_kit_that_was_changed_does_not_start(project):
    kit = project.kit("site-0") / "flare"
    policy = kit / "local" / "authorization.json"
    content = policy.read_text()
    try:
        policy.write_text(content.replace('"byoc": "none"', '"byoc": "any"'))
        with pytest.raises(FedcastError, match="not as fedcast writes it"):
            check_device_policy(kit)
    finally:
        policy.write_text(content)
    check_device_policy(kit)


def test_a_device_takes_few_commands_of_flare():
    from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

    from fedcast.federation.flare.guard import limit_commands

    before = list(ClientRequestProcessors.request_processors)
    try:
        limit_commands()
        topics = {topic for each in ClientRequestProcessors.request_processors for topic in each.get_topics()}
        assert not any("shell" in topic.lower() or "delete" in topic.lower() for topic in topics)
        assert len(topics) >= 8
    finally:
        ClientRequestProcessors.request_processors[:] = before


def test_certificates_are_valid_for_a_clock_that_is_late(project):
    from datetime import datetime, timedelta

    from cryptography import x509

    for place in ("rootCA.pem", "client.crt"):
        text = (project.kit("site-0") / "flare" / "startup" / place).read_bytes()
        start = x509.load_pem_x509_certificate(text).not_valid_before_utc
        assert start < datetime.now(UTC) - timedelta(hours=20)


def test_messages_survive_the_wire():
    message = {"a": None, "b": [1, 2.5, "x", True], "c": b"\0\1", "d": {"w": [np.arange(6.0).reshape(2, 3)]}}
    found = decode(encode(message))
    assert found["c"] == b"\0\1"
    np.testing.assert_array_equal(found["d"]["w"][0], message["d"]["w"][0])
    assert found["a"] is None
    for content in (b"", b"\0\0\0\5{", encode(message)[:-1], encode(message) + b"x", "text", encode({"a": b"xy"})[:-1]):
        with pytest.raises(FedcastError, match="invalid message"):
            decode(content)


def wait_until(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


class Background:
    """A run that is followed in a thread; `found` is its state or its error."""

    def __init__(self, project, folder, **timeouts):
        self.project, self.folder, self.found = project, folder, None
        self.timeouts = {"describe_s": 30.0, "share_s": 60.0, "round_s": 15.0, **timeouts}
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        try:
            self.found = processes.run_to_end(self.project, self.folder, self.timeouts, 60.0, lambda _: None)
        except FedcastError as error:
            self.found = error

    def end(self, seconds=400):
        self.thread.join(seconds)
        assert not self.thread.is_alive()
        return self.found


def rounds_done(folder):
    return sum(key.startswith("round ") for key in load_state(folder).measured_s)


def records(folder):
    return torch.load(folder / "checkpoint.pt", weights_only=True)["records"]


def long_scenario(rounds):
    """Rounds of a second or so, so that there is time to kill somebody."""
    return scenario_with(training__rounds=rounds, allocation__max_sharing_ratio=0.5, training__local_epochs=60)


@pytest.mark.slow
def test_a_device_that_was_killed_is_left_out_and_joins_again(project, finished):
    folder = project.folder / "runs" / "killed-device"
    start_run(folder, long_scenario(80))
    run = Background(project, folder)
    wait_until(lambda: rounds_done(folder) >= 2)
    processes.stop_process(project, "site-3", kill=True)
    wait_until(lambda: load_state(folder).missing)
    assert {entry["device"] for entry in load_state(folder).missing} == {"site-3"}
    processes.start_process(project, "site-3")
    assert run.end().phase == "done"
    participants = [record["participants"] for record in records(folder)]
    assert len(participants) == 81
    assert min(participants[1:]) == USERS - 1
    assert participants[-1] == USERS


@pytest.mark.slow
def test_a_killed_server_resumes_after_the_last_round(project, finished):
    folder = project.folder / "runs" / "killed-server"
    start_run(folder, long_scenario(12))
    run = Background(project, folder)
    wait_until(lambda: rounds_done(folder) >= 3)
    processes.stop_process(project, "server", kill=True)
    assert isinstance(run.end(), FedcastError)
    done = records(folder)
    assert 3 <= len(done) - 1 < 12
    processes.start_process(project, "server")
    assert Background(project, folder).end().phase == "done"
    assert records(folder)[: len(done)] == done
    assert len(records(folder)) == 13


@pytest.mark.slow
@pytest.mark.parametrize("kills", [20])
def test_random_kills_lose_and_repeat_no_sample(project, finished, kills):
    """Devices and the server, at any time of a run; everything that was killed is started again and resumed."""
    rng = np.random.default_rng(5)
    for number in range(kills):
        folder = project.folder / "runs" / f"random-{number}"
        start_run(folder, long_scenario(3))
        victim = str(rng.choice(["server", *project.devices]))
        run = Background(project, folder)
        time.sleep(rng.uniform(0.5, 15.0))
        processes.stop_process(project, victim, kill=True)
        time.sleep(1.0)
        processes.start_process(project, victim)
        while isinstance(found := run.end(), FedcastError) or found.failure is not None:
            processes.wait_for_devices(project, list(project.devices), 120)
            run = Background(project, folder)
        assert found.phase == "done", (number, victim, found)
        assert len(records(folder)) == 4
        for head, answer in found.shared.items():
            for member in answer["delivered"]:
                held = DeviceLedger(project.own_files(member) / "ledger.sqlite")
                received = held.received_in(found.run)
                held.close()
                assert [count for _, count in received] == [answer["count"]], (number, victim, head, member)
