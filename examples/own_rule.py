"""A clustering rule of your own, as a plug-in: who leads, who follows.

Run this file to check and compare the rule; a scenario file names it with ``plugins = ["own_rule.py"]``. Here users
with many samples lead, and every other user joins the largest head that it may join. What else a rule may use is
described in docs/how-to/add-a-clustering-rule.md.
"""

from dataclasses import dataclass

from fedcast.clustering import Clustering, Problem, Rule, ascending, cover, join_best
from fedcast.registry import option, register


@dataclass(frozen=True)
class RichestOptions:
    """Options of the rule, the table ``[clustering.richest]`` of a scenario."""

    min_samples: int = option(0, "users with fewer samples do not lead", ge=0)


def richest(problem: Problem, options: RichestOptions) -> Clustering:
    """Cover the graph by heads of many samples; members join the one that holds most."""
    sizes = problem.skew.sizes
    heads, _ = cover(problem, ascending(-sizes))
    heads &= sizes >= options.min_samples
    return Clustering(problem, join_best(problem, heads, -sizes[problem.graph.neighbours]))


register(
    "clustering",
    "richest",
    Rule(
        richest,
        "heads of many samples cover the graph",
        # Completes "it is a head because it ..." wherever fedcast explains a clustering.
        why="holds the most samples where the graph was not covered yet",
        options=RichestOptions,
    ),
)

if __name__ == "__main__":
    import fedcast
    from fedcast.testing.clustering import CHECKS

    # The conformance kit that every built-in rule passes: constraints, repeatability, problems without links or data.
    for check in CHECKS:
        check("richest")
    print(f"richest passes all {len(CHECKS)} checks")

    # From here on it is a rule like any other.
    for rule in ("none", "daca", "richest"):
        settings = [f"clustering.rule={rule}", "data.partition=dirichlet", "data.dirichlet.alpha=0.3"]
        plan = fedcast.make_plan(fedcast.load_scenario(base="digits", overrides=settings), with_curve=False)
        print(f"{rule:8} {len(plan.heads):3} heads, EMD {plan.emd_after:.3f}, {plan.delay.total_s:.1f} s to the target")
