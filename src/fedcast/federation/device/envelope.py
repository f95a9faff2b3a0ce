"""Envelopes: samples encrypted once for several members; whoever carries them can neither read nor change them.

An envelope is a header and chunks of whole samples. Samples are encrypted under a fresh content key (AES-256-GCM, the
number of the chunk as nonce), the key is wrapped for each member (HPKE, RFC 9180, with X25519), and the head signs
(Ed25519) a digest of the header: run, head, members with their keys, number of samples, sequence number, and a hash of
every encrypted chunk. All members know the content key, but only the head can sign: a member cannot forge a chunk for
another one, and chunks are authenticated one by one, in any order, before anything is stored.

    header = magic · length of the body (4 bytes) · body (JSON) · wrapped keys (80 bytes for each member) · signature
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from fedcast.errors import FedcastError
from fedcast.federation.device.keys import KeyPair, PublicKeys, public_keys
from fedcast.federation.device.owner_files import TrustedPeers
from fedcast.federation.device.samples import SampleFormat, sample_format

CHUNK_BYTES = 2**20

_MAGIC = b"fedcast envelope 1\0"
_KEY_LABEL, _RECEIPT_LABEL, _COMMITMENT_LABEL = b"fedcast content key 1\0", b"fedcast receipt 1\0", b"fedcast key 1\0"
_KEY_BYTES, _TAG_BYTES, _SIGNATURE_BYTES = 32, 16, 64
_WRAPPED_BYTES = 32 + _KEY_BYTES + _TAG_BYTES
# A header has 64 digits for each chunk of a MiB. Whoever reaches a device can make it read one.
_MOST_HEADER_BYTES = 2**23
# Larger ones, of a head whose code differs, would not be bounded in memory.
_MOST_CHUNK_BYTES = 2**24
_MOST_NUMBER = 2**63 - 1  # of SQLite
_MOST_KIND = 64
_SUITE = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)


class RejectedError(FedcastError):
    """A message that a device does not accept; nothing of it is stored."""


@dataclass(frozen=True)
class Contents:
    """Content of a header; all of it is signed by the head."""

    run: str  #: id of the run
    head: str  #: name of the sender
    head_keys: PublicKeys
    members: tuple[tuple[str, PublicKeys], ...]  #: name and keys of each receiver
    kind: str  #: kind of sharing
    count: int  #: number of samples
    sequence: int  #: number of the envelope at its head; it grows with every envelope
    format: SampleFormat
    chunk_samples: int  #: samples in a chunk; the last one may have fewer
    key_commitment: str = ""  #: hash of the content key, so that all members decrypt the same samples
    chunk_hashes: tuple[str, ...] = ()  #: SHA-256 of every encrypted chunk

    @property
    def num_chunks(self) -> int:
        """Number of chunks."""
        return -(-self.count // self.chunk_samples)

    def samples_of(self, index: int) -> int:
        """Return the number of samples of a chunk."""
        return min(self.chunk_samples, self.count - index * self.chunk_samples)

    @property
    def associated(self) -> bytes:
        """Return the data that authenticates every chunk besides its number."""
        return _canonical([self.run, self.head_keys.fingerprint, self.sequence])

    def to_bytes(self) -> bytes:
        """Return the body of a header."""
        content = vars(self) | {
            "head_keys": self.head_keys.to_bytes().hex(),
            "members": [[name, keys.to_bytes().hex()] for name, keys in self.members],
            "format": self.format.to_dict(),
            "chunk_hashes": "".join(self.chunk_hashes),
        }
        return _canonical(content)


@dataclass(frozen=True)
class Envelope:
    """A header that was checked; `id` is the signed digest, in hexadecimal digits."""

    contents: Contents
    id: str
    header: bytes
    wrapped: tuple[bytes, ...]


def chunk_samples(format: SampleFormat) -> int:  # noqa: A002
    """Return how many samples go into a chunk of about `CHUNK_BYTES`."""
    return max(1, CHUNK_BYTES // format.record.itemsize)


def seal(contents: Contents, records: Iterable[NDArray[Any]], keys: KeyPair, spool: Path) -> Envelope:
    """Encrypt samples into a file of chunks, wrap the content key for each member, and sign the header.

    Args:
        contents: what the header says, without hashes.
        records: the samples of each chunk.
        keys: the key pair of the head.
        spool: file of the encrypted chunks, one after the other.
    """
    key = os.urandom(_KEY_BYTES)
    cipher, hashes, count = AESGCM(key), [], 0
    with spool.open("wb") as stream:
        for index, some in enumerate(records):
            if len(some) != contents.samples_of(index):
                raise FedcastError(f"chunk {index} has {len(some)} samples, expected {contents.samples_of(index)}")
            encrypted = cipher.encrypt(nonce(index), some.tobytes(), contents.associated)
            hashes.append(hashlib.sha256(encrypted).hexdigest())
            stream.write(encrypted)
            count += len(some)
        stream.flush()
        os.fsync(stream.fileno())
    if count != contents.count:
        raise FedcastError(f"{count} samples to encrypt, expected {contents.count}")
    contents = replace(contents, key_commitment=_commitment(key), chunk_hashes=tuple(hashes))
    body = contents.to_bytes()
    wrapped = tuple(
        _SUITE.encrypt(key, member.agreement_key, info=_wrapping_info(body, member)) for _, member in contents.members
    )
    digest = _digest(body, wrapped)
    header = _MAGIC + len(body).to_bytes(4, "big") + body + b"".join(wrapped) + keys.sign(digest)
    return Envelope(contents, digest.hex(), header, wrapped)


def open_header(header: bytes) -> Envelope:
    """Return the envelope of a header whose signature is by the head that it names; it says nothing about trust."""
    contents, wrapped, body = _parse(header)
    digest = _digest(body, wrapped)
    if not contents.head_keys.verify(header[-_SIGNATURE_BYTES:], digest):
        raise RejectedError("the signature is not by the head that the envelope names")
    return Envelope(contents, digest.hex(), header, wrapped)


def content_key(envelope: Envelope, keys: KeyPair, name: str, trust: TrustedPeers, run: str) -> bytes:
    """Return the content key of an envelope if this device is a member and trusts the head; reject it otherwise."""
    contents = envelope.contents
    if contents.run != run:
        raise RejectedError(f"the envelope is of run {contents.run!r}, not of this one")
    if not trust.accepts(contents.head, contents.head_keys):
        raise RejectedError(f"the trust file does not name {contents.head!r} with these keys")
    if (name, keys.public) not in contents.members:
        raise RejectedError("the envelope is not for this device")
    place = contents.members.index((name, keys.public))
    try:
        info = _wrapping_info(contents.to_bytes(), keys.public)
        key = _SUITE.decrypt(envelope.wrapped[place], keys.agreement, info=info)
    except InvalidTag:
        raise RejectedError("the content key cannot be unwrapped") from None
    if _commitment(key) != contents.key_commitment:
        raise RejectedError("the content key is not the one that the head committed to")
    return bytes(key)


def open_chunk(envelope: Envelope, key: bytes, index: int, encrypted: bytes) -> NDArray[Any]:
    """Return the samples of a chunk as records, after checking that the head signed it and that they are valid."""
    contents = envelope.contents
    if not 0 <= index < contents.num_chunks:
        raise RejectedError(f"there is no chunk {index}")
    if hashlib.sha256(encrypted).hexdigest() != contents.chunk_hashes[index]:
        raise RejectedError(f"chunk {index} is not the one that the head signed")
    try:
        content = AESGCM(key).decrypt(nonce(index), encrypted, contents.associated)
    except InvalidTag:
        raise RejectedError(f"chunk {index} cannot be decrypted") from None
    record = contents.format.record
    if len(content) != contents.samples_of(index) * record.itemsize:
        raise RejectedError(f"chunk {index} has another number of samples")
    records: NDArray[Any] = np.frombuffer(content, record)
    try:
        contents.format.check(records)
    except FedcastError as error:
        raise RejectedError(f"chunk {index}: {error}") from None
    return records


def read_chunk(envelope: Envelope, spool: BinaryIO, index: int) -> bytes:
    """Return an encrypted chunk from the file of a head."""
    record, contents = envelope.contents.format.record.itemsize, envelope.contents
    spool.seek(index * (contents.chunk_samples * record + _TAG_BYTES))
    return spool.read(contents.samples_of(index) * record + _TAG_BYTES)


def receipt(envelope_id: str, keys: KeyPair) -> bytes:
    """Return the member's signature that it stored all samples of an envelope."""
    return keys.sign(_RECEIPT_LABEL + bytes.fromhex(envelope_id))


