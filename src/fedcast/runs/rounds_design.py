"""The runs that `fedcast fit-rounds` trains: levels of skew, rules, volumes, local epochs and learning rates.

They fill the space of all settings evenly (a Sobol sequence), each with a seed of its own. The sequence is fixed, so
that more runs keep those before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from fedcast.errors import FedcastError
from fedcast.formatting import pluralize
from fedcast.scenario import Scenario, with_overrides

EPOCHS = (1, 2, 3, 5, 8)
# Factors of the scenario's learning rate.
RATE_FACTORS = (0.5, 1.0, 2.0)
RULES = ("none", "daca", "gain", "blend")
LARGEST_COUNT = 1024
# Errors of the ladder of targets, as multiples of the error at the scenario's target.
_LADDER = (3.0, 2.25, 1.7, 1.3, 1.0, 0.8)
_SEQUENCE_SEED = 17
# Share of runs at the scenario's own epochs and rate, to which forms of skew alone are fitted, and without sharing.
_OWN_SHARE, _NONE_SHARE = 0.45, 0.3
_LEAST_RATIO = 0.02
_T = TypeVar("_T")


class SkewOption(NamedTuple):
    """The option of a partition that sets its degree of skew."""

    option: str
    at: Callable[[float], float]  # place in [0, 1) to the value


# Other partitions have one degree of skew, which sharing alone changes.
LEVELS = {
    "label_skew": SkewOption("single_class_share", lambda place: round(place, 2)),
    "dirichlet": SkewOption("alpha", lambda place: round(0.05 * 200**place, 3)),
    "shards": SkewOption("classes_per_user", lambda place: (1, 2, 3, 4, 6)[int(5 * place)]),
    "quantity": SkewOption("alpha", lambda place: round(0.1 * 100**place, 3)),
}


@dataclass(frozen=True)
class Setting:
    """One run of the study."""

    level: float | None  #: option of the partition that sets the skew; None: it has none
    rule: str  #: clustering rule
    sharing_ratio: float  #: shared part of each head's samples; 0: rule none
    local_epochs: int
    learning_rate: float
    seed: int

    def describe(self, partition: str) -> str:
        """Return the setting in words, for progress."""
        level = f"{LEVELS[partition].option} {self.level:g}, " if self.level is not None else ""
        ratio = f" {self.sharing_ratio:g}" if self.sharing_ratio else ""
        epochs = pluralize(self.local_epochs, "epoch")
        return f"{level}{self.rule}{ratio}, {epochs}, rate {self.learning_rate:g}"


def design(
    scenario: Scenario,
    count: int,
    *,
    rules: Sequence[str] = RULES,
    epochs: Sequence[int] = EPOCHS,
    rates: Sequence[float] = (),
    num_classes: int | None = None,
) -> list[Setting]:
    """Return the first `count` settings of the sequence, for the kind of partition of the scenario.

    Args:
        scenario: whose data are partitioned, and whose learning rate is in the middle.
        count: number of runs, at most 1024.
        rules: clustering rules.
        epochs: numbers of local epochs.
        rates: learning rates; empty: half, once and twice the scenario's.
        num_classes: of the data; a user of partition ``shards`` holds no more classes.

    Example:
        >>> first, second = design(Scenario(), 3)[:2], design(Scenario(), 60)[:2]
        >>> first == second
        True
    """
    from scipy.stats import qmc

    if not 1 <= count <= LARGEST_COUNT:
        raise FedcastError(f"invalid value {count} for --count: expected 1 to {LARGEST_COUNT} runs")
    training, level = scenario.training, LEVELS.get(scenario.data.partition)
    rates = sorted(rates) or [float(f"{factor * training.learning_rate:.6g}") for factor in RATE_FACTORS]
    settings = []
    for number, point in enumerate(qmc.Sobol(5, rng=_SEQUENCE_SEED).random(LARGEST_COUNT)[:count].tolist()):
        rule = _pick(rules, "none", point[1], _NONE_SHARE)
        value = None if level is None else level.at(point[0])
        if value is not None and scenario.data.partition == "shards":
            value = min(value, num_classes or value)
        ratio = 0.0 if rule == "none" else round(_LEAST_RATIO ** (1 - point[2]), 3)
        own = _pick(epochs, training.local_epochs, point[3]), _pick(rates, training.learning_rate, point[4])
        settings.append(Setting(value, rule, ratio, *own, scenario.seed + number))
    return settings


def _pick(values: Sequence[_T], own: Any, place: float, share: float = _OWN_SHARE) -> _T:
    """Return the value at a place in [0, 1): `share` of the places give the own value, the others give all equally."""
    others = [value for value in values if value != own]
    if own not in values or not others:
        return values[int(place * len(values))]
    return values[values.index(own)] if place < share else others[int((place - share) / (1 - share) * len(others))]


def scenario_of(scenario: Scenario, setting: Setting) -> Scenario:
    """Return the scenario of one run; runs with more local epochs have fewer rounds, as the square root of both."""
    own = scenario.training.local_epochs
    usual = own if isinstance(own, int) else min(own)
    values: dict[str, Any] = {
        "seed": setting.seed,
        "clustering.rule": setting.rule,
        "training.local_epochs": setting.local_epochs,
        "training.learning_rate": setting.learning_rate,
        "training.rounds": math.ceil(scenario.training.rounds * math.sqrt(usual / setting.local_epochs)),
    }
    if setting.sharing_ratio:
        values["clustering.sharing_ratio"] = setting.sharing_ratio
    if setting.level is not None:
        level = LEVELS[scenario.data.partition]
        value = int(setting.level) if level.option == "classes_per_user" else float(setting.level)
        values[f"data.{scenario.data.partition}.{level.option}"] = value
    return with_overrides(scenario, values)


def ladder_of(target: float) -> tuple[float, ...]:
    """Return targets around one: rounds are fitted to each, and interpolated in between.

    Example:
        >>> ladder_of(0.95)
        (0.85, 0.887, 0.915, 0.935, 0.95, 0.96)
    """
    around = {round(1 - multiple * (1 - target), 3) for multiple in _LADDER} - {round(target, 3)}
    return tuple(sorted({target, *(other for other in around if 0 < other < 1)}))
