import shutil
import subprocess
import sys
from collections import namedtuple
from dataclasses import replace

import numpy as np
import pytest

from fedcast.errors import FedcastError
from fedcast.federation import RejectedError
from fedcast.federation.device import envelope as envelopes
from fedcast.federation.device import exchange
from fedcast.federation.device.count_noise import private_counts
from fedcast.federation.device.keys import KeyPair, load_or_create_keys, new_key_pair, public_keys
from tests.federation.devices import RUN, Network, dataset, fingerprint, trust


@pytest.fixture
def net(tmp_path, monkeypatch):
    monkeypatch.setattr(envelopes, "CHUNK_BYTES", 72)  # three samples of 24 bytes
    return Network(tmp_path, ["head", "near", "far"])


def samples_of(net, name):
    (file,) = net.devices[name].inbox.files()
    return np.fromfile(file, net.devices[name].own.format.record)


def test_members_get_samples_of_the_head_and_nobody_in_between_can_read_them(net):
    answer = net.share("head", "near", "far", count=8)
    assert (answer["count"], answer["delivered"], answer["silent"], answer["rejected"]) == (8, ["near", "far"], [], {})
    own = net.devices["head"].own
    held = {(int(label), image.tobytes()) for label, image in zip(own.labels, own.inputs, strict=True)}
    for member in ("near", "far"):
        records = samples_of(net, member)
        assert len(records) == 8
        assert {(int(record["label"]), record["input"].tobytes()) for record in records} <= held
    carried = b"".join(bytes(value) for _, message in net.log for value in message.values() if isinstance(value, bytes))
    assert not any(record["input"].tobytes() in carried for record in samples_of(net, "near"))
    assert len([1 for name, message in net.log if name == "near" and message["topic"] == "chunk"]) == 3
    assert not list((net.folders["head"] / "outbox").iterdir())


def test_a_device_knows_no_engine():
    code = "import fedcast.federation.device.device, sys; sys.exit('nvflare' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_same_request_again_sends_nothing_twice(net):
    net.share("head", "near", "far")
    net.log.clear()
    assert net.share("head", "near", "far")["delivered"] == ["near", "far"]
    assert net.log == []
    # ... nor does a member store an envelope twice that somebody kept and sends again.
    header = net.devices["head"].ledger.sealed_header(RUN)
    assert "receipt" in net.devices["near"].receive({"topic": "offer", "header": header})
    assert net.received("near") == 8


def test_a_member_that_is_away_is_not_waited_for_and_gets_its_samples_later(net):
    answer = net.share("head", "near", "far", away=["far"])
    assert (answer["delivered"], answer["silent"]) == (["near"], ["far"])
    assert {name for name, _ in net.log} == {"near"}
    assert sorted(net.share("head", "near", "far")["delivered"]) == ["far", "near"]
    assert (net.received("near"), net.received("far")) == (8, 8)
    assert sorted(net.share("head", "near", "far", away=["far"])["delivered"]) == ["far", "near"]


def test_a_member_that_the_head_does_not_trust_gets_nothing(net):
    trust(net.folders["head"], ("near", fingerprint(net.folders["near"])))
    answer = net.share("head", "near", "far")
    assert (answer["delivered"], answer["untrusted"]) == (["near"], ["far"])
    assert not [1 for name, _ in net.log if name == "far"]
    assert net.received("far") == 0
    assert len(net.events("head", "refused")) == 1


def test_a_head_that_a_member_does_not_trust_is_rejected(net):
    trust(net.folders["far"], ("near", fingerprint(net.folders["near"])))
    answer = net.share("head", "near", "far")
    assert answer["delivered"] == ["near"]
    assert "trust file" in answer["rejected"]["far"]
    assert net.stored_bytes("far") == 0
    assert net.events("far", "rejected")


def test_trust_that_is_revoked_while_sending_counts_at_once(net):
    net.tamper = lambda name, message: None if name == "far" else message
    net.share("head", "near", "far")
    trust(net.folders["head"], ("near", fingerprint(net.folders["near"])))
    net.tamper = lambda _, message: message
    net.log.clear()
    assert net.share("head", "near", "far")["untrusted"] == ["far"]
    assert net.log == []


