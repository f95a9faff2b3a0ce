r"""Greedy clustering: heads are chosen by the reduction of the total cost that each brings.

With :math:`g_{mc}` the reduction of the total cost when m leads c, the gain of a set of heads H is

.. math:: f(H) = \sum_{c \notin H} \max_{m \in H} g_{mc}^+

f is submodular (not monotone: a head gives up its own gain), so that a marginal gain computed earlier is an upper bound
of the present one: only the user on top of a queue sorted by earlier marginals has to be evaluated again.

Gains are integers in units of 1e-12 mean sizes: sums are exact in any order, and equal gains are ties.
"""

from __future__ import annotations

import numpy as np

from fedcast._fast import run_kernel
from fedcast.clustering.clustering_problem import Problem, Rule
from fedcast.clustering.clustering_result import Clustering
from fedcast.clustering.costs import Measure, cost_drops
from fedcast.data import average_emd, average_js, mix_distributions
from fedcast.typing import Floats, Ids, Ints

TICKS = 1e12
MAX_PASSES = 6
# Gain of a head: above every other, so that it joins nobody.
HEAD = 1 << 62
SETTLED = 1e-9


def gain(problem: Problem, _: object = None) -> Clustering:
    """Add the head that lowers the average EMD most, as long as one does; members join the head that helps them most.

    The paper's Theorem 1 (the lowest EMD is the best head) is false: to a user that holds one class, a head
    balanced over the nine others brings more than one with all ten. A user whom no head helps stays alone.

    Example:
        >>> from fedcast.clustering.sample_problems import path_problem
        >>> gain(path_problem([[9, 1], [5, 5], [1, 9]], composition="balanced")).head_of.tolist()
        [1, -1, 1]
    """
    return Clustering(problem, greedy_heads(problem, "emd", cost_drops(problem, "emd")))


def greedy_heads(problem: Problem, measure: Measure, drops: Floats) -> Ints:
    r"""Return the head of each user, int64[K], chosen greedily by the reduction of the average `measure`.

    Under A and C the average is a sum over users and one pass is enough. Under B it is a ratio
    :math:`\sum cost / \sum \tilde n`; as in Dinkelbach (1967), minimise :math:`\sum cost - \lambda \sum \tilde n` at
    fixed :math:`\lambda`, that is, add :math:`\lambda n^s_m` to every gain, set :math:`\lambda` to the ratio found and
    repeat until it converges. The best pass is returned.

    `drops` float64[E] are those of `fedcast.clustering.costs.cost_drops`.

    Example:
        >>> from fedcast.clustering.sample_problems import path_problem
        >>> problem = path_problem([[9, 1], [5, 5], [1, 9]], composition="own")
        >>> greedy_heads(problem, "emd", cost_drops(problem, "emd")).tolist()
        [1, -1, 1]
    """
    if problem.weighting != "B":
        return one_pass(problem, drops)
    best = np.full(problem.num_users, -1)
    best_value = average_after(problem, best, measure)
    price = best_value
    for _ in range(MAX_PASSES):
        head_of = one_pass(problem, drops, price)
        value = average_after(problem, head_of, measure)
        if value < best_value:
            best, best_value = head_of, value
        if abs(value - price) <= SETTLED:
            break
        price = value
    return best


def average_after(problem: Problem, head_of: Ints, measure: Measure) -> float:
    """Return the average EMD or JS divergence after sharing, in the weighting of the problem."""
    after = mix_distributions(problem.skew, head_of, problem.volumes, problem.sent_distributions)
    average = average_emd if measure == "emd" else average_js
    return average(problem.skew, after, problem.weighting)


def one_pass(problem: Problem, drops: Floats, price: float = 0.0) -> Ints:
    """Return the heads of one greedy pass, int64[K]; `price` is added to the gain for every sample received."""
    users = problem.num_users
    starts, members, gains, sums = _positive_gains(problem, drops, price)
    queue = np.argsort(-sums, kind="stable")[: np.count_nonzero(sums)]
    best_gain, head_of = np.zeros(users, dtype=np.int64), np.full(users, -1, dtype=np.int64)
    state = [queue, sums[queue], best_gain, head_of]
    run_kernel(_lazy_greedy, [starts, members, gains], state, steps=4 * len(members) + 40 * users)
    sizes = np.bincount(head_of[head_of >= 0], minlength=users)
    if ((best_gain == HEAD) & (sizes == 0)).any():
        run_kernel(_release, [starts, members, gains, sizes], [best_gain, head_of], steps=len(members))
    return head_of


