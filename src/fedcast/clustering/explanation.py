"""Explain a clustering: why these heads, what each member gained, and why other users were left out.

Also check the paper's Conditions 1 to 3. The paper states them for a graph without thresholds and claims (Theorem 1)
that an optimum meets the last two. On the constrained graph they apply to the heads that a user is linked to. The
optimum often violates them, since a higher EMD of the opposite sign can help a member more than a low one; they
describe the aim of DACA.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedcast.clustering.clustering_result import Clustering
from fedcast.clustering.costs import divergence_if_led
from fedcast.clustering.rules import find_rule
from fedcast.clustering.selection import TIE, best_of_each
from fedcast.data import average_emd
from fedcast.typing import Floats, Ints

Status = Literal["head", "member", "served", "empty", "no link", "no head in reach", "no gain", "not chosen"]

REASONS: dict[Status, str] = {
    "head": "it leads a cluster, and a head is no member",
    "member": "it receives samples from its head",
    "served": "it receives samples from the server",
    "empty": "it holds no data, so it cannot lead, and nobody gains by its being a member",
    "no link": "it meets both thresholds with nobody",
    "no head in reach": "none of those it is linked to leads a cluster",
    "no gain": "no head it is linked to would lower its EMD",
    "not chosen": "a head it is linked to would lower its EMD, but the rule's own aim is better met without",
}
STATUSES: tuple[Status, ...] = tuple(REASONS)


@dataclass(frozen=True)
class HeadRow:
    """Reason why one user leads a cluster."""

    head: int  # the user
    why: str  # what makes a user a head under this rule
    emd: float  # its EMD
    emd_rank: int  # 1 for the lowest EMD of all users; ties share the lower rank
    reaches: int  # number of users it is linked to
    members: int  # number of users it leads
    shared: float  # samples it sends to each
    mean_emd_before: float  # of its members
    mean_emd_after: float  # of its members
    drop: float  # reduction of the average EMD by its members' gains under weighting C, under which clusters add up
    worst_rate_bps: float | None  # rate of its slowest link to a member; None: unknown


@dataclass(frozen=True)
class UserRow:
    """The outcome for one user; `rate_bps` and `closeness` are those of the link to its head, if there is one."""

    user: int
    status: Status
    reason: str
    head: int | None
    emd_before: float
    emd_after: float
    received: float
    rate_bps: float | None
    closeness: float | None


@dataclass(frozen=True, eq=False)
class Explanation:
    """An explained clustering, one row per head and one per user; `statuses` int8[K] are indices into STATUSES."""

    clustering: Clustering
    statuses: NDArray[np.int8]

    @cached_property
    def heads(self) -> list[HeadRow]:
        """One row per head, largest drop first."""
        clustering, problem = self.clustering, self.clustering.problem
        heads, sizes = clustering.heads, problem.skew.sizes
        members, head_of = clustering.members, clustering.head_of[clustering.members]
        before, after = problem.emd[members], clustering.after.emd[members]

        def per_head(values: Floats) -> Floats:
            return np.bincount(head_of, values, problem.num_users)[heads].astype(np.float64)

        numbers = clustering.cluster_sizes[heads]
        ranks = 1 + np.searchsorted(np.sort(problem.emd), problem.emd[heads] - TIE)
        columns: list[list[Any]] = [
            heads.tolist(),
            [find_rule(clustering.rule).why] * len(heads),
            problem.emd[heads].tolist(),
            ranks.tolist(),
            problem.graph.degrees[heads].tolist(),
            numbers.tolist(),
            clustering.shared[heads].tolist(),
            (per_head(before) / numbers).tolist(),
            (per_head(after) / numbers).tolist(),
            (per_head(sizes[members] * (before - after)) / sizes.sum()).tolist(),
            _none_for_nan(clustering.worst_rates_bps),
        ]
        rows = [HeadRow(*values) for values in zip(*columns, strict=True)]
        return sorted(rows, key=lambda row: (-row.drop, row.head))

    @cached_property
    def users(self) -> list[UserRow]:
        """One row per user, by id."""
        clustering, graph = self.clustering, self.clustering.problem.graph
        statuses = [STATUSES[place] for place in self.statuses.tolist()]
        columns: list[list[Any]] = [
            list(range(len(statuses))),
            statuses,
            [REASONS[status] for status in statuses],
            [head if head >= 0 else None for head in clustering.head_of.tolist()],
            clustering.problem.emd.tolist(),
            clustering.after.emd.tolist(),
            clustering.received.tolist(),
            _none_for_nan(clustering.of_links(graph.rate_bps)),
            _none_for_nan(clustering.of_links(graph.closeness)),
        ]
        return [UserRow(*values) for values in zip(*columns, strict=True)]

    @property
    def left_out(self) -> list[UserRow]:
        """Rows of the users that neither lead nor receive."""
        return [row for row in self.users if row.status not in ("head", "member", "served")]

    def counts(self) -> dict[Status, int]:
        """Return the number of users of each status."""
        numbers = np.bincount(self.statuses, minlength=len(STATUSES)).tolist()
        return dict(zip(STATUSES, numbers, strict=True))

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        problem, after = self.clustering.problem, self.clustering.after
        return {
            "rule": self.clustering.rule,
            "composition": problem.settings.composition,
            "weighting": problem.weighting,
            "average_emd_before": average_emd(problem.skew),
            "average_emd_after": average_emd(problem.skew, after, problem.weighting),
            "average_sharing_ratio": self.clustering.average_sharing_ratio,
            "counts": self.counts(),
            "heads": [asdict(row) for row in self.heads],
            "users": [vars(row) for row in self.users],
        }


def explain(clustering: Clustering) -> Explanation:
    """Explain the outcome for each user.

    Example:
        >>> from fedcast.clustering import cluster
        >>> from fedcast.clustering.sample_problems import path_problem
        >>> story = explain(cluster(path_problem([[9, 1], [5, 5], [1, 9], [0, 0], [1, 1]], rule="daca")))
        >>> [(row.user, row.status) for row in story.users]
        [(0, 'member'), (1, 'head'), (2, 'member'), (3, 'member'), (4, 'head')]
        >>> story.heads[0].head, story.heads[0].emd_rank, round(story.heads[0].mean_emd_after, 3)
        (1, 1, 0.727)
    """
    problem = clustering.problem
    place = {status: STATUSES.index(status) for status in STATUSES}
    statuses = np.full(problem.num_users, place["no head in reach"], dtype=np.int8)
    users, _, emds = _best_heads(clustering)
    statuses[users] = np.where(emds < problem.emd[users] - TIE, place["not chosen"], place["no gain"])
    if not clustering.ignores_graph:
        statuses[problem.graph.degrees == 0] = place["no link"]
    statuses[problem.skew.sizes == 0] = place["empty"]
    statuses[clustering.received > 0] = place["served"]
    statuses[clustering.members] = place["member"]
    statuses[clustering.heads] = place["head"]
    return Explanation(clustering, statuses)


def _none_for_nan(values: Floats) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]


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
    users, heads, emds = _best_heads(clustering)
    best_emd, best_head = problem.emd.copy(), np.full(problem.num_users, -1)
    better = emds < problem.emd[users] - TIE
    best_emd[users[better]], best_head[users[better]] = emds[better], heads[better]
    return _report(1, np.arange(problem.num_users), best_head, clustering.after.emd - best_emd)


def check_condition_2(clustering: Clustering) -> ConditionReport:
    """Check that no member has a lower EMD than its head; `heads` of the report are these heads."""
    emd, members = clustering.problem.emd, clustering.members
    heads = clustering.head_of[members]
    return _report(2, members, heads, emd[heads] - emd[members])


def check_condition_3(clustering: Clustering) -> ConditionReport:
    """Check that no member reaches a head of lower EMD than its own; `heads` of the report have the lowest."""
    emd, head_of = clustering.problem.emd, clustering.head_of
    users, heads = clustering.reachable_heads()
    best = best_of_each(users, emd[heads])
    members = best[head_of[users[best]] >= 0]
    users, heads = users[members], heads[members]
    return _report(3, users, heads, emd[head_of[users]] - emd[heads])


def _report(condition: int, users: Ints, heads: Ints, amounts: Floats) -> ConditionReport:
    broken = amounts > TIE
    return ConditionReport(condition, users[broken], heads[broken], amounts[broken])


def _best_heads(clustering: Clustering) -> tuple[Ints, Ints, Floats]:
    """Return the users that reach a head, the reachable head that gives each the lowest EMD, and that EMD."""
    users, heads = clustering.reachable_heads()
    emds = divergence_if_led(clustering.problem, users, heads)
    best = best_of_each(users, emds)
    return users[best], heads[best], emds[best]
