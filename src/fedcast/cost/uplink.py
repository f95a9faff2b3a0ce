r"""Schedules of uploads: one subcarrier per user, waves of users, or a band split so that all users finish together.

Users become ready (have computed) at different times. A schedule gives the duration of each user's own transmission,
which costs it energy, and its span, from the time it is ready to the end of the upload phase if the phase waits for it.
The phase of a cell ends at the largest ready time + span of its users.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedcast.errors import FedcastError
from fedcast.network import CellularLinks, expected_s_per_bit, mean_inverse_efficiency
from fedcast.scenario import Cellular
from fedcast.typing import Floats, Ints

_TABLE_SIZE = 8192
_SMALLEST_SHARE = 1e-6
# Shares read from the table are rounded up by more than its interpolation error, so that no user finishes late.
_SAFETY = 1 + 1e-5
_BISECTIONS = 60


class UploadSchedule(NamedTuple):
    """Sending time of each user, its span, and its bandwidth in subcarriers, float64[K] each."""

    upload_s: Floats
    span_s: Floats
    share: Floats


def schedule(
    bits: float, ready_s: ArrayLike, links: CellularLinks, cellular: Cellular, *, max_upload_s: ArrayLike | None = None
) -> UploadSchedule:
    """Return the uploads of all cells under the scenario's `uplink`.

    Args:
        bits: that each user sends.
        ready_s: float[K], when each user can start.
        links: of the users.
        cellular: `uplink`, `subcarriers` and the band are read.
        max_upload_s: float[K], with ``fractional``: the longest transmission of each user, to save energy; at least the
            time under an equal split, so that a solution exists.

    Example:
        >>> links = CellularLinks(np.zeros(3, int), np.full(3, 1e-8), np.array([1e-6, 2e-6, 4e-6]), None)
        >>> schedule(1e6, [0, 0, 0], links, Cellular(subcarriers=2)).span_s.tolist()
        [1.0, 2.0, 4.0]
        >>> schedule(1e6, [0, 0, 0], links, Cellular(subcarriers=2, uplink="waves")).span_s.tolist()
        [5.0, 4.0, 4.0]
        >>> schedule(1e6, [0, 0, 0], links, Cellular(subcarriers=2, uplink="fractional")).span_s.round(3).tolist()
        [3.5, 3.5, 3.5]
    """
    ready = np.asarray(ready_s, dtype=np.float64)
    share, upload = initial_share(links, cellular), initial_upload_s(bits, links, cellular)
    if not np.isfinite(upload).all():
        raise FedcastError(f"user {np.flatnonzero(~np.isfinite(upload))[0]} never finishes its upload: its rate is 0")
    match cellular.uplink:
        case "waves":
            return UploadSchedule(upload, waves_span_s(upload, links.cell_of, cellular.subcarriers), share)
        case "fractional":
            longest = np.full(len(ready), np.inf) if max_upload_s is None else np.asarray(max_upload_s)
            share = _fractional_share(bits, ready, longest, links, cellular)
            upload = bits * up_s_per_bit(share, links, cellular)
    return UploadSchedule(upload, upload, share)


def initial_share(links: CellularLinks, cellular: Cellular) -> Floats:
    """Return the bandwidth of each user in subcarriers before optimisation: 1, with ``fractional`` an equal part."""
    if cellular.uplink != "fractional":
        return np.ones(len(links.cell_of))
    return cellular.subcarriers / np.bincount(links.cell_of)[links.cell_of]


def initial_upload_s(bits: float, links: CellularLinks, cellular: Cellular) -> Floats:
    """Return the upload time of each user with its `initial_share`, float64[K]."""
    if cellular.uplink != "fractional":
        return bits * links.up_s_per_bit
    return bits * up_s_per_bit(initial_share(links, cellular), links, cellular)


def up_s_per_bit(share: Floats, links: CellularLinks, cellular: Cellular) -> Floats:
    r"""Return the expected seconds per bit with a bandwidth of `share` subcarriers at the same power.

    The noise falls with the bandwidth: the SNR on a share b of a subcarrier is :math:`\rho / b`. A measured rate is
    assumed to be proportional to the bandwidth instead, a conservative assumption for shares below one.
    """
    if links.up_snr is None:
        return links.up_s_per_bit / share
    return expected_s_per_bit(links.up_snr / share, cellular.subcarrier_bandwidth_hz * share, cellular)


def waves_span_s(upload_s: ArrayLike, cell_of: ArrayLike, subcarriers: int) -> Floats:
    r"""Return the duration of the upload phase from each user's wave on, if R users of a cell send at a time.

    A cell's users are sorted by upload time and sent in waves of R, short uploads first; the slowest fill their waves
    (the first wave may be smaller), which makes the sum of the waves least. A wave lasts as long as its longest upload
    and starts when the one before has ended and all its users are ready, so that a cell's phase ends at
    :math:`\max_k (\tau^{cop}_k + \sum_{w \ge w(k)} \max_{j \in w} \tau^u_j)`. A cell of up to R users needs no waves:
    every user has a subcarrier and starts when it is ready.

    Example:
        >>> waves_span_s([1.0, 5.0, 6.0], [0, 0, 0], 2).tolist()
        [7.0, 6.0, 6.0]
    """
    upload, cells = np.asarray(upload_s, dtype=np.float64), np.asarray(cell_of, dtype=np.int64)
    slowest_first = np.lexsort((-upload, cells))
    sizes = np.bincount(cells)
    rank = np.arange(len(cells)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    # In this order the first of each wave is its longest, and the waves after a user's own come before it.
    longest = np.where(rank % subcarriers == 0, upload[slowest_first], 0.0)
    total = np.cumsum(longest)
    before_cell = np.repeat((total - longest)[rank == 0], sizes[sizes > 0])
    span = np.empty(len(cells))
    span[slowest_first] = total - before_cell
    return np.where(sizes[cells] <= subcarriers, upload, span)


def _fractional_share(bits: float, ready: Floats, longest: Floats, links: CellularLinks, cellular: Cellular) -> Floats:
    """Split each cell's band such that its last user finishes earliest; cells that never finish are left unchanged."""
    share = initial_share(links, cellular)
    finish = largest_of_cell(ready + initial_upload_s(bits, links, cellular), links.cell_of)
    ends = np.isfinite(finish)[links.cell_of]
    if ends.any():
        share[ends] = _common_finish_share(bits, ready[ends], longest[ends], finish, links.of(ends), cellular)
    return share


