"""Allocation: how much heads share and how fast devices compute. One file per method; `METHODS` lists them."""

from fedcast.allocation.allocation_problem import AllocationProblem, make_allocation_problem, part_of, skew_for_model
from fedcast.allocation.engine import Solution, Step
from fedcast.allocation.inner import Feasible, Minimiser, Surrogate, minimise_surrogate
from fedcast.allocation.methods import (
    METHODS,
    AllocationResult,
    Method,
    allocate,
    evaluate,
    find_method,
    make_result,
    method_options,
    solve,
)

__all__ = [
    "METHODS",
    "AllocationProblem",
    "AllocationResult",
    "Feasible",
    "Method",
    "Minimiser",
    "Solution",
    "Step",
    "Surrogate",
    "allocate",
    "evaluate",
    "find_method",
    "make_allocation_problem",
    "make_result",
    "method_options",
    "minimise_surrogate",
    "part_of",
    "skew_for_model",
    "solve",
]
