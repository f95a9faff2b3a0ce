"""What can be said against a scenario's data section without loading any data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedcast.data.catalogue import SYNTHETIC, find_entry
from fedcast.data.population import find_partition
from fedcast.errors import DataError
from fedcast.scenario.files import FILES

if TYPE_CHECKING:
    from fedcast.scenario import Scenario


def data_faults(scenario: Scenario) -> list[str]:
    """Unknown names of datasets and partitions, and files that are not there; one line each.

    Example:
        >>> from fedcast.scenario import load_scenario
        >>> data_faults(load_scenario(overrides=["data.partition=dirichelt"]))[0][:60]
        "data.partition: unknown partition 'dirichelt'; did you mean "
    """
    faults = []
    for check, name in ((find_entry, scenario.data.dataset), (find_partition, scenario.data.partition)):
        try:
            if name != SYNTHETIC:
                check(name)
        except DataError as error:
            faults.append(str(error))
    for section, key in FILES:
        path = getattr(getattr(scenario, section), key)
        if path is not None and not Path(path).is_file():
            faults.append(f"{section}.{key}: no such file: {path}")
    return faults
