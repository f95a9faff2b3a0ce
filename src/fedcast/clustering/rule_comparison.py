"""Compare several rules on one problem."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from fedcast.clustering.clustering_problem import Problem
from fedcast.clustering.clustering_result import Clustering
from fedcast.clustering.rules import RULES, cluster, find_rule, with_composition
from fedcast.data import average_emd, average_js, distribution_shift


@dataclass(frozen=True)
class Comparison:
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
) -> list[Comparison]:
    """Solve the problem with each rule.

    Args:
        problem: its own rule is ignored, its other options are used.
        rules: names; None: all but ``exact``.
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
    names = [name for name in RULES if name != "exact"] if rules is None else list(rules)
    for name in names:
        find_rule(name)
    solved = [_timed(problem, name) for name in names]
    bounds = {_composition(found): found for found, _ in solved if found.proof is not None}
    if exact_limit_s is not None:
        for composition in sorted({_composition(found) for found, _ in solved if _comparable(found)} - set(bounds)):
            bounds[composition] = _exact(problem, composition, exact_limit_s)
    return [_row(found, seconds, bounds) for found, seconds in solved]


def _timed(problem: Problem, rule: str) -> tuple[Clustering, float]:
    asked = with_composition(problem, rule)
    start = time.perf_counter()
    return cluster(asked), time.perf_counter() - start


def _exact(problem: Problem, composition: str, limit_s: float) -> Clustering:
    settings = problem.settings
    tables = {**settings.tables, "exact": {"time_limit_s": float(limit_s)}}
    changes = {"composition": composition, "tables": tables, "rule": "exact"}
    return cluster(replace(problem, settings=settings.model_copy(update=changes)))


def _composition(clustering: Clustering) -> str:
    return clustering.problem.settings.composition


def _comparable(clustering: Clustering) -> bool:
    return clustering.broadcast is None and not clustering.ignores_graph


def _row(clustering: Clustering, seconds: float, bounds: dict[str, Clustering]) -> Comparison:
    skew, after, weighting = clustering.problem.skew, clustering.after, clustering.problem.weighting
    gap, gap_exact = _gap(clustering, bounds.get(_composition(clustering)))
    rates = clustering.worst_rates_bps
    known = len(rates) > 0 and not np.isnan(rates).any()
    return Comparison(
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


def _gap(clustering: Clustering, best: Clustering | None) -> tuple[float | None, bool | None]:
    if best is None or best.proof is None or not _comparable(clustering):
        return None, None
    value = average_emd(clustering.problem.skew, clustering.after, clustering.problem.weighting)
    gap = replace(best.proof, value=value).gap
    return (gap if np.isfinite(gap) else None), best.proof.optimal
