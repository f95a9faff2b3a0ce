"""The difference between two plans: what became of each user, and of the figures of the plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcast.errors import FedcastError
from fedcast.formatting import number, pluralize, quantity, relative_change
from fedcast.plan.changes import read_changes
from fedcast.plan.sharing_plan import SharingPlan
from fedcast.typing import Bools, Floats, Ints, Names

_LISTED = 8
# Frequencies that differ by less are the same up to the tolerance of the solver.
_SAME_FREQUENCY = 1e-3
UNCHANGED = "unchanged"
# What can become of a user, in the words for one and for several; of those that hold, the first counts.
CHANGES = {
    "joined": "users joined",
    "left": "users left",
    "became a head": "users became heads",
    "is no longer a head": "users are no longer heads",
    "lost its head": "users lost their head",
    "got a head": "users got a head",
    "has another head": "users have another head",
    "sends another volume": "users send another volume",
    "receives another volume": "users receive another volume",
    "trains now": "users train now",
    "trains no longer": "users train no longer",
    "computes at another frequency": "users compute at another frequency",
}


class UserStates(NamedTuple):
    """Roles of users in a plan, in a numbering that both plans have in common; [N] each."""

    present: Bools  #: whether the plan has the user, and no change of its scenario takes it out
    head_of: Ints  #: its head; -1: none
    leads: Bools  #: whether it is a head
    shared: Ints  #: samples that it sends to each of its members
    received: Floats  #: samples that it receives
    frequency_hz: Floats  #: CPU frequency; 0: it does not train
    local_epochs: int  #: of users that train

    @property
    def roles(self) -> NDArray[np.str_]:
        """Role of each user; empty: it is not in the plan."""
        named = np.select([self.leads, self.head_of >= 0, self.present], ["head", "member", "alone"], "")
        return np.where(self.present, named, "")


@dataclass(frozen=True, eq=False)
class PlanDiff:
    """The difference of two plans; users are matched by name, or by id if they have no names."""

    old: SharingPlan
    new: SharingPlan
    names: Names | None  #: of all users, those of the new plan in its order, then those that left
    was: UserStates  #: of the old plan
    now: UserStates  #: of the new plan

    @cached_property
    def change(self) -> NDArray[np.str_]:
        """Return the change of each user, one of `CHANGES` or ``unchanged``; str[N]."""
        was, now = self.was, self.now
        stays, led, leads = was.present & now.present, was.head_of >= 0, now.head_of >= 0
        trained, trains = was.frequency_hz > 0, now.frequency_hz > 0
        held = {
            "joined": now.present & ~was.present,
            "left": was.present & ~now.present,
            "became a head": stays & now.leads & ~was.leads,
            "is no longer a head": stays & was.leads & ~now.leads,
            "lost its head": stays & led & ~leads,
            "got a head": stays & leads & ~led,
            "has another head": stays & led & leads & (was.head_of != now.head_of),
            "sends another volume": stays & was.leads & now.leads & (was.shared != now.shared),
            "receives another volume": stays & (was.received != now.received),
            "trains now": stays & trains & ~trained,
            "trains no longer": stays & trained & ~trains,
            "computes at another frequency": stays & ~np.isclose(was.frequency_hz, now.frequency_hz, _SAME_FREQUENCY),
        }
        return np.select([held[name] for name in CHANGES], list(CHANGES), UNCHANGED)

    def of(self, change: str) -> Ints:
        """Return the users that something became of, such as ``lost its head``, ascending."""
        return np.flatnonzero(self.change == change)

    @property
    def same(self) -> bool:
        """Return whether nothing changed for any user."""
        epochs = self.old.local_epochs == self.new.local_epochs
        return bool((self.change == UNCHANGED).all()) and epochs

    def users(self, part: Ints) -> list[int] | list[str]:
        """Return the ids, or the names if users have any, of some users."""
        users: list[int] | list[str] = part.tolist() if self.names is None else self.names[part].tolist()
        return users

    def lines(self) -> list[str]:
        """Return the difference as lines of text: users by what became of them, then the figures of the plan."""
        found = {name: self.of(name) for name in CHANGES}
        changes = [
            f"{pluralize(len(users), f'user {name}', CHANGES[name])}: {self._few(users, name)}"
            for name, users in found.items()
            if len(users)
        ]
        figures = [
            f"{name}: {_shown(old, unit)} → {_shown(new, unit)}{_relative(old, new)}"
            for name, unit, (old, new) in self._figures()
        ]
        return (["nothing changed for any user"] if self.same else changes) + figures

    def table(self) -> dict[str, Any]:
        """Return one row per user with old and new values; empty cells where a plan does not have the user."""
        called = self.users(np.arange(len(self.change)))
        columns: dict[str, Any] = {"user": called, "change": self.change.tolist()}
        for when, state in (("old", self.was), ("new", self.now)):
            trains = state.frequency_hz > 0
            values: dict[str, Any] = {
                "role": state.roles.tolist(),
                "head": [called[head] if head >= 0 else None for head in state.head_of.tolist()],
                "shared_samples": state.shared.tolist(),
                "received_samples": state.received.astype(int).tolist(),
                "frequency_hz": state.frequency_hz.tolist(),
                "local_epochs": np.where(trains, state.local_epochs, 0).tolist(),
            }
            for name, column in values.items():
                there = zip(column, state.present, strict=True)
                columns[f"{when}_{name}"] = [value if present else None for value, present in there]
        return columns

    def as_dict(self) -> dict[str, Any]:
        """Return the figures of both plans, and the columns of `table`."""
        figures = {
            name: {"old": getattr(self.old, name), "new": getattr(self.new, name)}
            for name in (
                "rule", "local_epochs", "delay_s", "rounds", "emd_after", "average_sharing_ratio", "round_j",
                "server_samples",
            )
        }  # fmt: skip
        return {**figures, "users": self.table()}

    def _figures(self) -> list[tuple[str, str, tuple[Any, Any]]]:
        old, new = self.old, self.new
        figures: list[tuple[str, str, tuple[Any, Any]]] = [
            ("delay of the task", "s", (old.delay_s, new.delay_s)),
            ("expected rounds", "", (old.rounds, new.rounds)),
            ("average EMD after sharing", "", (old.emd_after, new.emd_after)),
            ("average sharing ratio", "", (old.average_sharing_ratio, new.average_sharing_ratio)),
            ("energy of a round", "J", (float(old.energy_j.sum()), float(new.energy_j.sum()))),
        ]
        for name, values in (("local epochs", (old.local_epochs, new.local_epochs)), ("rule", (old.rule, new.rule))):
            if values[0] != values[1]:
                figures.insert(0, (name, "", values))
        if old.server_samples or new.server_samples:
            figures.append(("samples from the server", "", (old.server_samples, new.server_samples)))
        return figures

    def _few(self, users: Ints, change: str) -> str:
        names = self.users(users[:_LISTED])
        detail = self._details().get(change)
        listed = [
            f"{name}{detail(user) if detail else ''}"
            for name, user in zip(names, users[:_LISTED].tolist(), strict=True)
        ]
        return ", ".join(listed) + (f" … and {len(users) - _LISTED:,} more" if len(users) > _LISTED else "")

    def _details(self) -> dict[str, Callable[[int], str]]:
        """Return what is said of a user in brackets, by what became of it."""
        was, now = self.was, self.now
        return {
            "joined": lambda user: f" ({self._role(now, user)})",
            "left": lambda user: f" (was {self._role(was, user)})",
            "became a head": lambda user: f" (was {self._role(was, user)}, sends {now.shared[user]:,})",
            "is no longer a head": lambda user: f" (sent {was.shared[user]:,}, now {self._role(now, user)})",
            "lost its head": lambda user: f" ({self._name(was.head_of[user])}{self._why(user, was.head_of[user])})",
            "got a head": lambda user: f" ({self._name(now.head_of[user])})",
            "has another head": lambda user: f" ({self._name(was.head_of[user])} → {self._name(now.head_of[user])})",
            "sends another volume": lambda user: f" ({was.shared[user]:,} → {now.shared[user]:,})",
            "receives another volume": lambda user: f" ({was.received[user]:,.0f} → {now.received[user]:,.0f})",
            "computes at another frequency": lambda user: (
                f" ({quantity(was.frequency_hz[user], 'Hz')} → {quantity(now.frequency_hz[user], 'Hz')})"
            ),
        }

    def _name(self, user: int) -> str:
        return str(self.users(np.array([user]))[0])

    def _role(self, state: UserStates, user: int) -> str:
        if state.leads[user]:
            return "a head"
        return f"a member of {self._name(state.head_of[user])}" if state.head_of[user] >= 0 else "alone"

    def _why(self, user: int, head: int) -> str:
        """Return what became of a head that a user lost, or of the link between them, as far as it is known."""
        if not self.now.present[head]:
            return " left"
        cut = read_changes(self.new.scenario.changes, self.new.num_users, self.new.names).cut
        if {user, int(head)} in map(set, cut):
            return ", link cut"
        return "" if self.now.leads[head] else " is no longer a head"


def diff_plans(old: SharingPlan, new: SharingPlan) -> PlanDiff:
    """Compare two plans.

    Example:
        >>> from fedcast.plan import make_plan
        >>> from fedcast.scenario import load_scenario
        >>> given = load_scenario(overrides=["clustering.rule=gain", "training.local_epochs=1"])
        >>> plan = make_plan(given, with_curve=False)
        >>> diff_plans(plan, plan).lines()[0]
        'nothing changed for any user'
    """
    places, names, head_of, shared = match_users(old, new.num_users, new.names)
    was = _states(old, places, head_of, shared)
    size = len(head_of)
    present = np.arange(new.num_users)
    new_heads, sent = np.full(size, -1), np.zeros(size, dtype=np.int64)
    new_heads[present], sent[present] = new.head_of, new.shared
    return PlanDiff(old, new, names, was, _states(new, present, new_heads, sent))


def _states(plan: SharingPlan, places: Ints, head_of: Ints, shared: Ints) -> UserStates:
    """Return what users do in a plan whose user k has the number ``places[k]``."""
    size = len(head_of)
    present, leads = np.zeros((2, size), dtype=np.bool_)
    received, frequency_hz = np.zeros((2, size))
    present[places] = ~read_changes(plan.scenario.changes, plan.num_users, plan.names).gone
    leads[head_of[head_of >= 0]] = True
    received[places], frequency_hz[places] = plan.received, plan.frequency_hz
    return UserStates(present, head_of, leads, shared, received, frequency_hz, plan.local_epochs)


def _shown(value: Any, unit: str) -> str:
    if value is None:
        return "not predicted"
    return value if isinstance(value, str) else quantity(value, unit) if unit else number(value)


def _relative(before: Any, after: Any) -> str:
    known = not isinstance(before, str) and before and after is not None
    return f" ({relative_change(before, after)})" if known else ""


class Matched(NamedTuple):
    """A previous plan in a common numbering: present users keep their ids, those that left come after."""

    places: Ints  # [K'], the number of each previous user
    names: Names | None  # of all users, if they have names
    head_of: Ints  # [size], the previous head of each user; -1: none
    shared: Ints  # [size], samples that each previous head sent to each member


def match_users(before: SharingPlan, num_users: int, names: Names | None) -> Matched:
    """Number the users of a previous plan like the present users."""
    if (before.names is None) != (names is None):
        named, numbered = ("present", "previous") if before.names is None else ("previous", "present")
        raise FedcastError(
            f"the users of the {named} plan have names, those of the {numbered} plan only ids, so that they cannot be "
            "matched; use tables with the same names, or without names, for both plans"
        )
    places, everyone, size = np.arange(before.num_users), None, max(before.num_users, num_users)
    if before.names is not None and names is not None:
        everyone = np.concatenate([names, np.setdiff1d(before.names, names)])
        order = np.argsort(everyone, kind="stable")
        places, size = order[np.searchsorted(everyone, before.names, sorter=order)], len(everyone)
    head_of, shared = np.full(size, -1), np.zeros(size, dtype=np.int64)
    head_of[places] = np.where(before.head_of >= 0, places[before.head_of], -1)
    shared[places] = before.shared
    return Matched(places, everyone, head_of, shared)