def is_receipt(content: object, envelope_id: str, member: PublicKeys) -> bool:
    """Return whether a reply is the receipt of that member."""
    return isinstance(content, bytes) and member.verify(content, _RECEIPT_LABEL + bytes.fromhex(envelope_id))


def _parse(header: bytes) -> tuple[Contents, tuple[bytes, ...], bytes]:
    """Split a header into what it says, the wrapped keys and the body; reject whatever is not exactly a header."""
    start = len(_MAGIC) + 4
    if not isinstance(header, bytes) or len(header) > _MOST_HEADER_BYTES or not header.startswith(_MAGIC):
        raise RejectedError("not the header of an envelope")
    end = start + int.from_bytes(header[len(_MAGIC) : start], "big")
    body = header[start:end]
    try:
        contents = _contents(json.loads(body))
    except (ValueError, KeyError, TypeError, RecursionError, FedcastError) as error:
        raise RejectedError(f"invalid header: {error}") from None
    keys_end = end + _WRAPPED_BYTES * len(contents.members)
    if len(header) != keys_end + _SIGNATURE_BYTES or contents.to_bytes() != body:
        raise RejectedError("invalid header: it is cut off, or not written as fedcast writes it")
    wrapped = tuple(header[place : place + _WRAPPED_BYTES] for place in range(end, keys_end, _WRAPPED_BYTES))
    return contents, wrapped, body


