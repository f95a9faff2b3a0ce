"""Kinds of sharing as a plan sees them: how much each user may send, with what privacy loss, and what that reveals."""

from __future__ import annotations

import math

import numpy as np

from fedcast import registry
from fedcast.cost.fleet import DeviceTable
from fedcast.errors import FedcastError
from fedcast.formatting import pluralize, user_label
from fedcast.scenario import BEST_KIND, Scenario
from fedcast.typing import Bools, Floats

# As `fedcast.sharing.DEFAULT_DELTA`.
_USUAL_DELTA = 1e-5


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
    known = {} if devices.delta is None else {"delta": devices.delta}
    counts = scenario.data.counts_epsilon or 0.0
    enough: Bools = sharing.affordable(options, devices.epsilon, spent, mu, pure=counts, **known)
    return enough


def check_counts_budget(devices: DeviceTable, scenario: Scenario) -> None:
    """Raise an error if the privacy budget of a user is not enough for the noisy class counts that a plan needs."""
    poor = np.flatnonzero(~affordable(devices, scenario, private_kinds()[0], mu=0.0))
    if len(poor) and devices.epsilon is not None:
        user, needed = int(poor[0]), scenario.data.counts_epsilon
        raise FedcastError(
            f"user {user_label(user, devices.names)} cannot afford noisy class counts (data.counts_epsilon = "
            f"{needed:g}): its budget is epsilon = {devices.epsilon[user]:g}; raise it, or leave the user out "
            "(changes.without)"
        )


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
    options, counts = scenario.sharing.options("sharing"), scenario.data.counts_epsilon
    wanted = f"ε = {options.epsilon:g}" + ("" if options.delta == _USUAL_DELTA else f" at δ = {options.delta:g}")
    besides = "" if counts is None else f" beside noisy counts of ε = {counts:g}"
    return [
        f"{pluralize(refused, 'user')} of {len(devices.consent)} cannot afford {wanted}{besides}, and share nothing "
        "(budgets: columns epsilon and delta, by default 1e-5, of the devices table; on real devices epsilon_budget "
        "in consent.toml)"
    ]
