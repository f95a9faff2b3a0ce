"""The table of clustering rules, and functions that run one or compare several."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from fedcast import registry
from fedcast.clustering.clustering_problem import Problem, Rule
from fedcast.clustering.clustering_result import Clustering, Proof
from fedcast.data import average_emd, average_js, distribution_shift
from fedcast.errors import FedcastError
from fedcast.scenario import BEST_RULE

RULES: registry.Values[Rule] = registry.Values("clustering")


def cluster(problem: Problem) -> Clustering:
    """Solve a problem with the rule that its settings name.

    Example:
        >>> from fedcast.clustering.sample_problems import path_problem
        >>> cluster(path_problem([[9, 1], [5, 5], [1, 9]], rule="gain")).head_of.tolist()
        [1, -1, 1]
    """
    name = problem.settings.rule
    if name == BEST_RULE:
        raise FedcastError(
            f"clustering.rule = {BEST_RULE}: a plan chooses the rule; name one to cluster without a plan"
        )
    found = find_rule(name).choose(with_composition(problem), problem.settings.options("clustering"))
    if not isinstance(found, Clustering):
        raise FedcastError(f"clustering rule {name!r} returned {found!r}: expected a Clustering")
    return found


def find_rule(name: str) -> Rule:
    """Return the rule of that name."""
    rule = registry.find("clustering", name).value
    if not isinstance(rule, Rule):
        raise FedcastError(f"clustering rule {name!r} is {rule!r}: expected a fedcast.clustering.Rule")
    return rule


def allocates(name: str) -> bool:
    """Return whether a rule has volumes to allocate; one that is not installed is taken to have."""
    return name not in RULES or find_rule(name).allocates


def uses_method(name: str) -> bool:
    """Return whether volumes of a rule depend on the allocation method: its own, or DACA's that the server matches."""
    return allocates(name) or from_server(name)


def from_server(name: str) -> bool:
    """Return whether a rule has the server send samples; one that is not installed is taken not to."""
    return name in RULES and find_rule(name).from_server


def quick_rules(problem: Problem) -> list[str]:
    """Return the names of all rules for which enough users can share, except those that prove the optimum."""
    return [name for name in RULES if not find_rule(name).proves and enough_can_share(problem, name)]


def enough_can_share(problem: Problem, rule: str) -> bool:
    """Return whether enough users can share for a rule; where none can, most rules find that there are no heads."""
    return max(1, can_share(problem)) >= least_users(problem, rule)


def least_users(problem: Problem, rule: str) -> int:
    """Return how many users with samples to share a rule needs."""
    return find_rule(rule).least_users(problem.settings.options("clustering", rule))


def can_share(problem: Problem) -> int:
    """Return how many users have samples to share."""
    return int(np.count_nonzero(problem.volumes > 0))


def proving_rule() -> str:
    """Return the name of the rule that proves the optimum."""
    return next(name for name in RULES if find_rule(name).proves)


def with_composition(problem: Problem, rule: str | None = None) -> Problem:
    """Return the problem for a given rule (default: its own) with composition ``auto`` replaced by the rule's own.

    Where the descriptor does not show labels (`Problem.one_hot` is false) a head can only send a random part, so
    ``auto`` means ``own`` there, and ``balanced`` is an error.
    """
    name = problem.settings.rule if rule is None else rule
    composition = problem.settings.composition
    if composition == "balanced" and not problem.one_hot:
        raise FedcastError(
            "invalid value 'balanced' for clustering.composition: it needs a descriptor that shows labels "
            "(data.descriptor = classes); use own or auto"
        )
    if composition == "auto":
        composition = find_rule(name).composition if problem.one_hot else "own"
    settings = problem.settings.model_copy(update={"rule": name, "composition": composition})
    return problem if settings == problem.settings else replace(problem, settings=settings)


