"""Fig. 8: running time of JFVO, SMM and SAA against the number of users, with fedcast's minimiser and with CVXPY."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module
from time import process_time
from typing import Any, Literal

import numpy as np

from fedcast.allocation import METHODS as FINDERS
from fedcast.allocation import AllocationProblem, Feasible, Minimiser, Surrogate
from fedcast.report import Axis, Figure, Line, Panel
from fedcast.typing import Floats
from fedcast_paper.figure_parts import METHOD_COLOURS, METHOD_DASHES, WIDE_PT
from fedcast_paper.job import Job, Reproduction
from fedcast_paper.planning_setting import ASSUMPTIONS, METHODS, RIVALS, make_task, paper_scenario, problem_of
from fedcast_paper.reproduction_result import Answer, Columns, Result, Verdict, columns_of, processor, where
from fedcast_paper.verdicts import listed

PAPER = "The time of SAA and SMM grows significantly with the number of users, that of JFVO remains nearly constant."
WHY = (
    "With a general solver the times of all three methods grow alike, including JFVO's; with the exact inner solver "
    "they hardly grow."
)
TIMED = ("jfvo", *RIVALS)
CVXPY_SOLVER = "CLARABEL"
SOLVERS = {"fedcast": "fedcast's minimiser", "cvxpy": "CVXPY as minimiser"}
# Nearly constant: less than doubled from the smallest to the largest number of users.
FLAT = 2.0
_SHAPES: dict[str, Literal["circle", "square", "triangle"]] = {"jfvo": "circle", "smm": "square", "saa": "triangle"}


def data(job: Job) -> Result:
    """Measure the CPU time of each search, which other processes on the machine hardly affect."""
    users = job.sized(smoke=(50, 100), full=(50, 100, 200, 400, 700, 1000))
    seeds, repeats = job.seeds_or(smoke=1, full=3), job.sized(smoke=1, full=3)
    _time_all(
        problem_of(make_task(paper_scenario(users[0], seeds[0])))
    )  # warm up: imports and compilation are not timed
    rows: list[dict[str, Any]] = []
    for count, seed in job.each([(count, seed) for count in users for seed in seeds]):
        task = make_task(paper_scenario(count, seed))
        world = {"users": count, "seed": seed, "clusters": len(task.clustering.heads)}
        problem = problem_of(task)
        for repeat in range(repeats):
            rows += [{**world, **row} for row in _time_all(problem, with_cvxpy=repeat == 0)]
    times = columns_of(rows)
    return Result(
        tables={"times": times},
        scenario=paper_scenario(users[0], seeds[0]).model_dump(mode="json"),
        assumptions={
            **ASSUMPTIONS,
            "users": list(users),
            "seeds": list(seeds),
            "timed": "CPU time of the search alone, without world, clustering and rounding: fedcast "
            f"{repeats} times in each world; CVXPY with {CVXPY_SOLVER} once, including one compilation per search; the "
            "figure shows medians",
            "machine": f"{processor()}, threads: {os.environ.get('OMP_NUM_THREADS', 'not limited')}",
        },
        verdicts=_verdicts(times),
        notes=(
            _slower_with_cvxpy(times),
            "Times differ between runs; everything else is the same for the same seeds.",
        ),
    )


def _time_all(problem: AllocationProblem, *, with_cvxpy: bool = True) -> list[dict[str, Any]]:
    rows = []
    for method in TIMED:
        rows.append({"method": method, "solver": "fedcast", **_timed(problem, method)})
        if with_cvxpy:
            rows.append({"method": method, "solver": "cvxpy", **_timed_with_cvxpy(problem, method)})
    return rows


def _timed(problem: AllocationProblem, method: str) -> dict[str, float]:
    begun = process_time()
    found = FINDERS[method](problem)
    return {"seconds": process_time() - begun, "delay_s": problem.objective_s(problem.at(found.x))}


def _timed_with_cvxpy(problem: AllocationProblem, method: str) -> dict[str, float]:
    begun = process_time()
    problem = replace(problem, minimiser=cvxpy_minimiser(problem.feasible))
    build_s = process_time() - begun
    timed = _timed(problem, method)
    return {**timed, "seconds": build_s + timed["seconds"]}


def medians(times: Columns, solver: str, method: str) -> dict[int, float]:
    """Return the median seconds by number of users."""
    rows = where(times, solver=solver, method=method)
    return {count: float(np.median(where(rows, users=count)["seconds"])) for count in dict.fromkeys(rows["users"])}


def growth(times: Columns, solver: str) -> dict[str, float]:
    """Return the time of each method with the most users divided by that with the fewest."""
    by_users = {method: list(medians(times, solver, method).values()) for method in TIMED}
    return {method: seconds[-1] / seconds[0] for method, seconds in by_users.items()}


def _verdicts(times: Columns) -> tuple[Verdict, ...]:
    grown = {solver: growth(times, solver) for solver in SOLVERS}
    flat = [factors["jfvo"] < FLAT for factors in grown.values()]
    rivals_grow = [all(factors[method] >= FLAT for method in RIVALS) for factors in grown.values()]
    apart = [constant and grow for constant, grow in zip(flat, rivals_grow, strict=True)]
    each = "; ".join(f"{listed(factors, '.1f')} with {SOLVERS[solver]}" for solver, factors in grown.items())
    evidence = f"times grow from K = {min(times['users']):,} to {max(times['users']):,} by factors of {each}"
    return (
        Verdict("JFVO's running time is nearly constant in the number of users", _of(flat), evidence),
        Verdict("unlike JFVO's, the times of SMM and SAA grow with the number of users", _of(apart), evidence),
    )


def _of(by_solver: list[bool]) -> Answer:
    return "yes" if all(by_solver) else "partly" if any(by_solver) else "no"


def _slower_with_cvxpy(times: Columns) -> str:
    top = max(times["users"])
    slower = {method: medians(times, "cvxpy", method)[top] / medians(times, "fedcast", method)[top] for method in TIMED}
    each = ", ".join(f"{factor:.0f} ({METHODS[method]})" for method, factor in slower.items())
    return f"At K = {top:,} CVXPY takes {each} times as long as fedcast's minimiser."


def draw(result: Result) -> Figure:
    """Draw median seconds against users, a panel for each solver."""
    times = result.tables["times"]
    users, seconds = sorted(set(times["users"])), times["seconds"]
    x = Axis("users", kind="log", ticks=users, tick_labels=[f"{count:,}" for count in users])
    y = Axis("CPU time, s", (0.8 * min(seconds), 1.2 * max(seconds)), kind="log")
    panels = []
    for solver, name in SOLVERS.items():
        by_method = {method: medians(times, solver, method) for method in TIMED}
        lines = [
            Line(
                list(by_users), list(by_users.values()), METHOD_COLOURS[method], dash=METHOD_DASHES[method],
                shape=_SHAPES[method], label=METHODS[method],
            )
            for method, by_users in by_method.items()
        ]  # fmt: skip
        panels.append(Panel(lines, x, y, name))
    return Figure([panels], width=WIDE_PT)


def cvxpy_minimiser(feasible: Feasible) -> Minimiser:
    r"""Return a minimiser of surrogates on one feasible set that uses CVXPY, compiled once.

    .. math:: \min_{x, t, s}\; w t + w_T s + b^\top x + \tfrac12 \sum_m q_m x_m^2 \quad \text{s.t.} \quad
        0 \le x \le u,\; x_m \le r_m t,\; s \ge s_0,\; s \ge g_k(n_k + n_m x_m)

    with :math:`g_k` the round delay of user k. Without a limit of the average sharing ratio.
    """
    cp: Any = import_module("cvxpy")  # its functions are untyped
    clusters, delay = len(feasible.upper), feasible.delay
    x, sharing_s, round_s = cp.Variable(clusters), cp.Variable(), cp.Variable()
    weight, rounds = cp.Parameter(nonneg=True), cp.Parameter(nonneg=True)
    linear, curvature = cp.Parameter(clusters), cp.Parameter(clusters, nonneg=True)
    limits = [x >= 0, x <= feasible.upper, x <= feasible.rate * sharing_s, round_s >= delay.floor_s]
    if len(delay.cluster):
        samples = delay.sizes + cp.multiply(feasible.sizes[delay.cluster], x[delay.cluster])
        # κ ñ^1.5 with κ inside the power, which is better scaled.
        by_energy = cp.power(cp.multiply(delay.energy_s ** (2 / 3), samples), 1.5)
        limits += [round_s >= delay.offset_s + cp.multiply(delay.linear_s, samples)]
        limits += [round_s >= delay.offset_s + by_energy]
    square = cp.sum(cp.multiply(curvature, cp.square(x))) / 2
    problem = cp.Problem(cp.Minimize(weight * sharing_s + rounds * round_s + linear @ x + square), limits)

    def minimise(surrogate: Surrogate, _: Feasible) -> Floats:
        weight.value, rounds.value = surrogate.sharing_weight, surrogate.round_weight
        linear.value, curvature.value = surrogate.linear, surrogate.curvature
        problem.solve(solver=CVXPY_SOLVER)
        found: Floats = np.clip(x.value, 0.0, feasible.upper)
        return found

    return minimise


REPRODUCTION = Reproduction("running time of JFVO, SMM and SAA against users", PAPER, WHY, data, draw)
