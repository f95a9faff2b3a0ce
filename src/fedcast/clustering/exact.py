r"""The clustering of least average EMD, with proof, by mixed-integer programming (HiGHS).

.. math::

    \max \sum_{m,c} g_{mc} x_{mc} \quad \text{s.t.} \quad x_{mc} \le y_m, \quad \sum_m x_{mc} + y_c \le 1,
    \quad y \in \{0, 1\}, \; 0 \le x \le 1

:math:`y_m`: m is a head, :math:`x_{mc}`: m leads c. Only links with :math:`g_{mc} > 0` appear; given y, the best x
is integral. It is a directed spanning star forest of maximum weight, NP-hard in general.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedcast.clustering.clustering_problem import Problem, Rule
from fedcast.clustering.clustering_result import Clustering, Proof
from fedcast.clustering.costs import cost_drops
from fedcast.clustering.gain import average_after, greedy_heads
from fedcast.clustering.selection import assign_best
from fedcast.data import average_emd
from fedcast.registry import option
from fedcast.typing import Bools, Floats, Ints

# Objectives are scaled so that the largest gain is this: HiGHS stops at an absolute gap of 1e-6.
LARGEST_GAIN = 1e3
SETTLED = 1e-12


class GainingLinks(NamedTuple):
    """Candidate pairs of head and member, with the gain of each in samples times EMD."""

    heads: Ints
    members: Ints
    gains: Floats


@dataclass(frozen=True)
class ExactOptions:
    """Options of rule ``exact``."""

    time_limit_s: float = option(60.0, "time limit of the solver", gt=0)


def exact(problem: Problem, options: ExactOptions) -> Clustering:
    r"""Return a clustering of least average EMD, or the best found in `time_limit_s` with a proven bound.

    Under A and C the average falls by the sum of gains: one program. Under B it is a ratio, solved by Dinkelbach's
    method: minimise :math:`\sum cost - \lambda \sum \tilde n` with :math:`\lambda` the previous ratio, until it
    does not fall any more. An upper bound U of the gain at that :math:`\lambda` bounds the ratio too: since
    :math:`\sum cost - \lambda \sum \tilde n \ge \sum n_k D_k - \lambda n - U` and :math:`\sum\tilde n \ge n`, it is at
    least :math:`\sum n_k D_k / n - U / n`, as under A and C. The search starts from the greedy solution, so the result
    is never worse than that of rule ``gain``.

    Example:
        >>> from fedcast.clustering.sample_problems import path_problem
        >>> clustering = exact(path_problem([[9, 1], [5, 5], [1, 9]], composition="balanced"), ExactOptions())
        >>> clustering.head_of.tolist(), clustering.proof.optimal, clustering.proof.gap
        ([1, -1, 1], True, 0.0)
    """
    started = time.perf_counter()
    deadline = started + options.time_limit_s
    drops = cost_drops(problem, "emd")
    best = greedy_heads(problem, "emd", drops)
    value = average_after(problem, best, "emd")
    total = float(problem.skew.sizes.sum())
    base, bound, finished, improved = total * average_emd(problem.skew), 0.0, True, True
    while finished and improved:
        price = value if problem.weighting == "B" else 0.0
        links = _gaining_links(problem, drops, price)
        head_of, most, finished = _solve(problem.num_users, links, deadline - time.perf_counter())
        bound = max(bound, (base - most) / total)
        found = average_after(problem, head_of, "emd")
        improved = problem.weighting == "B" and found < value - SETTLED
        if found < value:
            best, value = head_of, found
    proof = Proof(value, float(min(bound, value)), finished, time.perf_counter() - started)
    return Clustering(problem, best, proof=proof)


def _gaining_links(problem: Problem, drops: Floats, price: float) -> GainingLinks:
    heads = np.repeat(np.arange(problem.num_users), problem.graph.degrees)
    gains = drops + price * problem.volumes[heads]
    kept = (gains > SETTLED * float(problem.skew.sizes.mean())) & (problem.volumes[heads] > 0)
    return GainingLinks(heads[kept], problem.graph.neighbours[kept].astype(np.int64), gains[kept])


def _solve(users: int, links: GainingLinks, seconds: float) -> tuple[Ints, float, bool]:
    """Return the head of each user, an upper bound of the total gain, and whether the solver proved optimality."""
    if len(links.gains) == 0:
        return np.full(users, -1), 0.0, True
    most = np.zeros(users)
    np.maximum.at(most, links.members, links.gains)
    # Nobody gains more than with the best head it could have, even if the solver proves nothing.
    easy_bound = float(most.sum())
    is_head, bound, finished = _solve_program(users, links, max(seconds, 0.0))
    if is_head is None:
        return np.full(users, -1), easy_bound, False
    allowed = is_head[links.heads] & ~is_head[links.members]
    heads, members, gains = links.heads[allowed], links.members[allowed], links.gains[allowed]
    by_member = np.lexsort((heads, members))
    head_of = assign_best(users, members[by_member], heads[by_member], -gains[by_member])
    return head_of, min(bound, easy_bound), finished


def _solve_program(users: int, links: GainingLinks, seconds: float) -> tuple[Bools | None, float, bool]:
    from scipy.optimize import LinearConstraint, milp
    from scipy.sparse import coo_array

    pairs = len(links.gains)
    pair, one = np.arange(pairs), np.ones(pairs)
    # Variables: y of each user, then x of each pair. Rows: x <= y for each pair, then one head at most per user.
    rows = np.concatenate([pair, pair, pairs + links.members, pairs + np.arange(users)])
    columns = np.concatenate([users + pair, links.heads, users + pair, np.arange(users)])
    entries = np.concatenate([one, -one, one, np.ones(users)])
    matrix = coo_array((entries, (rows, columns)), shape=(pairs + users, users + pairs)).tocsr()
    limits = np.concatenate([np.zeros(pairs), np.ones(users)])
    scale = LARGEST_GAIN / links.gains.max()
    result = milp(
        np.concatenate([np.zeros(users), -scale * links.gains]),
        integrality=np.concatenate([np.ones(users), np.zeros(pairs)]),
        bounds=(0, 1),
        constraints=LinearConstraint(matrix, -np.inf, limits),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    known = result.mip_dual_bound is not None and np.isfinite(result.mip_dual_bound)
    bound = -result.mip_dual_bound / scale if known else np.inf
    is_head = None if result.x is None else result.x[:users] > 0.5
    return is_head, bound, result.status == 0


RULE = Rule(
    exact,
    "least average EMD with proof, by mixed-integer programming; small problems only",
    why="belongs to a set of heads of least average EMD",
    composition="balanced",
    options=ExactOptions,
    proves=True,
)
