"""Processes that are killed, disks that are full, operators that cheat: real processes on loopback, TLS on."""

import json
import os
import shutil
import subprocess
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import psutil
import pytest

pytest.importorskip("nvflare", reason="nvflare is not installed: pip install fedcast[federation]")

from fedcast import load_scenario
from fedcast.data import Dataset, dataset_from_arrays
from fedcast.errors import FedcastError
from fedcast.federation import DeviceLedger, fill_trial, load_state, make_project, start_run, write_samples
from fedcast.federation.device.keys import new_key_pair
from fedcast.federation.flare import jobs, processes
from fedcast.plan import load_plan
from tests.federation.devices import fingerprint, trust
from tests.federation.local_processes import (
    Background,
    free_port,
    hooked,
    kill,
    records,
    rounds_done,
    start,
    stopped_at_the_end,
    wait_until,
)
from tests.federation.test_phases import USERS, scenario_with

pytestmark = pytest.mark.slow

CLASSES, SIDE = 4, 64
RECORD_BYTES = SIDE * SIDE + 8
SAMPLES, MANY = 15_000, 50_000  #: 61 MB and 205 MB
MIB = 2**20
PATIENT_S = 120.0  #: for a round where nobody is killed in one: on a busy machine it may take long


def images(count: int, classes: int, seed: int) -> Dataset:
    inputs = np.random.default_rng(seed).integers(0, 256, (count, 1, SIDE, SIDE), dtype=np.uint8)
    # The only test sample has the last class, so that all devices agree on their number.
    return dataset_from_arrays(inputs, np.arange(count) % classes, inputs[:1], np.array([CLASSES - 1]))


def make_star(folder: Path, names: list[str], samples: int, of_others: int):
    """Write a project whose first device holds all classes and may share them with all others."""
    project = make_project(folder, names, port=free_port())
    known = {}
    for number, name in enumerate(names):
        own = project.own_files(name)
        write_samples(own / "data", images(samples, CLASSES, 0) if number == 0 else images(of_others, 1, number))
        (own / "consent.toml").write_text('kinds = ["raw"]\nmax_ratio = 1.0\n' if number == 0 else "")
        known[name] = fingerprint(own)
    head, *members = names
    trust(project.own_files(head), *((name, known[name]) for name in members))
    for name in members:
        trust(project.own_files(name), (head, known[head]))
    held = images(100, CLASSES, 999)
    inputs, labels = held.inputs, held.labels
    np.savez(folder / "test.npz", inputs=inputs, labels=labels, test_inputs=inputs, test_labels=labels)
    return project


def star_scenario(project, ratio, rounds):
    return load_scenario(
        base="default",
        overrides={
            "data.dataset": "file", "data.file": str(project.folder / "test.npz"),
            "data.num_users": len(project.devices), "training.model": "mlp", "training.model_weights": 131_236,
            "training.rounds": rounds, "training.batch_size": 50, "training.local_epochs": 1, "clustering.rule": "daca",
            "allocation.method": "fixed", "allocation.max_sharing_ratio": 1.0, "allocation.fixed.ratio": ratio,
            "devices.energy_budget_j": 1e9, "cellular.snr_db": 20.0,
        },
    )  # fmt: skip


@contextmanager
def running(project):
    with stopped_at_the_end(project):
        start(project, "server", *project.devices)
        assert len(jobs.wait_for_devices(project, list(project.devices), 120)) == len(project.devices)
        yield project


@pytest.fixture(scope="module")
def star(tmp_path_factory):
    """A head with 61 MB, and two members with as much, so that rounds take a while with and without the head."""
    project = make_star(tmp_path_factory.mktemp("star") / "project", ["head", "near", "far"], SAMPLES, SAMPLES)
    with running(project):
        yield project


