r"""What sharing and training cost: seconds, joules, bytes, and who cannot take part at all.

.. math:: \text{task} = \tau^s + T \tau, \qquad \tau = \max_k \tau^d_k + \max_k (\tau^{cop}_k + \tau^u_k)

Sharing happens once; a round is a broadcast, local computing and an upload. With many cells every cell has its own
broadcast and its own uploads, and a round ends when the last cell ends.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcast.errors import ScenarioError
from fedcast.scenario.sections import MODEL_OF_DATASET, USUAL_MODEL, WEIGHTS_OF_MODEL, Cellular, Devices, Scenario
from fedcast.tables import Column, read_user_table
from fedcast.wireless.cellular import CellularLinks, cellular_links
from fedcast.wireless.geometry import Layout
from fedcast.wireless.multicast import SharingCost as SharingCost
from fedcast.wireless.multicast import sharing_cost as sharing_cost
from fedcast.wireless.units import BITS_PER_BYTE, Floats, Ints
from fedcast.wireless.uplink import initial_upload_s, largest_of_cell, schedule

_FULL_CONSENT = 1.0


def model_bits(scenario: Scenario) -> float:
    """Bits of one model on the air: weights x bits per weight; SCAFFOLD sends as many control variates along.

    Example:
        >>> model_bits(Scenario())
        60736.0
    """
    training = scenario.training
    name = training.model
    if name == "auto":
        name = MODEL_OF_DATASET.get(scenario.data.dataset, USUAL_MODEL)
    weights = training.model_weights or WEIGHTS_OF_MODEL.get(name)
    if weights is None:
        known = ", ".join(WEIGHTS_OF_MODEL)
        raise ScenarioError(
            f"training.model: {name!r} is not one of {known}; set training.model_weights to its number of weights"
        )
    tensors = 2 if training.algorithm == "scaffold" else 1
    return float(tensors * weights * training.bits_per_weight)


@dataclass(frozen=True)
class DeviceTable:
    """What each user's device can do, and what its owner allows.

    Attributes:
        max_frequency_hz: float64[K], highest CPU frequency.
        cycles_per_sample: float64[K], CPU cycles per sample and epoch.
        power_w: float64[K], transmit power of the upload.
        energy_budget_j: float64[K], energy per round.
        consent: float64[K], the largest share of its samples that a user is willing to share, in [0, 1].
        up_rate_bps: float64[K], measured upload rate on one subcarrier; None: from the radio model.
        down_rate_bps: float64[K], measured download rate; None: from the radio model.
    """

    max_frequency_hz: Floats
    cycles_per_sample: Floats
    power_w: Floats
    energy_budget_j: Floats
    consent: Floats
    up_rate_bps: Floats | None = None
    down_rate_bps: Floats | None = None

    def of(self, users: ArrayLike) -> DeviceTable:
        """The devices of some users, by their ids or a mask."""
        chosen = np.asarray(users)
        present = {name: column for name, column in vars(self).items() if column is not None}
        return DeviceTable(**{name: column[chosen] for name, column in present.items()})


def device_table(num_users: int, devices: Devices) -> DeviceTable:
    """The devices of K users: all as the scenario says, or as `devices_file` says where it has a column.

    The file is CSV or Parquet with one row for each user 0 to K - 1: column ``user`` and any attribute of
    `DeviceTable`. A column left out is the scenario's value; consent is then full, and rates come from the radio model.

    Example:
        >>> device_table(2, Devices()).max_frequency_hz.tolist()
        [1200000000.0, 1200000000.0]
    """
    names = [field.name for field in fields(DeviceTable)]
    columns = {name: Column(name, "float", required=False, above=0) for name in names}
    columns["consent"] = Column("consent", "float", required=False, minimum=0, maximum=1)
    given: dict[str, Floats] = {}
    if devices.devices_file is not None:
        given = dict(read_user_table(devices.devices_file, list(columns.values()), num_users).columns)
    for name in ("max_frequency_hz", "cycles_per_sample", "power_w", "energy_budget_j"):
        given.setdefault(name, np.full(num_users, getattr(devices, name)))
    given.setdefault("consent", np.full(num_users, _FULL_CONSENT))
    return DeviceTable(**{name: given[name] for name in names if name in given})


def compute_s(cycles: ArrayLike, frequency_hz: ArrayLike) -> Floats:
    r"""Computing time :math:`\tau^{cop} = L E \tilde n / f`; infinite at 0 Hz, 0 where there is nothing to compute.

    Example:
        >>> compute_s([1.5e8, 1.5e8, 0.0], [1.2e9, 0.0, 0.0]).tolist()
        [0.125, inf, 0.0]
    """
    work, frequency = np.broadcast_arrays(np.asarray(cycles, float), np.asarray(frequency_hz, float))
    forever = np.where(work > 0, np.inf, 0.0)
    seconds: Floats = np.divide(work, frequency, out=forever, where=frequency > 0)
    return seconds


def compute_energy_j(cycles: ArrayLike, frequency_hz: ArrayLike, energy_coefficient: float) -> Floats:
    r"""Computing energy :math:`\gamma^{cop} = \varsigma L E \tilde n f^2`.

    Example:
        >>> compute_energy_j(1.5e8, 1.2e9, 1e-28).round(6).item()
        0.0216
    """
    energy: Floats = energy_coefficient * np.asarray(cycles, float) * np.asarray(frequency_hz, float) ** 2
    return energy


def best_frequency_hz(
    cycles: ArrayLike, energy_j: ArrayLike, max_frequency_hz: ArrayLike, energy_coefficient: float
) -> Floats:
    r"""The fastest frequency that the energy allows, :math:`\min(f_{max}, \sqrt{\gamma / (\varsigma L E \tilde n)})`.

    Args:
        cycles: [...], cycles :math:`L E \tilde n` of a round.
        energy_j: [...], energy left for computing, :math:`\gamma_{th} - \gamma^u`; 0 Hz where there is none.
        max_frequency_hz: [...], highest frequency.
        energy_coefficient: :math:`\varsigma`.

    Returns:
        float64[...], Hz.

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
    r"""Computing time at the best frequency, convex in the cycles.

    .. math:: \tau^{cop} = \max\Big(\frac{L E \tilde n}{f_{max}},\;
        (L E \tilde n)^{3/2} \sqrt{\frac{\varsigma}{\gamma_{th} - \gamma^u}}\Big)

    Args and shapes are those of `best_frequency_hz`; infinite where no energy is left and there is work.

    Example:
        >>> fastest_compute_s(1.5e8, [0.005, 0.05, 0.0], 1.2e9, 1e-28).round(3).tolist()
        [0.26, 0.125, inf]
    """
    return compute_s(cycles, best_frequency_hz(cycles, energy_j, max_frequency_hz, energy_coefficient))