@dataclass(frozen=True)
class RuleComparison:
    """One rule on the problem.

    `gap` is the relative excess of the average EMD, in the weighting of the problem, over a proven lower bound for this
    composition; None: not computed, or not a clustering on this graph.
    """

    rule: str  # its name
    composition: str  # own or balanced
    heads: int  # number of heads
    members: int  # users with a head; with a broadcast, all users that receive it
    emd_before: float  # average EMD before sharing
    emd_after_a: float  # average EMD after sharing, weights as printed in the paper
    emd_after_b: float  # the same, weights by sizes after sharing
    emd_after_c: float  # the same, weights by sizes before sharing
    js_before: float  # mean JS divergence before sharing, nats
    js_after: float  # the same after sharing, in the weighting of the problem
    shift: float  # of the global label distribution
    gap: float | None
    gap_exact: bool | None  # whether that bound is the optimum; None where `gap` is
    worst_rate_bps: float | None  # the slowest multicast, bit/s; None: nobody multicasts, or a pair has no link
    average_sharing_ratio: float  # leakage, see `Clustering.average_sharing_ratio`
    seconds: float  # time taken by the rule
    clustering: Clustering  # the result itself

    def as_dict(self) -> dict[str, Any]:
        """Return all but the clustering as plain values, ready for JSON."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "clustering"}


def compare(
    problem: Problem, rules: Sequence[str] | None = None, *, exact_limit_s: float | None = None
) -> list[RuleComparison]:
    """Solve the problem with each rule.

    Args:
        problem: its own rule is ignored, its other options are used.
        rules: names; None: all `quick_rules`.
        exact_limit_s: time limit for the optimum, once for each composition; None: no gaps, unless ``exact`` is one
            of the rules.

    Example:
        >>> from fedcast.clustering.sample_problems import path_problem
        >>> rows = compare(path_problem([[9, 1], [5, 5], [1, 9]]), ["none", "gain", "exact"])
        >>> [(row.rule, row.heads, row.members, round(row.emd_after_b, 4)) for row in rows]
        [('none', 0, 0, 0.5333), ('gain', 1, 2, 0.5), ('exact', 1, 2, 0.5)]
        >>> [round(row.gap, 4) if row.gap is not None else None for row in rows]
        [None, 0.0, 0.0]
    """
    names = quick_rules(problem) if rules is None else list(rules)
    for name in names:
        find_rule(name)
    solved = [_timed(problem, name) for name in names]
    bounds: dict[str, Proof | None] = {_composition(found): found.proof for found, _ in solved if found.proof}
    if exact_limit_s is not None:
        for composition in sorted({_composition(found) for found, _ in solved if _comparable(found)} - set(bounds)):
            rule, settings = proving_rule(), problem.settings
            tables = {**settings.tables, rule: {"time_limit_s": float(exact_limit_s)}}
            changes = {"composition": composition, "tables": tables, "rule": rule}
            bounds[composition] = cluster(replace(problem, settings=settings.model_copy(update=changes))).proof
    return [_row(found, seconds, bounds.get(_composition(found))) for found, seconds in solved]


def _timed(problem: Problem, rule: str) -> tuple[Clustering, float]:
    asked = with_composition(problem, rule)
    start = time.perf_counter()
    return cluster(asked), time.perf_counter() - start


def _composition(clustering: Clustering) -> str:
    return clustering.problem.settings.composition


def _comparable(clustering: Clustering) -> bool:
    return clustering.broadcast is None and not clustering.ignores_graph


def _row(clustering: Clustering, seconds: float, proof: Proof | None) -> RuleComparison:
    skew, after, weighting = clustering.problem.skew, clustering.after, clustering.problem.weighting
    gap, gap_exact = _gap(clustering, proof)
    rates = clustering.worst_rates_bps
    known = len(rates) > 0 and not np.isnan(rates).any()
    return RuleComparison(
        clustering.rule,
        _composition(clustering),
        len(clustering.heads),
        int(np.count_nonzero(clustering.received)) if clustering.broadcast else len(clustering.members),
        average_emd(skew),
        average_emd(skew, after, "A"),
        average_emd(skew, after, "B"),
        average_emd(skew, after, "C"),
        average_js(skew),
        average_js(skew, after, weighting),
        distribution_shift(after),
        gap,
        gap_exact,
        float(rates.min()) if known else None,
        clustering.average_sharing_ratio,
        seconds,
        clustering,
    )


def _gap(clustering: Clustering, proof: Proof | None) -> tuple[float | None, bool | None]:
    if proof is None or not _comparable(clustering):
        return None, None
    value = average_emd(clustering.problem.skew, clustering.after, clustering.problem.weighting)
    gap = replace(proof, value=value).gap
    return (gap if np.isfinite(gap) else None), proof.optimal
