"""A sharing plan: what every user does, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedcast.cost import Delay, Metrics
from fedcast.formatting import html_table, number, percent, pluralize, quantity, short_repr
from fedcast.rounds import FormName, MeasureName
from fedcast.scenario import Scenario
from fedcast.typing import Floats, Ints, Names

if TYPE_CHECKING:
    import pandas

    from fedcast.plan.world import World


@dataclass(frozen=True)
class LeakagePoint:
    """Delay of the task under a limit on the average sharing ratio."""

    average_sharing_ratio: float
    delay_s: float


@dataclass(frozen=True)
class PrivacyPoint:
    """Delay of the task if heads send samples with differential privacy at this ε; 0: nothing is sent."""

    epsilon: float
    delay_s: float
    kind: str  #: kind of sharing


@dataclass(frozen=True)
class Baseline:
    """A task without sharing."""

    local_epochs: int
    learning_rate: float
    rounds: float
    delay_s: float


@dataclass(frozen=True)
class RuleOutcome:
    """The best plan of one rule; only the name where the target is not reachable."""

    rule: str
    local_epochs: int | None = None
    rounds: float | None = None
    delay_s: float | None = None
    average_sharing_ratio: float | None = None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SharingPlan(Metrics):
    """A plan: the role of every user, with its metrics.

    `plan_schema` describes every field; those with one entry per user are arrays here. Where the fit of rounds does not
    cover the scenario, nothing is predicted: `rounds`, `delay`, `speed_up` and the tasks without sharing are None. What
    sharing and a round cost is known all the same.
    """

    scenario: Scenario
    rule: str
    local_epochs: int
    head_of: Ints
    shared: Ints
    server_samples: float = 0.0
    frequency_hz: Floats
    energy_j: Floats
    composition: str
    rounds: float | None = None
    rounds_interval: tuple[float, float] | None = None
    without: Baseline | None = None
    best_without: Baseline | None = None
    not_predicted: str | None = None
    leakage: tuple[LeakagePoint, ...] = ()
    privacy: tuple[PrivacyPoint, ...] = ()
    kinds: tuple[str, ...] | None = None
    rules: tuple[RuleOutcome, ...] = ()
    notes: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    passes: int = 1
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
    def rounds_without(self) -> float | None:
        """Return the predicted rounds without sharing, as given."""
        return None if self.without is None else self.without.rounds

    @property
    def delay_without_s(self) -> float | None:
        """Return the predicted delay without sharing, as given, s."""
        return None if self.without is None else self.without.delay_s

    @property
    def speed_up(self) -> float | None:
        """Return the delay of the best task without sharing over the delay of the plan."""
        if self.delay_s is None or self.best_without is None:
            return None
        return self.best_without.delay_s / self.delay_s

    @property
    def facts(self) -> dict[str, str]:
        """Return what is most worth knowing, for people."""
        shown = {
            "rule": self.rule,
            "heads": f"{len(self.heads):,} of {pluralize(self.num_users, 'user')}",
            "members": f"{int((self.received > 0).sum()):,}",
            "average EMD": f"{number(self.emd_before)} → {number(self.emd_after)}",
            "average sharing ratio": percent(self.average_sharing_ratio),
            "local epochs": str(self.local_epochs),
        }
        if self.rounds is None or self.delay_s is None:
            return shown | {"rounds": "not predicted"}
        shown |= {"rounds": number(self.rounds), "delay": quantity(self.delay_s, "s")}
        return shown if self.speed_up is None else shown | {"speed-up": f"{self.speed_up:.2f} ×"}

    def __repr__(self) -> str:
        return short_repr("SharingPlan", self.facts)

    def _repr_html_(self) -> str:
        return html_table("SharingPlan", self.facts)

    def to_pandas(self, world: World | None = None) -> pandas.DataFrame:
        """Return one row per user as a data frame; the world that the plan was made for adds columns."""
        from fedcast.plan.user_table import plan_to_pandas

        return plan_to_pandas(self, world)
