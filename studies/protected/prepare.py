"""Pack the runs of kinds of sharing against ε, with all users and with 80 % of them of one class.

    python studies/protected/prepare.py mnist out/protected/mnist

writes the pack and the run folders' inputs to the folder; datasets are mnist, fashion_mnist and cifar10 (of which the
first 10,000 training and 2,000 test images are taken, for 50 users). Train it with `python -m fedcast.training.packed`,
which needs PyTorch and NumPy alone, then read the histories with `read.py`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedcast.data import load_dataset
from fedcast.runs import pack
from fedcast.scenario import Data, Scenario, load_scenario

RESULTS = Path(__file__).with_name("results.json")
LEARNING_RATE = 0.05


@dataclass(frozen=True)
class Setting:
    """Sharing of one run: kind (None: nothing), ε, volume as part of a head's samples, and other options."""

    kind: str | None
    epsilon: float | None = None
    volume: float = 0.1
    seed: int = 0
    overrides: tuple[str, ...] = ()


# Of private kinds volume costs no privacy: they are trained with more than raw samples are.
FIRST = [
    Setting(None), Setting("raw"), Setting("synthetic", 4, 0.5), Setting("synthetic", 4), Setting("prototypes", 4, 0.5),
    Setting("raw", None, 0.5),
]  # fmt: skip
BY_EPSILON = [Setting("synthetic", 1, 0.5), Setting("synthetic", 2, 0.5), Setting("synthetic", 8, 0.5)]
MORE = [
    Setting("synthetic", 4, 1.0), Setting("prototypes", 4), Setting("prototypes", 1, 0.5), Setting("mixed", None, 0.5),
    Setting("synthetic", 4, 0.5, 0, ("training.learning_rate=0.1",)),
    Setting(None, None, 0.1, 0, ("training.learning_rate=0.1",)),
]  # fmt: skip
AGAIN = [Setting(None, seed=1), Setting("raw", seed=1), Setting("synthetic", 4, 0.5, 1)]
# Further seeds, values of ε and volumes.
OTHER_EPSILONS = [*BY_EPSILON[1:], Setting("prototypes", 1, 0.5), Setting("raw", None, 0.5)]
FOUR = [Setting(None), Setting("raw"), Setting("synthetic", 4, 0.5), Setting("prototypes", 4, 0.5)]
WHOLE = [Setting("synthetic", 4, 1.0), Setting("prototypes", 4, 1.0)]


def with_seeds(settings: list[Setting], *seeds: int) -> list[Setting]:
    """Return the settings with each of the seeds."""
    return [replace(setting, seed=seed) for seed in seeds for setting in settings]


# Share of users of one class, rounds, and settings, in the order in which they are trained.
STAGES = {
    "mnist": [(1.0, 100, FIRST), (0.8, 50, FIRST), (1.0, 100, BY_EPSILON + MORE), (0.8, 50, BY_EPSILON + MORE[1:3]),
              (1.0, 100, AGAIN), (0.8, 50, AGAIN), (0.8, 50, with_seeds(FOUR, 1, 2, 3, 4) + with_seeds(WHOLE, 0, 1)),
              (1.0, 100, with_seeds(FOUR[2:], 1, 2))],
    "fashion_mnist": [(1.0, 100, FIRST[:5]), (0.8, 50, FIRST[:5]), (1.0, 100, BY_EPSILON[:1]),
                      (0.8, 50, BY_EPSILON[:1]), (1.0, 100, OTHER_EPSILONS), (0.8, 50, OTHER_EPSILONS),
                      (1.0, 100, with_seeds(FOUR, 1)), (0.8, 50, with_seeds(FOUR, 1))],
    "cifar10": [(1.0, 100, FIRST[:3]), (0.8, 100, FIRST[:3]), (1.0, 100, FIRST[4:5] + BY_EPSILON[:1]),
                (0.8, 100, FIRST[4:5] + BY_EPSILON[:1]), (1.0, 100, OTHER_EPSILONS + with_seeds(FOUR, 1)),
                (0.8, 100, OTHER_EPSILONS + with_seeds(FOUR, 1))],
}  # fmt: skip
# Public numbers: how bright images are, and how far they differ from their class mean.
CLIPS = {"mnist": (0.33, 0.2), "fashion_mnist": (0.5, 0.25), "cifar10": (0.6, 0.3)}
SMALL = {"inputs": 10_000, "labels": 10_000, "test_inputs": 2_000, "test_labels": 2_000}


def data_of(dataset: str, folder: Path) -> dict[str, object]:
    """Return the overrides that choose the dataset; of CIFAR-10 a part is written to the folder first."""
    if dataset != "cifar10":
        return {"data.dataset": dataset}
    file, whole = folder / "cifar10-small.npz", load_dataset(Data(dataset=dataset))
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(file, **{name: np.asarray(getattr(whole, name))[:most] for name, most in SMALL.items()})
    return {"data.dataset": "file", "data.file": file, "data.num_users": 50}


def scenario_of(dataset: str, folder: Path, share: float, rounds: int, setting: Setting) -> Scenario:
    """Return the scenario of one run, with fixed volumes and one local epoch."""
    kind, (clip, spread) = setting.kind or "raw", CLIPS[dataset]
    values = data_of(dataset, folder) | {
        "seed": setting.seed, "data.label_skew.single_class_share": share,
        "clustering.rule": "daca" if setting.kind else "none", "clustering.sharing_ratio": setting.volume,
        "allocation.method": "fixed", "allocation.fixed.ratio": setting.volume, "allocation.max_sharing_ratio": 1.0,
        "sharing.kind": kind, "training.rounds": rounds, "training.local_epochs": 1, "training.model": "cnn",
        "training.learning_rate": LEARNING_RATE, "training.compile": "never", "rounds.fit": "mnist",
    }  # fmt: skip
    if setting.epsilon is not None:
        values |= {f"sharing.{kind}.epsilon": setting.epsilon, f"sharing.{kind}.clip": clip}
    if kind == "synthetic":
        values["sharing.synthetic.spread"] = spread
    given = [f"{key}={value}" for key, value in values.items()]
    return load_scenario(base="mnist", overrides=[*given, *setting.overrides])


def scenarios(dataset: str, folder: Path) -> list[Scenario]:
    """Return the scenario of every run that results.json does not hold."""
    wanted = [(share, rounds, setting) for share, rounds, settings in STAGES[dataset] for setting in settings]
    done = stored(dataset)
    return [
        scenario_of(dataset, folder, share, rounds, setting)
        for share, rounds, setting in dict.fromkeys(wanted)
        if (share, setting) not in done
    ]


def stored(dataset: str) -> set[tuple[float, Setting]]:
    """Return the share of one-class users and the setting of each stored run."""
    rows = [row for row in json.loads(RESULTS.read_text(encoding="utf-8")) if row["dataset"] == dataset]
    found = set()
    for row in rows:
        shared = row["rule"] != "none"
        kind, volume = (row["kind"], row["volume"]) if shared else (None, Setting.volume)
        rate = row["learning_rate"]
        overrides = (f"training.learning_rate={rate}",) if rate != LEARNING_RATE else ()
        found.add((row["single_class_share"], Setting(kind, row["epsilon"], volume, row["seed"], overrides)))
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    names = pack(scenarios(sys.argv[1], folder), folder / "store", folder / "pack")
    print(f"{len(names)} runs in {folder / 'pack'}")
