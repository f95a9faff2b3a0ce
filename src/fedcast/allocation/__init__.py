"""Allocation: how much heads share and how fast devices compute. One file per method; `METHODS` lists them."""

from fedcast.allocation.allocation_problem import AllocationProblem, make_allocation_problem, part_of
from fedcast.allocation.allocation_result import AllocationResult, evaluate, make_result
from fedcast.allocation.engine import Solution, Step
from fedcast.allocation.inner import Feasible, Minimiser, minimise_surrogate
from fedcast.allocation.methods import METHODS, Method, allocate, find_method, method_options
from fedcast.allocation.surrogate import Surrogate

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
]
