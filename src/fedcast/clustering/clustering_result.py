"""The result of a clustering rule; its constraints are validated on construction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedcast._fast import run_kernel
from fedcast.clustering.clustering_problem import Problem
from fedcast.clustering.selection import links_to
from fedcast.data import Skew, mix_distributions
from fedcast.errors import FedcastError
from fedcast.typing import Floats, Ints

SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Broadcast:
    """Samples that the server sends to every user: how many, and their distribution float64[Y]."""

    volume: float
    mix: Floats


@dataclass(frozen=True)
class Proof:
    """A solver's proof about the average EMD of a clustering."""

    value: float  # average EMD after sharing, in the weighting of the problem
    bound: float  # lower bound over all clusterings of this problem
    optimal: bool  # whether the solver finished; otherwise it reached its time limit
    seconds: float  # time taken

    @property
    def gap(self) -> float:
        """Largest possible excess over the optimum, as a share of the bound; infinite if nothing is proven."""
        if self.value <= self.bound:
            return 0.0
        return (self.value - self.bound) / self.bound if self.bound > 0 else float("inf")


@dataclass(frozen=True, eq=False)
class Clustering:
    r"""A clustering: the head from which each user receives samples.

    The constraints of problem P1' hold for every value of this class: no user is in two clusters (one entry per
    user), a head is no member, an empty user is no head, and a member and its head are joined by a link, that is,
    meet both thresholds (constraints c and d), unless the rule says that it ignores them.

    Example:
        >>> from fedcast.clustering import make_problem
        >>> from fedcast.data import skew_of
        >>> from fedcast.network import Graph
        >>> link = Graph(np.array([0, 1, 2]), np.array([1, 0], np.int32), np.full(2, 1e6, "f4"), np.ones(2, "f4"))
        >>> clustering = Clustering(make_problem(skew_of([[4, 0], [2, 2]]), link), np.array([1, -1]))
        >>> clustering.heads.tolist(), clustering.members_of(1).tolist(), clustering.worst_rates_bps.tolist()
        ([1], [0], [1000000.0])
    """

    problem: Problem  #: the problem that was solved; its settings name the rule
    head_of: Ints  #: int64[K], the head of each user, -1: none. A user is a head if it has a member.
    ignores_graph: bool = False  #: pairs without a link are allowed, as in the paper's Fig. 1c.
    broadcast: Broadcast | None = None  #: samples that the server sends to every user
    proof: Proof | None = None  #: bound by a solver, if the rule is one

    def __post_init__(self) -> None:
        object.__setattr__(self, "head_of", _checked_ids(self))
        _check_heads(self)
        if self.broadcast is not None:
            _check_broadcast(self, self.broadcast)

    @property
    def rule(self) -> str:
        """Name of the rule that made it."""
        return self.problem.settings.rule

    @cached_property
    def heads(self) -> Ints:
        """Users with at least one member, ascending."""
        return np.flatnonzero(self.cluster_sizes)

    @cached_property
    def members(self) -> Ints:
        """Users with a head, ascending."""
        return np.flatnonzero(self.head_of >= 0)

    @cached_property
    def cluster_sizes(self) -> Ints:
        """Number of members of each user, int64[K]; 0 for all but heads."""
        return np.bincount(self.head_of[self.members], minlength=self.problem.num_users)

    def members_of(self, head: int) -> Ints:
        """Return the members of one head, ascending; none if it is no head."""
        start = int(self.cluster_sizes[:head].sum())
        return self.members_by_head[start : start + int(self.cluster_sizes[head])]

    @cached_property
    def members_by_head(self) -> Ints:
        """Users with a head, in the order of their heads, then of their own ids."""
        return self.members[np.argsort(self.head_of[self.members], kind="stable")]

    @cached_property
    def shared(self) -> Floats:
        """Samples that each head sends to each of its members, float64[K]; 0 for all but heads."""
        return np.where(self.cluster_sizes > 0, self.problem.volumes, 0.0)

    @cached_property
    def received(self) -> Floats:
        """Samples that each user receives, float64[K]."""
        volumes = np.where(self.head_of >= 0, self.problem.volumes[self.head_of], 0.0)
        return volumes if self.broadcast is None else volumes + self.broadcast.volume

    @property
    def mean_received(self) -> float:
        """Mean number of samples received by the users that receive any; 0 if nobody does."""
        receivers = self.received > 0
        return float(self.received[receivers].mean()) if receivers.any() else 0.0

    @property
    def average_sharing_ratio(self) -> float:
        r"""Average sharing ratio (leakage), :math:`\sum_m \frac{|C_m|}{K} \frac{n^s_m}{n_m}`, in [0, 1].

        A broadcast counts as a cluster of all users whose head holds all data.
        """
        heads, sizes = self.heads, self.problem.skew.sizes
        ratio = float(self.cluster_sizes[heads] @ (self.shared[heads] / sizes[heads])) / self.problem.num_users
        return ratio if self.broadcast is None else ratio + self.broadcast.volume / float(sizes.sum())

    @cached_property
    def links(self) -> Ints:
        """Index in the graph's arrays of the link of each member to its head, int64[K]; -1: no head or link."""
        graph, links = self.problem.graph, np.full(len(self.head_of), -1)
        if graph.num_links:
            inputs = [self.head_of, graph.offsets, graph.neighbours]
            run_kernel(_find_links, inputs, [links], steps=len(graph.neighbours))
        return links

    def of_links(self, values: NDArray[np.float32]) -> Floats:
        """Return the entry of a graph's array for each member's link to its head, float64[K]; NaN: no head or link."""
        linked = self.links >= 0
        found = np.full(self.problem.num_users, np.nan)
        found[linked] = values[self.links[linked]]
        return found

    @cached_property
    def worst_rates_bps(self) -> Floats:
        """Multicast rate of each of `heads`: that of its worst member, bit/s; NaN: a pair has no link."""
        rates = self.of_links(self.problem.graph.rate_bps)[self.members_by_head]
        if len(rates) == 0:
            return rates
        first = np.concatenate([[0], np.cumsum(self.cluster_sizes[self.heads])[:-1]])
        worst: Floats = np.minimum.reduceat(np.nan_to_num(rates, nan=-np.inf), first)
        return np.where(np.isinf(worst), np.nan, worst)

    def reachable_heads(self) -> tuple[Ints, Ints]:
        """Return all pairs of a user that is no head and a head it may join, int64[P] each, sorted by user and head."""
        is_head = self.cluster_sizes > 0
        if self.ignores_graph:
            others = np.flatnonzero(~is_head)
            return np.repeat(others, len(self.heads)), np.tile(self.heads, len(others))
        links, users = links_to(self.problem.graph, is_head)
        return users, self.problem.graph.neighbours[links].astype(np.int64)

    @cached_property
    def after(self) -> Skew:
        """Sizes and distributions of the users after sharing."""
        skew = self.problem.skew
        if self.broadcast is not None:
            return _after_broadcast(skew, self.broadcast)
        return mix_distributions(
            skew, self.head_of, self.problem.volumes, self.problem.sent_distributions if len(self.members) else None
        )

    def after_worth(self, worth: Floats) -> Skew:
        """Return `after` where a sample of head m counts as worth[m] samples, float64[K]; that of the server as one."""
        if self.broadcast is not None or not len(self.members) or (worth == 1).all():
            return self.after
        problem = self.problem
        return mix_distributions(problem.skew, self.head_of, worth * problem.volumes, problem.sent_distributions)

    def with_volumes(self, volumes: Floats) -> Clustering:
        """Return the same clusters with other volumes float64[K]; the mix of balanced heads depends on them."""
        return replace(self, problem=replace(self.problem, volumes=volumes), proof=None)


