"""Attack what a head sends: does it reveal whether a given sample is among those that it was made of?

A game draws what a head sends from its samples, or from the same with one of them replaced, and a test guesses which.
The *likelihood ratio* is the strongest test there is: it knows all other samples, both candidates and what was released
with noise, and needs a kind all of whose noise comes from `Request.noise`. The *nearest sample* is what a member can do
with what it received: the distance from the candidate to the nearest received sample, scored by how likely it is in
games of both sorts that the attacker played before (as LiRA does, Carlini et al. 2022). `fedcast.runs` adds a test by
models that are trained on what was sent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from fedcast.sharing.gaussian_noise import SIGMA_STEPS, Noise, seeded_noise
from fedcast.sharing.ledger import Held, Made, Make, Request
from fedcast.typing import Floats, Ints

_CONFIDENCE = 0.999
_INTERVAL_ERROR, _Z = 0.05, 1.959964  # of 95 % confidence intervals
_THRESHOLDS = 25
_LEAST_SIGMA = 1e-9  # of distances that do not vary
_CERTAIN = 1e9  # log likelihood ratio of what only one of two data sets can give


@dataclass(frozen=True, eq=False)
class Target:
    """A head with what it is asked for, one of its samples, and the sample that replaces it in half of the games."""

    held: Held
    volume: int
    balanced: bool
    position: int
    other_input: NDArray[np.float32]
    other_label: int

    @property
    def without(self) -> Held:
        """The samples of the head with the other one in place of the target."""
        inputs, labels = self.held.inputs.copy(), self.held.labels.copy()
        inputs[self.position], labels[self.position] = self.other_input, self.other_label
        return replace(self.held, inputs=inputs, labels=labels)


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of a test, higher if it guesses that the target is inside: of games where it is, and of others."""

    inside: Floats
    outside: Floats

    @property
    def auc(self) -> float:
        """Return the probability that a game with the target scores higher than one without."""
        return float(_not_below(self.inside, self.outside).mean())

    def true_positives(self, false_positives: float) -> float:
        """Return the largest rate of right guesses "inside" at a rate of wrong ones of at most `false_positives`."""
        allowed = int(false_positives * len(self.outside))
        threshold = np.sort(self.outside)[::-1][allowed]
        return float((self.inside > threshold).mean())

    @property
    def auc_interval(self) -> tuple[float, float]:
        """Return the 95 % confidence interval of `auc`, by the variance of DeLong et al. (1988)."""
        above = [_not_below(self.inside, self.outside), 1 - _not_below(self.outside, self.inside)]
        spread = _Z * math.sqrt(sum(float(part.var(ddof=1)) / len(part) for part in above))
        return max(self.auc - spread, 0.0), min(self.auc + spread, 1.0)

    def true_positives_interval(self, false_positives: float) -> tuple[float, float]:
        """Return the 95 % confidence interval of the rate of right guesses at a rate of wrong ones.

        It holds for any distribution of scores. With n games outside, the rate of wrong guesses above the k-th largest
        score is distributed as Beta(k, n − k + 1), whatever the scores. A threshold that is above the one sought with
        confidence, and one that is below, give Clopper-Pearson bounds of the rate of right guesses; all four bounds
        fail with probability 1.25 % at most.
        """
        ordered, error, games = np.sort(self.outside)[::-1], _INTERVAL_ERROR / 4, len(self.outside)
        ranks = np.arange(1, games + 1)
        surely_above = betaincinv(ranks, games - ranks + 1, 1 - error) <= false_positives
        surely_below = betaincinv(ranks, games - ranks + 1, error) >= false_positives
        low, high = 0.0, 1.0
        if surely_above.any():
            low = _bound(int((self.inside > ordered[surely_above][-1]).sum()), len(self.inside), error)
        if surely_below.any():
            high = 1 - _bound(int((self.inside <= ordered[surely_below][0]).sum()), len(self.inside), error)
        return low, high

    def proven_epsilon(self, delta: float) -> float:
        """Return the ε that these games prove at least, with 99.9 % confidence: ln((TPR − δ)/FPR).

        Thresholds are scores of given ranks among the games that a test should not find. How many others lie above such
        a score follows a Beta distribution, whose quantile is the Clopper-Pearson bound, although the games chose it;
        the games that the test should find are independent of it. The bounds hold for all thresholds together.
        """
        error, best = (1 - _CONFIDENCE) / (4 * _THRESHOLDS), 0.0
        # The test that guesses "inside" above a threshold, and the one that guesses "outside" below it.
        for found, spared in ((self.inside, self.outside), (-self.outside, -self.inside)):
            ordered = np.sort(spared)
            for rank in np.unique(np.linspace(1, len(spared), _THRESHOLDS).astype(int)).tolist():
                low = _bound(int((found > ordered[rank - 1]).sum()), len(found), error)
                high = 1 - _bound(rank, len(spared), error)
                best = max(best, float(np.log(max(low - delta, 1e-300) / high)))
        return best


