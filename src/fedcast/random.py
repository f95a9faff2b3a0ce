"""Random draws as functions of (seed, purpose, round, user).

A draw does not depend on earlier draws, so that adding a user, a round or a step does not change others. `generator`
returns a NumPy generator; `user_uniform` and `pair_uniform` hash millions of users or pairs at once, one number each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

U64 = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_TO_UNIT = 2.0**-53


def _digest(seed: int, purpose: str, *numbers: int, size: int) -> int:
    text = "/".join([str(int(seed)), purpose, *(str(int(number)) for number in numbers)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=size).digest(), "little")


def generator(seed: int, purpose: str, *, round: int = 0, user: int = 0) -> np.random.Generator:  # noqa: A002
    """Return the generator of one purpose, round and user.

    Example:
        >>> a = generator(7, "batches", round=3, user=5).integers(1000)
        >>> b = generator(7, "batches", round=3, user=5).integers(1000)
        >>> c = generator(7, "batches", round=3, user=6).integers(1000)
        >>> bool(a == b), bool(a == c)
        (True, False)
    """
    return np.random.Generator(np.random.Philox(key=_digest(seed, purpose, round, user, size=16)))


def stream_key(seed: int, purpose: str) -> np.uint64:
    """Return the 64-bit key that `user_uniform` and `pair_uniform` use, for compiled code that hashes as they do."""
    return np.uint64(_digest(seed, purpose, size=8))


def _splitmix(x: U64) -> U64:
    """Apply the finaliser of SplitMix64 (Steele, Lea, Flood 2014), a bijection of 64-bit words."""
    x = x + _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


def _unit(words: U64) -> NDArray[np.float64]:
    return (words >> np.uint64(11)).astype(np.float64) * _TO_UNIT


def _words(numbers: ArrayLike) -> U64:
    return np.asarray(numbers).astype(np.uint64)


def user_uniform(seed: int, purpose: str, users: ArrayLike) -> NDArray[np.float64]:
    """Return a uniform number in [0, 1) for each user id, independent of other users.

    Example:
        >>> few, many = user_uniform(0, "x", [3, 4]), user_uniform(0, "x", range(100))
        >>> bool((few == many[3:5]).all())
        True
    """
    with np.errstate(over="ignore"):
        return _unit(_splitmix(_splitmix(_words(users)) ^ stream_key(seed, purpose)))


def name_hash_keys(names: Iterable[str]) -> U64:
    """Return hash keys that depend on names alone, uint64[K], to be used in place of ids in draws.

    Example:
        >>> few, many = name_hash_keys(["gate"]), name_hash_keys(["lobby", "gate"])
        >>> bool(few[0] == many[1])
        True
    """
    digests = b"".join(hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def hash_words(first: ArrayLike, second: ArrayLike) -> U64:
    """Return a 64-bit hash of each ordered pair of whole numbers, uint64[...].

    Example:
        >>> bool(hash_words(1, 2) == hash_words(2, 1))
        False
    """
    with np.errstate(over="ignore"):
        return _splitmix(_splitmix(_words(first)) + _words(second))


def pair_uniform(seed: int, purpose: str, first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    """Return a uniform number in [0, 1) for each unordered pair of users; (i, j) and (j, i) give the same number.

    Example:
        >>> bool(pair_uniform(0, "trust", 3, 8) == pair_uniform(0, "trust", 8, 3))
        True
    """
    a, b = _words(first), _words(second)
    low, high = np.minimum(a, b), np.maximum(a, b)
    with np.errstate(over="ignore"):
        return _unit(_splitmix(_splitmix(_splitmix(low) ^ stream_key(seed, purpose)) + high))