@pytest.fixture
def uneven(tmp_path):
    """A head with 200 MB, two members, one more whose disk has 3 MB, and a device without samples or links."""
    mounted = []
    try:
        project = make_star(tmp_path / "project", ["head", "near", "far", "small", "empty"], MANY, 60)
        write_samples(project.own_files("empty") / "data", images(4, 1, 0), np.zeros(0, dtype=np.int64))
        trust(project.own_files("empty"))
        small = project.own_files("small")
        shutil.copytree(small, tmp_path / "small")
        mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", small]
        if os.geteuid() == 0 and subprocess.run(mount).returncode == 0:
            mounted.append(small)
            shutil.copytree(tmp_path / "small", small, dirs_exist_ok=True)
        with running(project):
            yield project
    finally:
        for place in mounted:
            subprocess.run(["umount", place], check=True)


def begin(project, name, ratio, rounds, **timeouts):
    folder = project.folder / "runs" / name
    start_run(folder, star_scenario(project, ratio, rounds))
    return folder, Background(project, folder, **timeouts)


def flowing_bytes(project, name) -> int:
    """Bytes of samples that a member has of an envelope that is not complete."""
    try:
        return max((file.stat().st_size for file in (project.own_files(name) / "inbox").rglob("*.part")), default=0)
    except FileNotFoundError:
        return 0


def received(project, name, run) -> list[int]:
    ledger = DeviceLedger(project.own_files(name) / "ledger.sqlite")
    found = [count for _, count in ledger.received_in(run)]
    ledger.close()
    return found


class AnonymousMemory:
    """Watches the memory of a device that is not backed by files: peak of all its processes together, MiB."""

    def __init__(self, project, names, until):
        self.pids, self.until = {name: processes.running_processes(project)[name] for name in names}, until
        self.peaks = dict.fromkeys(names, 0.0)
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()

    def _watch(self):
        while not self.until():
            for name, pid in self.pids.items():
                tree = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
                self.peaks[name] = max(self.peaks[name], sum(map(_anonymous_mib, tree)))
            time.sleep(0.2)

    def end(self):
        self.thread.join()
        return self.peaks


def _anonymous_mib(pid):
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


def test_200_mb_flow_with_bounded_memory_past_a_full_disk_and_a_device_without_samples(uneven):
    folder, run = begin(uneven, "large", 1.0, 1, share_s=300.0, round_s=300.0)
    memory = AnonymousMemory(uneven, uneven.devices, lambda: load_state(folder).phase in ("train", "done"))
    peaks = memory.end()
    state = run.end()
    assert state.phase == "done"
    answer = state.shared["head"]
    assert answer["count"] == MANY
    full = os.path.ismount(uneven.own_files("small"))
    assert sorted(answer["delivered"]) == ["far", "near", *([] if full else ["small"])]
    for name in ("near", "far"):
        assert received(uneven, name, state.run) == [MANY]
    # Beyond what an idle device needs: buffers of chunks, and on the head a hash of every sample. It was 100 MiB.
    for name in ("head", "near", "far"):
        assert peaks[name] < peaks["empty"] + 140, peaks
    # The device without samples is described, and not asked to train.
    assert {device["name"]: device["size"] for device in state.devices}["empty"] == 0
    assert records(folder)[-1]["participants"] == 4
    if full:
        assert "no space left on the disk" in answer["rejected"]["small"]
        assert [(entry["device"], entry["when"]) for entry in state.missing] == [("small", "share")]
        places = (uneven.own_files("small") / "received", uneven.own_files("small") / "inbox")
        assert sum(file.stat().st_size for place in places for file in place.rglob("*") if file.is_file()) == 0
    print(f"{MANY * RECORD_BYTES / 1e6:.0f} MB to two members in {answer['seconds']:.1f} s; peaks {peaks} MiB")


def test_a_member_that_is_killed_while_bytes_flow_gets_the_rest_when_it_is_back(star):
    folder, run = begin(star, "killed-member", 1.0, 60, share_s=120.0, round_s=PATIENT_S)
    wait_until(lambda: flowing_bytes(star, "near") > 10 * MIB)
    kill(star, "near")
    start(star, "near")
    state = run.end()
    assert state.phase == "done"
    assert {entry["device"] for entry in state.missing} == {"near"}
    for name in ("near", "far"):
        assert received(star, name, state.run) == [SAMPLES]
    # Nothing that it had was sent again, but for the two chunks and the headers that it did not answer.
    assert abs(state.shared["head"]["bytes_sent"] - 2 * SAMPLES * RECORD_BYTES) < 3 * MIB
    assert (records(folder)[1]["participants"], records(folder)[-1]["participants"]) == (2, 3)


