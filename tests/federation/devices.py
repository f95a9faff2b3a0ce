"""A few devices on one machine whose messages are function calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedcast.data import Dataset, dataset_from_arrays
from fedcast.federation import Device, load_or_create_keys, write_samples

RUN = "run-1"
SHAPE = (1, 4, 4)


def dataset(samples: int, seed: int = 0, classes: int = 4) -> Dataset:
    rng = np.random.default_rng(seed)
    inputs = rng.integers(0, 256, (samples, *SHAPE), dtype=np.uint8)
    return dataset_from_arrays(inputs, np.arange(samples) % classes, inputs[:1], np.array([classes - 1]))


def make_folder(folder: Path, data: Dataset, consent: str = 'kinds = ["raw"]\nmax_ratio = 0.5\n') -> Path:
    write_samples(folder / "data", data)
    (folder / "consent.toml").write_text(consent)
    (folder / "trust.toml").write_text("")
    return folder


def trust(folder: Path, *others: tuple[str, str]) -> None:
    tables = [f'["{name}"]\nfingerprint = "{fingerprint}"\nrate_bps = 1e7\n' for name, fingerprint in others]
    (folder / "trust.toml").write_text("".join(tables))


def fingerprint(folder: Path) -> str:
    return load_or_create_keys(folder / "keys.pem").public.fingerprint


class Network:
    """Carries messages between devices; `tamper` may change or lose one: (receiver, message) → message or None."""

    def __init__(self, root: Path, names: list[str], samples: int = 40, *, inside: str = "", **consent: str) -> None:
        self.folders = {
            name: make_folder(
                root / name / inside, dataset(samples, seed), *([consent[name]] if name in consent else [])
            )
            for seed, name in enumerate(names)
        }
        known = {name: fingerprint(folder) for name, folder in self.folders.items()}
        for name, folder in self.folders.items():
            trust(folder, *((other, known[other]) for other in names if other != name))
        self.devices: dict[str, Device] = {}
        for name in names:
            self.start(name)
        self.tamper: Callable[[str, dict], dict | None] = lambda _, message: message
        self.log: list[tuple[str, dict]] = []

    def start(self, name: str) -> Device:
        """Start a device, again if it ran."""
        self.devices[name] = Device(name, self.folders[name])
        self.devices[name].alive({"run": RUN})
        return self.devices[name]

    def send(self, targets, message) -> dict:
        replies = {}
        for name in targets:
            self.log.append((name, message))
            carried = self.tamper(name, dict(message))
            if carried is not None and name in self.devices:
                replies[name] = self.devices[name].receive(carried, "somebody")
        return replies

    def keys(self, *names: str) -> dict[str, bytes]:
        return {name: self.devices[name].keys.public.to_bytes() for name in names}

    def share(self, head: str, *members: str, count: int = 8, **changed) -> dict:
        request = {"run": RUN, "count": count, "members": self.keys(*members), "kind": "raw", "balanced": False,
                   "seed": 3, "user": 0}  # fmt: skip
        return self.devices[head].share(request | changed, self.send)

    def received(self, name: str) -> int:
        return self.devices[name].alive({"run": RUN})["samples"] - len(self.devices[name].own)

    def stored_bytes(self, name: str) -> int:
        """Bytes of all files of samples of others on a device, complete or not."""
        places = (self.folders[name] / "inbox", self.folders[name] / "received")
        return sum(file.stat().st_size for place in places for file in place.rglob("*") if file.is_file())

    def events(self, name: str, event: str) -> list[str]:
        return [entry.detail for entry in self.devices[name].ledger.entries() if entry.event == event]
