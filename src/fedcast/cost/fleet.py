"""The fleet: devices of users from the scenario or a table, their links to base stations, and the work of a round."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedcast import registry
from fedcast.cost.expected import Draws
from fedcast.cost.uplink import initial_upload_s
from fedcast.cost.weights import model_size
from fedcast.data import SampleSpec
from fedcast.errors import DataError, ScenarioError
from fedcast.formatting import quantity
from fedcast.io import Column, column_names, read_user_table
from fedcast.network import CellularLinks, Layout, cellular_links
from fedcast.participation import participation_of
from fedcast.scenario import Cellular, Devices, Scenario
from fedcast.typing import Floats, Names

# Wider than the range of any device, and narrow enough that no product of such values overflows.
_LEAST, _MOST = 1e-15, 1e15
_MOST_SNR_DB = 100.0
_MOST_MU = 50.0  # ε is then above 1,000
_MOST_DELTA = 0.01  # with a larger one a release may reveal one sample in a hundred outright
# Rounds over which an expected round is averaged, at most.
_AVERAGED_ROUNDS = 100
_OF_SCENARIO = ("max_frequency_hz", "cycles_per_sample", "power_w", "energy_budget_j")

COLUMNS = (
    *(
        Column(name, "float", required=False, above=0, minimum=_LEAST, maximum=_MOST)
        for name in (*_OF_SCENARIO, "up_rate_bps", "down_rate_bps")
    ),
    *(
        Column(name, "float", required=False, minimum=-_MOST_SNR_DB, maximum=_MOST_SNR_DB)
        for name in ("up_snr_db", "down_snr_db")
    ),
    Column("consent", "float", required=False, minimum=0, maximum=1),
    Column("epsilon", "float", required=False, minimum=0, maximum=_MOST),
    Column("delta", "float", required=False, above=0, minimum=_LEAST, maximum=_MOST_DELTA),
    Column("mu_spent", "float", required=False, minimum=0, maximum=_MOST_MU),
)


@dataclass(frozen=True)
class DeviceTable:
    """Properties of each user's device, and the consent of its owner; float64[K] each."""

    max_frequency_hz: Floats  #: highest CPU frequency
    cycles_per_sample: Floats  #: CPU cycles per sample and epoch
    power_w: Floats  #: transmit power of the upload
    energy_budget_j: Floats  #: energy per round
    consent: Floats  #: the largest share of its samples that a user agrees to share, in [0, 1]
    up_rate_bps: Floats | None = None  #: measured upload rate on one subcarrier; None: computed from the SNR
    down_rate_bps: Floats | None = None  #: the same of the download
    up_snr_db: Floats | None = None  #: mean SNR of the upload on one subcarrier; None: from the radio model
    down_snr_db: Floats | None = None  #: the same of the download
    epsilon: Floats | None = None  #: largest ε of everything that a user ever releases together; None: no limit
    delta: Floats | None = None  #: δ that belongs to `epsilon`; None: 1e-5
    mu_spent: Floats | None = None  #: what it released before, column mu of a run's privacy.csv; None: nothing
    names: Names | None = None  #: names of the users, str[K], where a table gives them

    @property
    def has_links(self) -> bool:
        """Return whether rates or SNR of both upload and download are given."""
        up, down = (self.up_rate_bps, self.up_snr_db), (self.down_rate_bps, self.down_snr_db)
        return all(any(column is not None for column in way) for way in (up, down))

    def of(self, users: ArrayLike) -> DeviceTable:
        """Return the devices of some users, by their ids or a mask."""
        chosen = np.asarray(users)
        present = {name: column for name, column in vars(self).items() if column is not None}
        return DeviceTable(**{name: column[chosen] for name, column in present.items()})


