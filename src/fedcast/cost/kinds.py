"""Kinds of sharing as a plan sees them: how much each user may send, with what privacy loss, and what that reveals."""

from __future__ import annotations

import math

import numpy as np

from fedcast import registry
from fedcast.cost.fleet import DeviceTable
from fedcast.formatting import pluralize
from fedcast.scenario import BEST_KIND, Scenario
from fedcast.typing import Bools, Floats


def private_kinds() -> list[str]:
    """Return the kinds of sharing with differential privacy.

    Example:
        >>> private_kinds()
        ['prototypes', 'synthetic']
    """
    return [name for name in registry.names("sharing") if registry.find("sharing", name).value.private]


def generates(kind: str) -> bool:
    """Return whether heads send samples that they generate; best: some may."""
    return kind == BEST_KIND or registry.find("sharing", kind).value.make is not None


def privacy_mu(scenario: Scenario, kind: str, epsilon: float | None = None) -> float:
    """Return the privacy loss μ of what a head sends, at ε of the scenario or another one; ∞: no guarantee."""
    sharing = registry.find("sharing", kind).value
    if not sharing.private:
        return math.inf
    options = scenario.sharing.options("sharing", kind)
    mu: float = sharing.mu(options if epsilon is None else options.__class__(epsilon=epsilon, delta=options.delta))
    return mu


def affordable(devices: DeviceTable, scenario: Scenario, kind: str, mu: float | None = None) -> Bools:
    """Return whose privacy budget is enough for a kind of sharing, bool[K]; `mu` replaces that of its options."""
    sharing = registry.find("sharing", kind).value
    if devices.epsilon is None or not sharing.private:
        return np.ones(len(devices.consent), dtype=bool)
    options = scenario.sharing.options("sharing", kind)
    spent = np.zeros(len(devices.epsilon)) if devices.mu_spent is None else devices.mu_spent
    enough: Bools = sharing.affordable(options, devices.epsilon, spent, mu)
    return enough


def shareable(devices: DeviceTable, scenario: Scenario, kind: str, mu: float | None = None) -> Floats:
    """Return the largest volume that each user may send as a kind of sharing, as a share of its samples, float64[K].

    Consent is about samples: who has a privacy budget for a private kind, which reveals none of them, may send as many
    generated ones as it holds. Without a budget (column epsilon) consent limits these too.
    """
    if devices.epsilon is None or not registry.find("sharing", kind).value.private:
        return devices.consent
    return np.where(affordable(devices, scenario, kind, mu), 1.0, 0.0)


def budget_notes(devices: DeviceTable, scenario: Scenario) -> list[str]:
    """Return how many users cannot afford to send what the scenario's kind of sharing generates."""
    kind = scenario.sharing.kind
    if kind == BEST_KIND or not (refused := int((~affordable(devices, scenario, kind)).sum())):
        return []
    epsilon = scenario.sharing.options("sharing").epsilon
    return [
        f"{pluralize(refused, 'user')} of {len(devices.consent)} cannot afford ε = {epsilon:g}, and share nothing "
        "(budgets: column epsilon of the devices table; on real devices epsilon_budget in consent.toml)"
    ]