def test_a_head_that_is_killed_while_bytes_flow_sends_the_rest_when_it_is_back(star):
    folder, run = begin(star, "killed-head", 1.0, 60, share_s=40.0, round_s=PATIENT_S)
    wait_until(lambda: flowing_bytes(star, "near") > 10 * MIB)
    kill(star, "head")
    there = sum(flowing_bytes(star, name) for name in ("near", "far"))
    start(star, "head")
    state = run.end()
    assert state.phase == "done"
    assert {entry["device"] for entry in state.missing} == {"head"}
    for name in ("near", "far"):
        assert received(star, name, state.run) == [SAMPLES]
    assert state.shared["head"]["bytes_sent"] < 2 * SAMPLES * RECORD_BYTES - there + 4 * MIB
    assert (records(folder)[1]["participants"], records(folder)[-1]["participants"]) == (2, 3)


@pytest.mark.parametrize("phase", ["describe", "plan", "share", "train"])
def test_a_server_that_is_killed_resumes(star, phase):
    folder, run = begin(star, f"killed-server-{phase}", 1.0, 2)

    def reached():
        state = load_state(folder)
        if phase == "share":
            return flowing_bytes(star, "near") > 5 * MIB
        if phase == "train":
            return len(state.training_s) == 1
        # A folder exists before its job does: the controller has begun when it asks devices, which takes seconds.
        return state.phase == phase and (phase != "describe" or _job_runs(star))

    wait_until(reached)
    kill(star, "server")
    assert isinstance(run.end(), FedcastError)
    stopped = load_state(folder).phase
    start(star, "server")
    # A plan is made within the time that a kill takes.
    assert stopped in ((phase, "share") if phase == "plan" else (phase,))
    state = Background(star, folder).end()
    assert state.phase == "done", state.failure
    assert len(records(folder)) == 3
    for name in ("near", "far"):
        assert received(star, name, state.run) == [state.shared["head"]["count"]]


def _job_runs(project) -> bool:
    pid = processes.running_processes(project)["server"]
    return any("runner_process" in " ".join(child.cmdline()) for child in psutil.Process(pid).children(recursive=True))


@pytest.fixture(scope="module")
def six(tmp_path_factory):
    project = make_project(
        tmp_path_factory.mktemp("six") / "project", [f"site-{user}" for user in range(USERS)], port=free_port()
    )
    fill_trial(project, long_scenario(1))
    with running(project):
        yield project


def long_scenario(rounds):
    """Rounds of a second or so, so that there is time to kill somebody."""
    return scenario_with(training__rounds=rounds, allocation__max_sharing_ratio=0.5, training__local_epochs=60)


def test_a_device_that_is_killed_in_a_round_is_left_out_and_joins_again(six):
    folder = six.folder / "runs" / "killed-device"
    start_run(folder, long_scenario(80))
    run = Background(six, folder)
    wait_until(lambda: rounds_done(folder) >= 2)
    kill(six, "site-3")
    wait_until(lambda: load_state(folder).missing)
    assert {entry["device"] for entry in load_state(folder).missing} == {"site-3"}
    start(six, "site-3")
    assert run.end().phase == "done"
    participants = [record["participants"] for record in records(folder)]
    assert len(participants) == 81
    assert min(participants[1:]) == USERS - 1
    assert participants[-1] == USERS