@dataclass(frozen=True)
class Fleet:
    """The devices, their links, and the task that every round puts on them; volumes of data come later.

    Attributes:
        devices: what each device can do.
        links: to the base stations.
        model_bits: bits of one model.
        local_epochs: epochs E of a round.
        energy_coefficient: energy per cycle and squared frequency.
        cellular: how uploads are scheduled.
    """

    devices: DeviceTable
    links: CellularLinks
    model_bits: float
    local_epochs: int
    energy_coefficient: float
    cellular: Cellular

    def of(self, users: ArrayLike) -> Fleet:
        """The fleet reduced to some users, by their ids or a mask: who takes part in a round."""
        devices, links = self.devices.of(users), self.links.of(users)
        return Fleet(devices, links, self.model_bits, self.local_epochs, self.energy_coefficient, self.cellular)

    def cycles(self, samples: ArrayLike) -> Floats:
        """CPU cycles of a round, L E n, for users with so many samples, float64[K]."""
        return self.devices.cycles_per_sample * self.local_epochs * np.asarray(samples, dtype=np.float64)

    @property
    def upload_s(self) -> Floats:
        """Expected upload time on one subcarrier, or with ``fractional`` on an equal part of the band, float64[K]."""
        return initial_upload_s(self.model_bits, self.links, self.cellular)

    @property
    def upload_energy_j(self) -> Floats:
        """Energy of that upload, transmit power x time, float64[K]."""
        return self.devices.power_w * self.upload_s

    @property
    def energy_left_j(self) -> Floats:
        """Energy of a round that the upload leaves for computing, float64[K]; negative: none."""
        return self.devices.energy_budget_j - self.upload_energy_j


