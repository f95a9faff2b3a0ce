"""Local search for low divergence of each user and a small shift of the global label distribution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from fedcast._fast import run_kernel
from fedcast._fast.blend_search import CHANGES_PER_KICK, SearchInputs, SearchState, search
from fedcast.clustering.clustering_problem import Problem, Rule
from fedcast.clustering.clustering_result import Clustering
from fedcast.clustering.costs import cost_drops, costs_alone
from fedcast.clustering.daca import daca
from fedcast.clustering.gain import greedy_heads
from fedcast.data import average_js, distribution_shift
from fedcast.random import generator
from fedcast.registry import option
from fedcast.typing import Floats, Ints

STEPS_PER_CANDIDATE = 4
SWEEPS = 2
MAX_KICKS = 500
# About two thirds of a second in the interpreter.
SEARCH_WORK = 600_000


@dataclass(frozen=True)
class BlendOptions:
    """Options of rule ``blend``."""

    shift_weight: float = option(1.0, "weight of the shift of the global label distribution", ge=0)


def blend(problem: Problem, options: BlendOptions) -> Clustering:
    r"""Minimise the mean JS divergence after sharing plus the shift of the global label distribution.

    .. math:: J = \overline{JS}(\tilde P_k, P_g)
        + \lambda \Big\| \sum_k \frac{\tilde n_k \tilde P_k}{\sum \tilde n} - P_g \Big\|_1

    Copies add to the weight of a head's samples, so sharing that makes users alike can still pull the model away from
    :math:`P_g`. The mean has the weighting of the problem, :math:`\lambda` is `shift_weight`. The search starts from
    the better of the greedy clustering by mean JS and DACA, then opens heads, closes heads and moves users while J
    falls (`fedcast._fast.blend_search.search`), so the result is never worse than either.

    Example:
        >>> from fedcast.clustering.sample_problems import path_problem
        >>> blend(path_problem([[9, 1], [5, 5], [1, 9]], composition="balanced"), BlendOptions()).head_of.tolist()
        [1, -1, 1]
    """
    drops = cost_drops(problem, "js")
    starts = [Clustering(problem, greedy_heads(problem, "js", drops)), daca(problem)]
    objective = partial(blend_objective, shift_weight=options.shift_weight)
    start = min(starts, key=objective)
    inputs = _search_inputs(problem, drops, options.shift_weight)
    state, scratch = _search_state(inputs, start), _search_state(inputs, start)
    # This kernel takes longest to compile: compiled code is faster from about 7,000 users on.
    steps = len(drops) * (inputs.sent.shape[1] + STEPS_PER_CANDIDATE) / 2
    run_kernel(search, [inputs, *_kicks(problem)], [state, scratch], steps=steps)
    found = Clustering(problem, state.head_of)
    # The search keeps running sums with rounding errors; compare the objective computed afresh.
    return min([found, start], key=objective)


def blend_objective(clustering: Clustering, shift_weight: float | None = None) -> float:
    """Return the objective of `blend` for any clustering; the default weight is that of its settings.

    Example:
        >>> from fedcast.clustering.sample_problems import path_problem
        >>> problem = path_problem([[8, 0], [0, 8]], composition="own", sharing_ratio=0.5)
        >>> round(blend_objective(Clustering(problem, np.array([-1, -1]))), 6)
        0.215762
    """
    problem, after = clustering.problem, clustering.after
    if shift_weight is None:
        shift_weight = float(problem.settings.options("clustering", "blend").shift_weight)
    divergence = average_js(problem.skew, after, problem.weighting)
    return divergence + shift_weight * distribution_shift(after)


def _kicks(problem: Problem) -> tuple[Ints, Ints]:
    """Return random changes, as many as the search has time for: small problems need them most, large ones none.

    A change is a user and one of its links to join over, or -1 to toggle the user.
    """
    graph, links = problem.graph, len(problem.graph.neighbours)
    degree = float(graph.degrees.mean())
    touched = min(links, CHANGES_PER_KICK * degree * (degree + 1))
    budget = SEARCH_WORK / (problem.skew.distributions.shape[1] + STEPS_PER_CANDIDATE) - SWEEPS * links
    number = int(np.clip(budget / touched, 0, MAX_KICKS)) if touched > 0 else 0
    draw = generator(problem.seed, "clustering/blend/kicks")
    users = draw.integers(problem.num_users, size=number * CHANGES_PER_KICK)
    link_of = graph.offsets[users] + (draw.random(len(users)) * graph.degrees[users]).astype(np.int64)
    joins = (draw.random(len(users)) < 0.5) & (graph.degrees[users] > 0)
    return users, np.where(joins, link_of, -1)


def _search_inputs(problem: Problem, drops: Floats, shift_weight: float) -> SearchInputs:
    skew, graph = problem.skew, problem.graph
    sent = problem.volumes[:, None] * (problem.sent_distributions - skew.global_distribution)
    return SearchInputs(
        graph.offsets,
        graph.neighbours,
        drops,
        # Both directions of a link are stored and rows are sorted, so ordering by neighbour reverses every link.
        drops[np.argsort(graph.neighbours, kind="stable")],
        np.append(problem.volumes, 0.0),
        np.vstack([sent, np.zeros(sent.shape[1])]),
        0.0 if problem.weighting == "B" else float(skew.sizes.sum()),
        shift_weight,
    )


def _search_state(inputs: SearchInputs, clustering: Clustering) -> SearchState:
    problem = clustering.problem
    skew, users = problem.skew, problem.num_users
    members = clustering.members
    drop = np.zeros(users)
    drop[members] = inputs.joins[clustering.links[members]]
    cost = costs_alone(problem, "js").sum() - drop.sum()
    shift = skew.sizes @ (skew.distributions - skew.global_distribution)
    shift += inputs.sent[clustering.head_of].sum(axis=0)
    widest = max(1, int(problem.graph.degrees.max(initial=0)))
    return SearchState(
        clustering.head_of.copy(),
        clustering.cluster_sizes.copy(),
        drop,
        np.array([cost, skew.sizes.sum() + clustering.received.sum(), np.abs(shift).sum()]),
        shift,
        np.zeros(users, dtype=np.int8),
        np.zeros_like(shift),
        np.zeros(widest, dtype=np.int64),
        np.zeros(widest),
    )


RULE = Rule(
    blend,
    "least mean JS divergence plus shift of the global label distribution, by local search",
    why="lowers mean JS divergence plus the shift of the global label distribution",
    composition="balanced",
    options=BlendOptions,
    scales=False,
)