def _common_finish_share(
    bits: float, ready: Floats, longest: Floats, finish_equal: Floats, links: CellularLinks, cellular: Cellular
) -> Floats:
    """Bisect the finish of each cell, between the time its last user is ready and the finish of an equal split."""
    cells, band = links.cell_of, cellular.subcarriers
    share_of_rate = _share_of_rate(links, cellular)

    def needed(finish: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return share_of_rate(bits / np.minimum(finish[cells] - ready, longest))

    low, high = largest_of_cell(ready, cells, len(finish_equal)), finish_equal
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        fits = np.bincount(cells, needed(middle), len(high)) <= band
        low, high = np.where(fits, low, middle), np.where(fits, middle, high)
    share = needed(high)
    used = np.bincount(cells, share, len(high))[cells]
    # Bandwidth left by rounding is distributed too; an equal split remains where none finishes earlier.
    scaled = share * (band / np.where(used <= band, used, band))
    return np.where(used <= band, scaled, initial_share(links, cellular))


def _share_of_rate(links: CellularLinks, cellular: Cellular) -> Callable[[Floats], Floats]:
    """Return a function from rates to the bandwidth in subcarriers that users need; infinite beyond the whole band.

    With x the SNR on a bandwidth of rho/x subcarriers, the rate is B rho q(x), q(x) = efficiency(x)/x: one falling
    function for all users, tabulated once and inverted by interpolation in logarithms.
    """
    if (snr := links.up_snr) is None:
        return lambda rate: rate * links.up_s_per_bit
    ends = snr.min() / cellular.subcarriers, snr.max() / _SMALLEST_SHARE
    ratio = np.geomspace(*ends, _TABLE_SIZE)
    log_ratio, falling = np.log(ratio), np.log(ratio * mean_inverse_efficiency(ratio, cellular))

    def share_of_rate(rate: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            wanted = np.log(cellular.subcarrier_bandwidth_hz * snr / rate)
            share: Floats = _SAFETY * snr / np.exp(np.interp(wanted, falling, log_ratio, left=-np.inf))
        return share

    return share_of_rate


def largest_of_cell(values: Floats, cells: Ints, num_cells: int = 0) -> Floats:
    """Return the largest of the values (>= 0) of the users of each cell, float64[C]."""
    largest = np.zeros(max(num_cells, int(cells.max()) + 1))
    np.maximum.at(largest, cells, values)
    return largest
