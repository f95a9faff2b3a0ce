"""Match the users of two plans, by name or, if they have no names, by id."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcast.errors import FedcastError
from fedcast.plan.sharing_plan import SharingPlan
from fedcast.typing import Ints, Names


@dataclass(frozen=True, eq=False)
class Numbering:
    """A common numbering of previous and present users: present ones keep their ids, those that left come after.

    Attributes:
        places: int64[K'], the number of each previous user.
        size: number of users in total.
        names: of all of them, if users have names.
    """

    places: Ints
    size: int
    names: Names | None


def numbering(before: SharingPlan, num_users: int, names: Names | None) -> Numbering:
    """Number the users of a previous plan like the present users.

    Example:
        >>> from fedcast.plan import make_plan
        >>> from fedcast.scenario import Scenario
        >>> plan = make_plan(Scenario(), with_curve=False)
        >>> numbering(plan, num_users=90, names=None).size
        100
    """
    if (before.names is None) != (names is None):
        named, numbered = ("present", "previous") if before.names is None else ("previous", "present")
        raise FedcastError(
            f"the users of the {named} plan have names, those of the {numbered} plan only ids, so that they cannot be "
            "matched; use tables with the same names, or without names, for both plans"
        )
    if before.names is None or names is None:
        return Numbering(np.arange(before.num_users), max(before.num_users, num_users), None)
    left = np.setdiff1d(before.names, names)
    everyone = np.concatenate([names, left])
    order = np.argsort(everyone, kind="stable")
    return Numbering(order[np.searchsorted(everyone, before.names, sorter=order)], len(everyone), everyone)


def renumbered(before: SharingPlan, new: Numbering) -> tuple[Ints, Ints]:
    """Return head of each user and samples that each head sends, int64[size] each, in another numbering."""
    head_of, shared = np.full(new.size, -1), np.zeros(new.size, dtype=np.int64)
    head_of[new.places] = np.where(before.head_of >= 0, new.places[before.head_of], -1)
    shared[new.places] = before.shared
    return head_of, shared
