"""The fleet: devices, their links to base stations, and the work of a round."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from fedcast import registry
from fedcast.cost.devices import DeviceTable, device_table
from fedcast.cost.uplink import initial_upload_s
from fedcast.errors import FedcastError, ScenarioError
from fedcast.network import CellularLinks, Layout, cellular_links
from fedcast.scenario import MODEL_OF_DATASET, USUAL_MODEL, Cellular, Scenario
from fedcast.typing import Floats


def model_name(scenario: Scenario) -> str:
    """Return the name of the model that a scenario trains; ``auto`` is the default of its dataset."""
    name = scenario.training.model
    return MODEL_OF_DATASET.get(scenario.data.dataset, USUAL_MODEL) if name == "auto" else name


def known_weights(scenario: Scenario) -> int | None:
    """Return the number of weights of the scenario's model: as set, or as the model declares; None: unknown."""
    training = scenario.training
    if training.model_weights is not None or training.model_file is not None:
        return training.model_weights
    try:
        declared: int | None = registry.find("model", model_name(scenario)).value.weights
    except FedcastError as error:
        raise ScenarioError(
            f"{error}; a model of your own can also be a function in training.model_file, with training.model_weights "
            "its number of weights"
        ) from None
    return declared


def model_bits(scenario: Scenario) -> float:
    """Return the bits of one upload: weights x values that the algorithm uploads for each x bits per weight.

    Example:
        >>> model_bits(Scenario())
        60736.0
    """
    training = scenario.training
    weights = known_weights(scenario)
    if weights is None:
        where = f"training.model_file = {training.model_file}" if training.model_file else f"model {training.model}"
        raise ScenarioError(
            f"training.model_weights: unset; set it to the number of weights of {where}, from which delays follow"
        )
    uploads = registry.find("algorithm", training.algorithm).value.uploads
    return float(uploads * weights * training.bits_per_weight)


@dataclass(frozen=True)
class Fleet:
    """The devices, their links to the base stations, and the work of a round apart from the volume of data.

    Attributes:
        model_bits: bits of one upload.
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
        """Return the fleet of some users, by their ids or a mask."""
        return replace(self, devices=self.devices.of(users), links=self.links.of(users))

    def cycles(self, samples: ArrayLike) -> Floats:
        """Return the CPU cycles L E n of a round for users with n samples, float64[K]."""
        return self.devices.cycles_per_sample * self.local_epochs * np.asarray(samples, dtype=np.float64)

    @property
    def upload_s(self) -> Floats:
        """Return the upload time on one subcarrier, with ``fractional`` on an equal part of the band, float64[K]."""
        return initial_upload_s(self.model_bits, self.links, self.cellular)

    @property
    def upload_energy_j(self) -> Floats:
        """Return the energy of that upload, transmit power x time, float64[K]."""
        return self.devices.power_w * self.upload_s

    @property
    def energy_left_j(self) -> Floats:
        """Return the energy of a round that the upload leaves for computing, float64[K]; negative: none."""
        return self.devices.energy_budget_j - self.upload_energy_j


def fleet_of(scenario: Scenario, layout: Layout) -> Fleet:
    """Return the fleet of a scenario for the positions of a layout.

    Example:
        >>> from fedcast.network import place_users
        >>> scenario = Scenario()
        >>> fleet = fleet_of(scenario, place_users(100, scenario.geometry, seed=0))
        >>> bool((fleet.energy_left_j > 0).all())
        True
    """
    devices = device_table(layout.num_users, scenario.devices, layout.names)
    measured = {name: getattr(devices, name) for name in ("up_rate_bps", "down_rate_bps", "up_snr_db", "down_snr_db")}
    links = cellular_links(layout, devices.power_w, scenario.cellular, scenario.geometry, **measured)
    epochs, coefficient = scenario.training.local_epochs, scenario.devices.energy_coefficient
    return Fleet(devices, links, model_bits(scenario), epochs, coefficient, scenario.cellular)