def fleet_of(scenario: Scenario, layout: Layout) -> Fleet:
    """The fleet of a scenario, with users where the layout puts them.

    Example:
        >>> from fedcast.wireless.geometry import place_users
        >>> scenario = Scenario()
        >>> fleet = fleet_of(scenario, place_users(100, scenario.geometry, seed=0))
        >>> bool((fleet.energy_left_j > 0).all())
        True
    """
    devices = device_table(layout.num_users, scenario.devices)
    rates = {"up_rate_bps": devices.up_rate_bps, "down_rate_bps": devices.down_rate_bps}
    links = cellular_links(layout, devices.power_w, scenario.cellular, scenario.geometry, **rates)
    epochs, coefficient = scenario.training.local_epochs, scenario.devices.energy_coefficient
    return Fleet(devices, links, model_bits(scenario), epochs, coefficient, scenario.cellular)


@dataclass(frozen=True)
class Feasibility:
    """Who can take part in a round within its energy budget.

    Attributes:
        feasible: bool[K].
        budget_j: float64[K], the budgets.
        upload_energy_j: float64[K]; a budget that is not above it leaves nothing to compute with.
        smallest_budget_j: float64[K], the smallest budget that would do: the upload, and computing as fast as the
            present budget allows without it.
    """

    feasible: NDArray[np.bool_]
    budget_j: Floats
    upload_energy_j: Floats
    smallest_budget_j: Floats

    @property
    def infeasible_users(self) -> Ints:
        """Ids of the users that cannot take part."""
        return np.flatnonzero(~self.feasible)

    def explain(self, user: int) -> str:
        """One line about a user, for a person."""
        upload, budget, enough = self.upload_energy_j[user], self.budget_j[user], self.smallest_budget_j[user]
        way_out = "" if self.feasible[user] else f"; {enough:.3g} J would do"
        return f"user {user}: the upload takes {upload:.3g} J of a budget of {budget:.3g} J per round{way_out}"


def feasibility(fleet: Fleet, samples: ArrayLike) -> Feasibility:
    r"""Which users have a frequency that meets their energy budget, and what the others would need.

    A user is infeasible iff its upload alone takes the whole budget. A budget just above that is no help: the device
    would compute arbitrarily slowly and hold up every round. The smallest budget reported therefore leaves for
    computing what the present budget could buy if the upload were free, at most what the highest frequency takes:

    .. math:: \gamma^u + \min(\gamma_{th}, \varsigma L E \tilde n f_{max}^2)

    With it the user computes as fast as any user with so many samples can today. With ``fractional`` uploads this is
    under an equal split of the band.

    Args:
        fleet: devices, links, task.
        samples: float[K], samples of each user, after sharing.

    Example:
        >>> from fedcast.wireless.geometry import layout_from_positions
        >>> scenario = Scenario.model_validate({"training": {"model": "cnn"}, "devices": {"energy_budget_j": 0.005}})
        >>> layout = layout_from_positions([[0.0, 0.0], [900.0, 0.0]], scenario.geometry)
        >>> feasibility(fleet_of(scenario, layout), [600, 600]).explain(1)
        'user 1: the upload takes 0.0207 J of a budget of 0.005 J per round; 0.0257 J would do'
    """
    work, upload_j, budget = fleet.cycles(samples), fleet.upload_energy_j, fleet.devices.energy_budget_j
    at_most_j = compute_energy_j(work, fleet.devices.max_frequency_hz, fleet.energy_coefficient)
    smallest = upload_j + np.minimum(budget, at_most_j)
    feasible = (upload_j < budget) | ((work == 0) & (upload_j <= budget))
    return Feasibility(feasible, budget, upload_j, smallest)


