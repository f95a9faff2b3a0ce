"""Define allocation methods, look them up by name, and run one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike

from fedcast import registry
from fedcast.allocation.allocation_problem import AllocationProblem, make_allocation_problem
from fedcast.allocation.allocation_result import AllocationResult, make_result
from fedcast.allocation.engine import Solution
from fedcast.allocation.inner import Minimiser, minimise_surrogate
from fedcast.clustering import Clustering
from fedcast.cost import Fleet
from fedcast.rounds import RoundsModel
from fedcast.scenario import Allocation


@dataclass(frozen=True)
class Method:
    """An allocation method.

    Attributes:
        find: from a problem and the method's options to ratios; deterministic.
        summary: one line that says what it does.
        options: frozen dataclass of its options, see `fedcast.registry.option`.
        optimises: whether it chooses volumes; otherwise they are given, and only rounded down.
    """

    find: Callable[[AllocationProblem, Any], Solution]
    summary: str
    options: type[Any] = registry.NoOptions
    optimises: bool = True

    def __call__(self, problem: AllocationProblem, options: Any = None) -> Solution:
        """Solve a problem; options default to those of the dataclass."""
        return self.find(problem, self.options() if options is None else options)


METHODS: registry.Values[Method] = registry.Values("allocation")


def find_method(name: str) -> Method:
    """Return the method of that name, or explain which there are.

    Example:
        >>> find_method("saa").summary
        'sample average: all parameter vectors in every step'
    """
    method: Method = registry.find("allocation", name).value
    return method


def method_options(settings: Allocation, **changes: Any) -> Any:
    """Return the options of the method that the settings name.

    Args:
        settings: section of the scenario.
        changes: values that replace those of the settings, for options that the method has.

    Example:
        >>> method_options(Allocation(method="smm"), steps=4, ratio=0.5)
        SmmOptions(steps=4, surrogate_exponent=0.6)
    """
    options = settings.options("allocation")
    fields = registry.option_fields(type(options))
    return replace(options, **{name: value for name, value in changes.items() if name in fields})


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
    options: Any = None,
    minimiser: Minimiser = minimise_surrogate,
) -> AllocationResult:
    r"""Choose how much every head shares and how fast every device computes: least :math:`E_\beta[\tau^s + T \tau]`.

    Args:
        clustering: who shares with whom; its weighting and composition are used, its volumes are ignored.
        fleet: devices, links and consent of all K users.
        rounds_model: rounds as a function of skew.
        settings: method, caps, what to do with users that cannot take part.
        bits_per_sample: bits of one sample.
        rate_bps: float[K], rate of the link from each member's head, bit/s; None: the graph's.
        beta_samples: parameter vectors in the evaluation set.
        seed: of every draw.
        with_gap: also find the global optimum and report the gap to it.
        options: of the method; None: those of the settings.
        minimiser: of the engine's surrogates; the exact one by default.

    Raises:
        FedcastError: an unknown method, users without a feasible frequency, a skew outside the fit.

    Example:
        >>> from fedcast.clustering import cluster, path_problem
        >>> from fedcast.cost import fleet_of
        >>> from fedcast.network import layout_from_positions
        >>> from fedcast.rounds import load_rounds
        >>> from fedcast.scenario import Rounds, Scenario
        >>> clustering = cluster(path_problem([[90, 10], [50, 50], [10, 90]], rule="gain"))
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
    found = method(problem, method_options(settings) if options is None else options)
    best_s = problem.objective_s(problem.at(find_method("oracle")(problem).x)) if with_gap else None
    result = make_result(problem, settings.method, found, best_s, free_rounding=method.optimises)
    rounds_model.check(result.skew, result.shift)
    rounds_model.check_target(result.skew)
    return result
