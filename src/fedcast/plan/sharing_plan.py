"""A sharing plan: what every user does, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcast.cost import Delay, Metrics
from fedcast.rounds import FormName, MeasureName
from fedcast.scenario import Scenario
from fedcast.typing import Floats, Ints, Names


@dataclass(frozen=True)
class LeakagePoint:
    """Delay of the task under a limit on the average sharing ratio."""

    average_sharing_ratio: float
    delay_s: float


@dataclass(frozen=True, eq=False, kw_only=True)
class SharingPlan(Metrics):
    """A plan: the role of every user, with its metrics.

    `plan_schema` describes every field; those with one entry per user are arrays here. Where the fit of rounds does not
    cover the scenario, nothing is predicted: `rounds`, `rounds_without`, `delay`, `delay_without_s` and `speed_up` are
    None. What sharing and a round cost is known all the same.
    """

    scenario: Scenario
    head_of: Ints
    shared: Ints
    server_samples: float = 0.0
    frequency_hz: Floats
    energy_j: Floats
    composition: str
    rounds: float | None
    rounds_without: float | None
    delay_without_s: float | None
    not_predicted: str | None = None
    leakage: tuple[LeakagePoint, ...]
    passes: int
    fit: str
    form: FormName
    measure: MeasureName
    names: Names | None = None

    @property
    def num_users(self) -> int:
        """Return the number of users K."""
        return len(self.head_of)

    @property
    def heads(self) -> Ints:
        """Return the users that share, ascending."""
        return np.unique(self.head_of[self.head_of >= 0])

    @property
    def trained(self) -> NDArray[np.bool_]:
        """Return who trains, bool[K]."""
        return self.frequency_hz > 0

    @property
    def received(self) -> Floats:
        """Return the samples that each user receives, float64[K]."""
        return np.where(self.head_of >= 0, self.shared[self.head_of], self.server_samples)

    @property
    def delay(self) -> Delay | None:
        """Return the predicted delay of the whole task."""
        return None if self.rounds is None else self.delay_of(self.rounds)

    @property
    def delay_s(self) -> float | None:
        """Return the predicted delay of the whole task, s."""
        return None if self.delay is None else self.delay.total_s

    @property
    def speed_up(self) -> float | None:
        """Return the delay without sharing over the delay with it."""
        if self.delay_s is None or self.delay_without_s is None:
            return None
        return self.delay_without_s / self.delay_s
