"""Delay, energy and bytes of one round, and which users can take part in it within their energy budgets."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcast.cost.expected import Draws, ExpectedRound, expected_round
from fedcast.cost.fleet import Fleet
from fedcast.cost.uplink import largest_of_cell, schedule
from fedcast.formatting import user_label
from fedcast.network import BITS_PER_BYTE
from fedcast.typing import Floats, Ints, Names

_DIGITS = 3


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
    return np.minimum(max_frequency_hz, allowed)


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


@dataclass(frozen=True)
class RoundCost:
    """Cost of one round, user by user (float64[K] each), and bytes of all users."""

    broadcast_s: Floats  #: until the last user of the user's cell has received the model
    compute_s: Floats  #: duration of computing
    upload_s: Floats  #: the user's own transmission
    span_s: Floats  #: from computing to the end of the round, if it waits for this user (waves: all from its own on)
    frequency_hz: Floats
    compute_energy_j: Floats
    upload_energy_j: Floats
    uploaded_bytes: float  #: models sent by users
    broadcast_bytes: float  #: models sent by base stations, one broadcast for each cell
    download_s: Floats  #: download of the user's own, if the model is sent to it alone
    download_bytes: float  #: bytes of one model
    draws: Draws | None = None  #: who takes part in a round; None: all users in every round

    @property
    def user_s(self) -> Floats:
        """Return the time of each user in a round, float64[K]."""
        return self.broadcast_s + self.compute_s + self.span_s

    @property
    def single_s(self) -> Floats:
        """Return the time of each user if it downloads the model alone, as in asynchronous training, float64[K]."""
        return self.download_s + self.compute_s + self.span_s

    @property
    def critical_user(self) -> int:
        """Return the user that the round waits for."""
        return int(self.user_s.argmax())

    @property
    def phases_s(self) -> tuple[float, float, float]:
        """Return download, computing and upload of the critical user; their sum is the delay of the round."""
        user = self.critical_user
        return float(self.broadcast_s[user]), float(self.compute_s[user]), float(self.span_s[user])

    @property
    def round_s(self) -> float:
        """Return the delay of the round, that of its slowest cell."""
        return sum(self.phases_s)

    @property
    def energy_j(self) -> Floats:
        """Return the energy of each user, float64[K]."""
        return self.compute_energy_j + self.upload_energy_j

    @cached_property
    def expected(self) -> ExpectedRound | None:
        """Return the round with deadlines, over-selection or asynchronous training; None: all take part in a round."""
        if self.draws is None:
            return None
        asynchronous = self.draws.participation.buffer_size is not None
        return expected_round(self.draws, self.single_s if asynchronous else self.user_s)

    @property
    def expected_phases_s(self) -> tuple[float, float, float]:
        """Return download, computing and upload of an expected round, assumed to be split as one of all users."""
        if self.expected is None:
            return self.phases_s
        factor = self.expected.seconds / self.round_s
        download_s, computing_s, upload_s = self.phases_s
        return factor * download_s, factor * computing_s, factor * upload_s

    @property
    def expected_s(self) -> float:
        """Return the delay of an expected round."""
        return sum(self.expected_phases_s)

    @property
    def expected_j(self) -> float:
        """Return the energy of all users in an expected round, of those whose updates do not count, too."""
        return float((self.energy_j if self.expected is None else self.expected.trainings * self.energy_j).sum())

    @property
    def expected_bytes(self) -> float:
        """Return the bytes of an expected round, both ways; asynchronous users download the model one by one."""
        if self.expected is None or self.draws is None:
            return self.uploaded_bytes + self.broadcast_bytes
        trainings = float(self.expected.trainings.sum())
        downloads = trainings * self.download_bytes
        if self.draws.participation.buffer_size is None:
            downloads = self.broadcast_bytes
        return trainings * self.uploaded_bytes / len(self.upload_s) + downloads


def round_cost(fleet: Fleet, samples: ArrayLike, frequency_hz: ArrayLike | None = None) -> RoundCost:
    r"""Return delay and energy of a round under the scenario's `uplink`.

    ``parallel`` (the paper): every user has a subcarrier, :math:`\max_k \tau^d_k + \max_k(\tau^{cop}_k + \tau^u_k)`.
    ``waves``: R users of a cell at a time, see `fedcast.cost.uplink.waves_span_s`. ``fractional``: a cell's band is
    split such that its users finish together, but no user sends for longer than its energy lasts; frequencies are
    chosen as for an equal split of the band, so that every budget is met and the split can only shorten the round.

    Args:
        fleet: of the users of this round.
        samples: float[K], after sharing.
        frequency_hz: float[K]; None: the best for each user. The round of a user at 0 Hz never ends (infinity).

    Example:
        >>> from fedcast.cost import fleet_of
        >>> from fedcast.scenario import Scenario
        >>> from fedcast.network import layout_from_positions
        >>> scenario = Scenario.model_validate({"training": {"model": "cnn"}})
        >>> layout = layout_from_positions([[200.0, 0.0], [-1000.0, 0.0]], scenario.geometry, [[0.0, 0.0]])
        >>> cost = round_cost(fleet_of(scenario, layout), [600, 600])
        >>> round(cost.round_s, 3), cost.critical_user
        (3.074, 1)
    """
    work = fleet.cycles(samples)
    devices, links = fleet.devices, fleet.links
    if frequency_hz is None:
        frequency_hz = best_frequency_hz(work, fleet.energy_left_j, devices.max_frequency_hz, fleet.energy_coefficient)
    frequency = np.asarray(frequency_hz, dtype=np.float64)
    computing_s = compute_s(work, frequency)
    computing_j = compute_energy_j(work, frequency, fleet.energy_coefficient)
    affordable_s = np.maximum((devices.energy_budget_j - computing_j) / devices.power_w, fleet.upload_s)
    uploads = schedule(fleet.upload_bits, computing_s, links, fleet.cellular, max_upload_s=affordable_s)
    download_s = fleet.model_bits * links.down_s_per_bit
    broadcast = largest_of_cell(download_s, links.cell_of)
    return RoundCost(
        broadcast[links.cell_of],
        computing_s,
        uploads.upload_s,
        uploads.span_s,
        frequency,
        computing_j,
        devices.power_w * uploads.upload_s,
        fleet.upload_bits / BITS_PER_BYTE * len(work),
        fleet.model_bits / BITS_PER_BYTE * len(np.unique(links.cell_of)),
        download_s,
        fleet.model_bits / BITS_PER_BYTE,
        fleet.draws,
    )


def rounded_up(value: float) -> float:
    """Return the smallest number of three digits that is not below the value, so that a budget of it suffices.

    Example:
        >>> rounded_up(1.0201), rounded_up(1.02), rounded_up(0.00341)
        (1.03, 1.02, 0.00341)
    """
    return float(Context(prec=_DIGITS, rounding=ROUND_CEILING).create_decimal(repr(float(value))))


@dataclass(frozen=True)
class Feasibility:
    """Users that can take part in a round within their energy budget, [K] each; see `feasibility`."""

    feasible: NDArray[np.bool_]
    budget_j: Floats
    upload_energy_j: Floats
    smallest_budget_j: Floats
    names: Names | None = None

    @property
    def infeasible_users(self) -> Ints:
        """Return the ids of the users that cannot take part."""
        return np.flatnonzero(~self.feasible)

    @property
    def enough_j(self) -> float:
        """Return a budget that suffices for all users that cannot take part, rounded up to three digits."""
        return rounded_up(self.smallest_budget_j[~self.feasible].max(initial=0.0))

    def explain(self, user: int) -> str:
        """Return one line of text about a user."""
        upload, enough = rounded_up(self.upload_energy_j[user]), rounded_up(self.smallest_budget_j[user])
        advice = "" if self.feasible[user] else f"; {enough:g} J would suffice"
        budget = f"a budget of {self.budget_j[user]:.3g} J per round"
        return f"{user_label(user, self.names)}: the upload takes {upload:g} J of {budget}{advice}"


def feasibility(fleet: Fleet, samples: ArrayLike) -> Feasibility:
    r"""Return which users have a frequency within their energy budget, and what the others would need.

    A user is infeasible if and only if its upload alone takes the whole budget. A budget just above that does not help:
    the device would compute arbitrarily slowly and delay every round. The smallest budget reported therefore leaves for
    computing the present budget, as if the upload were free, but at most what the highest frequency takes:

    .. math:: \gamma^u + \min(\gamma_{th}, \varsigma L E \tilde n f_{max}^2)

    With ``fractional`` uploads this assumes an equal split of the band. `samples` are those after sharing.

    Example:
        >>> from fedcast.cost import fleet_of
        >>> from fedcast.scenario import Scenario
        >>> from fedcast.network import layout_from_positions
        >>> scenario = Scenario.model_validate({"training": {"model": "cnn"}, "devices": {"energy_budget_j": 0.005}})
        >>> layout = layout_from_positions([[0.0, 0.0], [900.0, 0.0]], scenario.geometry, [[0.0, 0.0]])
        >>> feasibility(fleet_of(scenario, layout), [600, 600]).explain(1)
        'user 1: the upload takes 0.0208 J of a budget of 0.005 J per round; 0.0258 J would suffice'
    """
    work, upload_j, budget = fleet.cycles(samples), fleet.upload_energy_j, fleet.devices.energy_budget_j
    at_most_j = compute_energy_j(work, fleet.devices.max_frequency_hz, fleet.energy_coefficient)
    smallest = upload_j + np.minimum(budget, at_most_j)
    feasible = (upload_j < budget) | ((work == 0) & (upload_j <= budget))
    return Feasibility(feasible, budget, upload_j, smallest, fleet.devices.names)
