"""The key pair of a device: Ed25519 signs, X25519 receives encrypted samples; one fingerprint names both."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from fedcast.errors import FedcastError

_KEY_BYTES = 32
_FINGERPRINT_LABEL = b"fedcast fingerprint 1\0"
_GROUP = 4


@dataclass(frozen=True)
class PublicKeys:
    """The public keys of a device, 32 bytes each."""

    signing: bytes  #: Ed25519
    agreement: bytes  #: X25519

    @property
    def fingerprint(self) -> str:
        """SHA-256 of both keys, 64 hexadecimal digits: pinning it pins both."""
        return hashlib.sha256(_FINGERPRINT_LABEL + self.signing + self.agreement).hexdigest()

    def to_bytes(self) -> bytes:
        """Return both keys as 64 bytes."""
        return self.signing + self.agreement

    def verify(self, signature: bytes, message: bytes) -> bool:
        """Return whether the signature of the message is by this device."""
        try:
            Ed25519PublicKey.from_public_bytes(self.signing).verify(signature, message)
        except InvalidSignature:
            return False
        return True

    @property
    def agreement_key(self) -> X25519PublicKey:
        """The key to encrypt for."""
        return X25519PublicKey.from_public_bytes(self.agreement)


def public_keys(content: object) -> PublicKeys:
    """Return the keys that `PublicKeys.to_bytes` wrote; whatever comes from the network may be anything else."""
    if not isinstance(content, bytes) or len(content) != 2 * _KEY_BYTES:
        raise FedcastError(f"invalid public keys: expected {2 * _KEY_BYTES} bytes")
    keys = PublicKeys(content[:_KEY_BYTES], content[_KEY_BYTES:])
    try:
        X25519PrivateKey.generate().exchange(keys.agreement_key)
    except ValueError:  # a point of small order: nothing can be encrypted for it, for other members neither
        raise FedcastError("invalid public keys: the X25519 key gives no secret") from None
    return keys


def grouped(fingerprint: str) -> str:
    """Return a fingerprint in groups of four digits, to be compared by eye or read out.

    Example:
        >>> grouped("00112233aa")
        '0011 2233 aa'
    """
    return " ".join(fingerprint[start : start + _GROUP] for start in range(0, len(fingerprint), _GROUP))


@dataclass(frozen=True)
class KeyPair:
    """The private keys of a device; they never leave it."""

    signing: Ed25519PrivateKey
    agreement: X25519PrivateKey

    @property
    def public(self) -> PublicKeys:
        """The public keys."""
        signing, agreement = self.signing.public_key(), self.agreement.public_key()
        return PublicKeys(signing.public_bytes_raw(), agreement.public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """Return the Ed25519 signature of a message."""
        return self.signing.sign(message)


def new_key_pair() -> KeyPair:
    """Draw a new key pair."""
    return KeyPair(Ed25519PrivateKey.generate(), X25519PrivateKey.generate())


def load_or_create_keys(path: str | Path) -> KeyPair:
    """Return the keys of a file; if there is none, draw new ones and write it, readable by its owner alone."""
    path = Path(path)
    if not path.exists():
        keys = new_key_pair()
        path.parent.mkdir(parents=True, exist_ok=True)
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        pem = [private.private_bytes(*form) for private in (keys.signing, keys.agreement)]
        # O_EXCL: of two processes that start at once one fails, instead of a key that only one of them knows.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(b"".join(pem))
            stream.flush()
            os.fsync(stream.fileno())
        return keys
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise FedcastError(f"{path}: other users of this machine can read the private keys; run chmod 600 {path}")
    signing, agreement = _read_pem(path)
    return KeyPair(signing, agreement)


def _read_pem(path: Path) -> tuple[Ed25519PrivateKey, X25519PrivateKey]:
    end = b"-----END PRIVATE KEY-----\n"
    blocks = [part + end for part in path.read_bytes().split(end) if part]
    try:
        signing, agreement = (serialization.load_pem_private_key(block, None) for block in blocks)
    except ValueError:
        raise FedcastError(f"{path}: not a file of private keys; delete it to draw new keys") from None
    if not isinstance(signing, Ed25519PrivateKey) or not isinstance(agreement, X25519PrivateKey):
        raise FedcastError(f"{path}: expected an Ed25519 key and an X25519 key; delete it to draw new keys")
    return signing, agreement