def _positive_gains(problem: Problem, drops: Floats, price: float) -> tuple[Ints, Ids, Ints, Ints]:
    """Return the links with a gain: rows int64[K + 1], members int32[P], gains int64[P] and their sums int64[K]."""
    graph, users = problem.graph, problem.num_users
    bonus = price * problem.volumes
    total = problem.skew.sizes.sum()
    # The gains of one row sum to at most 2 n + degree · bonus; that must stay below 2^61.
    ticks = min(TICKS * users / total, 2.0**61 / (2 * total + float(np.max(graph.degrees * bonus))))
    starts, sums = np.zeros(users + 1, dtype=np.int64), np.zeros(users, dtype=np.int64)
    members, gains = np.empty(len(drops), dtype=np.int32), np.empty(len(drops), dtype=np.int64)
    inputs = [graph.offsets, graph.neighbours, drops, bonus, ticks]
    run_kernel(_keep_positive, inputs, [starts, members, gains, sums], steps=4 * len(drops))
    kept = int(starts[-1])
    return starts, members[:kept], gains[:kept], sums


def _keep_positive(
    offsets: Ints,
    neighbours: Ids,
    drops: Floats,
    bonus: Floats,
    ticks: float,
    starts: Ints,
    members: Ids,
    gains: Ints,
    sums: Ints,
) -> None:
    kept = 0
    for leader in range(len(bonus)):
        for link in range(offsets[leader], offsets[leader + 1]):
            gain = round((drops[link] + bonus[leader]) * ticks)
            if gain > 0:
                members[kept] = neighbours[link]
                gains[kept] = gain
                sums[leader] += gain
                kept += 1
        starts[leader + 1] = kept


def _lazy_greedy(
    starts: Ints, members: Ids, gains: Ints, queue: Ints, bounds: Ints, best_gain: Ints, head_of: Ints
) -> None:
    """Choose the user of largest marginal gain until none is positive; `queue` is a heap by (-bound, user)."""
    size = len(queue)
    while size > 0:
        user, bound = queue[0], bounds[0]
        marginal = -best_gain[user]
        for link in range(starts[user], starts[user + 1]):
            marginal += max(gains[link] - best_gain[members[link]], 0)
        if marginal == bound:
            marginal = 0
            best_gain[user] = HEAD
            head_of[user] = -1
            for link in range(starts[user], starts[user + 1]):
                member, gain = members[link], gains[link]
                if gain > best_gain[member] or (gain == best_gain[member] and user < head_of[member]):
                    best_gain[member] = gain
                    head_of[member] = user
        if marginal <= 0:
            size -= 1
            user, marginal = queue[size], bounds[size]
        # Sift (user, marginal) down from the root.
        place, child = 0, 1
        while child < size:
            right = child + 1
            if right < size and (
                bounds[right] > bounds[child] or (bounds[right] == bounds[child] and queue[right] < queue[child])
            ):
                child = right
            if bounds[child] < marginal or (bounds[child] == marginal and queue[child] > user):
                break
            queue[place], bounds[place] = queue[child], bounds[child]
            place, child = child, 2 * child + 1
        if size > 0:
            queue[place], bounds[place] = user, marginal


def _release(starts: Ints, members: Ids, gains: Ints, sizes: Ints, best_gain: Ints, head_of: Ints) -> None:
    """Assign heads whose members have all moved to a better head to the best head themselves."""
    for user in range(len(sizes)):
        if best_gain[user] == HEAD and sizes[user] == 0:
            best_gain[user] = 0
    for leader in range(len(sizes)):
        if sizes[leader] > 0:
            for link in range(starts[leader], starts[leader + 1]):
                member = members[link]
                if gains[link] > best_gain[member]:
                    best_gain[member] = gains[link]
                    head_of[member] = leader


RULE = Rule(
    gain,
    "greedy: the head that lowers the average EMD most, until none does",
    why="brings the largest drop of the average EMD, given the heads before it",
    composition="balanced",
)
