"""The table of methods, and how one is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from numpy.typing import ArrayLike

from fedcast.allocation.engine import Found
from fedcast.allocation.fixed import fixed
from fedcast.allocation.jfvo import jfvo
from fedcast.allocation.jfvo_literal import jfvo_literal
from fedcast.allocation.minimise import Minimiser, minimise_surrogate
from fedcast.allocation.oracle import oracle
from fedcast.allocation.problem import AllocationProblem, make_allocation_problem
from fedcast.allocation.result import AllocationResult, make_result
from fedcast.allocation.saa import saa
from fedcast.allocation.smm import smm
from fedcast.clustering import Clustering
from fedcast.cost import Fleet
from fedcast.errors import FedcastError
from fedcast.rounds.model import RoundsModel
from fedcast.scenario import Allocation


@dataclass(frozen=True)
class Method:
    """A way to allocate.

    Attributes:
        find: from a problem to ratios; the same problem always gives the same ones.
        why: one line for people.
        optimises: whether it chooses volumes; otherwise it takes them as given, and they are only rounded down.
    """

    find: Callable[[AllocationProblem], Found]
    why: str
    optimises: bool = True


METHODS: dict[str, Method] = {
    "jfvo": Method(jfvo, "stochastic convex approximation, frequencies eliminated"),
    "jfvo_literal": Method(jfvo_literal, "the same as the paper prints it, frequencies and volumes in turns"),
    "smm": Method(smm, "stochastic majorisation-minimisation: every iterate a minimiser"),
    "saa": Method(saa, "sample average: all parameter vectors in every step"),
    "fixed": Method(fixed, "one given ratio for every head", optimises=False),
    "oracle": Method(oracle, "exhaustive search in two dimensions: the global optimum"),
}


def allocate(
    clustering: Clustering,
    fleet: Fleet,
    rounds_model: RoundsModel,
    settings: Allocation | None = None,
    *,
    bits_per_sample: float,
    rate_bps: ArrayLike | None = None,
    beta_samples: int = 200,
    seed: int = 0,
    with_gap: bool = False,
    minimiser: Minimiser = minimise_surrogate,
) -> AllocationResult:
    r"""Choose how much every head shares and how fast every device computes: least :math:`E_\beta[\tau^s + T \tau]`.

    Args:
        clustering: who shares with whom; its weighting and composition count, its volumes are not looked at.
        fleet: devices, links and consent of all K users.
        rounds_model: rounds against skew.
        settings: method, caps, steps, what to do with users that cannot take part.
        bits_per_sample: bits of one sample.
        rate_bps: float[K], rate of the link from each member's head, bit/s; None: the graph's.
        beta_samples: parameter vectors in the evaluation set.
        seed: of every draw.
        with_gap: also find the global optimum and report the gap to it.
        minimiser: of the engine's surrogates; the exact one by default.

    Raises:
        FedcastError: users without a feasible frequency, a skew outside the fit, an option that cannot be used.

    Example:
        >>> from fedcast.allocation import load_rounds
        >>> from fedcast.clustering import cluster, worlds
        >>> from fedcast.cost import fleet_of
        >>> from fedcast.scenario import Rounds, Scenario
        >>> from fedcast.network import layout_from_positions
        >>> clustering = cluster(worlds.path_problem([[90, 10], [50, 50], [10, 90]], rule="gain"))
        >>> layout = layout_from_positions([[600.0, 600.0]] * 3, Scenario().geometry)
        >>> result = allocate(clustering, fleet_of(Scenario(), layout), load_rounds(Rounds()), bits_per_sample=256)
        >>> result.shared.tolist(), round(result.skew, 3)
        ([0, 20, 0], 0.471)
    """
    settings = Allocation() if settings is None else settings
    method = find_method(settings.method)
    problem = make_allocation_problem(
        clustering,
        fleet,
        rounds_model,
        settings,
        bits_per_sample=bits_per_sample,
        rate_bps=rate_bps,
        beta_samples=beta_samples,
        seed=seed,
        minimiser=minimiser,
    )
    found = method.find(problem)
    best_s = problem.objective_s(problem.at(oracle(problem).x)) if with_gap else None
    result = make_result(problem, settings.method, found, best_s, free_rounding=method.optimises)
    rounds_model.check(result.skew, result.shift)
    rounds_model.check_target(result.skew)
    return result


def find_method(name: str) -> Method:
    """The method of that name.

    Example:
        >>> find_method("saa").why
        'sample average: all parameter vectors in every step'
    """
    if name not in METHODS:
        raise FedcastError(f"allocation.method: there is no method {name!r}; choose one of {', '.join(METHODS)}")
    return METHODS[name]
