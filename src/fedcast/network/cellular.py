r"""Links between users and their base stations: expected time per bit, averaged over fading.

.. math:: \text{SNR} = \frac{P\, 10^{-PL(d)/10}}{N_0 B \cdot 10^{(F + I)/10}}, \qquad
    \text{expected delay} = M \cdot \frac{\text{mean inverse efficiency}(\text{SNR})}{B}

with noise figure F and interference I as a rise of the noise, both in dB. The downlink is one wide band; an uplink has
one subcarrier, or a fraction of the band at the same power, so that half the bandwidth has twice the SNR.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fedcast.network import propagation
from fedcast.network.fading import mean_inverse_efficiency
from fedcast.network.geometry import Layout
from fedcast.network.propagation import from_db, noise_power_w
from fedcast.typing import Floats, Ints

if TYPE_CHECKING:
    from fedcast.scenario import Cellular, Geometry


@dataclass(frozen=True)
class CellularLinks:
    """Expected time per bit between each user and its base station."""

    cell_of: Ints  #: int64[K], the base station of each user
    down_s_per_bit: Floats  #: float64[K], expected seconds per bit of the broadcast
    up_s_per_bit: Floats  #: float64[K], expected seconds per bit on one subcarrier
    up_snr: Floats | None  #: float64[K], mean SNR on one subcarrier, linear; None if rates were measured

    def of(self, users: ArrayLike) -> CellularLinks:
        """Return the links of some users, given their ids or a mask."""
        chosen = np.asarray(users)
        snr = None if self.up_snr is None else self.up_snr[chosen]
        return CellularLinks(self.cell_of[chosen], self.down_s_per_bit[chosen], self.up_s_per_bit[chosen], snr)


def cellular_links(
    layout: Layout,
    power_w: ArrayLike,
    cellular: Cellular,
    geometry: Geometry,
    *,
    up_rate_bps: Floats | None = None,
    down_rate_bps: Floats | None = None,
    up_snr_db: Floats | None = None,
    down_snr_db: Floats | None = None,
) -> CellularLinks:
    """Return the links of all users, from distance, from the scenario's `snr_db` if set, or from given SNRs or rates.

    Measured rates replace the model, and mean SNRs the distance: float64[K], ``up`` on one subcarrier, ``down`` of the
    broadcast. `power_w` is the transmit power of the users, [K] or a scalar.

    Example:
        >>> from fedcast.network import layout_from_positions
        >>> from fedcast.scenario import Cellular, Geometry
        >>> layout = layout_from_positions([[0.0, 0.0], [1000.0, 0.0]], Geometry(), [[0.0, 0.0]])
        >>> links = cellular_links(layout, 0.01, Cellular(), Geometry())
        >>> (0.7e6 * links.up_s_per_bit).round(3).tolist()
        [0.047, 2.911]
    """
    distance = layout.cell_distance_m()
    if down_rate_bps is not None:
        down = 1 / down_rate_bps
    else:
        snr = downlink_snr(distance, cellular, geometry) if down_snr_db is None else from_db(down_snr_db)
        down = expected_s_per_bit(snr, cellular.downlink_bandwidth_hz, cellular)
    if up_rate_bps is not None:
        return CellularLinks(layout.cell_of, down, 1 / up_rate_bps, None)
    snr = uplink_snr(distance, power_w, cellular, geometry) if up_snr_db is None else from_db(up_snr_db)
    up = expected_s_per_bit(snr, cellular.subcarrier_bandwidth_hz, cellular)
    return CellularLinks(layout.cell_of, down, up, snr)


def path_loss_db(distance_m: ArrayLike, cellular: Cellular, geometry: Geometry) -> Floats:
    """Return the path loss to the base station, dB; distances below `min_distance_m` are set to it.

    ``macro`` is 128.1 + 37.6 log10 d_km (TR 36.942 §4.5.2). ``uma`` and ``umi`` are TR 38.901 Table 7.4.1-1 without
    line of sight, which holds for all but the closest users and is conservative for those.

    Example:
        >>> from fedcast.scenario import Cellular, Geometry
        >>> path_loss_db([10, 1000], Cellular(), Geometry()).round(2).tolist()
        [73.36, 128.1]
    """
    distance = np.maximum(np.asarray(distance_m, dtype=np.float64), cellular.min_distance_m)
    if cellular.path_loss == "macro":
        return propagation.macro_loss_db(distance)
    urban = propagation.URBAN[cellular.path_loss]
    heights_m = geometry.base_station_height_m, geometry.user_height_m
    return propagation.nlos_loss_db(urban, distance, cellular.carrier_hz, *heights_m)


def uplink_snr(distance_m: ArrayLike, power_w: ArrayLike, cellular: Cellular, geometry: Geometry) -> Floats:
    """Return the mean SNR of the uplink on one subcarrier, linear; the scenario's `snr_db` if set.

    Example:
        >>> from fedcast.network.propagation import to_db
        >>> from fedcast.scenario import Cellular, Geometry
        >>> to_db(uplink_snr([200, 1000], 0.01, Cellular(), Geometry())).round(2).tolist()
        [19.18, -7.1]
    """
    return _snr(distance_m, power_w, cellular.subcarrier_bandwidth_hz, cellular, geometry)


def downlink_snr(distance_m: ArrayLike, cellular: Cellular, geometry: Geometry) -> Floats:
    """Return the mean SNR of the broadcast at a user, linear; the scenario's `snr_db` if set.

    Example:
        >>> from fedcast.network.propagation import to_db
        >>> from fedcast.scenario import Cellular, Geometry
        >>> to_db(downlink_snr(1000, Cellular(), Geometry())).round(2).item()
        -0.11
    """
    return _snr(distance_m, cellular.base_station_power_w, cellular.downlink_bandwidth_hz, cellular, geometry)


def _snr(
    distance_m: ArrayLike, power_w: ArrayLike, bandwidth_hz: float, cellular: Cellular, geometry: Geometry
) -> Floats:
    if cellular.snr_db is not None:
        return np.full(np.broadcast(distance_m, power_w).shape, from_db(cellular.snr_db))
    density, figure, rise = cellular.noise_density_dbm_hz, cellular.noise_figure_db, cellular.noise_rise_db
    received_w = np.asarray(power_w) * from_db(-path_loss_db(distance_m, cellular, geometry))
    return received_w / noise_power_w(bandwidth_hz, density, figure, rise)


def expected_s_per_bit(snr: ArrayLike, bandwidth_hz: ArrayLike, cellular: Cellular) -> Floats:
    """Return the expected seconds per bit in a band at a mean SNR (linear), under the scenario's fading.

    Example:
        >>> from fedcast.scenario import Cellular
        >>> expected_s_per_bit(3.0, 1e6, Cellular(fading="awgn")).item()
        5e-07
    """
    return mean_inverse_efficiency(snr, cellular) / np.asarray(bandwidth_hz, dtype=np.float64)
