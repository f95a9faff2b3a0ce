"""Your own allocation method as a plug-in: every head shares the same ratio, the best of a few.

A scenario names this file (plugins = ["own_allocation.py"]) and sets allocation.method = "uniform".
"""

from dataclasses import dataclass

import numpy as np

from fedcast.allocation import Method, Solution
from fedcast.registry import option, register


@dataclass(frozen=True)
class Options:
    """Options of `uniform`: the table [allocation.uniform] of a scenario."""

    ratios: int = option(11, "ratios tried, from 0 to the largest allowed", ge=2)


def uniform(problem, options):
    """Return the best of a few ratios, the same for all heads as far as their caps allow."""
    equal = np.linspace(0.0, problem.caps.max(initial=0.0), options.ratios)
    tried = [problem.feasible.scaled_to_limit(np.minimum(ratio, problem.caps)) for ratio in equal]
    return Solution(problem.best_of(tried))


METHOD = Method(uniform, "the best equal ratio for all heads", options=Options)
register("allocation", "uniform", METHOD)

if __name__ == "__main__":
    from fedcast.testing.allocation import CHECKS, gaps_to_optimum

    for check in CHECKS:
        check(METHOD, METHOD.options())
    print(f"uniform passes all {len(CHECKS)} checks")
    print(f"at most {max(gaps_to_optimum(METHOD, METHOD.options())):.1%} above the optimum")
