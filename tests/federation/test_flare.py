"""Real processes on loopback, TLS on. One project and one run serve all tests of this file."""

import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
import zlib
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import which

import numpy as np
import pytest
import torch

pytest.importorskip("nvflare", reason="nvflare is not installed: pip install fedcast[federation]")

from fedcast.cli.app import run as run_command
from fedcast.data import load_dataset, populate
from fedcast.errors import FedcastError
from fedcast.federation import DeviceLedger, RunState, fill_trial, load_state, make_project
from fedcast.federation.device.samples import OwnSamples
from fedcast.federation.flare import jobs, processes
from fedcast.federation.flare.guard import fault_of_app, is_allowed
from fedcast.federation.flare.kits import check_device_kit
from fedcast.federation.flare.names import DEVICE_CONFIG, EXECUTOR
from fedcast.federation.wire import decode, encode
from tests.federation.local_processes import free_port, hooked, shifted_clock, start, stopped_at_the_end, wait_until
from tests.federation.test_phases import SETTINGS, USERS, scenario_with, simulated

JOB_ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
CHANGED = {"training.rounds": 3, "allocation.max_sharing_ratio": 0.5}
HOUR, CURIOUS = 3600, "site-5"
CLOCKS = {"site-1": -HOUR, "site-2": HOUR} if which("cc") else {}


@pytest.fixture(scope="module")
def scenario():
    return scenario_with(**{key.replace(".", "__"): value for key, value in CHANGED.items()})


@pytest.fixture(scope="module")
def project(tmp_path_factory, scenario):
    """Six devices, two of them with a clock that is an hour off, one that is curious, and a server that is curious."""
    folder = tmp_path_factory.mktemp("federation") / "project"
    made = make_project(folder, [f"site-{user}" for user in range(USERS)], port=free_port())
    fill_trial(made, scenario)
    policy = made.server / "local" / "authorization.json"
    assert '"byoc": "none"' in policy.read_text()
    policy.write_text(policy.read_text().replace('"byoc": "none"', '"byoc": "any"'))
    with stopped_at_the_end(made):
        with hooked(FEDCAST_SNOOP=str(folder / "snooped")):
            start(made, "server")
        for name in made.devices:
            with shifted_clock(folder, CLOCKS[name]) if name in CLOCKS else nullcontext(), (
                hooked(FEDCAST_PEEK=str(folder / "peeked")) if name == CURIOUS else nullcontext()
            ):  # fmt: skip
                start(made, name)
        assert jobs.wait_for_devices(made, list(made.devices), 120) == list(made.devices)
        yield made


@dataclass
class Finished:
    folder: Path
    state: RunState
    printed: str
    seconds: float


@pytest.fixture(scope="module")
def finished(project):
    """A run by the command that users type."""
    words = [word for each in (SETTINGS | CHANGED).items() for word in ("--set", "{}={}".format(*each))]
    began = time.monotonic()
    with redirect_stdout(io.StringIO()) as out:
        assert run_command(["federation", "run", str(project.folder), *words]) == 0
    (folder,) = (project.folder / "runs").iterdir()
    return Finished(folder, load_state(folder), out.getvalue(), time.monotonic() - began)


def test_devices_give_the_weights_of_the_simulation(finished, scenario):
    state = finished.state
    assert (state.phase, state.failure, state.missing) == ("done", None, [])
    population = populate(load_dataset(scenario.data), scenario.data, scenario.seed)
    expected = simulated(finished, population, [device["name"] for device in state.devices])
    assert len(expected.ledger) > 0
    stored = torch.load(finished.folder / "checkpoint.pt", weights_only=True)
    assert stored["completed"] == 3
    for one, other in zip(stored["weights"], expected.outcome.weights, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)
    assert [record["accuracy"] for record in stored["records"]] == expected.history.column("accuracy")
    # On a machine that is busy with other work the time says nothing.
    assert finished.seconds < 60 or os.getloadavg()[0] > 5 * (os.cpu_count() or 1)


def test_the_plan_and_what_was_measured_are_printed(finished):
    heads = len(finished.state.shared)
    assert f"{heads} head" in finished.printed
    assert "average EMD" in finished.printed
    for line in ("share, planned", "share, measured", "round, planned", "round, measured", "results are in"):
        assert line in finished.printed


