"""Strategies: what runs of a comparison differ in, beside their seeds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from fedcast.allocation import METHODS
from fedcast.clustering import RULES, uses_method
from fedcast.formatting import pluralize
from fedcast.scenario import BEST_RULE, Scenario
from fedcast.sharing import CONTROLS


@dataclass(frozen=True)
class Strategy:
    """A clustering rule, an allocation method, an algorithm and a kind of sharing."""

    rule: str
    method: str
    algorithm: str
    sharing: str = "raw"
    #: where some runs give a number and others leave the choice to their plan; 0: left to the plan, or all are alike
    local_epochs: int = 0

    @property
    def place(self) -> tuple[Any, ...]:
        """Return the sort key: FedAvg first, then other algorithms without sharing, then rules and methods in order."""
        return (
            self.rule != "none", self.local_epochs, *_place_in(RULES, self.rule), *_place_in(METHODS, self.method),
            self.algorithm != "fedavg", self.algorithm, *_place_in(("raw", *CONTROLS.values()), self.sharing),
        )  # fmt: skip

    @property
    def is_baseline(self) -> bool:
        """Return whether this is plain FedAvg without sharing."""
        return self.rule == "none" and self.algorithm == "fedavg" and not self.local_epochs

    @property
    def control(self) -> str:
        """Return the name of the control that this is, a key of `fedcast.sharing.CONTROLS`; empty: it is none."""
        return next((name for name, kind in CONTROLS.items() if kind == self.sharing), "")

    def with_sharing(self, kind: str) -> Strategy:
        """Return the same strategy with another kind of sharing."""
        return replace(self, sharing=kind if self.rule != "none" else "raw")

    @property
    def without_sharing(self) -> Strategy:
        """Return the strategy of the same algorithm without sharing."""
        return Strategy("none", "jfvo", self.algorithm)

    @property
    def name(self) -> str:
        """Return the name for tables; it has no method where no volume depends on it."""
        if self.local_epochs:
            return f"{replace(self, local_epochs=0).name}, {pluralize(self.local_epochs, 'local epoch')}"
        if self.is_baseline:
            return "FedAvg"
        method = self.method if uses_method(self.rule) else "jfvo"
        sharing = "raw" if self.control else self.sharing
        rule = "best plan" if self.rule == BEST_RULE else self.rule
        parts = ((rule, "none"), (method, "jfvo"), (self.algorithm, "fedavg"), (sharing, "raw"))
        name = " ".join(part for part, usual in parts if part != usual)
        return f"{name}, {self.control} control" if self.control else name


def strategy_of(scenario: Scenario, *, name_epochs: bool = False) -> Strategy:
    """Return the strategy of a scenario; see `score`."""
    rule, given = scenario.clustering.rule, scenario.training.local_epochs
    # Where no volume depends on the method, all methods are one; where nothing is shared, all kinds of sharing.
    method = scenario.allocation.method if uses_method(rule) else "jfvo"
    sharing = scenario.sharing.kind if rule != "none" else "raw"
    epochs = given if name_epochs and isinstance(given, int) else 0
    return Strategy(rule, method, scenario.training.algorithm, sharing, epochs)


def _place_in(table: Iterable[str], name: str) -> tuple[int, str]:
    """Return the place of a name in a table; unknown names come last, by name."""
    names = list(table)
    return names.index(name) if name in names else len(names), name
