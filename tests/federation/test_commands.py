"""Commands that need neither FLARE nor processes."""

import socket

import numpy as np
import pytest

from fedcast.cli.app import run
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
    net = Network(tmp_path, ["head/device", "near/device"])
    net.share("head/device", "near/device")
    code, out, _ = fedcast("ledger", tmp_path / "head")
    assert (code, "8 different samples were sent" in out) == (0, True)
    assert "received" in fedcast("ledger", tmp_path / "near")[1]


def test_received_samples_are_deleted_and_the_ledger_stays(fedcast, tmp_path):
    net = Network(tmp_path, ["head/device", "near/device", "far/device"])
    net.share("head/device", "near/device")
    net.devices["near/device"].alive({"run": "run-2"})
    net.share("head/device", "near/device", run="run-2")
    head, near = tmp_path / "head", tmp_path / "near"
    assert "runs with samples: run-1, run-2" in fedcast("forget", near, "run-3")[2]
    assert fedcast("forget", near, "run-2") == (0, "deleted 8 samples of 1 run\n", "")
    device = net.start("near/device")
    assert device.alive({"run": "run-2"})["samples"] == len(device.own)
    device.alive({"run": "run-1"})
    assert (net.received("near/device"), len(device.inbox.files())) == (8, 1)
    # What was deleted is neither sent again nor taken as new.
    net.log.clear()
    assert net.share("head/device", "near/device", run="run-2")["delivered"] == ["near/device"]
    assert net.log == []
    header = net.devices["head/device"].ledger.sealed_header("run-2")
    device.alive({"run": "run-2"})
    assert "receipt" in device.receive({"topic": "offer", "header": header})
    assert device.inbox.files() == []
    assert fedcast("forget", near) == (0, "deleted 8 samples of 1 run\n", "")
    assert net.stored_bytes("near/device") == 0
    out = fedcast("ledger", near)[1]
    assert (out.count("received"), out.count("deleted")) == (2, 2)
    assert fedcast("forget", head) == (0, "deleted 0 samples of 0 runs\n", "")


def test_samples_of_half_an_envelope_are_deleted(fedcast, tmp_path, monkeypatch):
    monkeypatch.setattr("fedcast.federation.device.envelope.CHUNK_BYTES", 72)
    net = Network(tmp_path, ["head/device", "near/device"])
    net.tamper = lambda _, message: None if message.get("index") == 2 else message
    net.share("head/device", "near/device")
    assert net.stored_bytes("near/device") > 0
    assert fedcast("forget", tmp_path / "near")[0] == 0
    assert net.stored_bytes("near/device") == 0


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