def _after_broadcast(skew: Skew, broadcast: Broadcast) -> Skew:
    sizes = skew.sizes + broadcast.volume
    total = skew.sizes[:, None] * skew.distributions + broadcast.volume * broadcast.mix
    distributions = np.divide(total, sizes[:, None], out=skew.distributions.copy(), where=sizes[:, None] > 0)
    return Skew(sizes, distributions, skew.global_distribution)


def _find_links(head_of: Ints, offsets: Ints, neighbours: Ints, links: Ints) -> None:
    """Find the head of every member in its sorted row by bisection."""
    for user in range(len(head_of)):
        head = head_of[user]
        if head >= 0:
            low, high = offsets[user], offsets[user + 1]
            while low < high:
                middle = (low + high) // 2
                if neighbours[middle] < head:
                    low = middle + 1
                else:
                    high = middle
            if low < offsets[user + 1] and neighbours[low] == head:
                links[user] = low


def _checked_ids(clustering: Clustering) -> Ints:
    users = clustering.problem.num_users
    given = np.asarray(clustering.head_of)
    if given.shape != (users,) or given.dtype.kind not in "iu":
        raise FedcastError(
            f"rule {clustering.rule}: head_of is {given.dtype}{list(given.shape)}, "
            f"expected one integer for each of {users} users"
        )
    ids = given.astype(np.int64)
    wrong = np.flatnonzero((ids < -1) | (ids >= users))
    if len(wrong):
        user = int(wrong[0])
        raise FedcastError(f"rule {clustering.rule}: head of user {user} is {ids[user]}, expected -1 to {users - 1}")
    ids.setflags(write=False)
    return ids


def _check_heads(clustering: Clustering) -> None:
    heads, head_of = clustering.heads, clustering.head_of
    for head in heads[head_of[heads] >= 0]:
        raise FedcastError(
            f"rule {clustering.rule}: user {head} has members and is itself led by {head_of[head]}; "
            f"a head is no member, so its own entry must be -1"
        )
    for head in heads[clustering.problem.skew.sizes[heads] == 0]:
        raise FedcastError(
            f"rule {clustering.rule}: user {head} is a head but holds no data; choose heads with volumes above 0"
        )
    members = clustering.members
    for user in members[clustering.links[members] < 0] if not clustering.ignores_graph else ():
        raise FedcastError(
            f"rule {clustering.rule}: user {user} has head {head_of[user]}, but no link joins them "
            f"(closeness or rate below its threshold); choose a neighbour, or set ignores_graph=True"
        )


def _check_broadcast(clustering: Clustering, broadcast: Broadcast) -> None:
    skew = clustering.problem.skew
    if len(clustering.members):
        raise FedcastError(f"rule {clustering.rule}: a broadcast by the server and clusters exclude each other")
    if not 0 <= broadcast.volume <= skew.sizes.sum():
        raise FedcastError(
            f"rule {clustering.rule}: the server sends {broadcast.volume} samples, expected 0 to {skew.sizes.sum()}"
        )
    if np.shape(broadcast.mix) != skew.global_distribution.shape or abs(broadcast.mix.sum() - 1) > SUM_TOLERANCE:
        raise FedcastError(f"rule {clustering.rule}: the mix that the server sends is no distribution over the classes")
