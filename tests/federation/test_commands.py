"""Commands that need neither FLARE nor processes."""

import contextlib
import json
import socket
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedcast.cli.app import run
from fedcast.cli.federation_text import RunProgress, print_run
from fedcast.federation import RunState
from tests.federation.devices import Network


@pytest.fixture
def fedcast(capsys):
    def call(*words):
        code = run(["federation", *map(str, words)])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def device(tmp_path):
    folder = tmp_path / "renamed"
    (folder / "device").mkdir(parents=True)
    (folder / "flare" / "startup").mkdir(parents=True)
    (folder / "flare" / "startup" / "fed_client.json").write_text('{"client": {"fqsn": "ana"}}')
    return folder


def test_keys_are_drawn_once(fedcast, device):
    code, out, _ = fedcast("keys", device)
    assert code == 0
    assert out.startswith("ana: ")
    assert len(out.split()) == 17
    assert fedcast("keys", device)[1] == out
    assert (device / "device" / "keys.pem").stat().st_mode & 0o777 == 0o600


def test_samples_are_imported(fedcast, device, tmp_path):
    rng = np.random.default_rng(0)
    file = tmp_path / "mine.npz"
    np.savez(file, inputs=rng.integers(0, 256, (20, 8, 8), dtype=np.uint8), labels=np.arange(20) % 3, num_classes=10)
    code, out, _ = fedcast("samples", device, file)
    assert (code, "20 samples" in out) == (0, True)
    from fedcast.federation.device.samples import OwnSamples

    own = OwnSamples(device / "device" / "data")
    assert own.format.num_classes == 10
    assert own.format.shape == (1, 8, 8)
    assert own.counts.tolist()[:4] == [7, 7, 6, 0]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"inputs": np.full((4, 3), 7.0), "labels": np.arange(4)}, "expected bytes or numbers in [0, 1]"),
        ({"inputs": np.zeros((4, 3)), "labels": np.arange(4), "num_classes": 2}, "labels up to 3"),
        ({"inputs": np.zeros((4, 3))}, "expected an .npz with inputs and labels"),
        ({"inputs": np.zeros((4, 3)), "labels": np.arange(3)}, "labels"),
    ],
)
def test_samples_are_checked(fedcast, device, tmp_path, arrays, message):
    file = tmp_path / "mine.npz"
    np.savez(file, **arrays)
    code, _, err = fedcast("samples", device, file)
    assert code == 2
    assert message in err
    assert not (device / "device" / "data").exists()


def test_the_ledger_is_printed(fedcast, tmp_path):
    net = Network(tmp_path, ["head", "near"], inside="device")
    net.share("head", "near")
    code, out, _ = fedcast("ledger", tmp_path / "head")
    assert (code, "8 different samples were sent" in out) == (0, True)
    assert "received" in fedcast("ledger", tmp_path / "near")[1]


def test_received_samples_are_deleted_and_the_ledger_stays(fedcast, tmp_path):
    net = Network(tmp_path, ["head", "near", "far"], inside="device")
    net.share("head", "near")
    net.devices["near"].alive({"run": "run-2"})
    net.share("head", "near", run="run-2")
    head, near = tmp_path / "head", tmp_path / "near"
    assert "runs with samples: run-1, run-2" in fedcast("forget", near, "run-3")[2]
    net.devices.clear()
    assert fedcast("forget", near, "run-2") == (0, "deleted 8 samples of 1 run\n", "")
    net.start("head")
    device = net.start("near")
    assert device.alive({"run": "run-2"})["samples"] == len(device.own)
    device.alive({"run": "run-1"})
    assert (net.received("near"), len(device.inbox.files())) == (8, 1)
    # What was deleted is neither sent again nor taken as new.
    net.log.clear()
    assert net.share("head", "near", run="run-2")["delivered"] == ["near"]
    assert net.log == []
    header = net.devices["head"].ledger.sealed_header("run-2")
    device.alive({"run": "run-2"})
    assert "receipt" in device.receive({"topic": "offer", "header": header})
    assert device.inbox.files() == []
    net.devices.clear()
    del device
    assert fedcast("forget", near) == (0, "deleted 8 samples of 1 run\n", "")
    assert net.stored_bytes("near") == 0
    out = fedcast("ledger", near)[1]
    assert (out.count("received"), out.count("deleted")) == (2, 2)
    assert fedcast("forget", head) == (0, "deleted 0 samples of 0 runs\n", "")