@pytest.mark.parametrize("kills", [20])
def test_random_kills_lose_and_repeat_no_sample(six, kills):
    """Devices and the server, at any time of a run; everything that was killed is started again and resumed."""
    rng, phases = np.random.default_rng(11), ("describe", "plan", "share", "train")
    for number in range(kills):
        folder = six.folder / "runs" / f"random-{number}"
        start_run(folder, long_scenario(3))
        victim = str(rng.choice(["server", *six.devices]))
        run = Background(six, folder)
        begin = phases[number % len(phases)]
        wait_until(lambda folder=folder, begin=begin: load_state(folder).phase in (begin, "done"))
        time.sleep(rng.uniform(0.0, 10.0 if begin == "describe" else 2.0))
        at = load_state(folder).phase
        kill(six, victim)
        time.sleep(1.0)
        start(six, victim)
        while isinstance(found := run.end(), FedcastError) or found.failure is not None:
            jobs.wait_for_devices(six, list(six.devices), 120)
            run = Background(six, folder)
        print(f"kill {number + 1}: {victim} in {at}; missing {found.missing}", flush=True)
        assert found.phase == "done", (number, victim, found)
        assert len(records(folder)) == 4
        for head, answer in found.shared.items():
            for member in answer["delivered"]:
                assert received(six, member, found.run) == [answer["count"]], (number, victim, head, member)


def test_keys_that_the_operator_swaps_are_refused(tmp_path):
    """The server offers keys of its own for one member; another one is an impostor with a minted certificate."""
    project = make_star(tmp_path / "project", ["head", "near", "swapped", "minted"], 400, 60)
    own_keys, impostor = new_key_pair().public, project.own_files("minted")
    _mint(project, "minted")
    (impostor / "keys.pem").unlink()
    offered = {"swapped": own_keys.to_bytes().hex(), "minted": _public_hex(impostor)}
    (tmp_path / "swap.json").write_text(json.dumps(offered))
    with stopped_at_the_end(project):
        with hooked(FEDCAST_SWAP=str(tmp_path / "swap.json")):
            start(project, "server")
        start(project, *project.devices)
        assert len(jobs.wait_for_devices(project, list(project.devices), 120)) == 4
        folder, run = begin(project, "swapped", 0.5, 1)
        state = run.end()
    assert state.phase == "done"
    plan = load_plan(folder / "plan.json")
    names = [device["name"] for device in state.devices]
    # The impostor takes part, without any link. The plan knows the real keys of the other one.
    assert "minted" in names
    assert {names[user] for user in np.flatnonzero(plan.head_of >= 0)} == {"near", "swapped"}
    answer = state.shared["head"]
    assert (answer["delivered"], answer["untrusted"]) == (["near"], ["minted", "swapped"])
    assert received(project, "near", state.run) == [200]
    for name in ("swapped", "minted"):
        assert received(project, name, state.run) == []
    ledger = DeviceLedger(project.own_files("head") / "ledger.sqlite")
    assert sorted(entry.peer for entry in ledger.entries() if entry.event == "refused") == ["minted", "swapped"]
    ledger.close()


def _public_hex(folder):
    from fedcast.federation import load_or_create_keys

    return load_or_create_keys(folder / "keys.pem").public.to_bytes().hex()


def _mint(project, name):
    """Replace the certificate of a device by another one that the project's authority signs, as its operator can."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    (file,) = (project.folder / "provision").rglob("cert.json")
    state = json.loads(file.read_text())
    authority = x509.load_pem_x509_certificate(state["root_cert"].encode())
    signer = serialization.load_pem_private_key(state["root_pri_key"].encode(), None)
    startup = project.kit(name) / "flare" / "startup"
    real = x509.load_pem_x509_certificate((startup / "client.crt").read_bytes())
    key, now = rsa.generate_private_key(65537, 2048), datetime.now(UTC)
    minted = x509.CertificateBuilder(authority.subject, real.subject, key.public_key(), x509.random_serial_number(),
                                     now - timedelta(days=1), now + timedelta(days=30))  # fmt: skip
    for extension in real.extensions:
        if extension.oid != x509.ExtensionOID.SUBJECT_KEY_IDENTIFIER:
            minted = minted.add_extension(extension.value, extension.critical)
    encoding = serialization.Encoding.PEM
    (startup / "client.crt").write_bytes(minted.sign(signer, hashes.SHA256()).public_bytes(encoding))
    (startup / "client.key").write_bytes(
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
