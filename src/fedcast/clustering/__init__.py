"""Clustering: who shares samples with whom. `RULES` lists the rules."""

from fedcast._deprecated import renamed
from fedcast.clustering.blend import blend_objective
from fedcast.clustering.central import matched_volume
from fedcast.clustering.clustering_problem import ROUNDING, Problem, Rule, make_problem, water_fill
from fedcast.clustering.clustering_result import Broadcast, Clustering, Proof
from fedcast.clustering.explanation import (
    REASONS,
    STATUSES,
    ConditionReport,
    Explanation,
    HeadRow,
    Status,
    UserRow,
    check_conditions,
    explain,
)
from fedcast.clustering.rules import (
    RULES,
    RuleComparison,
    allocates,
    can_share,
    cluster,
    compare,
    enough_can_share,
    find_rule,
    from_server,
    least_users,
    proving_rule,
    quick_rules,
    uses_method,
    with_composition,
)
from fedcast.clustering.sample_problems import DataKind, disc_problem, path_problem, table_problem, user_counts
from fedcast.clustering.selection import ascending, cover, join_best

__all__ = [
    "REASONS",
    "ROUNDING",
    "RULES",
    "STATUSES",
    "Broadcast",
    "Clustering",
    "ConditionReport",
    "DataKind",
    "Explanation",
    "HeadRow",
    "Problem",
    "Proof",
    "Rule",
    "RuleComparison",
    "Status",
    "UserRow",
    "allocates",
    "ascending",
    "blend_objective",
    "can_share",
    "check_conditions",
    "cluster",
    "compare",
    "cover",
    "disc_problem",
    "enough_can_share",
    "explain",
    "find_rule",
    "from_server",
    "join_best",
    "least_users",
    "make_problem",
    "matched_volume",
    "path_problem",
    "proving_rule",
    "quick_rules",
    "table_problem",
    "user_counts",
    "uses_method",
    "water_fill",
    "with_composition",
]

__getattr__ = renamed(__name__, {"Comparison": RuleComparison})
