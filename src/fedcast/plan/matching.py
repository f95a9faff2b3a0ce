"""The users of two plans told apart: by their names, or without names by their ids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcast.errors import FedcastError
from fedcast.plan.sharing_plan import SharingPlan
from fedcast.typing import Ints, Names


@dataclass(frozen=True, eq=False)
class Numbering:
    """Users of a time before and of now in one numbering: those of now as they are, then those that left.

    Attributes:
        places: int64[K'], the number of each user of the time before.
        size: numbers there are.
        names: of all of them, if users have names.
    """

    places: Ints
    size: int
    names: Names | None


def numbering(before: SharingPlan, num_users: int, names: Names | None) -> Numbering:
    """Number the users of a plan as the users of now are numbered.

    Example:
        >>> from fedcast.plan import make_plan
        >>> from fedcast.scenario import Scenario
        >>> plan = make_plan(Scenario(), with_curve=False)
        >>> numbering(plan, num_users=90, names=None).size
        100
    """
    if (before.names is None) != (names is None):
        named, numbered = ("now", "before") if before.names is None else ("before", "now")
        raise FedcastError(
            f"users have names {named} and ids {numbered}, so that nobody knows who is who; use tables with the same "
            "names, or the same ids, for both plans"
        )
    if before.names is None or names is None:
        return Numbering(np.arange(before.num_users), max(before.num_users, num_users), None)
    left = np.setdiff1d(before.names, names)
    everyone = np.concatenate([names, left])
    order = np.argsort(everyone, kind="stable")
    return Numbering(order[np.searchsorted(everyone, before.names, sorter=order)], len(everyone), everyone)


def renumbered(before: SharingPlan, new: Numbering) -> tuple[Ints, Ints]:
    """Head of each user and samples that each head sends, int64[size] each, of a plan in another numbering."""
    head_of, shared = np.full(new.size, -1), np.zeros(new.size, dtype=np.int64)
    head_of[new.places] = np.where(before.head_of >= 0, new.places[before.head_of], -1)
    shared[new.places] = before.shared
    return head_of, shared
