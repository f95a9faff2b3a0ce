"""A device: what a server may ask of it (`describe`, `share`, `train_round`, `alive`), and messages of other devices.

The server is not trusted with samples. Whatever it asks for, the device checks against the trust and consent files of
its owner, which are read again at every call, so that a change counts at once. Requests and answers are dictionaries of
plain values and NumPy arrays, which any engine can carry. A request that the device refuses raises `RejectedError`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcast import __version__
from fedcast.data import scaled, stored
from fedcast.errors import FedcastError
from fedcast.federation.device.count_noise import private_counts
from fedcast.federation.device.device_ledger import DeviceLedger
from fedcast.federation.device.envelope import Contents, Envelope, RejectedError, chunk_samples, open_header, seal
from fedcast.federation.device.exchange import Inbox, Message, Send, deliver, reply_to, sync_folder
from fedcast.federation.device.keys import PublicKeys, load_or_create_keys
from fedcast.federation.device.local_training import LocalTask, train_locally
from fedcast.federation.device.owner_files import (
    CONSENT_FILE,
    TRUST_FILE,
    Consent,
    TrustedPeers,
    load_consent,
    load_trust,
)
from fedcast.federation.device.samples import OwnSamples
from fedcast.federation.device.share_request import RAW, ShareRequest, offered_keys, share_request
from fedcast.federation.device.valid_names import NAME_RULE, is_name
from fedcast.random import generator
from fedcast.sharing import Held, Release, Request, draw_samples, find_sharing, secure_noise, total_mu
from fedcast.typing import Ints

KEYS_FILE, LEDGER_FILE, DATA_FOLDER = "keys.pem", "ledger.sqlite", "data"

_PROBE_BYTES = 2**18
_PROBES = 2
_HASH_BYTES = 16
_ROUNDING = 1e-9


class Device:
    """One device; its folder holds keys, trust and consent files, samples and the ledger."""

    def __init__(self, name: str, folder: str | Path) -> None:
        self.name, self.folder = name, Path(folder)
        self.keys = load_or_create_keys(self.folder / KEYS_FILE)
        self.own = OwnSamples(self.folder / DATA_FOLDER)
        self.ledger = DeviceLedger(self.folder / LEDGER_FILE)
        self.inbox = Inbox(self.folder, name, self.keys, self.ledger)
        self._outbox = self.folder / "outbox"
        self._outbox.mkdir(exist_ok=True)
        self._phase = "waiting"
        self._training: tuple[bytes, LocalTask] | None = None
        self._share_lock = threading.Lock()
        _ = self.trust, self.consent  # errors in the files are found at the start

    @property
    def trust(self) -> TrustedPeers:
        """Return the peers that the owner trusts, read anew from the trust file."""
        return load_trust(self.folder / TRUST_FILE)

    @property
    def consent(self) -> Consent:
        """Return the owner's consent, read anew from the consent file."""
        return load_consent(self.folder / CONSENT_FILE)

    # --- what the server asks for

    def answer(self, call: object, request: Mapping[str, Any], send: Send) -> Message:
        """Return the answer to a call of a server, by its name; ``{"error": reason}`` if it is refused or fails."""
        try:
            if call == "alive":
                return self.alive(request)
            if call == "describe":
                return self.describe(request, send)
            if call == "share":
                return self.share(request, send)
            if call == "train_round":
                return self.train_round(request)
        except (FedcastError, OSError) as error:
            return {"error": str(error)}
        except Exception as error:  # a server that hears nothing would wait for its time-out
            logging.getLogger(__name__).exception("call %s failed", call)
            return {"error": f"{type(error).__name__}: {error}"}
        return {"error": f"unknown call {call!r}"}

    def alive(self, request: Mapping[str, Any]) -> Message:
        """Take part in a run and tell how far this device is; engines use it as a barrier before devices talk."""
        run = self._enter(request)
        received = self.ledger.received_in(run)
        return {
            "name": self.name, "phase": self._phase, "samples": len(self.own) + sum(count for _, count in received),
            "version": __version__,
        }  # fmt: skip

    def describe(self, request: Mapping[str, Any], send: Send) -> Message:
        """Tell what planning needs: class counts, size, consent, keys, which offered peers it accepts, link rates.

        Class counts have noise if the owner says so; then every request gets the same answer. Trusted devices that the
        server does not offer are not mentioned. A run is described before it shares: a name that is known from sharing
        is that of an earlier run, whose samples must not become part of this one.
        """
        run = self._enter(request)
        if self.ledger.sealed_header(run) is not None or self.ledger.received_in(run):
            raise RejectedError(f"samples were exchanged in another run of the name {run!r}; give this one a new name")
        consent, trust = self.consent, self.trust
        offered = offered_keys(request.get("peers", {}))
        accepted = [name for name, keys in offered.items() if name != self.name and trust.accepts(name, keys)]
        spent, budget = self.ledger.epsilon_spent(consent.delta), consent.epsilon_budget
        return {
            "name": self.name,
            "version": __version__,
            "keys": self.keys.public.to_bytes(),
            "format": self.own.format.to_dict(),
            "counts": self._counts(consent).tolist(),
            "size": len(self.own),
            "kinds": list(consent.kinds),
            "max_ratio": consent.max_ratio if consent.kinds else 0.0,
            "epsilon_left": None if budget is None else max(0.0, budget - spent),
            "epsilon_budget": budget,
            "delta": consent.delta,
            "mu_spent": total_mu(self.ledger.releases()),
            "accepts": accepted,
            "rates_bps": {name: trust.rate_bps(name) or self._probe(name, send) for name in accepted},
        }

    def share(self, request: Mapping[str, Any], send: Send) -> Message:
        """Send samples to the members that this device trusts, no more than its owner agrees to.

        Samples are drawn and encrypted at the first request of a run; later requests of the same run resume sending.
        """
        run = self._enter(request)
        asked = share_request(request)
        with self._share_lock:
            self._phase, started = "share", time.monotonic()
            trust = self.trust
            trusted = {name: keys for name, keys in asked.members.items() if trust.accepts(name, keys)}
            untrusted = sorted(asked.members.keys() - trusted.keys())
            for name in untrusted:
                self.ledger.log("refused", name, "asked to share with a device that is not in the trust file")
            header = self.ledger.sealed_header(run)
            envelope = self._seal(run, asked, trusted) if header is None else open_header(header)
            if envelope is None:
                return {"count": 0, "untrusted": untrusted, "delivered": [], "rejected": {}, "silent": []}
            # Trust may have been revoked since the envelope was made: who is not trusted now gets no more of it.
            reached = {name: keys for name, keys in trusted.items() if name not in asked.away}
            members = tuple((name, keys) for name, keys in envelope.contents.members if reached.get(name) == keys)
            current = replace(envelope, contents=replace(envelope.contents, members=members))
            result = deliver(current, self._spool(envelope), send, self.ledger)
            everyone, have = {name for name, _ in envelope.contents.members}, self.ledger.delivered(envelope.id)
            result.silent += sorted((everyone & asked.away) - have)
            result.delivered += sorted(everyone & asked.away & have)
            if everyone <= have:
                self._spool(envelope).unlink(missing_ok=True)
            self._phase = "shared"
        return {
            "count": envelope.contents.count, "untrusted": untrusted, **vars(result), "envelope": envelope.id,
            "seconds": time.monotonic() - started, "mu": asked.mu,
        }  # fmt: skip

    def train_round(self, request: Mapping[str, Any]) -> Message:
        """Train on own and received samples from the weights of the server; return how they changed."""
        run = self._enter(request)
        self._phase = "train"
        files = self.inbox.files()
        key = hashlib.sha256(repr((run, request.get("task"), files)).encode()).digest()
        if self._training is None or self._training[0] != key:
            task = LocalTask(request.get("task"), self.own, files, self.consent.min_batch_size)
            self._training = key, task
        return train_locally(self._training[1], request)

    # --- what other devices send

    def receive(self, message: Mapping[str, Any], peer: str = "") -> Message:
        """Answer a message of another device; `peer` is who the engine says it is, for the log alone."""
        topic = message.get("topic")
        if topic == "offer":
            return reply_to(
                lambda: self.inbox.offer(message.get("header"), self.trust, self._check_contents), self.ledger, peer
            )
        if topic == "chunk":
            return reply_to(lambda: self.inbox.chunk(message), self.ledger, peer)
        if topic == "probe":
            return {"probe": "ok"}
        return {"rejected": "unknown topic"}

    def _check_contents(self, contents: Contents) -> None:
        most = self.consent.max_received
        if contents.format != self.own.format:
            raise RejectedError(f"samples of another format: {contents.format}, expected {self.own.format}")
        before = self.ledger.num_received(contents.run, contents.head_keys.fingerprint)
        if before + contents.count > most:
            raise RejectedError(f"{before + contents.count} samples, but the consent file takes at most {most}")

    # --- parts

    def _enter(self, request: Mapping[str, Any]) -> str:
        run = request.get("run")
        if not isinstance(run, str) or not is_name(run):
            raise RejectedError(f"invalid name of the run: {NAME_RULE}")
        if run != self.inbox.run:
            self._training = None
            self.inbox.enter(run)
        return run

    def _counts(self, consent: Consent) -> Ints:
        counts = self.own.counts
        if consent.counts_epsilon is None:
            return counts
        # Other data are another question.
        what = f"class counts {hashlib.sha256(np.ascontiguousarray(self.own.labels).data).hexdigest()[:16]}"
        noisy = private_counts(counts, consent.counts_epsilon).tolist()
        release = Release(what, epsilon=consent.counts_epsilon)
        answer = self.ledger.spend(release, consent.epsilon_budget, consent.delta, noisy)
        return np.array(answer, dtype=np.int64)

    def _probe(self, name: str, send: Send) -> float | None:
        """Return the rate of the path to a device, bit/s, the best of a few short messages; None: no answer."""
        rates = []
        for _ in range(_PROBES):
            started = time.monotonic()
            if name not in send([name], {"topic": "probe", "data": os.urandom(_PROBE_BYTES)}):
                break  # waiting for it once more would take the time of the whole phase
            rates.append(8 * _PROBE_BYTES / max(time.monotonic() - started, 1e-9))
        return max(rates, default=None)

    def _seal(self, run: str, asked: ShareRequest, trusted: Mapping[str, PublicKeys]) -> Envelope | None:
        for stale in self._outbox.iterdir():
            stale.unlink()
        if not trusted:
            return None
        if asked.kind not in self.consent.kinds:
            self.ledger.log("refused", "", f"asked to share {asked.kind}, which the consent file does not allow")
            return None
        at_once = chunk_samples(self.own.format)
        if asked.kind == RAW:
            samples, hashes = self._drawn(asked)
            count, records = len(samples), self.own.records(samples, at_once)
        else:
            made, hashes = self._released(run, asked), []
            count, records = len(made), (made[start : start + at_once] for start in range(0, len(made), at_once))
        if not count:
            return None
        contents = Contents(
            run=run, head=self.name, head_keys=self.keys.public, members=tuple(trusted.items()), kind=asked.kind,
            count=count, sequence=self.ledger.next_sequence(), format=self.own.format, chunk_samples=at_once,
        )  # fmt: skip
        temporary = self._outbox / "sealing"
        envelope = seal(contents, records, self.keys, temporary)
        temporary.replace(self._spool(envelope))
        sync_folder(self._outbox)
        self.ledger.record_sealed(envelope, hashes)
        return envelope

    def _released(self, run: str, asked: ShareRequest) -> NDArray[Any]:
        """Generate samples with differential privacy, as records, after their ε is counted against the budget.

        The noise is from the operating system's randomness: the server knows the seed of the run. A release whose
        envelope was not recorded, since the device was killed, was not sent; then another one takes its place.
        """
        consent, own, mu = self.consent, self.own, asked.mu or 0.0
        if consent.epsilon_budget is None:
            raise RejectedError(f"{asked.kind}: the consent file has no epsilon_budget; its owner must set one")
        if own.format.scale is None:
            raise RejectedError(f"{asked.kind}: the samples of this device are text; expected raw")
        release = Release(f"{asked.kind} with μ = {mu:.6g} in run {run}", mu=mu)
        self.ledger.spend(release, consent.epsilon_budget, consent.delta, None)
        # The budget is spent by the release: how many samples are drawn from it reveals nothing more.
        sharing, volume = find_sharing(asked.kind), min(asked.count, len(own))
        assert sharing.make is not None
        held = Held(scaled(np.asarray(own.inputs), own.format.scale), np.asarray(own.labels), own.format.num_classes)
        rng = generator(asked.seed, "share", user=asked.user)
        made = sharing.make(held, Request(volume, asked.balanced, rng, secure_noise), asked.options)
        if made.mu is None or made.mu > mu * (1 + _ROUNDING) or made.soft_labels is not None:
            raise RejectedError(f"{asked.kind}: generated samples have no guarantee, a weaker one, or soft labels")
        records = np.zeros(len(made.labels), own.format.record)
        records["label"], records["input"] = made.labels, stored(made.inputs, own.format.dtype, own.format.scale)
        return records

    def _drawn(self, asked: ShareRequest) -> tuple[Ints, list[bytes]]:
        """Draw samples within the owner's consent; return their positions and hashes.

        The consent counts different samples over all runs. What was sent before may be sent again: if the draw asks for
        more new samples than are left, samples that were sent before take their places.
        """
        size = len(self.own)
        most = int(self.consent.max_ratio * size + _ROUNDING)
        if most < asked.count:
            self.ledger.log("cut", "", f"asked for {asked.count} samples, consent allows {most} of {size}")
        volume, rng = min(asked.count, most), generator(asked.seed, "share", user=asked.user)
        drawn = draw_samples(np.asarray(self.own.labels), volume, asked.balanced, rng)
        hashes = self._hashes(drawn)
        new = ~np.array(self.ledger.revealed(hashes), dtype=bool)
        left = max(0, most - self.ledger.num_revealed())
        if new.sum() <= left:
            return drawn, hashes
        kept = ~new | (np.cumsum(new) <= left)
        others = np.setdiff1d(np.arange(size), drawn)
        before = others[np.array(self.ledger.revealed(self._hashes(others)), dtype=bool)]
        chosen = np.concatenate([drawn[kept], before])[:volume]
        return chosen, self._hashes(chosen)

    def _hashes(self, samples: Ints) -> list[bytes]:
        found: list[bytes] = []
        for records in self.own.records(samples, chunk_samples(self.own.format)):
            found += [hashlib.blake2b(record.tobytes(), digest_size=_HASH_BYTES).digest() for record in records]
        return found

    def _spool(self, envelope: Envelope) -> Path:
        return self._outbox / f"{envelope.id}.chunks"