def test_forgetting_samples_that_a_run_trains_on_is_warned_of(fedcast, tmp_path):
    net = Network(tmp_path, ["head", "near"], inside="device")
    net.share("head", "near")
    code, out, err = fedcast("forget", tmp_path / "near")
    assert (code, out) == (0, "deleted 8 samples of 1 run\n")
    assert "warning: the device takes part in run run-1 now: from the next round on it trains without" in err
    assert net.devices["near"].inbox.files() == []
    # Nothing of the run that goes on is deleted here, and so there is nothing to warn of.
    assert fedcast("forget", tmp_path / "near")[2] == ""


def test_samples_of_half_an_envelope_are_deleted(fedcast, tmp_path, monkeypatch):
    monkeypatch.setattr("fedcast.federation.device.envelope.CHUNK_BYTES", 72)
    net = Network(tmp_path, ["head", "near"], inside="device")
    net.tamper = lambda _, message: None if message.get("index") == 2 else message
    net.share("head", "near")
    assert net.stored_bytes("near") > 0
    assert fedcast("forget", tmp_path / "near")[0] == 0
    assert net.stored_bytes("near") == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("keys", "nowhere"), "not the folder of a device"),
        (("ledger", "nowhere"), "no such file"),
        (("forget", "nowhere"), "no such file"),
        (("start", "nowhere"), "neither the folder of a server"),
        (("up", "nowhere"), "there is no project"),
        (("status", "nowhere"), "there is no project"),
        (("init", "here", "--trial", "digits", "--device", "ana"), "remove --device"),
        (("init", "here", "--device", "Ana"), "invalid value 'Ana'"),
        (("init", "here", "--device", "ana", "--device", "ana"), "all different"),
        (("init", "here"), "at least one"),
    ],
)
def test_errors_are_one_line(fedcast, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    code, _, err = fedcast(*words)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def project_without_server(folder):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "project.json").write_text(json.dumps({"devices": ["ana"], "host": "localhost", "port": port}))
    return port


@pytest.mark.parametrize("command", ["run", "resume", "stop"])
def test_a_server_that_is_not_there_is_an_error_soon(fedcast, tmp_path, monkeypatch, command):
    pytest.importorskip("nvflare")
    from fedcast import load_scenario
    from fedcast.federation import start_run

    monkeypatch.setattr("fedcast.federation.flare.jobs._SERVER_S", 0.1)
    port = project_without_server(tmp_path)
    if command == "resume":
        assert "no runs yet" in fedcast("resume", tmp_path)[2]
        start_run(tmp_path / "runs" / "first", load_scenario(base="digits"))
    began = time.monotonic()
    code, out, err = fedcast(command, tmp_path)
    assert time.monotonic() - began < 5
    assert (code, out) == (2, "")
    assert f"no server at localhost:{port}" in err
    assert f"fedcast federation up {tmp_path}" in err
    assert command == "resume" or not (tmp_path / "runs").exists(), "a run that cannot start leaves no folder"


def test_a_run_waits_for_another_one_to_end(tmp_path):
    pytest.importorskip("nvflare")
    from fedcast.errors import FedcastError
    from fedcast.federation import Project, ServerStatus, check_idle

    project, status = Project(tmp_path, ("ana",), "localhost", 1), ServerStatus(["ana"], {"first": "job"})
    check_idle(status, project, "first")
    with pytest.raises(FedcastError, match=rf"run first goes on.*fedcast federation stop {tmp_path}"):
        check_idle(status, project, "second")


