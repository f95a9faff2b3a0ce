"""The devices of the users, from the scenario or from a table."""

from __future__ import annotations

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
)


@dataclass(frozen=True)
class DeviceTable:
    """Properties of each user's device, and the consent of its owner; float64[K] each.

    Attributes:
        cycles_per_sample: CPU cycles per sample and epoch.
        power_w: transmit power of the upload.
        energy_budget_j: energy per round.
        consent: the largest share of its samples that a user agrees to share, in [0, 1].
        up_rate_bps: measured rate on one subcarrier; None: computed from the SNR.
        up_snr_db: mean SNR on one subcarrier; None: from the radio model.
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
        for rate, snr in (("up_rate_bps", "up_snr_db"), ("down_rate_bps", "down_snr_db")):
            if rate in given and snr in given:
                raise DataError(
                    f"{devices.devices_file}: columns {rate} and {snr} both give the speed of a link; "
                    "remove one of them"
                )
    for name in _OF_SCENARIO:
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
    return ColumnsFound(tuple(n for n in names if n in known), tuple(n for n in names if n not in known))
