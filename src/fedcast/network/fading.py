r"""Small-scale fading: mean spectral efficiency in bit/s/Hz, or mean inverse efficiency in s·Hz/bit.

An SNR is the mean SNR :math:`\rho`, linear, not dB; 0 gives efficiency 0 and infinite inverse efficiency.

With :math:`g = |h|^2 / E|h|^2` and mean SNR :math:`\rho`, the efficiency of a link is :math:`\log_2(1 + \rho g)`. A
transfer of M bits in bandwidth B that spans many fades takes :math:`M / (B\, E[\log_2(1 + \rho g)])` on average (the
ergodic rate, the default). A transfer within a single fade takes :math:`(M/B)\, E[1/\log_2(1 + \rho g)]`, which is
infinite under Rayleigh and Rician fading at every SNR, since the density of g is positive at 0. It is finite if the
deepest fades are excluded, and for Nakagami fading with m > 1.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fedcast.errors import FedcastError
from fedcast.typing import Floats

if TYPE_CHECKING:
    from fedcast.scenario import Cellular

_INFINITE_MEAN = "the expected delay of a transfer within one fade is infinite under Rayleigh and Rician fading"
_LN2 = math.log(2)
_leggauss = cache(np.polynomial.legendre.leggauss)
# For larger arguments e^x overflows long before E1(x) is negligible; the continued fraction is exact at this depth.
_FRACTION_FROM = 20.0
_FRACTION_DEPTH = 16
_NODES = 128
_SERIES_UP_TO = 1e-4
_NEGLECTED_EXPONENT = 45.0  # e^-45: the density beyond the ends of the quadrature


def awgn_efficiency(snr: ArrayLike) -> Floats:
    r"""Return the efficiency without fading, :math:`\log_2(1 + \rho)`, bit/s/Hz.

    Example:
        >>> awgn_efficiency([1.0, 3.0]).tolist()
        [1.0, 2.0]
    """
    return np.asarray(np.log1p(_check_snr(snr)) / _LN2)


def ergodic_efficiency(snr: ArrayLike) -> Floats:
    r"""Return the mean efficiency under Rayleigh fading, bit/s/Hz, to full precision at any SNR.

    .. math:: E[\log_2(1 + \rho g)] = e^{1/\rho} E_1(1/\rho) / \ln 2

    Example:
        >>> ergodic_efficiency([0.1, 1, 10, 100]).round(8).tolist()
        [0.13209797, 0.86034738, 2.90651481, 5.88404823]
    """
    from scipy.special import exp1

    ratio = _check_snr(snr)
    with np.errstate(divide="ignore"):
        argument = 1 / ratio
    small = np.minimum(argument, _FRACTION_FROM)
    large = np.maximum(argument, _FRACTION_FROM)
    scaled = np.where(argument < _FRACTION_FROM, np.exp(small) * exp1(small), _scaled_exponential_integral(large))
    return np.asarray(scaled / _LN2)


def _scaled_exponential_integral(x: Floats) -> Floats:
    """Return e^x E1(x) for large x by its continued fraction (Abramowitz & Stegun 5.1.22, even part)."""
    tail = x + (2 * _FRACTION_DEPTH + 1)
    for step in range(_FRACTION_DEPTH, 0, -1):
        tail = x + (2 * step - 1) - step**2 / tail
    return np.asarray(1 / tail)


def truncated_inverse_efficiency(snr: ArrayLike, outage: float) -> Floats:
    r"""Return the mean inverse efficiency under Rayleigh fading without the deepest fades, s·Hz/bit.

    .. math:: E\Big[\frac{1}{\log_2(1 + \rho g)} \,\Big|\, g \ge g_0\Big], \qquad g_0 = -\ln(1 - \varepsilon)

    The transfer pauses during the fraction :math:`\varepsilon` = `outage` of the fades; the pauses are not counted.
    Computed by Gauss–Legendre quadrature in ln g.

    Example:
        >>> truncated_inverse_efficiency([1.0, 10.0], 0.01).round(8).tolist()
        [3.13599588, 0.52205997]
    """
    if not 0 < outage < 1:
        raise FedcastError(f"invalid value {outage} for outage: expected a number between 0 and 1")
    ratio = _check_snr(snr)
    weakest = -math.log1p(-outage)
    log_gains, steps = _legendre(math.log(weakest), math.log(weakest + _NEGLECTED_EXPONENT))
    gains = np.exp(log_gains)
    weights = steps * gains * np.exp(weakest - gains)
    mean = np.zeros_like(ratio)
    with np.errstate(divide="ignore"):
        for gain, weight in zip(gains, weights, strict=True):
            mean += weight / np.log1p(ratio * gain)
    return np.asarray(mean * _LN2)


def nakagami_inverse_efficiency(snr: ArrayLike, shape: float) -> Floats:
    r"""Return the mean inverse efficiency under Nakagami-m fading, s·Hz/bit; finite only for `shape` m > 1.

    The singular part is integrated exactly, the bounded rest by Gauss–Legendre in u = ln g:

    .. math:: E\Big[\frac{\ln 2}{\ln(1 + \rho g)}\Big]
        = \ln 2 \Big\{\frac{m}{(m - 1) \rho} + E[\phi(\rho g)]\Big\}, \qquad \phi(z) = \frac{1}{\ln(1+z)} - \frac1z

    with :math:`0 < \phi \le \tfrac12` and the density of u proportional to :math:`e^{-m(e^u - u - 1)}`.

    Example:
        >>> nakagami_inverse_efficiency([1.0, 10.0], 2.0).round(8).tolist()
        [1.69642223, 0.36942405]
    """
    if not shape > 1:
        raise FedcastError(
            f"invalid value {shape} for cellular.nakagami_shape: expected a number > 1 ({_INFINITE_MEAN})"
        )
    ratio = _check_snr(snr)
    log_gains, steps = _legendre(*_ends_of_log_gain(shape))
    gains = np.exp(log_gains)
    weights = steps * np.exp(-shape * (gains - log_gains - 1))
    weights /= weights.sum()
    bounded = np.zeros_like(ratio)
    for gain, weight in zip(gains, weights, strict=True):
        bounded += weight * _inverse_log_rest(ratio * gain)
    with np.errstate(divide="ignore"):
        return np.asarray(_LN2 * (shape / ((shape - 1) * ratio) + bounded))


def _ends_of_log_gain(shape: float) -> tuple[float, float]:
    """Return the two roots u of m (e^u - u - 1) = 45; the density of u is negligible outside for every m."""
    from scipy.special import lambertw

    level = 1 + _NEGLECTED_EXPONENT / shape
    low, high = (-lambertw(-math.exp(-level), branch).real - level for branch in (0, -1))
    return float(low), float(high)


def _inverse_log_rest(z: Floats) -> Floats:
    """Return 1/ln(1+z) - 1/z, by its series for small z to avoid cancellation."""
    small, large = np.minimum(z, _SERIES_UP_TO), np.maximum(z, _SERIES_UP_TO)
    series = 0.5 - small / 12 + small**2 / 24
    return np.where(z < _SERIES_UP_TO, series, 1 / np.log1p(large) - 1 / large)


def _legendre(low: float, high: float) -> tuple[Floats, Floats]:
    """Return nodes and weights of Gauss–Legendre quadrature on [low, high]."""
    nodes, weights = _leggauss(_NODES)
    half = (high - low) / 2
    return low + half * (nodes + 1), half * weights


def mean_inverse_efficiency(snr: ArrayLike, cellular: Cellular) -> Floats:
    r"""Return the mean inverse efficiency, s·Hz/bit, under the scenario's fading; delay = bits x this / bandwidth.

    ``ergodic`` gives :math:`1/E[\log_2(1 + \rho g)]`, ``awgn`` :math:`1/\log_2(1 + \rho)`, ``truncated`` and
    ``nakagami`` :math:`E[1/\log_2(1 + \rho g)]` under their distributions; under plain Rayleigh fading it is infinite.

    Example:
        >>> from fedcast.scenario import Cellular
        >>> mean_inverse_efficiency(1.0, Cellular(fading="awgn")).item()
        1.0
    """
    with np.errstate(divide="ignore"):
        match cellular.fading:
            case "ergodic":
                return 1 / ergodic_efficiency(snr)
            case "truncated":
                return truncated_inverse_efficiency(snr, cellular.outage)
            case "nakagami":
                return nakagami_inverse_efficiency(snr, cellular.nakagami_shape)
            case "awgn":
                return 1 / awgn_efficiency(snr)
    raise FedcastError(
        f"invalid value {cellular.fading!r} for cellular.fading: {_INFINITE_MEAN}; "
        "expected ergodic, truncated, nakagami or awgn"
    )


def _check_snr(snr: ArrayLike) -> Floats:
    ratio = np.asarray(snr, dtype=np.float64)
    if not (ratio >= 0).all():
        raise FedcastError(f"invalid SNR {ratio[~(ratio >= 0)].flat[0]}: expected a linear ratio >= 0, not dB")
    return ratio
