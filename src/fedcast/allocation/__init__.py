"""Allocation: how much heads share and how fast devices compute. One file per method; `METHODS` is the table."""

from fedcast.allocation.engine import Step
from fedcast.allocation.methods import METHODS, Method, allocate
from fedcast.allocation.minimise import Feasible, Minimiser, minimise_surrogate
from fedcast.allocation.problem import AllocationProblem, make_allocation_problem
from fedcast.allocation.result import AllocationResult, evaluate
from fedcast.allocation.surrogate import Surrogate

__all__ = [
    "METHODS",
    "AllocationProblem",
    "AllocationResult",
    "Feasible",
    "Method",
    "Minimiser",
    "Step",
    "Surrogate",
    "allocate",
    "evaluate",
    "make_allocation_problem",
    "minimise_surrogate",
]
