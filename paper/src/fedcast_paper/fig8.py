"""Fig. 8: running time of JFVO, SMM and SAA against the number of users, with fedcast's minimiser and with CVXPY."""

from __future__ import annotations

import os
from dataclasses import replace
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcast.allocation import METHODS as FINDERS
from fedcast.allocation import AllocationProblem
from fedcast_paper.by_cvxpy import SOLVER, cvxpy_minimiser, load_cvxpy
from fedcast_paper.drawing import COLOURS, DASHES, MARKS, dress, legend, new_figure
from fedcast_paper.job import Job
from fedcast_paper.measures import listed
from fedcast_paper.origin import processor
from fedcast_paper.planning import ASSUMPTIONS, METHODS, RIVALS, make_task, paper_scenario, problem_of
from fedcast_paper.result import Answer, Columns, Result, Verdict, columns_of, where

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = "The time of SAA and SMM grows significantly with the number of users, that of JFVO remains nearly constant."
TIMED = ("jfvo", *RIVALS)
SOLVERS = {"fedcast": "fedcast's minimiser", "cvxpy": "CVXPY as minimiser"}
# Nearly constant: less than doubled from the fewest users to the most.
FLAT = 2.0
_TICKS_S = (0.1, 0.3, 1.0, 3.0, 10.0)


def data(job: Job) -> Result:
    """Seconds of CPU time of each search, as in the paper; what else the machine does is not in them."""
    load_cvxpy()
    users = job.sized(smoke=(50, 100), full=(50, 100, 200, 400, 700, 1000))
    seeds, repeats = job.seeds_or(smoke=1, full=3), job.sized(smoke=1, full=3)
    _time_all(problem_of(make_task(paper_scenario(users[0], seeds[0]))))  # what is loaded on first use is not timed
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
            "timed": "CPU time of the search alone, without world, clusters and rounding: fedcast's "
            f"{repeats} times in each world; CVXPY's with {SOLVER} once, compiled once for each search, which is in "
            "its time; medians are drawn",
            "machine": f"{processor()}, threads: {os.environ.get('OMP_NUM_THREADS', 'not limited')}",
        },
        verdicts=_verdicts(times),
        notes=(
            _slower_with_cvxpy(times),
            "Times differ from run to run; everything else is the same for the same seeds.",
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
    """Median seconds by number of users."""
    rows = where(times, solver=solver, method=method)
    return {count: float(np.median(where(rows, users=count)["seconds"])) for count in dict.fromkeys(rows["users"])}


def growth(times: Columns, solver: str) -> dict[str, float]:
    """How many times longer each method takes with the most users than with the fewest."""
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
    """Median seconds against users, one panel for each solver."""
    times = result.tables["times"]
    figure = new_figure(9.6, 3.8)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (solver, name) in zip(panels, SOLVERS.items(), strict=True):
        for method in TIMED:
            by_users = medians(times, solver, method)
            style: dict[str, Any] = {"color": COLOURS[method], "linestyle": DASHES[method], "marker": MARKS[method]}
            axes.plot(list(by_users), list(by_users.values()), label=METHODS[method], markersize=5, **style)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(list(by_users), [f"{count:,}" for count in by_users])
        axes.set_yticks(_TICKS_S, [f"{seconds:g}" for seconds in _TICKS_S])
        axes.minorticks_off()
        dress(axes, title=name, x="users", y="CPU time, s" if axes is panels[0] else "")
    legend(panels[0])
    return figure
