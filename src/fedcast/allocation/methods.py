"""Define allocation methods, look them up by name, run one, and evaluate what it finds.

The final volumes are integers. Rounding down never breaks a constraint: caps and the limit on the average sharing ratio
are upper bounds, and the energy constraint is met by the frequencies, which are recomputed for the rounded volumes.
Rounding to the nearest integer is used instead where it breaks no constraint either and is better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcast import registry
from fedcast.allocation.allocation_problem import AllocationProblem, make_allocation_problem, part_of, skew_for_model
from fedcast.allocation.engine import Solution, Step
from fedcast.allocation.inner import Minimiser, minimise_surrogate
from fedcast.clustering import ROUNDING, Clustering
from fedcast.cost import Fleet, RoundCost, round_cost, sharing_cost, task_s
from fedcast.data import distribution_shift
from fedcast.rounds import BetaSet, RoundsModel, local_steps
from fedcast.scenario import Allocation
from fedcast.typing import Floats, Ints


@dataclass(frozen=True)
class Method:
    """An allocation method; `options` is the frozen dataclass of its options, see `fedcast.registry.option`."""

    find: Callable[[AllocationProblem, Any], Solution]  #: from a problem and the options to ratios; deterministic
    summary: str  #: one line that says what it does
    options: type[Any] = registry.NoOptions
    optimises: bool = True  #: whether it chooses volumes; otherwise they are given, and only rounded down

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


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The cost of given volumes, by `fedcast.data.skew` and `fedcast.cost` alone."""

    clustering: Clustering  #: with these volumes; users that are left out have no head
    skew: float  #: average skew after sharing, by the measure of the rounds model
    shift: float  #: of the global label distribution
    steps: float  #: mean number of local steps in a round
    rounds: float  #: expected rounds to the target
    sharing_s: float  #: sharing delay
    trained: NDArray[np.bool_]  #: [K], which users train (those that can, and hold samples after sharing)
    round: RoundCost  #: cost of one round, of the users that train, in the order of their ids
    objective_s: float  #: expected delay of the task, sharing delay + rounds x delay of a round


@dataclass(frozen=True, eq=False)
class AllocationResult(Evaluation):
    """Volumes of heads and frequencies of devices, with the cost of rounded volumes."""

    method: str  #: name of the method
    volumes: Floats  #: [K], real volumes as optimised; 0 for all but heads
    shared: Ints  #: [K], samples that each head sends to each member
    frequency_hz: Floats  #: [K], CPU frequencies; 0 for users that do not train
    relaxed_objective_s: float  #: expected delay of the task with real volumes
    trace: tuple[Step, ...]  #: one entry for each iteration
    betas: BetaSet  #: parameter vectors over which every expectation is taken
    gap: float | None = None  #: relative excess of `relaxed_objective_s` over the global optimum, if computed
    bound_s: float | None = None  #: a delay that no real volumes are below, if proven: by `oracle` with form ``law``

    @property
    def round_s(self) -> float:
        """Return the delay of one round, s."""
        return self.round.expected_s

    @property
    def average_sharing_ratio(self) -> float:
        """Return the average sharing ratio (leakage), in [0, 1]."""
        return self.clustering.average_sharing_ratio

    @property
    def left_out(self) -> Ints:
        """Return the ids of the users that do not train."""
        return np.flatnonzero(~self.trained)


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
    batch_size: int = 10,
    with_gap: bool = False,
    options: Any = None,
    minimiser: Minimiser = minimise_surrogate,
) -> AllocationResult:
    r"""Choose how much every head shares and how fast every device computes: least :math:`E_\beta[\tau^s + T \tau]`.

    Args:
        clustering: who shares with whom; its weighting and composition are used, its volumes are ignored.
        fleet: devices, links and consent of all K users.
        rounds_model: rounds as a function of skew, and of local steps if it is of form ``law``.
        settings: method, caps, what to do with users that cannot take part.
        bits_per_sample: bits of one sample.
        rate_bps: float[K], rate of the link from each member's head, bit/s; None: the graph's.
        beta_samples: parameter vectors in the evaluation set.
        seed: of every draw.
        batch_size: samples of a local step; used by rounds models of form ``law``.
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
        >>> layout = layout_from_positions([[600.0, 600.0]] * 3, Scenario().geometry, [[0.0, 0.0]])
        >>> rounds = load_rounds(Rounds(fit="paper-0.95", target_accuracy=0.95))
        >>> result = allocate(clustering, fleet_of(Scenario(), layout), rounds, bits_per_sample=256)
        >>> result.shared.tolist(), round(result.skew, 3)
        ([0, 20, 0], 0.471)
    """
    settings = Allocation() if settings is None else settings
    find_method(settings.method)
    problem = make_allocation_problem(
        clustering,
        fleet,
        rounds_model,
        settings,
        bits_per_sample=bits_per_sample,
        rate_bps=rate_bps,
        beta_samples=beta_samples,
        seed=seed,
        batch_size=batch_size,
        minimiser=minimiser,
    )
    return solve(problem, settings, with_gap=with_gap, options=options)