@pytest.mark.parametrize("swapped", ["both", "signing", "agreement"])
def test_swapped_keys_are_refused(net, swapped):
    """The server offers keys of its own in the place of a member's."""
    real, fake = net.devices["near"].keys.public, new_key_pair().public
    offered = {
        "both": fake,
        "signing": replace(real, signing=fake.signing),
        "agreement": replace(real, agreement=fake.agreement),
    }[swapped]
    members = {"near": offered.to_bytes(), **net.keys("far")}
    answer = net.share("head", members=members)
    assert (answer["delivered"], answer["untrusted"]) == (["far"], ["near"])
    assert net.received("near") == 0


def test_another_device_cannot_send_under_the_name_of_the_head(net, tmp_path):
    """The server makes keys of its own, signs with them, and claims to be the head."""
    near, fake = net.devices["near"], new_key_pair()
    for head_keys, signer in ((fake.public, fake), (net.devices["head"].keys.public, fake)):
        header = sealed(net, tmp_path, signer, head_keys=head_keys).header
        reply = near.receive({"topic": "offer", "header": header})
        assert "trust file" in reply["rejected"] or "signature" in reply["rejected"]
    assert net.stored_bytes("near") == 0
    assert len(net.events("near", "rejected")) == 2


def sealed(net, folder, keys: KeyPair, **changed):
    own = net.devices["head"].own
    contents = envelopes.Contents(
        run=RUN, head="head", head_keys=net.devices["head"].keys.public,
        members=(("near", net.devices["near"].keys.public),), kind="raw", count=4, sequence=1, format=own.format,
        chunk_samples=3,
    )  # fmt: skip
    contents = replace(contents, **changed)
    return envelopes.seal(contents, own.records(np.arange(contents.count), 3), keys, folder / "spool")


def refused(net, folder, **changed):
    envelope = sealed(net, folder, net.devices["head"].keys, **changed)
    reply = net.devices["near"].receive({"topic": "offer", "header": envelope.header})
    assert net.stored_bytes("near") == 0
    assert net.events("near", "rejected")[-1] == reply["rejected"]
    return reply["rejected"]


def test_envelopes_of_another_run_to_others_or_of_other_samples_are_rejected(net, tmp_path):
    head, far = net.devices["head"].keys.public, net.devices["far"].keys.public
    assert "run" in refused(net, tmp_path, run="run-0")
    assert "not for this device" in refused(net, tmp_path, members=(("far", far),))
    assert "not for this device" in refused(net, tmp_path, members=(("near", far),))
    assert "trust file" in refused(net, tmp_path, head="far", head_keys=head)
    other = replace(net.devices["head"].own.format, num_classes=5)
    assert "format" in refused(net, tmp_path, format=other)
    (net.folders["near"] / "consent.toml").write_text("max_received = 3\n")
    assert "at most 3" in refused(net, tmp_path)


def test_replays_are_rejected(net, tmp_path):
    """An envelope that the head signed earlier, and that this member never got, is too old after a later one."""
    net.share("head", "near")
    assert net.received("near") == 8
    old = sealed(net, tmp_path, net.devices["head"].keys, sequence=1)
    reply = net.devices["near"].receive({"topic": "offer", "header": old.header})
    assert "replay" in reply["rejected"]
    assert net.received("near") == 8
    # ... also after a restart.
    assert "replay" in net.start("near").receive({"topic": "offer", "header": old.header})["rejected"]


