"""shakespeare, tiny_shakespeare: prediction of the next character; the natural users are the speaking roles.

The vocabulary is that of LEAF, 80 characters (Caldas et al. 2018). A sample is 80 characters, its label the next one.
Roles with fewer than 1,000 characters are left out. The last fifth of each role's text is for the test, and no sequence
overlaps both parts.
"""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcast.data.catalogue import DatasetEntry, SourceFile, fetch
from fedcast.data.dataset import Dataset, SampleSpec, TextWindows
from fedcast.registry import option
from fedcast.typing import Ints

VOCABULARY = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
SEQUENCE_LENGTH = 80
_MIN_ROLE_CHARACTERS = 1000
_TRAIN_SHARE = 0.8
_BITS_PER_SAMPLE = (SEQUENCE_LENGTH + 1) * 8

_ROLES = SourceFile(
    "shakespeare/moby_public_domain/roles.jsonl.xz",
    "ef78394fb79396c8a9efb2f17ad79f9a1a54823adeaef124616a5437c56154f9",
)
_TINY_COMPRESSED = SourceFile(
    "shakespeare/tinyshakespeare/input.txt.xz",
    "d2476529549e2da7ec5dd2530f028856808ec42fec335c232268c9c6af463bc6",
)
_TINY = SourceFile(
    "shakespeare/tinyshakespeare/input.txt",
    "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
)
SOURCES = ((_ROLES,),)
TINY_SOURCES = ((_TINY_COMPRESSED,), (_TINY,))


@dataclass(frozen=True)
class TextOptions:
    """Options of the text datasets."""

    stride: int = option(1, "characters between the starts of two sequences", ge=1)


def load_shakespeare(data_dir: str | Path | None = None, stride: int = 1) -> Dataset:
    """Load all 37 plays; users are named play/role."""
    _, (path,) = fetch("shakespeare", SOURCES, data_dir)
    with lzma.open(path, "rt", encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    roles = ((f"{row['play']}/{row['role']}", _as_text(row["speeches"])) for row in rows)
    return text_dataset("shakespeare", roles, stride)


def load_tiny_shakespeare(data_dir: str | Path | None = None, stride: int = 1) -> Dataset:
    """Load Karpathy's 1.1 MB sample; it does not mark plays, so that all roles of one name are one user."""
    _, (path,) = fetch("tiny_shakespeare", TINY_SOURCES, data_dir)
    raw = path.read_bytes()
    text = (lzma.decompress(raw) if path.suffix == ".xz" else raw).decode("utf-8")
    texts: dict[str, list[str]] = {}
    for speech in text.split("\n\n"):
        if match := re.match(r"([^\n:]+):\n(.*)", speech, re.DOTALL):
            texts.setdefault(match[1], []).append(match[2])
    return text_dataset("tiny_shakespeare", ((role, _as_text(speeches)) for role, speeches in texts.items()), stride)


def _as_text(speeches: list[str]) -> str:
    return "".join(f"{speech}\n" for speech in speeches)


def text_dataset(name: str, roles: Iterable[tuple[str, str]], stride: int = 1) -> Dataset:
    """Return a next-character dataset of (user, text) pairs.

    Example:
        >>> text = text_dataset("mine", [("a", "to be or not to be " * 60)])
        >>> "".join(VOCABULARY[code] for code in text.inputs[0][:18])
        'to be or not to be'
        >>> VOCABULARY[text.labels[0]]
        'e'
    """
    encoded = [(role, _encode(text)) for role, text in roles]
    kept = [(role, codes) for role, codes in encoded if len(codes) >= _MIN_ROLE_CHARACTERS]
    text = np.concatenate([codes for _, codes in kept])
    ends = np.cumsum([len(codes) for _, codes in kept])
    begins = np.append(0, ends[:-1])
    middles = begins + (_TRAIN_SHARE * (ends - begins)).astype(np.int64)
    train, groups = _sequences(text, begins, middles, stride)
    test, test_groups = _sequences(text, middles, ends, stride)
    return Dataset(
        name, *train, *test, num_classes=len(VOCABULARY), bits_per_sample=_BITS_PER_SAMPLE, scale=None,
        class_names=tuple(VOCABULARY), groups=groups, test_groups=test_groups,
        group_names=tuple(role for role, _ in kept),
    )  # fmt: skip


def _sequences(text: NDArray[np.uint8], begins: Ints, ends: Ints, stride: int) -> tuple[tuple[TextWindows, Ints], Ints]:
    """Return the sequences within parts of a text with the characters that follow them, and the part of each."""
    parts = [np.arange(*span, stride) for span in zip(begins, ends - SEQUENCE_LENGTH, strict=True)]
    starts = np.concatenate(parts)
    labels = text[starts + SEQUENCE_LENGTH].astype(np.int64)
    groups = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return (TextWindows(text, starts, SEQUENCE_LENGTH), labels), groups


_CODE_OF = np.full(128, 255, dtype=np.uint8)
_CODE_OF[[ord(character) for character in VOCABULARY]] = np.arange(len(VOCABULARY))


def _encode(text: str) -> NDArray[np.uint8]:
    """Return the codes of the characters; the few outside the vocabulary (one $ in all plays) are dropped."""
    ascii_codes = np.frombuffer(text.encode("ascii", "ignore"), np.uint8)
    codes: NDArray[np.uint8] = _CODE_OF[ascii_codes]
    return codes[codes < len(VOCABULARY)]


_SPEC = SampleSpec((SEQUENCE_LENGTH,), len(VOCABULARY))
DATASET = DatasetEntry(
    lambda options, data_dir: load_shakespeare(data_dir, options.stride),
    "37 plays, 639 roles, next of 80 characters",
    "public domain (Moby Shakespeare)",
    SOURCES,
    TextOptions,
    lambda _: _SPEC,
)
TINY_DATASET = DatasetEntry(
    lambda options, data_dir: load_tiny_shakespeare(data_dir, options.stride),
    "1.1 MB of several plays, next of 80 characters",
    "public domain text; sample by A. Karpathy",
    TINY_SOURCES,
    TextOptions,
    lambda _: _SPEC,
)
