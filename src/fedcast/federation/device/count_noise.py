"""Noise for class counts: the discrete Laplace mechanism, drawn exactly from the randomness of the operating system.

Sampling as in Canonne, Kamath, Steinke (2020, NeurIPS), Algorithm 2: with whole numbers and fractions alone, since the
rounding of floating-point noise reveals what it should hide (Mironov 2012). A seed of the run would not do either: the
server knows it.
"""

from __future__ import annotations

import math
import secrets
from fractions import Fraction

import numpy as np

from fedcast.data import COUNTS_SENSITIVITY, counts_of_size
from fedcast.errors import FedcastError
from fedcast.sharing import happens_exp
from fedcast.typing import Ints

# ε is rounded down to a multiple of this.
_STEPS = 10**6


def discrete_laplace(rate: Fraction) -> int:
    """Draw a whole number k with probability proportional to exp(−rate · abs(k))."""
    while True:
        size, negative = _geometric(rate), secrets.randbelow(2)
        if size or not negative:
            return -size if negative else size


def private_counts(counts: Ints, epsilon: float) -> Ints:
    """Return class counts with noise that add up to the same number of samples, ε-differentially private.

    Two devices are neighbours if one sample differs; the number of samples is public. What follows the noise (no count
    below 0, the right sum) reveals nothing more.
    """
    steps = math.floor(Fraction(epsilon) * _STEPS)
    if steps < 1:
        raise FedcastError(f"invalid value {epsilon:g} for counts_epsilon: expected at least {1 / _STEPS:g}")
    rate = Fraction(steps, _STEPS) / COUNTS_SENSITIVITY
    noisy = np.array([int(count) + discrete_laplace(rate) for count in counts], dtype=np.int64)
    return counts_of_size(noisy, int(counts.sum()))


def _geometric(rate: Fraction) -> int:
    """Draw k ≥ 0 with probability proportional to exp(−rate · k)."""
    steps = rate.denominator
    while not happens_exp(Fraction(remainder := secrets.randbelow(steps), steps)):
        pass
    whole = 0
    while happens_exp(Fraction(1)):
        whole += 1
    return (whole * steps + remainder) // rate.numerator