def device_table(num_users: int, devices: Devices, names: Names | None = None) -> DeviceTable:
    """Return the devices of K users, from the columns of `devices_file` and otherwise from the scenario.

    The file is CSV or Parquet with one row for each user: column ``user`` and any attribute of
    `DeviceTable`; for each direction either a rate or an SNR. A missing column takes the scenario's value; consent is
    then full, and the links are those of the radio model.

    Example:
        >>> device_table(2, Devices()).max_frequency_hz.tolist()
        [1200000000.0, 1200000000.0]
    """
    given: dict[str, Floats] = {}
    if devices.devices_file is not None:
        given = dict(read_user_table(devices.devices_file, COLUMNS, num_users, names).columns)
        for rate, snr in (("up_rate_bps", "up_snr_db"), ("down_rate_bps", "down_snr_db")):
            if rate in given and snr in given:
                both = f"columns {rate} and {snr} both give the speed of a link"
                raise DataError(f"{devices.devices_file}: {both}; remove one of them")
    for name in _OF_SCENARIO:
        given.setdefault(name, np.full(num_users, getattr(devices, name)))
    given.setdefault("consent", np.ones(num_users))
    return DeviceTable(**{name: values for name, values in given.items() if name != "user"}, names=names)


def device_assumptions(devices: Devices) -> tuple[str, ...]:
    """Return what is assumed of devices since neither a column of their table nor a parameter gives it.

    Example:
        >>> device_assumptions(Devices(power_w=0.2, max_frequency_hz=1e9, energy_budget_j=1.0))[0]
        'All devices have 250,000 cycles per sample (--devices).'
    """
    columns = device_columns(devices.devices_file).read if devices.devices_file is not None else ()
    usual = Devices()
    words = (
        f"a highest frequency of {quantity(devices.max_frequency_hz, 'Hz')}",
        f"{devices.cycles_per_sample:,.0f} cycles per sample",
        f"a transmit power of {quantity(devices.power_w, 'W')}",
        f"{quantity(devices.energy_budget_j, 'J')} per round",
    )
    same = [
        text
        for name, text in zip(_OF_SCENARIO, words, strict=True)
        if name not in columns and getattr(devices, name) == getattr(usual, name)
    ]
    found = [f"All devices have {', '.join(same)} (--devices)."] if same else []
    if "consent" not in columns:
        found.append("All users consent to share any of their samples (consent in --devices).")
    return tuple(found)


class ColumnsFound(NamedTuple):
    """The columns of a devices table that are read, and unknown ones, in the order of the file."""

    read: tuple[str, ...]
    ignored: tuple[str, ...]


def device_columns(path: str | Path) -> ColumnsFound:
    r"""Return which columns of a devices table are read, and which are ignored.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "devices.csv")
        >>> _ = file.write_text("user,battery_j,consent\n0,9,1\n")
        >>> device_columns(file)
        ColumnsFound(read=('consent',), ignored=('battery_j',))
    """
    known = {column.name for column in COLUMNS}
    names = [name for name in column_names(path) if name != "user"]
    return ColumnsFound(tuple(n for n in names if n in known), tuple(n for n in names if n not in known))


def model_bits(scenario: Scenario, samples: SampleSpec | None = None) -> float:
    """Return the bits of one broadcast: weights x values that the algorithm sends for each x bits per weight.

    `samples` are shape and classes of the samples; None: those of the scenario's dataset, see `model_size`.

    Example:
        >>> model_bits(Scenario())
        60736.0
    """
    algorithm = registry.find("algorithm", scenario.training.algorithm).value
    return float(algorithm.uploads * _num_weights(scenario, samples) * scenario.training.bits_per_weight)


def upload_bits(scenario: Scenario, samples: SampleSpec | None = None) -> float:
    """Return the bits of one upload: those of a broadcast, or fewer if `training.upload` compresses them.

    Example:
        >>> upload_bits(Scenario()), upload_bits(Scenario.model_validate({"training": {"upload": "quantized"}}))
        (60736.0, 15312.0)
    """
    training = scenario.training
    algorithm, kind = registry.find("algorithm", training.algorithm).value, registry.find("upload", training.upload)
    kind.value.check_algorithm(kind.name, training.algorithm, algorithm)
    weights, whole = _num_weights(scenario, samples), model_bits(scenario, samples)
    bits = float(algorithm.uploads * kind.value.bits(training.options("upload"), weights, training.bits_per_weight))
    if bits > whole:
        raise ScenarioError(
            f"invalid value {kind.name!r} for training.upload: an upload takes {bits:,.0f} bits, more than the "
            f"{whole:,.0f} of all weights (training.bits_per_weight = {training.bits_per_weight}); use full"
        )
    return bits


