"""Clustering: who shares samples with whom. One file per rule; `RULES` lists them."""

from fedcast.clustering.blend import blend_objective
from fedcast.clustering.clustering_problem import ROUNDING, Problem, Rule, make_problem, water_fill
from fedcast.clustering.clustering_result import Broadcast, Clustering, Proof
from fedcast.clustering.conditions import ConditionReport, check_conditions
from fedcast.clustering.explanation import Explanation, HeadRow, UserRow, explain
from fedcast.clustering.rule_comparison import Comparison, compare
from fedcast.clustering.rules import RULES, allocates, cluster, find_rule, with_composition
from fedcast.clustering.sample_problems import DataKind, disc_problem, path_problem, table_problem, user_counts
from fedcast.clustering.selection import ascending, cover, join_best

__all__ = [
    "ROUNDING",
    "RULES",
    "Broadcast",
    "Clustering",
    "Comparison",
    "ConditionReport",
    "DataKind",
    "Explanation",
    "HeadRow",
    "Problem",
    "Proof",
    "Rule",
    "UserRow",
    "allocates",
    "ascending",
    "blend_objective",
    "check_conditions",
    "cluster",
    "compare",
    "cover",
    "disc_problem",
    "explain",
    "find_rule",
    "join_best",
    "make_problem",
    "path_problem",
    "table_problem",
    "user_counts",
    "water_fill",
    "with_composition",
]
