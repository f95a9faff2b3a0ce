"""Gaussian noise in whole numbers: drawn exactly from the operating system's randomness, or seeded in a simulation.

Values of a release are whole multiples of σ/2^20, and what is added to them is floor(2^20·z) for a standard normal
number z. The result is the Gaussian mechanism on whole numbers, rounded afterwards, so that its accounting holds as it
stands; and there is no floating-point noise, whose rounding reveals what it should hide (Mironov 2012).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from fractions import Fraction
from typing import Literal

import numpy as np

from fedcast.typing import Ints

#: σ of all noise, in steps of the grid.
SIGMA_STEPS = 2**20

#: Adds floor(SIGMA_STEPS·z) to each of some whole numbers; `secure_noise`, or `seeded_noise` in a simulation.
Noise = Callable[[Ints], Ints]
NoiseSource = Literal["secure", "seeded"]

# Uniform numbers have so many bits: two are equal, where exact ones would differ further on, once in 10^28 comparisons.
_BITS = 96
_ONE = 1 << _BITS


def secure_noise(exact: Ints) -> Ints:
    """Add noise that nobody can repeat, from the randomness of the operating system; about 30 µs a number."""
    drawn = np.array([_rounded_normal() for _ in range(exact.size)], dtype=np.int64)
    return exact + drawn.reshape(exact.shape)


def seeded_noise(rng: np.random.Generator) -> Noise:
    """Return noise of a simulation, which repeats with its seed: who knows the seed can subtract it."""
    return lambda exact: exact + np.floor(rng.standard_normal(exact.shape) * SIGMA_STEPS).astype(np.int64)


def happens_exp(x: Fraction) -> bool:
    """Return true with probability exp(−x), 0 ≤ x ≤ 1 (Canonne, Kamath, Steinke 2020, Algorithm 1)."""
    k = 1
    while secrets.randbelow(x.denominator * k) < x.numerator:
        k += 1
    return k % 2 == 1


def _rounded_normal() -> int:
    """Draw floor(SIGMA_STEPS·z) of a standard normal z (Karney 2016, ACM Trans. Math. Softw. 42, Algorithm N).

    abs(z) = k + x: k is proposed with probability ∝ exp(−k/2) and kept with exp(−k(k − 1)/2), then a uniform x < 1 is
    kept with exp(−x(2k + x)/2), which makes exp(−(k + x)²/2) in all.
    """
    while True:
        k = 0
        while _happens_exp_half():
            k += 1
        if not all(_happens_exp_half() for _ in range(k * (k - 1))):
            continue
        x = secrets.randbits(_BITS)
        if all(_keeps(k, x) for _ in range(k + 1)):
            size = (k * _ONE + x) * SIGMA_STEPS // _ONE
            # The floor of a negative number is one below that of its size, unless it is whole, which has no chance.
            return size if secrets.randbits(1) else -size - 1


def _happens_exp_half() -> bool:
    """Return true with probability exp(−1/2)."""
    k = 1
    while secrets.randbelow(2 * k) == 0:
        k += 1
    return k % 2 == 1


def _keeps(k: int, x: int) -> bool:
    """Return true with probability exp(−x(2k + x)/(2k + 2)), x in units of 1/_ONE (Karney's Algorithm B).

    Of uniform numbers below x the run that falls has odd or even length; each step of it counts only with
    probability (2k + x)/(2k + 2).
    """
    last, even = x, True
    while True:
        drawn = secrets.randbits(_BITS)
        if drawn >= last or secrets.randbelow(_ONE * (2 * k + 2)) >= 2 * k * _ONE + x:
            return even
        last, even = drawn, not even
