"""Sending an envelope to members, and receiving one: chunk by chunk, resumable at both ends, bounded in memory.

A head offers the header. A member answers which chunk it needs next, or with its receipt if it has all, or with why it
rejects. A member writes samples to a file beside its store and moves it there when the last chunk has been checked, so
that training never sees half an envelope.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import shutil
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fedcast.errors import FedcastError
from fedcast.federation.device.device_ledger import DeviceLedger
from fedcast.federation.device.envelope import (
    Contents,
    Envelope,
    RejectedError,
    content_key,
    is_receipt,
    nonce,
    open_chunk,
    open_header,
    read_chunk,
    receipt,
)
from fedcast.federation.device.keys import KeyPair, PublicKeys
from fedcast.federation.device.owner_files import TrustedPeers

Message = dict[str, Any]
Messages = Mapping[str, Mapping[str, Any]]  # by the names of devices
#: (names of devices, message) → the answers of those that answered in time
Send = Callable[[Sequence[str], Message], Mapping[str, Message]]

_TRIES = 2
_MEMBERS_AT_ONCE = 16
_INBOX, _STORED, _RUN_FILE = "inbox", "received", "run"


@dataclass
class Delivery:
    """Outcome of sending an envelope: members that have it, why others rejected it, and who did not answer."""

    delivered: list[str] = field(default_factory=list)
    rejected: dict[str, str] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)
    bytes_sent: int = 0


def deliver(envelope: Envelope, spool: Path, send: Send, ledger: DeviceLedger) -> Delivery:
    """Send an envelope to all its members that have not acknowledged it; one call resumes what another one began."""
    have, result = ledger.delivered(envelope.id), Delivery()
    senders = {
        name: _Sender(envelope, spool, send, ledger, name, keys)
        for name, keys in envelope.contents.members
        if name not in have
    }
    # Each at its own pace: one that does not answer must not hold up the others.
    with ThreadPoolExecutor(_MEMBERS_AT_ONCE) as pool:
        ended = [pool.submit(sender.run) for sender in senders.values()]
    for future in ended:
        future.result()
    for name, _ in envelope.contents.members:
        sender = senders.get(name)
        if sender is None or sender.delivered:
            result.delivered.append(name)
        elif sender.fault is None:
            result.silent.append(name)
        else:
            result.rejected[name] = sender.fault
    result.bytes_sent = sum(sender.bytes_sent for sender in senders.values())
    return result


class _Sender:
    """The delivery to one member."""

    def __init__(
        self, envelope: Envelope, spool: Path, send: Send, ledger: DeviceLedger, name: str, keys: PublicKeys
    ) -> None:
        self.envelope, self.spool, self.send, self.ledger, self.name, self.keys = (
            envelope, spool, send, ledger, name, keys,
        )  # fmt: skip
        self.delivered, self.bytes_sent = False, 0
        self.fault: str | None = None  #: of the last message; None: no answer
        self.next: int | None = None  #: chunk that it needs; None: it must be offered the envelope
        self.reached, self.tries = -1, 0

    def run(self) -> None:
        """Offer the envelope and send chunks until the member has it or has failed."""
        with self.spool.open("rb") as stream:
            while not self.delivered and self.tries < _TRIES:
                if self.next is None:
                    self._exchange({"topic": "offer", "header": self.envelope.header}, len(self.envelope.header))
                    continue
                data = read_chunk(self.envelope, stream, self.next)
                message = {"topic": "chunk", "envelope": self.envelope.id, "index": self.next, "data": data}
                self._exchange(message, len(data))
        if not self.delivered:
            self.ledger.log("not delivered", self.name, self.fault or "no answer")

    def _exchange(self, message: Message, size: int) -> None:
        reply = self.send([self.name], message).get(self.name)
        self.bytes_sent += size
        if reply is None:
            self._failed(None)
        elif "receipt" in reply:
            self._acknowledged(reply["receipt"])
        elif isinstance(place := reply.get("next"), int) and 0 <= place < self.envelope.contents.num_chunks:
            self._advanced(place)
        else:
            # A member that was restarted does not know the envelope any more: it is offered again.
            self._failed(str(reply.get("rejected", "an invalid answer")), final=message["topic"] == "offer")

    def _advanced(self, place: int) -> None:
        if place > self.reached:
            self.reached, self.tries = place, 0
        elif self.next is not None and place <= self.next:  # it did not take the chunk, or wants another one first
            self._failed("it asks for the same chunks again and again")
            return
        self.next = place

    def _acknowledged(self, content: object) -> None:
        if not is_receipt(content, self.envelope.id, self.keys):
            self._failed("its receipt is not signed by it")
            return
        assert isinstance(content, bytes)
        self.ledger.record_delivered(self.envelope.id, self.name, content)
        self.delivered = True

    def _failed(self, fault: str | None, *, final: bool = False) -> None:
        self.fault, self.next = fault, None
        self.tries = _TRIES if final else self.tries + 1


@dataclass
class _Incoming:
    """An envelope that is being received."""

    envelope: Envelope
    key: bytes
    path: Path
    next: int


class Inbox:
    """Receives envelopes; samples of complete ones are files in `stored`, one for each envelope."""

    def __init__(self, folder: Path, name: str, keys: KeyPair, ledger: DeviceLedger) -> None:
        self.name, self.keys, self.ledger = name, keys, ledger
        self._folder, self._inbox, self.stored = folder, folder / _INBOX, folder / _STORED
        self.stored.mkdir(parents=True, exist_ok=True)
        self.run = ""
        self._incoming: dict[str, _Incoming] = {}
        self._lock = threading.Lock()
        self._run_file: int | None = None

    def enter(self, run: str) -> None:
        """Take part in a run; what is left of envelopes of other runs that never became complete is removed."""
        with self._lock:
            self.run, self._incoming = run, {}
            self._partial.mkdir(parents=True, exist_ok=True)
            for other in self._inbox.iterdir():
                if other != self._partial:
                    shutil.rmtree(other)
            with contextlib.suppress(OSError):  # it serves a warning alone, and the disk may be full
                self._announce()

    def _announce(self) -> None:
        """Write which run this process takes part in; the lock on the file ends with the process, however it ends."""
        if self._run_file is None:
            self._run_file = os.open(self._folder / _RUN_FILE, os.O_RDWR | os.O_CREAT, 0o600)
            weakref.finalize(self, os.close, self._run_file)
            fcntl.flock(self._run_file, fcntl.LOCK_SH)
        os.ftruncate(self._run_file, 0)
        os.pwrite(self._run_file, self.run.encode(), 0)

    @property
    def _partial(self) -> Path:
        return self._inbox / _folder_of(self.run)

    def files(self) -> list[Path]:
        """Return the files of samples that were received in this run."""
        return [self._stored(envelope) for envelope, _ in self.ledger.received_in(self.run)]

    def offer(self, header: object, trust: TrustedPeers, check: Callable[[Contents], None]) -> Message:
        """Answer an offer: the next chunk that is needed, or the receipt if all samples are stored.

        Args:
            header: what the head sent.
            trust: whom this device trusts.
            check: raises an error if the contents are not acceptable (format, volume).
        """
        if not isinstance(header, bytes):
            raise RejectedError("not the header of an envelope")
        if not self.run:
            raise RejectedError("this device takes part in no run")
        envelope = open_header(header)
        key = content_key(envelope, self.keys, self.name, trust, self.run)
        with self._lock:
            if self.ledger.has_received(envelope.id):
                return {"receipt": receipt(envelope.id, self.keys)}
            self.ledger.check_sequence(envelope.contents)
            check(envelope.contents)
            incoming = self._resume(envelope, key)
            # A head has one file: an envelope takes the place of those that it began and did not complete.
            others = [each for each in self._incoming.values() if each.path != incoming.path]
            self._incoming = {each.envelope.id: each for each in (*others, incoming)}
            return self._progress(incoming)

    def chunk(self, message: Mapping[str, Any]) -> Message:
        """Check and store one chunk; answer which one is needed next, or with the receipt after the last."""
        envelope_id, index, data = (message.get(name) for name in ("envelope", "index", "data"))
        with self._lock:
            incoming = self._incoming.get(envelope_id) if isinstance(envelope_id, str) else None
            if incoming is None:
                raise RejectedError("a chunk of an envelope that was not offered")
            if not isinstance(index, int) or not isinstance(data, bytes):
                raise RejectedError("not a chunk")
            if index == incoming.next:
                records = open_chunk(incoming.envelope, incoming.key, index, data)
                with incoming.path.open("ab") as stream:
                    stream.write(records.tobytes())
                incoming.next += 1
            return self._progress(incoming)

    def _progress(self, incoming: _Incoming) -> Message:
        if incoming.next < incoming.envelope.contents.num_chunks:
            return {"next": incoming.next}
        with incoming.path.open("rb+") as stream:
            os.fsync(stream.fileno())
        incoming.path.replace(self._stored(incoming.envelope.id))
        sync_folder(self.stored)
        self.ledger.record_received(incoming.envelope)
        self._incoming.pop(incoming.envelope.id, None)
        return {"receipt": receipt(incoming.envelope.id, self.keys)}

    def _resume(self, envelope: Envelope, key: bytes) -> _Incoming:
        """Return where an envelope stands: as many chunks as are on the disk and still those that the head signed."""
        contents, path = envelope.contents, self._partial / f"{envelope.contents.head_keys.fingerprint}.part"
        if self._stored(envelope.id).exists():  # moved there, but not in the ledger: killed in between
            self._stored(envelope.id).replace(path)
        size = contents.chunk_samples * contents.format.record.itemsize
        free = shutil.disk_usage(self._partial).free + (path.stat().st_size if path.exists() else 0)
        if free < contents.count * contents.format.record.itemsize:
            raise RejectedError("no space left on the disk for these samples")
        whole, cipher = 0, AESGCM(key)
        with path.open("ab+") as stream:
            stream.seek(0)
            for index in range(contents.num_chunks):
                content = stream.read(size)
                encrypted = cipher.encrypt(nonce(index), content, contents.associated)
                if hashlib.sha256(encrypted).hexdigest() != contents.chunk_hashes[index]:
                    break
                whole = index + 1
            stream.truncate(min(whole * size, contents.count * contents.format.record.itemsize))
        return _Incoming(envelope, key, path, whole)

    def _stored(self, envelope_id: str) -> Path:
        return self.stored / _file_of(envelope_id)


def sync_folder(folder: Path) -> None:
    """Write the names of a folder's files to the disk, before the ledger says that they are there."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _folder_of(run: str) -> str:
    return hashlib.sha256(run.encode()).hexdigest()[:16]