@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.parametrize("part", ["header", "data"])
def test_a_flipped_bit_is_rejected(net, part, place):
    """Every bit of a header or chunk that the network changes once; the head sends it again."""
    flipped = []

    def flip(name, message):
        if name == "near" and part in message and not flipped:
            content = bytearray(message[part])
            index = {"first": 0, "middle": len(content) // 2, "last": -1}[place]
            content[index] ^= 4
            message[part] = bytes(content)
            flipped.append(1)
        return message

    net.tamper = flip
    answer = net.share("head", "near", "far")
    assert len(net.events("near", "rejected")) == 1
    assert "far" in answer["delivered"]
    if part == "data":
        assert "near" in answer["delivered"]
        assert samples_of(net, "near").tobytes() == samples_of(net, "far").tobytes()
    else:
        assert net.stored_bytes("near") == 0


def test_every_bit_of_a_header_counts(net, tmp_path):
    header = sealed(net, tmp_path, net.devices["head"].keys).header
    for place in range(len(header)):
        damaged = bytearray(header)
        damaged[place] ^= 1 << (place % 8)
        with pytest.raises(RejectedError):
            envelopes.open_header(bytes(damaged))
    for cut in (0, 10, len(header) // 2, len(header) - 1):
        assert "rejected" in net.devices["near"].receive({"topic": "offer", "header": header[:cut]})
    assert net.stored_bytes("near") == 0
    assert net.devices["near"].receive({"topic": "offer", "header": header}) == {"next": 0}


def test_a_member_cannot_forge_chunks_for_another_although_it_knows_the_content_key(net, tmp_path):
    near = net.devices["near"]
    envelope = sealed(net, tmp_path, net.devices["head"].keys)
    key = envelopes.content_key(envelope, near.keys, "near", near.trust, RUN)
    forged = envelopes.AESGCM(key).encrypt(envelopes.nonce(0), bytes(72), envelope.contents.associated)
    near.receive({"topic": "offer", "header": envelope.header})
    reply = near.receive({"topic": "chunk", "envelope": envelope.id, "index": 0, "data": forged})
    assert "signed" in reply["rejected"]
    assert net.stored_bytes("near") == 0


def test_a_truncated_stream_is_not_stored_and_resumes_where_it_stopped(net):
    chunks = []

    def cut(name, message):
        if name == "near" and message["topic"] == "chunk":
            chunks.append(message["index"])
            return message if len(chunks) <= 1 else None
        return message

    net.tamper = cut
    assert net.share("head", "near", "far")["silent"] == ["near"]
    assert net.received("near") == 0
    assert net.devices["near"].inbox.files() == []
    net.tamper = lambda _, message: message
    net.log.clear()
    net.start("near")
    net.start("head")
    assert sorted(net.share("head", "near", "far")["delivered"]) == ["far", "near"]
    assert [message["index"] for name, message in net.log if message["topic"] == "chunk"] == [1, 2]
    assert samples_of(net, "near").tobytes() == samples_of(net, "far").tobytes()


def test_what_a_crash_damaged_on_the_disk_is_asked_for_again(net):
    net.tamper = lambda _, message: None if message.get("index") == 2 else message
    net.share("head", "near")
    (partial,) = (net.folders["near"] / "inbox").rglob("*.part")
    content = bytearray(partial.read_bytes())
    content[80] ^= 1  # in the second chunk
    partial.write_bytes(content[:-5])
    net.tamper = lambda _, message: message
    net.start("near")
    net.log.clear()
    net.share("head", "near")
    assert [message["index"] for _, message in net.log if message["topic"] == "chunk"] == [1, 2]
    assert net.received("near") == 8


def test_a_member_that_dies_after_moving_its_samples_loses_none(net, monkeypatch):
    monkeypatch.setattr(net.devices["near"].ledger, "record_received", lambda _: (_ for _ in ()).throw(OSError("dead")))
    net.share("head", "near")
    assert net.received("near") == 0
    net.start("near")
    net.log.clear()
    assert net.share("head", "near")["delivered"] == ["near"]
    assert [message["topic"] for _, message in net.log] == ["offer"]
    assert net.received("near") == 8


def test_a_member_that_restarts_while_bytes_flow_gets_the_rest(net):
    seen = []

    def restart(name, message):
        if message.get("index") == 1 and not seen:
            seen.append(1)
            net.start(name)
        return message

    net.tamper = restart
    assert net.share("head", "near")["delivered"] == ["near"]
    assert net.received("near") == 8


def test_a_receipt_of_somebody_else_does_not_count(net):
    original = exchange.receipt
    try:
        exchange.receipt = lambda envelope_id, _: original(envelope_id, net.devices["far"].keys)
        answer = net.share(
            "head", members={"near": load_or_create_keys(net.folders["near"] / "keys.pem").public.to_bytes()}
        )
    finally:
        exchange.receipt = original
    assert answer["delivered"] == []
    assert "receipt" in answer["rejected"]["near"]
    assert list((net.folders["head"] / "outbox").iterdir())


def test_a_volume_above_consent_is_cut(tmp_path):
    net = Network(tmp_path, ["head", "near"], head='kinds = ["raw"]\nmax_ratio = 0.1\n')
    assert net.share("head", "near", count=30)["count"] == 4  # of 40
    assert net.received("near") == 4
    assert "30" in net.events("head", "cut")[0]


def test_consent_holds_over_all_runs(tmp_path):
    net = Network(tmp_path, ["head", "near"], head='kinds = ["raw"]\nmax_ratio = 0.25\n')
    seen = set()
    for number in range(5):
        run = f"run-{number + 2}"
        net.devices["near"].alive({"run": run})
        assert net.share("head", "near", count=6, run=run, seed=number)["count"] == 6
        seen |= {record.tobytes() for record in samples_of(net, "near")}
    assert len(seen) <= 10
    assert net.devices["head"].ledger.num_revealed() == len(seen)


def test_a_device_without_consent_shares_nothing(tmp_path):
    net = Network(tmp_path, ["head", "near"], head="")
    assert net.share("head", "near")["count"] == 0
    assert net.log == []
    assert net.devices["head"].describe({"run": RUN}, net.send)["max_ratio"] == 0
    with pytest.raises(RejectedError, match="kind"):
        net.share("head", "near", kind="mixed")


def test_a_device_without_samples(tmp_path):
    net = Network(tmp_path, ["head", "near"])
    shutil.rmtree(net.folders["near"] / "data")
    from fedcast.federation import write_samples

    write_samples(net.folders["near"] / "data", dataset(4), np.zeros(0, dtype=np.int64))
    near = net.start("near")
    assert near.describe({"run": RUN}, net.send)["counts"] == [0, 0, 0, 0]
    assert net.share("near", "head")["count"] == 0
    assert net.share("head", "near")["delivered"] == ["near"]
    assert net.received("near") == 8


def test_a_full_disk_is_an_answer_and_leaves_nothing(net, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(exchange.shutil, "disk_usage", lambda _: usage(10, 10, 0))
    answer = net.share("head", "near")
    assert "space" in answer["rejected"]["near"]
    assert net.received("near") == 0


def test_a_ledger_that_cannot_be_written_is_an_answer(net):
    device = net.devices["near"]
    device.ledger._base.execute("PRAGMA query_only = ON")
    assert "readonly" in net.share("head", "near")["rejected"]["near"]
    assert (net.received("near"), device.inbox.files()) == (0, [])
    net.log.clear()
    request = {"run": RUN, "count": 8, "members": net.keys("far"), "kind": "raw", "balanced": False, "seed": 0}
    assert "readonly" in device.answer("share", request | {"user": 0}, net.send)["error"]
    assert net.log == []
    device.ledger._base.execute("PRAGMA query_only = OFF")
    assert net.share("head", "near")["delivered"] == ["near"]
    assert net.received("near") == 8


def test_whatever_fails_in_a_call_is_an_answer(net, caplog):
    net.devices["near"].train_round = lambda _: 1 / 0
    assert net.devices["near"].answer("train_round", {}, net.send)["error"] == "ZeroDivisionError: division by zero"
    assert "Traceback" in caplog.text
    assert "unknown call" in net.devices["near"].answer("format", {}, net.send)["error"]


def test_memory_stays_bounded_while_many_samples_flow(tmp_path):
    """Scaled down: 12 MB of samples in chunks of 1 MiB, at most a few chunks in memory."""
    import tracemalloc

    net = Network(tmp_path, ["head", "near"])
    for name, count in (("head", 6000), ("near", 1)):
        rng = np.random.default_rng(1)
        inputs = rng.integers(0, 256, (count, 1, 64, 64), dtype=np.uint8)
        labels = np.full(count, 3)
        from fedcast.data import dataset_from_arrays
        from fedcast.federation import write_samples

        write_samples(net.folders[name] / "data", dataset_from_arrays(inputs, labels, inputs[:1], labels[:1]))
        del inputs
        net.start(name)
    net.send = lambda targets, message: {name: net.devices[name].receive(message) for name in targets}
    tracemalloc.start()
    try:
        assert net.share("head", "near", count=3000)["delivered"] == ["near"]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert net.stored_bytes("near") > 12e6
    assert peak < 8e6


def test_peers_that_are_not_offered_are_not_named(net):
    answer = net.devices["head"].describe({"run": RUN, "peers": net.keys("near")}, net.send)
    assert answer["accepts"] == ["near"]
    assert "far" not in str(answer)
    fake = {"near": new_key_pair().public.to_bytes()}
    assert net.devices["head"].describe({"run": RUN, "peers": fake}, net.send)["accepts"] == []


def test_a_link_without_a_configured_rate_is_measured(net):
    other = fingerprint(net.folders["near"])
    (net.folders["head"] / "trust.toml").write_text(f'[near]\nfingerprint = "{other}"\n')
    rates = net.devices["head"].describe({"run": RUN, "peers": net.keys("near")}, net.send)["rates_bps"]
    assert rates["near"] > 1e6


def test_noisy_counts_are_answered_once_and_within_the_budget(tmp_path):
    net = Network(tmp_path, ["head"], head="counts_epsilon = 0.5\nepsilon_budget = 0.7\n")
    answers = [net.devices["head"].describe({"run": f"run-{n}"}, net.send) for n in range(4)]
    assert len({tuple(answer["counts"]) for answer in answers}) == 1
    assert sum(answers[0]["counts"]) == answers[0]["size"] == 40
    assert answers[-1]["epsilon_left"] == pytest.approx(0.2)
    # Other data are another question, for which 0.2 is not enough.
    from fedcast.federation import write_samples

    write_samples(net.folders["head"] / "data", dataset(12))
    with pytest.raises(RejectedError, match="budget"):
        net.start("head").describe({"run": RUN}, net.send)


def test_noise_has_the_distribution_of_discrete_laplace():
    """Against the formula P(k) = (1 − q)/(1 + q)·q^abs(k), q = exp(−rate)."""
    from fractions import Fraction

    from fedcast.federation.device.count_noise import discrete_laplace

    draws = np.array([discrete_laplace(Fraction(2, 3)) for _ in range(6000)])
    q = np.exp(-2 / 3)
    for k in range(-3, 4):
        expected = (1 - q) / (1 + q) * q ** abs(k)
        assert abs((draws == k).mean() - expected) < 5 * (expected / 6000) ** 0.5
    counts = np.array([400, 0, 100])
    noisy = np.array([private_counts(counts, 1.0) for _ in range(50)])
    assert (noisy.sum(axis=1) == 500).all()
    assert (noisy >= 0).all()
    assert len(np.unique(noisy, axis=0)) > 5


def test_counts_with_too_small_an_epsilon_are_an_error():
    """A rate of 0 has no distribution, and one that is rounded up would promise too much."""
    with pytest.raises(FedcastError, match="counts_epsilon"):
        private_counts(np.array([3, 4]), 1e-7)
    assert private_counts(np.array([3, 4]), 1.5e-6).sum() == 7


def test_damaged_samples_of_a_trusted_head_are_not_stored(net, tmp_path):
    envelope = sealed(net, tmp_path, net.devices["head"].keys)
    records = next(net.devices["head"].own.records(np.arange(3), 3)).copy()
    records["label"][1] = 9
    contents = replace(envelope.contents, count=3)
    bad = envelopes.seal(contents, [records], net.devices["head"].keys, tmp_path / "spool")
    near = net.devices["near"]
    assert near.receive({"topic": "offer", "header": bad.header}) == {"next": 0}
    data = (tmp_path / "spool").read_bytes()
    assert "label" in near.receive({"topic": "chunk", "envelope": bad.id, "index": 0, "data": data})["rejected"]
    assert net.stored_bytes("near") == 0


def test_private_keys_are_for_their_owner_alone(tmp_path):
    path = tmp_path / "device" / "keys.pem"
    first = load_or_create_keys(path)
    assert load_or_create_keys(path).public == first.public == public_keys(first.public.to_bytes())
    path.chmod(0o640)
    with pytest.raises(FedcastError, match="chmod 600"):
        load_or_create_keys(path)
    path.chmod(0o600)
    path.write_text("nonsense")
    with pytest.raises(FedcastError, match="not a file of private keys"):
        load_or_create_keys(path)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("trust.toml", "[near]\n", "[near]: fingerprint is missing"),
        ("trust.toml", '[near]\nfingerprint = "12"\n', "invalid value '12' for fingerprint: expected 64 hexadecimal"),
        ("consent.toml", "max_ratio = 2\n", "invalid value 2 for max_ratio"),
        ("consent.toml", "ratio = 1\n", "unknown key 'ratio'; expected kinds"),
        ("consent.toml", "kinds = [", "not a TOML file"),
        ("consent.toml", "kinds = \0", "not UTF-8 text"),
        ("trust.toml", "a = " + "[" * 10_000, "not a TOML file"),
    ],
)
def test_files_of_the_owner_are_checked(net, file, content, message):
    (net.folders["head"] / file).write_text(content)
    with pytest.raises(FedcastError) as error:
        net.start("head")
    assert message in str(error.value)
    assert file in str(error.value)