def upload_notes(scenario: Scenario) -> list[str]:
    """Return what compressed uploads change in a plan."""
    kind = scenario.training.upload
    said = f"training.upload = {kind}: rounds are predicted for full uploads; with compressed ones expect more"
    return [] if registry.find("upload", kind).value.compress is None else [said]


def _num_weights(scenario: Scenario, samples: SampleSpec | None) -> int:
    training, size = scenario.training, model_size(scenario, samples)
    if size.weights is None:
        where = f"training.model_file = {training.model_file}" if training.model_file else f"model {training.model}"
        raise ScenarioError(
            f"training.model_weights: unset; set it to the number of weights of {where}, from which delays follow "
            f"({size.note})"
        )
    return size.weights


@dataclass(frozen=True)
class Fleet:
    """The devices, their links to the base stations, and the work of a round apart from the volume of data."""

    devices: DeviceTable
    links: CellularLinks
    model_bits: float  #: bits of one broadcast
    upload_bits: float  #: bits of one upload
    local_epochs: int  #: passes over the data per round
    energy_coefficient: float  #: energy per cycle and squared frequency
    cellular: Cellular  #: how uploads are scheduled
    draws: Draws | None = None  #: who takes part in a round; None: all users in every round

    def of(self, users: ArrayLike) -> Fleet:
        """Return the fleet of some users, by their ids or a mask."""
        return replace(self, devices=self.devices.of(users), links=self.links.of(users))

    def cycles(self, samples: ArrayLike) -> Floats:
        """Return the CPU cycles L E n of a round for users with n samples, float64[K]."""
        return self.devices.cycles_per_sample * self.local_epochs * np.asarray(samples, dtype=np.float64)

    @property
    def upload_s(self) -> Floats:
        """Return the upload time on one subcarrier, with ``fractional`` on an equal part of the band, float64[K]."""
        return initial_upload_s(self.upload_bits, self.links, self.cellular)

    @property
    def upload_energy_j(self) -> Floats:
        """Return the energy of that upload, transmit power x time, float64[K]."""
        return self.devices.power_w * self.upload_s

    @property
    def energy_left_j(self) -> Floats:
        """Return the energy of a round that the upload leaves for computing, float64[K]; negative: none."""
        return self.devices.energy_budget_j - self.upload_energy_j


def fleet_of(scenario: Scenario, layout: Layout, samples: SampleSpec | None = None) -> Fleet:
    """Return the fleet of a scenario for the positions of a layout; `samples` as in `model_bits`.

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
    # A plan replaces the first of several choices by the one that it makes.
    epochs, coefficient = scenario.training.epoch_choices[0], scenario.devices.energy_coefficient
    bits = model_bits(scenario, samples), upload_bits(scenario, samples)
    return Fleet(devices, links, *bits, epochs, coefficient, scenario.cellular, draws_of(scenario))


def draws_of(scenario: Scenario) -> Draws | None:
    """Return who takes part in a round, where that depends on the time of each user; None: it does not."""
    training = scenario.training
    participation = participation_of(training)
    participation.check(scenario.data.num_users)
    participation.check_algorithm(training.algorithm, registry.find("algorithm", training.algorithm).value)
    if not participation.reads_clock:
        return None
    if scenario.cellular.uplink != "parallel":
        raise ScenarioError(
            f"cellular.uplink = {scenario.cellular.uplink}: the time of a user then depends on who else uploads; set "
            "it to parallel for training.deadline_s, training.over_selection and training.buffer_size"
        )
    return Draws(participation, scenario.seed, min(training.rounds, _AVERAGED_ROUNDS))