@pytest.mark.skipif(not CLOCKS, reason="there is no C compiler to change the clock of a process")
def test_clocks_that_are_an_hour_off_do_not_matter(project, finished):
    for name, shift in CLOCKS.items():
        ledger = DeviceLedger(project.own_files(name) / "ledger.sqlite")
        times = [entry.at for entry in ledger.entries()]
        ledger.close()
        assert times, name
        assert all(abs(at - shift - time.time()) < HOUR / 2 for at in times)


def test_the_server_sees_no_sample(project, finished):
    """Everything that it forwarded, received or stored is searched for all samples."""
    state = finished.state
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


def test_a_device_does_not_answer_another_one_in_the_place_of_the_server(project, finished):
    """Otherwise every participant could have the class counts of others, or updates on weights of its choice."""
    wait_until((project.folder / "peeked").exists, 30)
    assert json.loads((project.folder / "peeked").read_text()) == {"asked": "site-0", "answered": "{}"}
    logs = [file.read_text(errors="replace") for file in (project.kit("site-0") / "flare").rglob("log*.txt")]
    assert any("refused a request of 'site-5." in log for log in logs)


def test_members_have_the_samples_of_their_heads(project, finished):
    state = finished.state
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
    job = jobs.write_job(project.folder / "evil", project, project.folder, list(project.devices), {})
    marker = project.folder / "ran"
    custom = job / "device_app" / "custom"
    custom.mkdir()
    (custom / "evil.py").write_text(f"open({str(marker)!r}, 'w')\nclass Evil: pass\n")
    config = json.loads(json.dumps(DEVICE_CONFIG).replace(EXECUTOR, "evil.Evil"))
    (job / "device_app" / "config" / "config_fed_client.json").write_text(json.dumps(config))
    with jobs.session(project) as connected:
        job_id = connected.submit_job(str(job))
        wait_until(lambda: str(connected.get_job_meta(job_id).get("status")).startswith("FINISHED"))
        assert connected.get_job_meta(job_id)["status"] == "FINISHED:FAILED_TO_RUN"
    for name in project.devices:
        log = (project.folder / "logs" / f"{name}.log").read_text()
        assert "refused to deploy" in log
        assert not list((project.kit(name) / "flare").rglob("evil.py"))
    assert not marker.exists()


def test_commands_on_a_running_project(project, finished, capsys):
    folder, name = str(project.folder), finished.folder.name

    def fedcast(*words):
        code = run_command(list(words))
        return code, *capsys.readouterr()

    code, out, _ = fedcast("federation", "status", folder, name)
    assert code == 0
    assert f"{USERS} of {USERS} devices are connected" in out
    assert "rounds done" in out
    code, out, _ = fedcast("federation", "up", folder)
    assert (code, f"{USERS} of {USERS} devices are connected" in out) == (0, True)
    code, out, _ = fedcast("federation", "resume", folder)
    assert (code, "results are in" in out) == (0, True)
    assert fedcast("federation", "resume", folder, "nothing")[0] == 2
    head, answer = next(iter(finished.state.shared.items()))
    code, out, _ = fedcast("federation", "ledger", str(project.kit(head)))
    assert (code, "sealed" in out, "sent" in out) == (0, True, True)
    assert "received" in fedcast("federation", "ledger", str(project.kit(answer["delivered"][0])))[1]
    page = project.folder / "report.html"
    assert fedcast("report", str(finished.folder), "--out", str(page))[0] == 0
    assert "a round, measured on devices (median)" in page.read_text()


def _interruptible(command):
    """Start a command that Ctrl-C stops also where these tests run in the background, which ignores it."""
    heed = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=heed,
    )