def solve(
    problem: AllocationProblem, settings: Allocation, *, with_gap: bool = False, options: Any = None
) -> AllocationResult:
    """Solve an allocation problem by the method of the settings; arguments are those of `allocate`.

    For several numbers of local epochs or limits of the average sharing ratio, make the problem once and solve
    `AllocationProblem.with_epochs`, `with_max_asr` and `with_start` of it.
    """
    method = find_method(settings.method)
    found = method(problem, method_options(settings) if options is None else options)
    best_s = None
    if with_gap:
        best = found if settings.method == "oracle" else find_method("oracle")(problem)
        best_s, found = problem.objective_s(problem.at(best.x)), found._replace(bound_s=best.bound_s)
    result = make_result(problem, settings.method, found, best_s, free_rounding=method.optimises)
    problem.model.check(result.skew, result.shift)
    problem.model.check_target(result.skew, result.rounds)
    return result


def evaluate(problem: AllocationProblem, volumes: Floats) -> Evaluation:
    """Return the cost of volumes float64[K], computed independently of the searches."""
    clustering = problem.clustering.with_volumes(volumes)
    # A member without samples whose head sends nothing has nothing to train on.
    trained = problem.trained & (clustering.after.sizes > 0)
    before, after = part_of(clustering.problem.skew, trained), part_of(clustering.after, trained)
    counted = part_of(clustering.after_worth(problem.worth), trained)
    skew = skew_for_model(before, counted, problem.model, clustering.problem.weighting)
    shift = distribution_shift(counted)
    steps = local_steps(before.sizes, counted.sizes, problem.fleet.local_epochs, problem.batch_size)
    rounds = problem.betas.expected(skew, shift, steps).rounds
    cost = round_cost(problem.fleet.of(trained[problem.trained]), after.sizes)
    sent = clustering.head_of, clustering.shared, problem.rate_bps, problem.bits_per_sample
    sharing_s = sharing_cost(*sent, power_w=1.0).sharing_s
    total_s = task_s(sharing_s, cost.expected_s, rounds)
    return Evaluation(clustering, skew, shift, steps, rounds, sharing_s, trained, cost, total_s)


def make_result(
    problem: AllocationProblem, method: str, found: Solution, best_s: float | None = None, *, free_rounding: bool = True
) -> AllocationResult:
    """Return the result of a search: rounded, evaluated, and compared with the global optimum `best_s` if given."""
    volumes = problem.volumes_of_users(found.x)
    relaxed_s = problem.objective_s(problem.at(found.x))
    candidates = [evaluate(problem, near) for near in _rounded(problem, volumes, free=free_rounding)]
    rounded = min(candidates, key=lambda evaluation: evaluation.objective_s)
    frequency = np.zeros(len(volumes))
    frequency[rounded.trained] = rounded.round.frequency_hz
    return AllocationResult(
        **vars(rounded),
        method=method,
        volumes=volumes,
        shared=rounded.clustering.problem.volumes.astype(np.int64),
        frequency_hz=frequency,
        relaxed_objective_s=relaxed_s,
        trace=found.trace,
        betas=problem.betas,
        gap=None if best_s is None else (relaxed_s - best_s) / best_s,
        bound_s=found.bound_s,
    )


def _rounded(problem: AllocationProblem, volumes: Floats, *, free: bool) -> list[Floats]:
    """Return feasible integer volumes near the given ones: rounded down and, if allowed, to the nearest."""
    heads, feasible = problem.clustering.heads, problem.feasible
    down, nearest = np.floor(volumes + ROUNDING), np.round(volumes)
    nearest[heads] = np.minimum(nearest[heads], np.floor(feasible.upper * feasible.sizes + ROUNDING))
    use_both = free and not np.array_equal(nearest, down) and feasible.allows(nearest[heads] / feasible.sizes)
    return [down, nearest] if use_both else [down]
