"""Log rounds explained by measures of skew, within groups of runs that differ only in how data were shared."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcast.typing import Floats


@dataclass(frozen=True, eq=False)
class Explained:
    """A regression of centred log rounds on centred predictors.

    Attributes:
        names: of the predictors.
        slopes: float64[P], per unit of each.
        explained: share of the variance within groups that it explains.
        explained_unseen: the same where each seed is predicted from the others; may be below 0.
    """

    names: tuple[str, ...]
    slopes: Floats
    explained: float
    explained_unseen: float


def explain_rounds(
    values: Sequence[dict[str, float]],
    rounds: Sequence[float],
    groups: Sequence[Hashable],
    seeds: Sequence[int],
    names: tuple[str, ...],
) -> Explained:
    """Least squares within groups, and how well it does on a seed that it has not seen.

    Args:
        values: one mapping from names of measures to numbers for each run.
        rounds: to the target, of each run.
        groups: runs of one group had the same users and data before sharing.
        seeds: of each run.
        names: predictors to use.

    Example:
        >>> values = [{"emd": 1.0}, {"emd": 2.0}, {"emd": 3.0}, {"emd": 5.0}]
        >>> found = explain_rounds(values, [2.0, 4.0, 20.0, 80.0], ["a", "a", "b", "b"], [0, 0, 1, 1], ("emd",))
        >>> found.slopes.round(3).tolist(), found.explained
        ([0.693], 1.0)
    """
    predictors = _centred(np.array([[row[name] for name in names] for row in values]), groups)
    target = _centred(np.log(np.asarray(rounds, dtype=np.float64))[:, None], groups)[:, 0]
    slopes = _slopes(predictors, target)
    of_seed = np.asarray(seeds)
    unseen: Floats = np.zeros(len(target))
    for seed in np.unique(of_seed):
        held_out = of_seed == seed
        unseen[held_out] = predictors[held_out] @ _slopes(predictors[~held_out], target[~held_out])
    return Explained(names, slopes, _share(target, predictors @ slopes), _share(target, unseen))


def _slopes(predictors: Floats, target: Floats) -> Floats:
    return np.linalg.lstsq(predictors, target, rcond=None)[0].astype(np.float64)


def _share(actual: Floats, predicted: Floats) -> float:
    spread = float((actual**2).sum())
    return round(1 - float(((actual - predicted) ** 2).sum()) / spread, 9) if spread > 0 else 0.0


def _centred(values: Floats, groups: Sequence[Hashable]) -> Floats:
    """Return values minus the mean of their group, which removes what users and data alone decide."""
    numbers: dict[Any, int] = {}
    place = np.array([numbers.setdefault(group, len(numbers)) for group in groups])
    counts = np.bincount(place)[:, None]
    sums = np.zeros((len(counts), values.shape[1]))
    np.add.at(sums, place, values)
    centred: Floats = values - (sums / counts)[place]
    return centred
