"""A clustering rule of your own: who leads, who follows. One function and one line in a table.

Here users with many samples lead, and everybody else joins the richest head that it may join.
The helpers, and what else a rule may look at, are described in docs/how-to/add-a-clustering-rule.md.
"""

import fedcast
from fedcast.clustering import RULES, Clustering, Problem, Rule
from fedcast.clustering.conformance import CHECKS
from fedcast.clustering.order import ascending
from fedcast.clustering.scan import cover, join_best


def richest(problem: Problem) -> Clustering:
    """Cover the graph by heads of many samples; members join the one that holds most."""
    sizes = problem.skew.sizes
    heads, _ = cover(problem, ascending(-sizes))
    return Clustering(problem, join_best(problem, heads, -sizes[problem.graph.neighbours]))


# The text completes "it is a head because it ..." wherever fedcast explains a clustering.
RULES["richest"] = Rule(richest, "holds the most samples where the graph was not covered yet")

# The kit that every rule of fedcast passes: constraints, repeatability, worlds without links, data or gain.
for check in CHECKS:
    check("richest")
print(f"richest passes all {len(CHECKS)} checks")

# From here on it is a rule like any other.
for rule in ("none", "daca", "richest"):
    settings = [f"clustering.rule={rule}", "data.partition=dirichlet", "data.alpha=0.3"]
    plan = fedcast.make_plan(fedcast.load_scenario(base="digits", overrides=settings), with_curve=False)
    print(f"{rule:8} {len(plan.heads):3} heads, EMD {plan.emd_after:.3f}, {plan.delay.total_s:.1f} s to the target")