def state_after(rounds, missing=(), away=()):
    return RunState(
        "first", {"training": {"rounds": 3}}, "train", [{"name": "ana"}, {"name": "ben"}],
        shared={"ana": {"delivered": ["ben"], "bytes_sent": 4000}}, missing=list(missing), away=list(away),
        measured_s={"describe": 2.0, "plan": 0.5, "share": 1.5, **{f"round {n + 1}": 0.25 for n in range(rounds)}},
        training_s={f"round {n + 1}": 0.125 for n in range(rounds)}, accuracy=0.5 + 0.125 * rounds,
        accuracies={f"round {n + 1}": 0.625 + 0.125 * n for n in range(rounds)},
    )  # fmt: skip


def test_progress_without_a_terminal_is_a_line_for_each_phase_and_round(tmp_path, capsys):
    before = RunState("first", {"training": {"rounds": 3}}, "share")
    lost = {"device": "ben", "when": "round 2", "reason": "no answer"}
    with RunProgress(tmp_path / "first", before) as progress:
        for state in (
            state_after(1),
            state_after(1),
            state_after(2, [lost], ["ben"]),
            state_after(3, [lost | {"back": "round 3"}]),
        ):
            progress.show(state)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.replace("\N{NO-BREAK SPACE}", " ").splitlines() == [
        "run first continues on the devices; Ctrl-C stops it, and it can be resumed",
        "describe: 2 devices, 2 s",
        "plan: 500 ms",
        "share: 4,000 bytes to 1 member, 1.50 s",
        "round 1 of 3: accuracy 0.625, 250 ms",
        "round 2: ben: no answer",
        "round 2 of 3: accuracy 0.750, 250 ms",
        "round 3: ben is back",
        "round 3 of 3: accuracy 0.875, 250 ms",
    ]
    with RunProgress(tmp_path / "first", state_after(0)) as progress:  # rounds that were too quick to be seen
        progress.show(state_after(3))
    assert [line.split(",")[0] for line in capsys.readouterr().err.splitlines()[1:]] == [
        f"round {number} of 3: accuracy {accuracy}" for number, accuracy in ((1, "0.625"), (2, "0.750"), (3, "0.875"))
    ]


def test_the_status_of_a_run_says_who_is_away_and_who_is_back(capsys):
    missing = [
        {"device": "late", "when": "describe", "reason": "not connected"},
        {"device": "ana", "when": "round 1", "reason": "no answer", "back": "round 3"},
        *({"device": "ben", "when": f"round {n}", "reason": "batches of 5 samples"} for n in (1, 2, 3)),
    ]
    print_run("first", state_after(3, missing), "it does not go on")
    assert capsys.readouterr().out.splitlines()[-4:] == [
        "late: not connected (describe), not part of this run",
        "ana: no answer (round 1), back since round 3",
        "ben: batches of 5 samples (round 1 to round 3)",
        "it does not go on",
    ]


def test_every_key_of_a_consent_file_is_documented_with_its_default():
    pytest.importorskip("nvflare")
    from fedcast.federation.device.owner_files import Consent
    from fedcast.federation.flare.kits import _CONSENT_TEMPLATE

    page = (Path(__file__).parents[2] / "docs/how-to/federation.md").read_text(encoding="utf-8")
    lines = [line.strip() for line in page.splitlines() if line.strip().startswith("| `")]
    rows = dict(line.strip("| ").split("` | ", 1) for line in lines)
    assert {f"`{name}" for name in Consent.model_fields} == rows.keys()
    for name, field in Consent.model_fields.items():
        assert f"{name} = " in _CONSENT_TEMPLATE
        if isinstance(field.default, int | float):
            assert float(rows[f"`{name}"].split(" | ")[-1].replace(",", "")) == field.default


def test_a_server_does_not_share_the_port_of_another(tmp_path):
    pytest.importorskip("nvflare")
    from fedcast.errors import FedcastError
    from fedcast.federation.flare.kits import Project
    from fedcast.federation.flare.processes import start_process

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(FedcastError, match=rf"port {port} is in use.*--port"):
            start_process(Project(tmp_path, ("ana",), "localhost", port), "server")
    assert not list(tmp_path.iterdir()), "nothing was started or written"


