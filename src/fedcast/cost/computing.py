"""Time and energy of local computing, and the highest frequency within an energy budget."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedcast.typing import Floats


def compute_s(cycles: ArrayLike, frequency_hz: ArrayLike) -> Floats:
    r"""Return the computing time :math:`\tau^{cop} = L E \tilde n / f`; infinite at 0 Hz, 0 without work.

    Example:
        >>> compute_s([1.5e8, 1.5e8, 0.0], [1.2e9, 0.0, 0.0]).tolist()
        [0.125, inf, 0.0]
    """
    work, frequency = np.broadcast_arrays(np.asarray(cycles, float), np.asarray(frequency_hz, float))
    forever = np.where(work > 0, np.inf, 0.0)
    seconds: Floats = np.divide(work, frequency, out=forever, where=frequency > 0)
    return seconds


def compute_energy_j(cycles: ArrayLike, frequency_hz: ArrayLike, energy_coefficient: float) -> Floats:
    r"""Return the computing energy :math:`\gamma^{cop} = \varsigma L E \tilde n f^2`.

    Example:
        >>> compute_energy_j(1.5e8, 1.2e9, 1e-28).round(6).item()
        0.0216
    """
    energy: Floats = energy_coefficient * np.asarray(cycles, float) * np.asarray(frequency_hz, float) ** 2
    return energy


def best_frequency_hz(
    cycles: ArrayLike, energy_j: ArrayLike, max_frequency_hz: ArrayLike, energy_coefficient: float
) -> Floats:
    r"""Return the highest frequency within an energy, :math:`\min(f_{max}, \sqrt{\gamma / (\varsigma L E \tilde n)})`.

    `cycles` are those of a round, :math:`L E \tilde n`; `energy_j` is what is left for computing,
    :math:`\gamma_{th} - \gamma^u`: 0 Hz where there is none.

    Example:
        >>> best_frequency_hz(1.5e8, [0.005, 0.05, -0.001], 1.2e9, 1e-28).round(-6).tolist()
        [577000000.0, 1200000000.0, 0.0]
    """
    left = np.maximum(np.asarray(energy_j, dtype=np.float64), 0.0)
    per_squared_hz = energy_coefficient * np.asarray(cycles, dtype=np.float64)
    with np.errstate(divide="ignore"):
        allowed = np.sqrt(np.where(per_squared_hz > 0, left, np.inf) / per_squared_hz)
    frequency: Floats = np.minimum(max_frequency_hz, allowed)
    return frequency


def fastest_compute_s(
    cycles: ArrayLike, energy_j: ArrayLike, max_frequency_hz: ArrayLike, energy_coefficient: float
) -> Floats:
    r"""Return the computing time at the best frequency, a convex function of the cycles.

    .. math:: \tau^{cop} = \max\Big(\frac{L E \tilde n}{f_{max}},\;
        (L E \tilde n)^{3/2} \sqrt{\frac{\varsigma}{\gamma_{th} - \gamma^u}}\Big)

    Arguments and shapes are those of `best_frequency_hz`; infinite where there is work but no energy left.

    Example:
        >>> fastest_compute_s(1.5e8, [0.005, 0.05, 0.0], 1.2e9, 1e-28).round(3).tolist()
        [0.26, 0.125, inf]
    """
    return compute_s(cycles, best_frequency_hz(cycles, energy_j, max_frequency_hz, energy_coefficient))
