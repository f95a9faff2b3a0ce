"""Clustering: who shares samples with whom. One file per rule; `rules.RULES` is the table of them."""

from fedcast.clustering.blend import blend_objective
from fedcast.clustering.composition import water_fill
from fedcast.clustering.conditions import ConditionReport, check_conditions
from fedcast.clustering.explanation import Explanation, HeadRow, UserRow, explain
from fedcast.clustering.order import ascending
from fedcast.clustering.problem import ROUNDING, Problem, Rule, make_problem
from fedcast.clustering.result import Broadcast, Clustering, Proof
from fedcast.clustering.rule_comparison import Comparison, compare
from fedcast.clustering.rules import RULES, cluster, find_rule, with_composition
from fedcast.clustering.scan import cover, join_best
from fedcast.clustering.worlds import DataKind, disc_problem, path_problem, table_problem, user_counts

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
