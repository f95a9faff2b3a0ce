"""The runs of the rounds study: which data, who shares how much, how many local epochs, at which learning rate.

`tuning` varies the learning rate of FedAvg at every number of local epochs. `design` fills the space of all settings
evenly (a Sobol sequence), each run with a seed of its own, so that a form of the rounds model can be judged on settings
that it was not fitted to. `choices` tries every rule, volume and number of epochs for a few populations, to judge what
a plan chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.stats import qmc

EPOCHS = (1, 2, 3, 5, 10)
# Accuracies that rounds are counted to. A run ends when it meets the last.
LADDERS = {
    "mnist": (0.85, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97),
    "digits": (0.7, 0.75, 0.8, 0.85, 0.88, 0.9, 0.92),
    "cifar10": (0.2, 0.25, 0.3, 0.35),
}
TUNING_STEPS = {
    "mnist": (0.025, 0.05, 0.1, 0.2, 0.3, 0.4),
    "digits": (0.05, 0.1, 0.2, 0.4, 0.6, 0.8),
    "cifar10": (0.0125, 0.025, 0.05, 0.1, 0.2),
}
# (learning rate, weight) of the design.
DESIGN_STEPS = {
    "mnist": ((0.05, 0.3), (0.1, 0.4), (0.2, 0.3)),
    "digits": ((0.1, 0.3), (0.2, 0.4), (0.4, 0.3)),
    "cifar10": ((0.025, 0.3), (0.05, 0.4), (0.1, 0.3)),
}
# Largest number of rounds, by local epochs; a run that has not met the last target by then is censored.
MAX_ROUNDS = {
    "mnist": {1: 100, 2: 70, 3: 50, 5: 40, 10: 25},
    "digits": {1: 300, 2: 200, 3: 150, 5: 100, 10: 60},
    "cifar10": {1: 40, 2: 25, 3: 20, 5: 14, 10: 8},
}
_KINDS = (("label_skew", 0.45), ("dirichlet", 0.43), ("shards", 0.12))
_RULES = (
    ("none", 0.25), ("daca", 0.15), ("blend", 0.18), ("gain", 0.15), ("scc", 0.07), ("cec", 0.06), ("random", 0.07),
    ("central", 0.07),
)  # fmt: skip
_EPOCH_WEIGHTS = ((1, 0.3), (2, 0.2), (3, 0.2), (5, 0.2), (10, 0.1))
_SHARDS = (1, 2, 3, 4, 6)


@dataclass(frozen=True)
class Setting:
    """One run."""

    part: str  # tuning, design or choices
    partition: str  # label_skew, dirichlet or shards
    level: float  # share of one-class users, alpha, or classes of a user
    rule: str
    ratio: float  # of a head's samples that it shares
    epochs: int
    step: float  # learning rate
    seed: int
    repeat: int = 0  # of the same population, with other initial weights and batches

    @property
    def world(self) -> str:
        """Name of the data after sharing, which runs that differ in epochs or learning rate have in common."""
        return f"{self.partition}-{self.level:g}-{self.rule}-{self.ratio:g}-s{self.seed}"

    @property
    def name(self) -> str:
        """Name of the run."""
        again = f"-r{self.repeat}" if self.repeat else ""
        return f"{self.world}-E{self.epochs}-lr{self.step:g}{again}"


def tuning(dataset: str, seeds: Sequence[int] = (0, 1)) -> list[Setting]:
    """Return runs without sharing, 80 % of the users with one class, at every learning rate and number of epochs."""
    return [
        Setting("tuning", "label_skew", 0.8, "none", 0.0, epochs, step, seed)
        for seed, epochs, step in product(seeds, EPOCHS, TUNING_STEPS[dataset])
    ]


def design(dataset: str, count: int, first_seed: int = 100) -> list[Setting]:
    """Return the first `count` settings of a fixed sequence: more of them redo nothing."""
    points = qmc.Sobol(6, seed=17).random_base2(10)
    return [_setting(dataset, point, first_seed + number) for number, point in enumerate(points[:count])]


def choices(
    dataset: str, populations: Sequence[tuple[str, float, int]], step: float, repeats: int = 1
) -> list[Setting]:
    """Return every rule, volume and number of epochs for some populations (partition, level, seed), repeated."""
    kept = [
        Setting("choices", partition, level, rule, ratio, epochs, step, seed, repeat)
        for repeat, (partition, level, seed), (rule, ratio), epochs in product(
            range(repeats),
            populations,
            [("none", 0.0), *product(("daca", "gain", "blend"), (0.05, 0.2, 1.0))],
            (1, 2, 5, 10) if dataset == "digits" else (1, 2, 3, 5),
        )
    ]
    return list(dict.fromkeys(kept))


def _setting(dataset: str, point: np.ndarray, seed: int) -> Setting:
    kind, rule = _pick(_KINDS, point[0]), _pick(_RULES, point[2])
    level = {
        "label_skew": round(float(point[1]), 2),
        "dirichlet": round(float(0.05 * 200 ** point[1]), 3),
        "shards": float(_SHARDS[int(point[1] * len(_SHARDS))]),
    }[kind]
    ratio = 0.0 if rule == "none" else round(float(0.02 * 50 ** point[3]), 3)
    epochs, step = _pick(_EPOCH_WEIGHTS, point[4]), _pick(DESIGN_STEPS[dataset], point[5])
    return Setting("design", kind, level, rule, ratio, epochs, step, seed)


def _pick(weighted, where):  # type: ignore[no-untyped-def]
    """Return the value whose interval of cumulated weights holds `where` in [0, 1)."""
    edges = np.cumsum([weight for _, weight in weighted])
    return weighted[min(int(np.searchsorted(edges, where * edges[-1], side="right")), len(weighted) - 1)][0]
