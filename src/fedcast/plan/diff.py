"""The difference between two plans, for each user and in total; users are matched by name, or by id without names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedcast.errors import FedcastError
from fedcast.formatting import number, pluralize, quantity, relative_change
from fedcast.plan.sharing_plan import SharingPlan
from fedcast.typing import Ints, Names

_LISTED = 8
# What happened to one user, and to several, by the part of the difference.
_CHANGES = {
    "joined": ("user joined", "users joined"),
    "left": ("user left", "users left"),
    "new_heads": ("user became a head", "users became heads"),
    "former_heads": ("user is no longer a head", "users are no longer heads"),
    "moved": ("user has another head", "users have another head"),
    "volumes": ("user shares a different volume", "users share a different volume"),
}


@dataclass(frozen=True, eq=False)
class PlanDiff:
    """The difference of two plans; users are matched by name, or by id if they have no names."""

    old: SharingPlan
    new: SharingPlan
    names: Names | None  #: of all users, those of the new plan in its order, then those that left
    joined: Ints  #: users that only the new plan has; likewise the next three
    left: Ints
    new_heads: Ints
    former_heads: Ints
    moved: Ints  #: users with another head, including those that gained or lost one
    volumes: Ints  #: heads of both plans that share a different number of samples

    @property
    def same(self) -> bool:
        """Return whether nothing changed for any user."""
        changed = any(len(getattr(self, part)) for part in _CHANGES)
        return not changed and self.old.server_samples == self.new.server_samples

    def lines(self) -> list[str]:
        """Return the difference as lines of text."""
        parts = {part: getattr(self, part) for part in _CHANGES}
        changes = [f"{pluralize(len(k), *_CHANGES[part])}: {self._few(k)}" for part, k in parts.items() if len(k)]
        old, new = self.old, self.new
        figures = [
            _change("delay of the task", old.delay_s, new.delay_s, "s"),
            _change("expected rounds", old.rounds, new.rounds),
            _change("average EMD after sharing", old.emd_after, new.emd_after),
            _change("average sharing ratio", old.average_sharing_ratio, new.average_sharing_ratio),
            _change("energy of a round", float(old.energy_j.sum()), float(new.energy_j.sum()), "J"),
        ]
        if old.server_samples or new.server_samples:
            figures.append(_change("samples from the server", old.server_samples, new.server_samples))
        return (["nothing changed for any user"] if self.same else changes) + figures

    def users(self, part: Ints) -> list[int] | list[str]:
        """Return the ids, or the names if users have any, of a part such as `joined`."""
        users: list[int] | list[str] = part.tolist() if self.names is None else self.names[part].tolist()
        return users

    def _few(self, users: Ints) -> str:
        shown = ", ".join(str(user) for user in self.users(users[:_LISTED]))
        return shown + (f" … and {len(users) - _LISTED:,} more" if len(users) > _LISTED else "")


def diff_plans(old: SharingPlan, new: SharingPlan) -> PlanDiff:
    """Compare two plans.

    Example:
        >>> from fedcast.plan import make_plan
        >>> from fedcast.scenario import load_scenario
        >>> plan = make_plan(load_scenario(overrides=["clustering.rule=gain"]), with_curve=False)
        >>> diff_plans(plan, plan).lines()[0]
        'nothing changed for any user'
    """
    places, names, head_of, shared = match_users(old, new.num_users, new.names)
    old_heads = places[old.heads]
    stay = np.intersect1d(places, np.arange(new.num_users))
    heads = np.intersect1d(old_heads, new.heads)
    return PlanDiff(
        old,
        new,
        names,
        joined=np.setdiff1d(np.arange(new.num_users), stay),
        left=np.setdiff1d(places, stay),
        new_heads=np.setdiff1d(new.heads, old_heads),
        former_heads=np.setdiff1d(old_heads, new.heads),
        moved=stay[head_of[stay] != new.head_of[stay]],
        volumes=heads[shared[heads] != new.shared[heads]],
    )


def _change(name: str, before: float | None, after: float | None, unit: str = "") -> str:
    shown = ("not predicted" if value is None else _number(value, unit) for value in (before, after))
    change = f" ({relative_change(before, after)})" if before and after is not None else ""
    return f"{name}: {' → '.join(shown)}{change}"


def _number(value: float, unit: str) -> str:
    return quantity(value, unit) if unit else number(value)


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