@dataclass(frozen=True)
class RoundCost:
    """One round, user by user: float64[K] each, and bytes in all.

    Attributes:
        broadcast_s: until the last user of the user's cell has the model.
        compute_s: local computing.
        upload_s: the user's own transmission.
        span_s: from the user's end of computing to the end of the round, if it is this user that delays it: its upload,
            with ``waves`` its wave and those after it.
        frequency_hz: CPU frequency.
        compute_energy_j: energy of computing.
        upload_energy_j: energy of the upload.
        uploaded_bytes: models sent by users.
        broadcast_bytes: models sent by base stations, one broadcast for each cell.
    """

    broadcast_s: Floats
    compute_s: Floats
    upload_s: Floats
    span_s: Floats
    frequency_hz: Floats
    compute_energy_j: Floats
    upload_energy_j: Floats
    uploaded_bytes: float
    broadcast_bytes: float

    @property
    def critical_user(self) -> int:
        """The user that the round waits for."""
        return int((self.broadcast_s + self.compute_s + self.span_s).argmax())

    @property
    def phases_s(self) -> tuple[float, float, float]:
        """Download, computing and upload as the critical user sees them; they add up to the round."""
        user = self.critical_user
        return float(self.broadcast_s[user]), float(self.compute_s[user]), float(self.span_s[user])

    @property
    def round_s(self) -> float:
        """Delay of the round: that of its slowest cell."""
        return sum(self.phases_s)

    @property
    def energy_j(self) -> Floats:
        """Energy of each user, float64[K]."""
        return self.compute_energy_j + self.upload_energy_j


def round_cost(fleet: Fleet, samples: ArrayLike, frequency_hz: ArrayLike | None = None) -> RoundCost:
    r"""Delay and energy of a round under the scenario's `uplink`.

    ``parallel`` (the paper): everybody has a subcarrier, :math:`\max_k \tau^d_k + \max_k(\tau^{cop}_k + \tau^u_k)`.
    ``waves``: R users of a cell at a time, see `fedcast.wireless.uplink.waves_span_s`. ``fractional``: a cell's band is
    split such that its users finish together, but nobody sends for longer than its energy lasts; frequencies are chosen
    as if the band were split equally, so that every budget holds and the split can only shorten the round.

    Args:
        fleet: devices, links, task; `Fleet.of` leaves users out.
        samples: float[K], samples of each user, after sharing.
        frequency_hz: float[K]; None: the best for each user. The round of a user at 0 Hz never ends (infinity).

    Example:
        >>> from fedcast.wireless.geometry import layout_from_positions
        >>> scenario = Scenario.model_validate({"training": {"model": "cnn"}})
        >>> layout = layout_from_positions([[200.0, 0.0], [-1000.0, 0.0]], scenario.geometry)
        >>> cost = round_cost(fleet_of(scenario, layout), [600, 600])
        >>> round(cost.round_s, 3), cost.critical_user
        (3.074, 1)
    """
    work = fleet.cycles(samples)
    devices, links = fleet.devices, fleet.links
    if frequency_hz is None:
        limits = devices.max_frequency_hz, fleet.energy_coefficient
        frequency = best_frequency_hz(work, fleet.energy_left_j, *limits)
    else:
        frequency = np.asarray(frequency_hz, dtype=np.float64)
    computing_s = compute_s(work, frequency)
    computing_j = compute_energy_j(work, frequency, fleet.energy_coefficient)
    affordable_s = np.maximum((devices.energy_budget_j - computing_j) / devices.power_w, fleet.upload_s)
    uploads = schedule(fleet.model_bits, computing_s, links, fleet.cellular, max_upload_s=affordable_s)
    broadcast = largest_of_cell(fleet.model_bits * links.down_s_per_bit, links.cell_of)
    model_bytes = fleet.model_bits / BITS_PER_BYTE
    return RoundCost(
        broadcast[links.cell_of],
        computing_s,
        uploads.upload_s,
        uploads.span_s,
        frequency,
        computing_j,
        devices.power_w * uploads.upload_s,
        model_bytes * len(work),
        model_bytes * len(np.unique(links.cell_of)),
    )


def task_s(sharing_s: float, round_s: float, rounds: float) -> float:
    r"""Delay of a whole task, :math:`\tau^s + T \tau`.

    Example:
        >>> task_s(sharing_s=1.0, round_s=3.0, rounds=10)
        31.0
    """
    if not rounds > 0:
        raise ValueError(f"rounds must be above 0, got {rounds}")
    return sharing_s + rounds * round_s
