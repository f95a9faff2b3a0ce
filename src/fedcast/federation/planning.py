"""The plan of described devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedcast.data import Population
from fedcast.federation.device.samples import sample_format
from fedcast.io import save_table
from fedcast.plan import Planned, World, make_world, plan_world
from fedcast.scenario import Scenario
from fedcast.sharing import DEFAULT_DELTA, find_sharing


def plan_devices(scenario: Scenario, devices: list[dict[str, Any]], folder: Path) -> Planned:
    """Plan for described devices; write the tables of counts, links and devices that `fedcast plan` reads as well.

    Two devices are linked if each accepts the other; the rate is the lower of the two that they report.
    """
    return plan_world(described_world(scenario, devices, folder))


def described_world(scenario: Scenario, devices: list[dict[str, Any]], folder: Path) -> World:
    """Return the world of described devices, and write its tables; see `plan_devices`."""
    names = [str(device["name"]) for device in devices]
    classes = [f"class_{label}" for label in range(len(devices[0]["counts"]))]
    counts = np.array([device["counts"] for device in devices], dtype=np.int64)
    save_table({"user": names, **dict(zip(classes, counts.T.tolist(), strict=True))}, folder / "counts.csv")
    links = _links(devices)
    save_table(links, folder / "links.csv")
    save_table({"user": names, **_limits(scenario, devices)}, folder / "devices.csv")
    found = sample_format(devices[0]["format"])
    changed = {
        "data": scenario.data.model_copy(
            update={"num_users": len(names), "bits_per_sample": 8.0 * found.record.itemsize}
        ),
        "trust": scenario.trust.model_copy(update={"links_file": str(folder / "links.csv")}),
        "devices": scenario.devices.model_copy(update={"devices_file": str(folder / "devices.csv")}),
    }
    population = Population(counts, tuple(classes), names=np.array(names, dtype=np.str_))
    return make_world(scenario.model_copy(update=changed), population=population)


def _limits(scenario: Scenario, devices: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Return what devices agree to share, and the columns of their privacy budgets for a private kind of sharing."""
    kind = scenario.sharing.kind
    limits = {"consent": [float(device["max_ratio"]) if kind in device["kinds"] else 0.0 for device in devices]}
    if find_sharing(kind).private:
        # Who has no budget, or allows other kinds only, refuses.
        limits["epsilon"] = [
            float(device.get("epsilon_budget") or 0.0) if kind in device["kinds"] else 0.0 for device in devices
        ]
        limits["delta"] = [float(device.get("delta", DEFAULT_DELTA)) for device in devices]
        limits["mu_spent"] = [float(device.get("mu_spent", 0.0)) for device in devices]
    return limits


def _links(devices: list[dict[str, Any]]) -> dict[str, list[Any]]:
    links: dict[str, list[Any]] = {"user_a": [], "user_b": [], "rate_bps": [], "closeness": []}
    for place, one in enumerate(devices):
        for other in devices[:place]:
            rates = one["rates_bps"].get(other["name"]), other["rates_bps"].get(one["name"])
            if None in rates or other["name"] not in one["accepts"] or one["name"] not in other["accepts"]:
                continue
            for key, value in zip(links, (other["name"], one["name"], float(min(rates)), 1.0), strict=True):
                links[key].append(value)
    return links