def _contents(body: dict[str, Any]) -> Contents:
    hashes = str(body["chunk_hashes"])
    contents = Contents(
        run=str(body["run"]),
        head=str(body["head"]),
        head_keys=public_keys(bytes.fromhex(body["head_keys"])),
        members=tuple((str(name), public_keys(bytes.fromhex(keys))) for name, keys in body["members"]),
        kind=str(body["kind"]),
        count=int(body["count"]),
        sequence=int(body["sequence"]),
        format=sample_format(body["format"]),
        chunk_samples=int(body["chunk_samples"]),
        key_commitment=str(body["key_commitment"]),
        chunk_hashes=tuple(hashes[start : start + 64] for start in range(0, len(hashes), 64)),
    )
    if not all(1 <= value <= _MOST_NUMBER for value in (contents.count, contents.sequence, contents.chunk_samples)):
        raise FedcastError("count, sequence and chunk_samples must be positive 64-bit numbers")
    if contents.chunk_samples > 1 and contents.chunk_samples * contents.format.record.itemsize > _MOST_CHUNK_BYTES:
        raise FedcastError(f"chunks of {contents.chunk_samples} samples are above {_MOST_CHUNK_BYTES} bytes")
    if not contents.kind.isprintable() or len(contents.kind) > _MOST_KIND:
        raise FedcastError("the kind of sharing is not a name")
    if len(contents.chunk_hashes) != contents.num_chunks:
        raise FedcastError(f"{len(contents.chunk_hashes)} hashes for {contents.num_chunks} chunks")
    return contents


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _digest(body: bytes, wrapped: Iterable[bytes]) -> bytes:
    keys = hashlib.sha256(b"".join(wrapped)).digest()
    return hashlib.sha256(_MAGIC + hashlib.sha256(body).digest() + keys).digest()


def _wrapping_info(body: bytes, member: PublicKeys) -> bytes:
    return _KEY_LABEL + hashlib.sha256(body).digest() + member.to_bytes()


def _commitment(key: bytes) -> str:
    return hashlib.sha256(_COMMITMENT_LABEL + key).hexdigest()


def nonce(index: int) -> bytes:
    """Return the nonce of a chunk."""
    # The key is used for one envelope only, so that the number of the chunk is never used twice with it.
    return index.to_bytes(12, "big")