def _not_below(values: Floats, others: Floats) -> Floats:
    """Return the part of the others that each value exceeds, ties by half."""
    ordered = np.sort(others)
    sides = [np.searchsorted(ordered, values, side=side) for side in ("left", "right")]
    return (sides[0] + sides[1]) / (2 * len(others))


def _bound(hits: int, games: int, error: float) -> float:
    """Return the lower Clopper-Pearson bound of a rate."""
    return float(betaincinv(hits, games - hits + 1, error)) if hits else 0.0


class RecordedNoise:
    """Noise that remembers the whole numbers it was added to, and the sums; or repeats sums that another one made."""

    def __init__(self, noise: Noise, repeated: Sequence[Ints] = ()) -> None:
        self.noise, self.repeated = noise, repeated
        self.exact: list[Ints] = []
        self.noisy: list[Ints] = []

    def __call__(self, exact: Ints) -> Ints:
        """Add the noise to whole numbers, or return the sums that are repeated."""
        place = len(self.exact)
        self.exact.append(exact)
        self.noisy.append(self.repeated[place] if self.repeated else self.noise(exact))
        return self.noisy[-1]


@dataclass(frozen=True, eq=False)
class Games:
    """Games with one target, inside and outside in turn."""

    near: Scores  #: distances to the nearest received sample, negative, as a root mean square over coordinates
    ratios: Scores | None  #: log likelihood ratios of private kinds
    sent: tuple[tuple[Made, ...], tuple[Made, ...]]  #: what the head sent in each, with the target and without


def play(make: Make, target: Target, options: Any, draws: int, seed: int, private: bool) -> Games:
    """Play so many games with a target, and as many without it."""
    candidate, both = target.held.inputs[target.position].ravel(), (target.held, target.without)
    near, ratios = np.zeros((2, draws)), np.zeros((2, draws))
    sent: tuple[list[Made], list[Made]] = ([], [])
    for number in range(draws):
        for world in range(2):
            recorder = RecordedNoise(seeded_noise(np.random.default_rng([seed, number, world])))
            made = make(both[world], _request(target, seed, number, recorder), options)
            gaps = made.inputs.reshape(len(made.labels), -1) - candidate
            near[world, number] = -np.sqrt(np.square(gaps).mean(axis=1).min())
            sent[world].append(replace(made, inputs=made.inputs.astype(np.float32)))
            if private:
                # The other data with the same noisy numbers: what a later release looks at is the same.
                again = RecordedNoise(recorder.noise, recorder.noisy)
                other = make(both[1 - world], _request(target, seed, number, again), options)
                ratio = _log_ratio(recorder, again) if _same(made, other) else _CERTAIN
                ratios[world, number] = ratio if world == 0 else -ratio
    found = Scores(ratios[0], ratios[1]) if private else None
    return Games(Scores(near[0], near[1]), found, (tuple(sent[0]), tuple(sent[1])))


def _request(target: Target, seed: int, number: int, noise: Noise) -> Request:
    return Request(target.volume, target.balanced, np.random.default_rng([seed, number]), noise)


def _same(made: Made, other: Made) -> bool:
    """Return whether the same noisy numbers made the same samples; if not, data leak past the noise."""
    return np.array_equal(made.labels, other.labels) and np.array_equal(made.inputs, other.inputs)


def _log_ratio(here: RecordedNoise, there: RecordedNoise) -> float:
    pairs = zip(here.noisy, here.exact, there.exact, strict=True)
    return sum(float(_square(noisy - b) - _square(noisy - a)) / 2 for noisy, a, b in pairs)


def _square(steps: Ints) -> float:
    return float(np.square(steps / SIGMA_STEPS).sum())


def calibrated(scores: Scores) -> Scores:
    """Return log likelihood ratios of the second half of the games, under normal distributions fitted to the first."""
    half = len(scores.inside) // 2
    parts = (scores.inside, scores.outside)
    fits = [(float(part[:half].mean()), max(float(part[:half].std()), _LEAST_SIGMA)) for part in parts]

    def ratio(values: Floats) -> Floats:
        logs = [-(((values - mean) / sigma) ** 2) / 2 - np.log(sigma) for mean, sigma in fits]
        difference: Floats = logs[0] - logs[1]
        return difference

    return Scores(*(ratio(part[half:]) for part in parts))


def joined(scores: Sequence[Scores]) -> Scores:
    """Return the games of several targets together."""
    return Scores(*(np.concatenate([getattr(each, name) for each in scores]) for name in ("inside", "outside")))