def test_a_job_starts_without_what_the_one_before_left(tmp_path, monkeypatch):
    """Otherwise devices that were lost before count as lost and returned while the job still starts."""
    pytest.importorskip("nvflare")
    from fedcast.federation import Project, ServerStatus, load_state
    from fedcast.federation.flare import jobs
    from fedcast.federation.state import write_state

    submitted, project = [], Project(tmp_path, ("ana",), "localhost", 1)
    ends = iter([state_after(1, away=["ben"]), replace(state_after(3), phase="done")])

    def follow(*_, **__):
        write_state(tmp_path / "first", found := next(ends))
        return found

    monkeypatch.setattr(jobs, "wait_for_server", lambda *_: ServerStatus(["ana"], {}))
    monkeypatch.setattr(jobs, "wait_for_devices", lambda *_: ["ana"])
    monkeypatch.setattr(jobs, "submit_job", lambda _, folder, *__: submitted.append(load_state(folder)))
    monkeypatch.setattr(jobs, "follow_job", follow)
    write_state(tmp_path / "first", replace(state_after(1, away=["ben"]), failure="the disk was full"))
    assert jobs.run_to_end(project, tmp_path / "first", {}, 0.0, print).phase == "done"
    assert [(state.failure, state.away) for state in submitted] == [(None, []), (None, [])]


@pytest.mark.parametrize("stopped", [True, False])
def test_devices_that_are_silent_since_their_job_is_ended_are_no_failure(tmp_path, stopped):
    """FLARE ends a job on devices first, and at the server some seconds later."""
    pytest.importorskip("nvflare")
    from nvflare.apis.client import Client
    from nvflare.apis.fl_constant import ReservedKey
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.signal import Signal

    from fedcast import load_scenario
    from fedcast.federation import load_state, start_run
    from fedcast.federation.flare.controller import FederationController
    from fedcast.federation.flare.names import STOP_FILE

    class Engine:
        """As much of FLARE's engine as the controller uses; nobody answers."""

        def get_clients(self):
            return [Client("ana", "token")]

        def new_context(self):
            return contextlib.nullcontext()

        def send_aux_request(self, *_, **__):
            if stopped:
                (tmp_path / "run" / STOP_FILE).touch()

        def fire_event(self, *_):
            pass

    start_run(tmp_path / "run", load_scenario(base="digits"))
    (tmp_path / "run" / STOP_FILE).touch()  # of the job before
    context = FLContext()
    context.set_prop(ReservedKey.ENGINE, Engine(), private=True, sticky=False)
    FederationController(str(tmp_path / "run"), ["ana"], {"describe_s": 0.2}).control_flow(Signal(), context)
    state = load_state(tmp_path / "run")
    assert (state.failure is None) == stopped
    assert stopped or "no device with samples answered" in state.failure


def test_a_device_that_cannot_start_tells_the_server_why(tmp_path, monkeypatch):
    pytest.importorskip("nvflare")
    from nvflare.apis.event_type import EventType
    from nvflare.apis.shareable import Shareable

    from fedcast.federation.flare.executor import DeviceExecutor
    from fedcast.federation.flare.names import CALL_TOPIC, DEVICE_FOLDER, MESSAGE
    from fedcast.federation.wire import decode, encode

    class Context:
        """As much of FLARE's context as the start of a job uses."""

        def __init__(self):
            self.handlers = {}

        def get_identity_name(self):
            return "ana"

        def get_engine(self):
            return self

        def register_aux_message_handler(self, topic, handler):
            self.handlers[topic] = handler

    monkeypatch.setenv(DEVICE_FOLDER, str(tmp_path))
    context = Context()
    DeviceExecutor().handle_event(EventType.START_RUN, context)
    request = Shareable()
    request[MESSAGE] = encode({"call": "describe", "request": {}})
    told = decode(context.handlers[CALL_TOPIC](CALL_TOPIC, request, context)[MESSAGE])
    assert "no readable samples" in told["error"]
