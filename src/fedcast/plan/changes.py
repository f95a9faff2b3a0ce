"""Changes that a scenario tries without editing its tables: users taken out, links cut, and other consent."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedcast.cost import Fleet
from fedcast.data import Population
from fedcast.errors import DataError, ScenarioError
from fedcast.io import find_user
from fedcast.network import Graph, without_links
from fedcast.scenario import Changes, Scenario
from fedcast.typing import Bools, Names


def unchanged(scenario: Scenario) -> Scenario:
    """Return the scenario without its changes."""
    return scenario.model_copy(update={"changes": Changes()})


def changes_text(changes: Changes) -> str:
    """Return the changes in a few words.

    Example:
        >>> changes_text(Changes(without=["gate"], cut=["lobby,roof"], consent=["n7=0"]))
        'without gate; without the link lobby,roof; consent n7=0'
    """
    parts = (("without", changes.without), ("without the link", changes.cut), ("consent", changes.consent))
    return "; ".join(f"{word} {what}" for word, several in parts for what in several)


@dataclass(frozen=True)
class ChangedUsers:
    """The changes of a scenario, for users by id."""

    gone: Bools  #: bool[K], who takes no part
    cut: tuple[tuple[int, int], ...]  #: pairs of users whose link is taken away
    consent: dict[int, float]  #: largest share of its samples by user

    def of_population(self, population: Population) -> Population:
        """Return the population with no samples for users that take no part."""
        if not self.gone.any():
            return population
        counts = np.where(self.gone[:, None], 0, population.counts)
        if not counts.any():
            raise ScenarioError("invalid value for changes.without: no user with samples is left")
        assignment = None if population.assignment is None else population.assignment.only(~self.gone)
        return replace(population, counts=counts, assignment=assignment)

    def of_graph(self, graph: Graph, given: tuple[str, ...]) -> Graph:
        """Return the graph without links of users that take no part, and without those that are cut."""
        for pair, text in zip(self.cut, given, strict=True):
            if not graph.between([pair]).any():
                raise ScenarioError(
                    f"invalid value {text!r} for changes.cut: there is no link between them that meets the thresholds"
                )
        dropped = self.gone[graph.rows] | self.gone[graph.neighbours] | graph.between(self.cut)
        return without_links(graph, dropped) if dropped.any() else graph

    def of_fleet(self, fleet: Fleet) -> Fleet:
        """Return the fleet with the changed consent."""
        if not self.consent:
            return fleet
        consent = fleet.devices.consent.copy()
        consent[list(self.consent)] = list(self.consent.values())
        return replace(fleet, devices=replace(fleet.devices, consent=consent))


def read_changes(changes: Changes, num_users: int, names: Names | None = None) -> ChangedUsers:
    """Find the users that changes name; an error names the change and what is wrong.

    Example:
        >>> read_changes(Changes(cut=["gate,roof"]), 3, np.array(["lobby", "gate", "roof"])).cut
        ((1, 2),)
    """
    gone = np.zeros(num_users, dtype=np.bool_)
    for text in changes.without:
        gone[_user("without", text, text, num_users, names)] = True
    cut = tuple(_pair(text, num_users, names) for text in changes.cut)
    return ChangedUsers(gone, cut, dict(_consent(text, num_users, names) for text in changes.consent))


def _user(key: str, text: str, name: str, num_users: int, names: Names | None) -> int:
    try:
        return find_user(name.strip(), num_users, names)
    except DataError as error:
        raise ScenarioError(f"invalid value {text!r} for changes.{key}: {error}") from None


def _pair(text: str, num_users: int, names: Names | None) -> tuple[int, int]:
    parts, known = text.split(","), set() if names is None else set(names.tolist())
    splits = [(",".join(parts[:at]), ",".join(parts[at:])) for at in range(1, len(parts))]
    if not splits:
        raise ScenarioError(f"invalid value {text!r} for changes.cut: expected two users, such as lobby,roof")
    # A name may have commas of its own.
    ends = next((pair for pair in splits if known.issuperset(end.strip() for end in pair)), splits[0])
    first, second = (_user("cut", text, end, num_users, names) for end in ends)
    return first, second


def _consent(text: str, num_users: int, names: Names | None) -> tuple[int, float]:
    name, equals, value = text.rpartition("=")
    try:
        share = float(value)
    except ValueError:
        share = -1.0
    if not equals or not 0 <= share <= 1:
        raise ScenarioError(
            f"invalid value {text!r} for changes.consent: expected a user and a share from 0 to 1, such as lobby=0.1"
        )
    return _user("consent", text, name, num_users, names), share
