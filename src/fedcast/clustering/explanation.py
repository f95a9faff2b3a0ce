"""Explain a clustering: why these heads, what each member gained, and why other users were left out."""

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
from fedcast.typing import Floats

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
        rows = [HeadRow(*values) for values in zip(*self._head_columns(), strict=True)]
        return sorted(rows, key=lambda row: (-row.drop, row.head))

    @cached_property
    def users(self) -> list[UserRow]:
        """One row per user, by id."""
        return [UserRow(*values) for values in zip(*self._user_columns(), strict=True)]

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

    def _head_columns(self) -> list[list[Any]]:
        clustering, problem = self.clustering, self.clustering.problem
        heads, sizes = clustering.heads, problem.skew.sizes
        members, head_of = clustering.members, clustering.head_of[clustering.members]
        before, after = problem.emd[members], clustering.after.emd[members]

        def per_head(values: Floats) -> Floats:
            sums: Floats = np.bincount(head_of, values, problem.num_users)[heads].astype(np.float64)
            return sums

        numbers = clustering.cluster_sizes[heads]
        ranks = 1 + np.searchsorted(np.sort(problem.emd), problem.emd[heads] - TIE)
        return [
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

    def _user_columns(self) -> list[list[Any]]:
        clustering, graph = self.clustering, self.clustering.problem.graph
        statuses = [STATUSES[place] for place in self.statuses.tolist()]
        return [
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
    users, heads = clustering.reachable_heads()
    emds = divergence_if_led(problem, users, heads)
    best = best_of_each(users, emds)
    lower = emds[best] < problem.emd[users[best]] - TIE
    statuses[users[best]] = np.where(lower, place["not chosen"], place["no gain"])
    if not clustering.ignores_graph:
        statuses[problem.graph.degrees == 0] = place["no link"]
    statuses[problem.skew.sizes == 0] = place["empty"]
    statuses[clustering.received > 0] = place["served"]
    statuses[clustering.members] = place["member"]
    statuses[clustering.heads] = place["head"]
    return Explanation(clustering, statuses)


def _none_for_nan(values: Floats) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]