@pytest.mark.slow
def test_a_run_is_stopped_by_ctrl_c_and_refuses_another_one_before(project, finished, capsys):
    """Also: a device that was killed is not connected, at once."""
    folder, settings = str(project.folder), SETTINGS | CHANGED | {"training.rounds": 5000}
    words = [word for each in settings.items() for word in ("--set", "{}={}".format(*each))]
    command = [sys.executable, "-m", "fedcast", "federation", "run", folder, *words]
    with _interruptible(command) as process:
        printed = []
        for line in process.stdout:
            printed.append(line)
            if line.startswith("round 2 of"):
                break
        name = printed[0].split()[1]
        assert run_command(["federation", "run", folder, *words]) == 2
        assert f"run {name} goes on" in capsys.readouterr().err
        processes.stop_process(project, "site-5", kill=True)
        assert run_command(["federation", "status", folder]) == 0
        out = capsys.readouterr().out
        assert f"{USERS - 1} of {USERS} devices are connected" in out
        assert "does not go on" not in out
        process.send_signal(signal.SIGINT)
        printed += process.stdout.readlines()
    assert process.returncode == 130
    assert f"run {name} was stopped (train, " in printed[-2]
    assert f"fedcast federation resume {folder} {name}" in printed[-2]
    assert run_command(["federation", "stop", folder]) == 0
    assert run_command(["federation", "status", folder, name]) == 0
    out = capsys.readouterr().out
    assert out.startswith("no run goes on\n")
    assert "it does not go on; resume it with" in out
    start(project, "site-5")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
def test_a_device_in_the_foreground_is_stopped_by_a_signal(project, finished, number):
    """Threads of FLARE would keep a device alive that is connected."""
    processes.stop_process(project, "site-4")
    command = [sys.executable, "-m", "fedcast", "federation", "start", str(project.kit("site-4"))]
    with _interruptible(command) as process:
        try:
            next(line for line in process.stdout if "Connected to server" in line)
            process.send_signal(number)
            assert process.wait(20) == 128 + number
        finally:
            process.kill()
            start(project, "site-4")


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
            check_device_kit(kit)
    finally:
        policy.write_text(content)
    check_device_kit(kit)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("local/custom/torch.py", "1"),
        ("local/site__resources.json", "{}"),
        ("startup/x__p_resources.json", "{}"),
        ("local/log_config.json", '{"version": 1, "handlers": {"x": {"()": "os.system", "command": "true"}}}'),
        ("startup/fed_client.json", '{"components": [{"id": "x", "path": "subprocess.Popen", "args": {}}]}'),
        ("startup/fed_client.json", "clear"),
    ],
)
def test_a_kit_that_brings_code_or_less_security_does_not_start(project, file, content):
    kit = project.kit("site-0") / "flare"
    path = kit / file
    before = path.read_text() if path.exists() else None
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_text(before.replace("mtls", "clear") if content == "clear" else content)
        with pytest.raises(FedcastError, match=Path(file).parts[1]):
            check_device_kit(kit)
    finally:
        path.unlink() if before is None else path.write_text(before)
        if path.parent.name == "custom":
            path.parent.rmdir()
    check_device_kit(kit)


@pytest.mark.parametrize(
    ("origin", "request_", "streamed", "allowed"),
    [
        ("server.1", ("aux_communication", "fedcast.call"), True, True),
        ("server", ("admin", "deploy"), False, True),
        ("site-0", ("client_command", "abort"), False, True),
        ("site-1.1", ("aux_communication", "fedcast.peer"), True, True),
        ("site-1.1", ("sm__STREAM", "sm__DATA"), False, True),
        ("site-1.1", ("sm__STREAM", "sm__DATA"), True, False),
        ("site-1.1", ("aux_communication", "fedcast.call"), True, False),
        ("site-1.1", ("aux_communication", "__end_run__"), False, False),
        ("site-1", ("admin", "deploy"), False, False),
        ("site-1", ("client_command", "abort"), False, False),
        ("site-1", ("cellnet.net_manager", "stop_cell"), False, False),
        ("site-01", ("admin", "deploy"), False, False),
        ("server-2", ("admin", "deploy"), False, False),
        (None, ("admin", "deploy"), False, False),
        ("", ("admin", "deploy"), False, False),
    ],
)
def test_other_devices_may_send_messages_of_fedcast_alone(origin, request_, streamed, allowed):
    assert is_allowed(origin, "site-0.1", request_, streamed=streamed) == allowed


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