def _file_of(envelope_id: str) -> str:
    return f"{envelope_id}.samples"


def current_run(folder: Path) -> str | None:
    """Return the run that a device takes part in now, in whatever process."""
    with contextlib.suppress(FileNotFoundError), (folder / _RUN_FILE).open("r+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return stream.read()
    return None


def forget_received(folder: Path, ledger: DeviceLedger, run: str | None = None) -> int:
    """Delete what a device received from others in a run, complete or not, or in all runs; return how many samples.

    The ledger keeps that they were received, so that a replay is still recognised and nothing is sent again.
    """
    held = ledger.runs_with_samples()
    runs = list(held) if run is None else [run]
    for each in runs:
        ledger.record_forgotten(each)
    # All that were ever forgotten: a kill may have left a file of one.
    for envelope in ledger.forgotten():
        (folder / _STORED / _file_of(envelope)).unlink(missing_ok=True)
    for partial in (folder / _INBOX).glob("*" if run is None else _folder_of(run)):
        shutil.rmtree(partial)
    return sum(held.get(each, 0) for each in runs)


def reply_to(handle: Callable[[], Message], ledger: DeviceLedger, peer: str) -> Message:
    """Return the answer of a handler; if it rejects or fails, log why and answer so."""
    try:
        return handle()
    except FedcastError as error:
        reason = str(error)
    except Exception as error:  # the sender would wait for its time-out
        if not isinstance(error, OSError):
            logging.getLogger(__name__).exception("a message of %r failed", peer)
        reason = f"{type(error).__name__}: {error}"
    try:
        ledger.log("rejected", peer, reason)
    except Exception:  # a full disk: the sender must hear of it all the same
        reason += " (and the ledger cannot be written)"
    return {"rejected": reason}
