"""Peers and servers that cheat: whatever they send, a device answers, stays within its limits, and goes on."""

import json
import struct
from dataclasses import replace

import numpy as np
import pytest

from fedcast.errors import FedcastError
from fedcast.federation import RejectedError
from fedcast.federation.device import device_ledger, exchange
from fedcast.federation.device import envelope as envelopes
from fedcast.federation.wire import decode
from tests.federation.devices import RUN, Network
from tests.federation.test_phases import USERS, federation, scenario_with

RECORD_BYTES = 24


@pytest.fixture
def net(tmp_path, monkeypatch):
    monkeypatch.setattr(envelopes, "CHUNK_BYTES", 3 * RECORD_BYTES)
    return Network(tmp_path, ["head", "near", "far"])


class Head:
    """A head that `near` trusts, and that seals what it likes."""

    def __init__(self, net, folder):
        self.net, self.spool, self.device = net, folder / "spool", net.devices["head"]
        self.near = net.devices["near"]

    def seal(self, count=4, chunk_samples=3, **changed):
        own = self.device.own
        contents = envelopes.Contents(
            run=RUN, head="head", head_keys=self.device.keys.public, members=(("near", self.near.keys.public),),
            kind="raw", count=count, sequence=1, format=own.format, chunk_samples=chunk_samples,
        )  # fmt: skip
        # Other samples each time.
        chosen = (np.arange(count) + changed.get("sequence", 1) % 40) % len(own)
        records = own.records(chosen, min(count, chunk_samples))
        return envelopes.seal(replace(contents, **changed), records, self.device.keys, self.spool)

    def offer(self, envelope):
        return self.near.receive({"topic": "offer", "header": envelope.header}, "head")

    def chunk(self, envelope, index):
        with self.spool.open("rb") as stream:
            data = envelopes.read_chunk(envelope, stream, index)
        return self.near.receive({"topic": "chunk", "envelope": envelope.id, "index": index, "data": data}, "head")

    def send(self, envelope):
        reply = self.offer(envelope)
        while "next" in reply:
            reply = self.chunk(envelope, reply["next"])
        return reply


@pytest.fixture
def head(net, tmp_path):
    return Head(net, tmp_path)


def test_a_head_sends_no_more_in_a_run_than_the_consent_of_the_member(net, head):
    (net.folders["near"] / "consent.toml").write_text("max_received = 10\n")
    assert "receipt" in head.send(head.seal(count=6, sequence=1))
    assert "at most 10" in head.send(head.seal(count=6, sequence=2))["rejected"]
    assert "receipt" in head.send(head.seal(count=4, sequence=3))
    assert net.received("near") == 10


def test_envelopes_that_a_head_never_completes_take_the_place_of_one(net, head):
    for sequence in range(1, 20):
        envelope = head.seal(sequence=sequence)
        assert head.offer(envelope) == {"next": 0}
        assert head.chunk(envelope, 0) == {"next": 1}
    assert net.stored_bytes("near") == 3 * RECORD_BYTES
    assert len(net.devices["near"].inbox._incoming) == 1
    assert "receipt" in head.send(envelope)


@pytest.mark.parametrize(
    "changed",
    [
        {"sequence": 2**63},
        {"chunk_samples": 10**30},
        {"chunk_samples": 2**40},
        {"kind": "\ud800"},
        {"kind": "raw" * 1000},
        {"kind": "\x1b[2J"},
    ],
    ids=["sequence", "no-number", "large-chunks", "no-text", "long-text", "escape"],
)
def test_strange_contents_of_a_trusted_head_are_rejected(net, head, changed):
    reply = head.send(head.seal(**changed))
    assert "invalid header" in reply["rejected"]
    assert net.stored_bytes("near") == 0
    assert net.received("near") == 0


def test_a_large_sample_may_be_a_chunk_of_its_own(net, head, monkeypatch):
    monkeypatch.setattr(envelopes, "_MOST_CHUNK_BYTES", RECORD_BYTES - 1)
    assert "invalid header" in head.send(head.seal(chunk_samples=2))["rejected"]
    assert "receipt" in head.send(head.seal(chunk_samples=1))


def test_whatever_fails_while_a_message_is_handled_is_an_answer(net, head, monkeypatch, caplog):
    monkeypatch.setattr(exchange, "open_header", lambda _: 1 / 0)
    assert "ZeroDivisionError" in head.offer(head.seal())["rejected"]
    assert "ZeroDivisionError" in net.events("near", "rejected")[0]
    assert "Traceback" in caplog.text


def test_a_member_that_asks_for_chunks_without_end_is_given_up(net):
    """It answers with chunks in turn, forward and back, and never with a receipt."""
    asked = []

    def turn(targets, message):
        asked.append(message)
        if len(asked) > 200:
            raise RuntimeError("the head sends without end")
        return {name: {"next": (2, 0, 1)[len(asked) % 3]} for name in targets}

    net.send = turn
    answer = net.share("head", "near")
    assert list(answer["rejected"]) == ["near"]
    assert len(asked) < 30


def test_rejected_messages_do_not_fill_the_disk(net, monkeypatch):
    monkeypatch.setattr(device_ledger, "_MOST_EVENTS", 50)
    near = net.devices["near"]
    for number in range(200):
        near.receive({"topic": "offer", "header": bytes([number])}, "x" * 10_000)
        near.ledger.log("refused", "somebody", "y" * 10_000)
    events = [entry for entry in near.ledger.entries() if entry.event in ("rejected", "refused")]
    assert len(events) == 50
    assert max(len(entry.peer) + len(entry.detail) for entry in events) < 1000
    assert net.share("head", "near")["delivered"] == ["near"]
    assert len([entry for entry in near.ledger.entries() if entry.event == "received"]) == 1


