"""The paper's Conditions 1 to 3, as questions to any clustering: does it hold, and who breaks it?

The paper states them for a graph without thresholds and claims (Theorem 1) that an optimum meets the last two. On
the constrained graph they are asked of the heads that a user is linked to. The optimum breaks them regularly, since
a higher EMD of the opposite sign can help a member more than a low one; they describe what DACA aims at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcast.clustering.costs import emd_if_led
from fedcast.clustering.order import TIE, best_of_each
from fedcast.clustering.result import Clustering
from fedcast.typing import Floats, Ints


@dataclass(frozen=True, eq=False)
class ConditionReport:
    """Who breaks a condition.

    Attributes:
        condition: 1, 2 or 3.
        users: int64[V], the users that break it, ascending.
        heads: int64[V], for each the head that shows it (see the functions); -1: better off with none.
        amounts: float64[V], by how much EMD.
    """

    condition: int
    users: Ints
    heads: Ints
    amounts: Floats

    @property
    def holds(self) -> bool:
        """Whether nobody breaks it."""
        return len(self.users) == 0

    def as_dict(self) -> dict[str, Any]:
        """As plain values, ready for JSON."""
        rows = zip(self.users.tolist(), self.heads.tolist(), self.amounts.tolist(), strict=True)
        broken = [{"user": user, "head": head, "amount": amount} for user, head, amount in rows]
        return {"condition": self.condition, "holds": self.holds, "broken_by": broken}


def check_conditions(clustering: Clustering) -> list[ConditionReport]:
    """All three reports.

    Example:
        >>> from fedcast.clustering.worlds import path_problem
        >>> problem = path_problem([[9, 1], [5, 5], [1, 9]], composition="own")
        >>> [report.holds for report in check_conditions(Clustering(problem, np.array([1, -1, 1])))]
        [True, True, True]
        >>> [report.holds for report in check_conditions(Clustering(problem, np.array([-1, 0, -1])))]
        [False, False, True]
    """
    return [check_condition_1(clustering), check_condition_2(clustering), check_condition_3(clustering)]


def check_condition_1(clustering: Clustering) -> ConditionReport:
    """Individual: every user's EMD after sharing is the least it can have, given who the heads are.

    `heads` names the head that would give less, or -1 where receiving nothing would; heads themselves receive
    nothing in any case.
    """
    problem = clustering.problem
    users, heads = clustering.reachable_heads()
    emds = emd_if_led(problem, users, heads) if len(users) else np.zeros(0)
    best_emd, best_head = problem.emd.copy(), np.full(problem.num_users, -1)
    best = best_of_each(users, emds)
    better = best[emds[best] < problem.emd[users[best]] - TIE]
    best_emd[users[better]], best_head[users[better]] = emds[better], heads[better]
    amounts = clustering.after.emd - best_emd
    broken = np.flatnonzero(amounts > TIE)
    return ConditionReport(1, broken, best_head[broken], amounts[broken])


def check_condition_2(clustering: Clustering) -> ConditionReport:
    """Within a cluster: no member has a lower EMD than its head, which `heads` names."""
    emd, members = clustering.problem.emd, clustering.members
    heads = clustering.head_of[members]
    amounts = emd[heads] - emd[members]
    broken = amounts > TIE
    return ConditionReport(2, members[broken], heads[broken], amounts[broken])


def check_condition_3(clustering: Clustering) -> ConditionReport:
    """Between clusters: no member reaches a head of lower EMD than its own; `heads` names the lowest."""
    emd, head_of = clustering.problem.emd, clustering.head_of
    users, heads = clustering.reachable_heads()
    best = best_of_each(users, emd[heads])
    members = best[head_of[users[best]] >= 0]
    users, heads = users[members], heads[members]
    amounts = emd[head_of[users]] - emd[heads]
    broken = amounts > TIE
    return ConditionReport(3, users[broken], heads[broken], amounts[broken])
