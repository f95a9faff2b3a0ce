"""Match the users of two plans, by name or, if they have no names, by id."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedcast.errors import FedcastError
from fedcast.plan.sharing_plan import SharingPlan
from fedcast.typing import Ints, Names


class Matched(NamedTuple):
    """A previous plan in a common numbering: present users keep their ids, those that left come after.

    Attributes:
        places: int64[K'], the number of each previous user.
        names: of all users, if they have names.
        head_of: int64[size], the previous head of each user; -1: none.
        shared: int64[size], samples that each previous head sent to each member.
    """

    places: Ints
    names: Names | None
    head_of: Ints
    shared: Ints


def match_users(before: SharingPlan, num_users: int, names: Names | None) -> Matched:
    """Number the users of a previous plan like the present users.

    Example:
        >>> from fedcast.plan import make_plan
        >>> from fedcast.scenario import Scenario
        >>> plan = make_plan(Scenario(), with_curve=False)
        >>> len(match_users(plan, num_users=90, names=None).head_of)
        100
    """
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
