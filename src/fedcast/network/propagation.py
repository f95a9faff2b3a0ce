r"""Path loss and line-of-sight probability of 3GPP TR 38.901, TR 37.885 and TR 36.942; decibels and receiver noise.

Distances are in m, carrier frequencies in Hz, losses in dB and positive. All functions take arrays that broadcast.
Distances are not clipped: the models of TR 38.901 hold from 10 m to 5 km and 0.5 to 100 GHz.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedcast.typing import Floats

BITS_PER_BYTE = 8
_NEPERS_PER_DB = math.log(10) / 10
_DBM_OF_ONE_WATT = 30.0

# TR 38.901 Table 7.4.1-1 uses this rounded value for breakpoints, not 299 792 458 m/s.
_STANDARD_LIGHT_SPEED_M_S = 3.0e8
# Effective environment height h_E of TR 38.901: exact for UMi, and for UMa up to 13 m of user height.
_ENVIRONMENT_HEIGHT_M = 1.0
_ALWAYS_LOS_M = 18.0  # TR 38.901 Table 7.4.2-1: at shorter distances UMi and UMa always have line of sight
_REFERENCE_USER_HEIGHT_M = 1.5

MACRO_SHADOW_DB = 8.0  # TR 36.942
V2X_LOS_SHADOW_DB = 3.0  # TR 37.885 Table 6.2.1-1
V2X_NLOS_SHADOW_DB = 4.0


@dataclass(frozen=True)
class Urban:
    """Parameters of one scenario in TR 38.901 Table 7.4.1-1 (path loss) and Table 7.4.2-1 (line of sight).

    Slopes are per decade of distance, of carrier frequency, or per metre of user height above 1.5 m; shadowing is given
    by its standard deviation.
    """

    los_db: float  # constant of the line-of-sight rows, at 1 m and 1 GHz
    los_slope_db: float  # before the breakpoint; 40 dB after it
    breakpoint_slope_db: float  # reduction after the breakpoint per decade of the squared breakpoint distance
    nlos_db: float  # constant of the non-line-of-sight row
    nlos_slope_db: float
    nlos_carrier_slope_db: float
    nlos_height_slope_db: float  # gain
    optional_nlos_slope_db: float  # in the optional non-line-of-sight row
    los_shadow_db: float
    nlos_shadow_db: float
    optional_nlos_shadow_db: float
    los_decay_m: float  # decay length of the line-of-sight probability
    sees_tall_users: bool  # whether line of sight is more likely for users above 13 m


UMI = Urban(
    los_db=32.4,
    los_slope_db=21.0,
    breakpoint_slope_db=9.5,
    nlos_db=22.4,
    nlos_slope_db=35.3,
    nlos_carrier_slope_db=21.3,
    nlos_height_slope_db=0.3,
    optional_nlos_slope_db=31.9,
    los_shadow_db=4.0,
    nlos_shadow_db=7.82,
    optional_nlos_shadow_db=8.2,
    los_decay_m=36.0,
    sees_tall_users=False,
)
"""Urban micro, street canyon: base stations at 10 m."""

UMA = Urban(
    los_db=28.0,
    los_slope_db=22.0,
    breakpoint_slope_db=9.0,
    nlos_db=13.54,
    nlos_slope_db=39.08,
    nlos_carrier_slope_db=20.0,
    nlos_height_slope_db=0.6,
    optional_nlos_slope_db=30.0,
    los_shadow_db=4.0,
    nlos_shadow_db=6.0,
    optional_nlos_shadow_db=7.8,
    los_decay_m=63.0,
    sees_tall_users=True,
)
"""Urban macro: base stations at 25 m."""

URBAN = {"umi": UMI, "uma": UMA}

_OPTIONAL_NLOS_DB = 32.4


def distance_3d_m(distance_2d_m: ArrayLike, first_height_m: float, second_height_m: float) -> Floats:
    """Return the distance between two antennas, m, from their distance on the ground and their heights.

    Example:
        >>> distance_3d_m(4.0, 1.5, 4.5).item()
        5.0
    """
    return np.asarray(np.hypot(np.asarray(distance_2d_m, dtype=np.float64), first_height_m - second_height_m))


def los_probability(scenario: Urban, distance_2d_m: ArrayLike, user_height_m: float) -> Floats:
    r"""Return the line-of-sight probability between two outdoor antennas; TR 38.901 Table 7.4.2-1.

    .. math:: P = \Big(\frac{18}{d} + e^{-d/d_0}\big(1 - \frac{18}{d}\big)\Big)
        \Big(1 + C' \frac54 \big(\tfrac{d}{100}\big)^3 e^{-d/150}\Big), \qquad P = 1 \text{ for } d \le 18

    with :math:`d_0` = 36 m (UMi) or 63 m (UMa), and :math:`C' = ((h - 13)/10)^{1.5}` for UMa users above 13 m, else 0.

    Example:
        >>> los_probability(UMI, [10, 50, 100], 1.5).round(6).tolist()
        [1.0, 0.519585, 0.230985]
    """
    distance = np.maximum(np.asarray(distance_2d_m, dtype=np.float64), _ALWAYS_LOS_M)
    near = _ALWAYS_LOS_M / distance
    probability: Floats = near + np.exp(-distance / scenario.los_decay_m) * (1 - near)
    if scenario.sees_tall_users and user_height_m > 13:
        tall = ((user_height_m - 13) / 10) ** 1.5
        lift = 1 + tall * 1.25 * (distance / 100) ** 3 * np.exp(-distance / 150)
        probability = np.where(distance > _ALWAYS_LOS_M, probability * lift, 1.0)
    return probability


def breakpoint_m(carrier_hz: float, base_height_m: float, user_height_m: float) -> float:
    r"""Return the breakpoint distance, m; TR 38.901 Table 7.4.1-1, note 1.

    .. math:: d'_{BP} = 4 (h_{BS} - h_E)(h_{UT} - h_E) f / c

    with :math:`h_E` = 1 m. The standard draws a larger value for some UMa users above 13 m; here it is always 1 m.

    Example:
        >>> breakpoint_m(28e9, 10.0, 1.5)
        1680.0
    """
    base = max(base_height_m - _ENVIRONMENT_HEIGHT_M, 0.0)
    user = max(user_height_m - _ENVIRONMENT_HEIGHT_M, 0.0)
    return 4 * base * user * carrier_hz / _STANDARD_LIGHT_SPEED_M_S


def los_loss_db(
    scenario: Urban, distance_2d_m: ArrayLike, carrier_hz: float, base_height_m: float, user_height_m: float
) -> Floats:
    r"""Return the path loss with line of sight; TR 38.901 Table 7.4.1-1.

    .. math:: PL_1 = a + s \log_{10} d_{3D} + 20 \log_{10} f_{GHz} \quad (d_{2D} \le d'_{BP})
    .. math:: PL_2 = a + 40 \log_{10} d_{3D} + 20 \log_{10} f_{GHz}
        - b \log_{10}\big(d'^2_{BP} + (h_{BS} - h_{UT})^2\big) \quad (d_{2D} > d'_{BP})

    with a, s, b = 32.4, 21, 9.5 (UMi) or 28, 22, 9 (UMa).

    Example:
        >>> los_loss_db(UMI, [100, 2000], 28e9, 10.0, 1.5).round(4).tolist()
        [103.376, 132.1035]
    """
    distance_3d = distance_3d_m(distance_2d_m, base_height_m, user_height_m)
    turn_m = breakpoint_m(carrier_hz, base_height_m, user_height_m)
    near = los_loss_before_breakpoint_db(scenario, distance_3d, carrier_hz)
    reduction_db = scenario.breakpoint_slope_db * np.log10(turn_m**2 + (base_height_m - user_height_m) ** 2)
    far = _slope_db(scenario.los_db, 40.0, distance_3d, 20.0, carrier_hz) - reduction_db
    return np.where(np.asarray(distance_2d_m) <= turn_m, near, far)


def los_loss_before_breakpoint_db(scenario: Urban, distance_m: ArrayLike, carrier_hz: float) -> Floats:
    r"""Return :math:`PL_1` of TR 38.901 Table 7.4.1-1 at any distance, for links between two low antennas.

    The breakpoint formula assumes an elevated base station; between two devices only the first slope is used.

    Example:
        >>> los_loss_before_breakpoint_db(UMI, 100.0, 28e9).round(4).item()
        103.3432
    """
    return _slope_db(scenario.los_db, scenario.los_slope_db, distance_m, 20.0, carrier_hz)


def nlos_loss_db(
    scenario: Urban, distance_2d_m: ArrayLike, carrier_hz: float, base_height_m: float, user_height_m: float
) -> Floats:
    r"""Return the path loss without line of sight, at least that with line of sight; TR 38.901 Table 7.4.1-1.

    .. math:: PL = \max(PL_{LoS},\; a + s \log_{10} d_{3D} + c \log_{10} f_{GHz} - h (h_{UT} - 1.5))

    with a, s, c, h = 22.4, 35.3, 21.3, 0.3 (UMi) or 13.54, 39.08, 20, 0.6 (UMa).

    Example:
        >>> nlos_loss_db(UMI, [10, 1000], 28e9, 10.0, 1.5).round(4).tolist()
        [92.6927, 159.125]
    """
    distance_3d = distance_3d_m(distance_2d_m, base_height_m, user_height_m)
    los = los_loss_db(scenario, distance_2d_m, carrier_hz, base_height_m, user_height_m)
    return np.asarray(np.maximum(los, nlos_row_db(scenario, distance_3d, carrier_hz, user_height_m)))


def nlos_row_db(scenario: Urban, distance_m: ArrayLike, carrier_hz: float, user_height_m: float) -> Floats:
    """Return the non-line-of-sight row of TR 38.901 Table 7.4.1-1 without the lower bound of `nlos_loss_db`.

    The distance is the 3D distance between the antennas.

    Example:
        >>> nlos_row_db(UMI, 100.0, 28e9, 1.5).round(4).item()
        123.8245
    """
    height_gain_db = scenario.nlos_height_slope_db * (user_height_m - _REFERENCE_USER_HEIGHT_M)
    slope_db, carrier_slope_db = scenario.nlos_slope_db, scenario.nlos_carrier_slope_db
    return _slope_db(scenario.nlos_db, slope_db, distance_m, carrier_slope_db, carrier_hz) - height_gain_db


def optional_nlos_loss_db(scenario: Urban, distance_3d: ArrayLike, carrier_hz: float) -> Floats:
    r"""Return the path loss of the optional non-line-of-sight row; TR 38.901 Table 7.4.1-1.

    .. math:: PL = 32.4 + s \log_{10} d_{3D} + 20 \log_{10} f_{GHz}, \qquad s = 31.9 \text{ (UMi)}, 30 \text{ (UMa)}

    Example:
        >>> optional_nlos_loss_db(UMI, distance_3d_m(100, 10.0, 1.5), 28e9).round(4).item()
        125.193
    """
    return _slope_db(_OPTIONAL_NLOS_DB, scenario.optional_nlos_slope_db, distance_3d, 20.0, carrier_hz)


def v2x_urban_los_probability(distance_m: ArrayLike) -> Floats:
    r"""Return the line-of-sight probability between two street users; TR 37.885 §6.2.

    .. math:: P = \min(1, 1.05 e^{-0.0114 d})

    Example:
        >>> v2x_urban_los_probability([1, 50, 100]).round(6).tolist()
        [1.0, 0.593802, 0.33581]
    """
    return np.asarray(np.minimum(1.0, 1.05 * np.exp(-0.0114 * np.asarray(distance_m, dtype=np.float64))))


def v2x_urban_los_loss_db(distance_m: ArrayLike, carrier_hz: float) -> Floats:
    r"""Return the path loss of an urban sidelink with line of sight; TR 37.885 Table 6.2.1-1.

    .. math:: PL = 38.77 + 16.7 \log_{10} d + 18.2 \log_{10} f_{GHz}

    Example:
        >>> v2x_urban_los_loss_db(100.0, 28e9).round(4).item()
        98.5083
    """
    return _slope_db(38.77, 16.7, distance_m, 18.2, carrier_hz)


def v2x_urban_nlos_loss_db(distance_m: ArrayLike, carrier_hz: float) -> Floats:
    r"""Return the path loss of an urban sidelink blocked by buildings; TR 37.885 Table 6.2.1-1.

    .. math:: PL = 36.85 + 30 \log_{10} d + 18.9 \log_{10} f_{GHz}

    Example:
        >>> v2x_urban_nlos_loss_db(100.0, 28e9).round(4).item()
        124.2013
    """
    return _slope_db(36.85, 30.0, distance_m, 18.9, carrier_hz)


def macro_loss_db(distance_m: ArrayLike) -> Floats:
    r"""Return the path loss of an urban macro cell at 2 GHz; TR 36.942 §4.5.2.

    .. math:: PL = 128.1 + 37.6 \log_{10} d_{km}

    Most papers on learning over wireless links use this model. The distance is the distance on the ground, m.

    Example:
        >>> macro_loss_db([100, 1000]).round(4).tolist()
        [90.5, 128.1]
    """
    return np.asarray(128.1 + 37.6 * (np.log10(np.asarray(distance_m, dtype=np.float64)) - 3))


def single_slope_loss_db(distance_m: ArrayLike, carrier_hz: float, reference_loss_db: float, exponent: float) -> Floats:
    r"""Return the log-distance path loss :math:`\beta + 10 \zeta \log_{10} d + 20 \log_{10} f_{GHz}`.

    `reference_loss_db` is :math:`\beta` at 1 m and 1 GHz. With 32.4 dB it is :math:`PL_1` of TR 38.901 UMi for
    :math:`\zeta` = 2.1 and its optional non-line-of-sight row for :math:`\zeta` = 3.19.

    Example:
        >>> single_slope_loss_db(100.0, 28e9, 32.4, 2.1).round(4).item()
        103.3432
    """
    return _slope_db(reference_loss_db, 10 * exponent, distance_m, 20.0, carrier_hz)


def _slope_db(
    constant_db: float, slope_db: float, distance_m: ArrayLike, carrier_slope_db: float, carrier_hz: float
) -> Floats:
    """Return a constant plus a loss per decade of distance and per decade of carrier frequency (in GHz)."""
    carrier_db = constant_db + carrier_slope_db * np.log10(carrier_hz / 1e9)
    return np.asarray(carrier_db + slope_db * np.log10(np.asarray(distance_m, dtype=np.float64)))


def from_db(decibels: ArrayLike) -> Floats:
    """Return the power ratio of a value in decibels.

    Example:
        >>> from_db([0, 10, -20]).round(6).tolist()
        [1.0, 10.0, 0.01]
    """
    # exp instead of 10 ** x: several times faster on arrays of millions of links.
    return np.asarray(np.exp(np.asarray(decibels, dtype=np.float64) * _NEPERS_PER_DB))


def to_db(ratio: ArrayLike) -> Floats:
    """Return a positive power ratio in decibels.

    Example:
        >>> to_db([1.0, 0.01]).tolist()
        [0.0, -20.0]
    """
    return np.asarray(10 * np.log10(np.asarray(ratio, dtype=np.float64)))


def noise_power_w(
    bandwidth_hz: float, noise_density_dbm_hz: float, noise_figure_db: float = 0.0, noise_rise_db: float = 0.0
) -> float:
    r"""Return the noise power in a band, :math:`N_0 B \cdot 10^{(F + I)/10}`, in watts.

    F is the noise figure of the receiver and I the interference as a rise of the noise, both in dB.

    Example:
        >>> f"{noise_power_w(1e6, -174.0):.3e}"
        '3.981e-15'
    """
    density_db = noise_density_dbm_hz - _DBM_OF_ONE_WATT + noise_figure_db + noise_rise_db
    return float(bandwidth_hz * from_db(density_db))
