"""Clustering: who shares samples with whom. One file per rule; `rules.RULES` is the table of them."""

from fedcast.clustering.blend import blend_objective
from fedcast.clustering.compare import Comparison, compare
from fedcast.clustering.conditions import ConditionReport, check_conditions
from fedcast.clustering.explain import Explanation, HeadRow, UserRow, explain
from fedcast.clustering.problem import Problem, make_problem
from fedcast.clustering.result import Broadcast, Clustering, Proof
from fedcast.clustering.rules import RULES, Rule, cluster

__all__ = [
    "RULES",
    "Broadcast",
    "Clustering",
    "Comparison",
    "ConditionReport",
    "Explanation",
    "HeadRow",
    "Problem",
    "Proof",
    "Rule",
    "UserRow",
    "blend_objective",
    "check_conditions",
    "cluster",
    "compare",
    "explain",
    "make_problem",
]
