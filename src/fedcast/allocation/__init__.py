"""Allocation: how much heads share and how fast devices compute. One file per method; `METHODS` is the table."""

from fedcast.allocation.engine import Step
from fedcast.allocation.fit_files import RoundsFit, load_fit, load_rounds, save_fit, shipped_fits
from fedcast.allocation.fitting import fit_accuracy, fit_rounds
from fedcast.allocation.methods import METHODS, Method, allocate
from fedcast.allocation.problem import AllocationProblem, make_allocation_problem
from fedcast.allocation.result import AllocationResult, evaluate
from fedcast.allocation.rounds import AccuracyFit, BetaSet, RoundsModel

__all__ = [
    "METHODS",
    "AccuracyFit",
    "AllocationProblem",
    "AllocationResult",
    "BetaSet",
    "Method",
    "RoundsFit",
    "RoundsModel",
    "Step",
    "allocate",
    "evaluate",
    "fit_accuracy",
    "fit_rounds",
    "load_fit",
    "load_rounds",
    "make_allocation_problem",
    "save_fit",
    "shipped_fits",
]
