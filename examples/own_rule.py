"""Your own clustering rule as a plug-in: plugins = ["own_rule.py"]; see docs/how-to/add-a-clustering-rule.md."""

from dataclasses import dataclass

from fedcast.clustering import Clustering, Problem, Rule, ascending, cover, join_best
from fedcast.registry import option, register


@dataclass(frozen=True)
class Options:
    """The table [clustering.richest]."""

    min_samples: int = option(0, "users with fewer samples do not lead", ge=0)


def richest(problem: Problem, options: Options) -> Clustering:
    """Cover the graph by heads of many samples; members join the one that holds most."""
    sizes = problem.skew.sizes
    heads, _ = cover(problem, ascending(-sizes))
    heads &= sizes >= options.min_samples
    return Clustering(problem, join_best(problem, heads, -sizes[problem.graph.neighbours]))


# Explanations complete "it is a head because it ..." with `why`.
why = "holds the most samples where the graph was not covered yet"
register("clustering", "richest", Rule(richest, "heads of many samples cover the graph", why=why, options=Options))

if __name__ == "__main__":
    import fedcast
    from fedcast.testing.clustering import CHECKS

    for check in CHECKS:
        check("richest")
    print(f"richest passes all {len(CHECKS)} checks")

    for rule in ("none", "daca", "richest"):
        settings = [f"clustering.rule={rule}", "training.local_epochs=5"]
        plan = fedcast.make_plan(fedcast.load_scenario(base="digits", overrides=settings), with_curve=False)
        print(f"{rule:8} {len(plan.heads):3} heads, EMD {plan.emd_after:.3f}, {plan.delay.total_s:.1f} s to the target")
