"""The devices of the users, from the scenario or from a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedcast.errors import DataError
from fedcast.io import Column, column_names, read_user_table
from fedcast.scenario import Devices
from fedcast.typing import Floats, Names

_FULL_CONSENT = 1.0

# Wider than the range of any device, and narrow enough that no product of such values overflows.
_LEAST, _MOST = 1e-15, 1e15
_MOST_SNR_DB = 100.0


def _positive(name: str) -> Column:
    return Column(name, "float", required=False, above=0, minimum=_LEAST, maximum=_MOST)


def _decibels(name: str) -> Column:
    return Column(name, "float", required=False, minimum=-_MOST_SNR_DB, maximum=_MOST_SNR_DB)


COLUMNS = (
    _positive("max_frequency_hz"),
    _positive("cycles_per_sample"),
    _positive("power_w"),
    _positive("energy_budget_j"),
    Column("consent", "float", required=False, minimum=0, maximum=1),
    _positive("up_rate_bps"),
    _positive("down_rate_bps"),
    _decibels("up_snr_db"),
    _decibels("down_snr_db"),
)


@dataclass(frozen=True)
class DeviceTable:
    """Properties of each user's device, and the consent of its owner.

    Attributes:
        max_frequency_hz: float64[K], highest CPU frequency.
        cycles_per_sample: float64[K], CPU cycles per sample and epoch.
        power_w: float64[K], transmit power of the upload.
        energy_budget_j: float64[K], energy per round.
        consent: float64[K], the largest share of its samples that a user agrees to share, in [0, 1].
        up_rate_bps: float64[K], measured upload rate on one subcarrier; None: computed from the SNR.
        down_rate_bps: float64[K], measured download rate; None: computed from the SNR.
        up_snr_db: float64[K], mean SNR of the upload on one subcarrier; None: from the radio model.
        down_snr_db: float64[K], mean SNR of the download; None: from the radio model.
        names: str[K], of the users, where a table gives them names.
    """

    max_frequency_hz: Floats
    cycles_per_sample: Floats
    power_w: Floats
    energy_budget_j: Floats
    consent: Floats
    up_rate_bps: Floats | None = None
    down_rate_bps: Floats | None = None
    up_snr_db: Floats | None = None
    down_snr_db: Floats | None = None
    names: Names | None = None

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
        _check_rate_or_snr(devices.devices_file, given)
    for name in ("max_frequency_hz", "cycles_per_sample", "power_w", "energy_budget_j"):
        given.setdefault(name, np.full(num_users, getattr(devices, name)))
    given.setdefault("consent", np.full(num_users, _FULL_CONSENT))
    return DeviceTable(**{name: values for name, values in given.items() if name != "user"}, names=names)


class ColumnsFound(NamedTuple):
    """The columns of a file: those that are read, and unknown ones."""

    read: tuple[str, ...]
    ignored: tuple[str, ...]


def device_columns(path: str | Path) -> ColumnsFound:
    r"""Return the known and unknown columns of a devices table, in the order of the file.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "devices.csv")
        >>> _ = file.write_text("user,battery_j,consent\n0,9,1\n")
        >>> device_columns(file)
        ColumnsFound(read=('consent',), ignored=('battery_j',))
    """
    known = {column.name for column in COLUMNS}
    names = [name for name in column_names(path) if name != "user"]
    return ColumnsFound(
        tuple(name for name in names if name in known), tuple(name for name in names if name not in known)
    )


def _check_rate_or_snr(path: str, given: Mapping[str, Floats]) -> None:
    for way in ("up", "down"):
        rate, snr = f"{way}_rate_bps", f"{way}_snr_db"
        if rate in given and snr in given:
            raise DataError(f"{path}: columns {rate} and {snr} both give the speed of a link; remove one of them")
