"""The paper's Conditions 1 to 3, checked for any clustering.

The paper states them for a graph without thresholds and claims (Theorem 1) that an optimum meets the last two. On the
constrained graph they apply to the heads that a user is linked to. The optimum often violates them, since a higher EMD
of the opposite sign can help a member more than a low one; they describe the aim of DACA.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcast.clustering.clustering_result import Clustering
from fedcast.clustering.costs import divergence_if_led
from fedcast.clustering.selection import TIE, best_of_each
from fedcast.typing import Floats, Ints


@dataclass(frozen=True, eq=False)
class ConditionReport:
    """The users that violate a condition."""

    condition: int  # 1, 2 or 3
    users: Ints  # [V], the users that violate it, ascending
    heads: Ints  # [V], for each the head that proves it (see the functions); -1: better without a head
    amounts: Floats  # [V], difference in EMD

    @property
    def holds(self) -> bool:
        """Return whether no user violates the condition."""
        return len(self.users) == 0

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        rows = zip(self.users.tolist(), self.heads.tolist(), self.amounts.tolist(), strict=True)
        broken = [{"user": user, "head": head, "amount": amount} for user, head, amount in rows]
        return {"condition": self.condition, "holds": self.holds, "broken_by": broken}


def check_conditions(clustering: Clustering) -> list[ConditionReport]:
    """Return the reports of all three conditions.

    Example:
        >>> from fedcast.clustering.sample_problems import path_problem
        >>> problem = path_problem([[9, 1], [5, 5], [1, 9]], composition="own")
        >>> [report.holds for report in check_conditions(Clustering(problem, np.array([1, -1, 1])))]
        [True, True, True]
        >>> [report.holds for report in check_conditions(Clustering(problem, np.array([-1, 0, -1])))]
        [False, False, True]
    """
    return [check_condition_1(clustering), check_condition_2(clustering), check_condition_3(clustering)]


def check_condition_1(clustering: Clustering) -> ConditionReport:
    """Check that every user's EMD after sharing is the least possible with these heads.

    `heads` of the report are those that would give less, or -1 where receiving nothing would.
    """
    problem = clustering.problem
    users, heads = clustering.reachable_heads()
    emds = divergence_if_led(problem, users, heads)
    best_emd, best_head = problem.emd.copy(), np.full(problem.num_users, -1)
    best = best_of_each(users, emds)
    better = best[emds[best] < problem.emd[users[best]] - TIE]
    best_emd[users[better]], best_head[users[better]] = emds[better], heads[better]
    amounts = clustering.after.emd - best_emd
    broken = np.flatnonzero(amounts > TIE)
    return ConditionReport(1, broken, best_head[broken], amounts[broken])


def check_condition_2(clustering: Clustering) -> ConditionReport:
    """Check that no member has a lower EMD than its head; `heads` of the report are these heads."""
    emd, members = clustering.problem.emd, clustering.members
    heads = clustering.head_of[members]
    amounts = emd[heads] - emd[members]
    broken = amounts > TIE
    return ConditionReport(2, members[broken], heads[broken], amounts[broken])


def check_condition_3(clustering: Clustering) -> ConditionReport:
    """Check that no member reaches a head of lower EMD than its own; `heads` of the report have the lowest."""
    emd, head_of = clustering.problem.emd, clustering.head_of
    users, heads = clustering.reachable_heads()
    best = best_of_each(users, emd[heads])
    members = best[head_of[users[best]] >= 0]
    users, heads = users[members], heads[members]
    amounts = emd[head_of[users]] - emd[heads]
    broken = amounts > TIE
    return ConditionReport(3, users[broken], heads[broken], amounts[broken])