@pytest.mark.parametrize(
    "run", ["", "a/b", "..", "\ud800", "\x1b[2J", "x" * 101, 3, None, "[red]", "new\nline"], ids=ascii
)
def test_a_run_has_a_name_that_can_be_printed_and_stored(net, run):
    with pytest.raises(RejectedError, match="name of the run"):
        net.devices["near"].alive({"run": run})
    assert net.devices["near"].inbox.run == RUN


def test_names_that_a_server_makes_up_are_not_printed_as_they_are(net):
    members = {"\x1b[2Jevil" + "x" * 1000: net.devices["far"].keys.public.to_bytes()}
    with pytest.raises(RejectedError, match="invalid name of a device"):
        net.share("head", members=members)


@pytest.mark.parametrize("text", ['{"a":{"$bytes":1e999}}', '{"a":{"$array":["<f8",[1e999]]}}', '{"a":{"$array":3}}',
                                  '{"a":{"$bytes":-1}}', '{"a":{"$array":["<f8",[0,' + "9" * 30 + "]]}}"])  # fmt: skip
def test_messages_with_impossible_sizes_are_invalid(text):
    with pytest.raises(FedcastError, match="invalid message"):
        decode(struct.pack(">I", len(text)) + text.encode())


def damaged(run, name, call, change):
    """Let a device change its answers to a call."""
    device = run.transport.devices[name]
    real = getattr(device, call)
    setattr(device, call, lambda *request: change(dict(real(*request))))


@pytest.mark.parametrize(
    "changed",
    [
        {"accepts": 3}, {"accepts": [[]]}, {"rates_bps": []}, {"rates_bps": {"site-0": "fast"}},
        {"rates_bps": {"site-0": float("nan")}}, {"rates_bps": {"site-0": -1.0}}, {"kinds": None}, {"kinds": [3]},
        {"counts": [[1]]}, {"counts": [2**70]}, {"size": float("inf")}, {"max_ratio": float("nan")},
        {"keys": bytes(64)}, {"keys": "text"}, {"epsilon_budget": "all"}, {"mu_spent": float("inf")},
    ],
    ids=repr,
)  # fmt: skip
def test_a_device_that_describes_nonsense_is_left_out_and_the_others_go_on(tmp_path, changed):
    run, *_ = federation(tmp_path, scenario_with())
    damaged(run, "site-2", "describe", lambda found: found | changed)
    run.describe()
    run.plan()
    assert [device["name"] for device in run.state.devices] == ["site-0", "site-1", "site-3", "site-4", "site-5"]
    assert {miss["device"]: miss["reason"] for miss in run.state.missing} == {"site-2": "an invalid description"}


def test_a_device_cannot_describe_itself_under_the_name_of_another(tmp_path):
    run, *_ = federation(tmp_path, scenario_with())
    damaged(run, "site-2", "describe", lambda found: found | {"name": "site-0"})
    run.describe()
    assert [device["name"] for device in run.state.devices] == [f"site-{user}" for user in range(USERS)]


@pytest.mark.parametrize(
    "answer",
    [{}, {"delivered": 5}, {"count": "many"}, {"delivered": ["nobody"], "rejected": [], "silent": {}},
     {"bytes_sent": "all"}, {"count": -4}, {"untrusted": 7}, {"seconds": [], "mu": "x"}],
    ids=repr,
)  # fmt: skip
def test_a_head_that_answers_nonsense_does_not_end_the_run(tmp_path, answer):
    run, *_ = federation(tmp_path, scenario_with())
    run.describe()
    run.plan()
    run.state.phase = "share"
    heads = [run._names[head] for head in np.flatnonzero(run_plan(run).shared)]
    for name in heads:
        damaged(run, name, "share", lambda found: found | answer if answer else {})
    result = run.run()
    assert result.state.phase == "done"
    assert {miss["device"] for miss in run.state.missing} <= set(heads)
    assert json.loads((run.folder / "federation.json").read_text())["phase"] == "done"


def run_plan(run):
    from fedcast.plan import load_plan

    return load_plan(run.folder / "plan.json")


@pytest.mark.parametrize("samples", [-5, 10**12, "many", None, float("inf")])
def test_a_device_weighs_no_more_than_the_samples_that_it_can_have(tmp_path, samples):
    run, *_ = federation(tmp_path, scenario_with())
    run.describe()
    run.plan()
    run.state.phase = "share"
    damaged(run, "site-1", "alive", lambda found: found | {"samples": samples})
    result = run.run()
    user = run._names.index("site-1")
    own, plan = run.state.devices[user]["size"], run_plan(run)
    assert result.state.phase == "done"
    assert 0 <= result.state.samples[user] <= own + int(plan.shared.max())


@pytest.mark.parametrize("changed", [{"steps": float("inf")}, {"steps": 2**70}, {"loss": "low"}, {"change": None}])
def test_an_update_that_is_nonsense_is_left_out(tmp_path, changed):
    run, *_ = federation(tmp_path, scenario_with())
    damaged(run, "site-1", "train_round", lambda found: found | changed)
    assert run.run().outcome.history.column("participants") == [0, USERS - 1, USERS - 1]
