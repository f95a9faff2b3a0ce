"""Fig. 7a: convergence of JFVO, SMM and SAA."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedcast.formatting import pluralize
from fedcast.report import Axis, Figure, Level, Line, Panel, Text
from fedcast.typing import Floats
from fedcast_paper.figure_parts import METHOD_COLOURS, METHOD_DASHES, WIDE_PT
from fedcast_paper.job import Job, Reproduction
from fedcast_paper.planning_setting import ASSUMPTIONS, METHODS, RIVALS, allocation_of, make_task, paper_scenario
from fedcast_paper.reproduction_result import Columns, Result, Verdict, columns_of, where
from fedcast_paper.text_tables import percent
from fedcast_paper.verdicts import NEAR, NEARER, PAPER_ITERATIONS, converged_after, listed, lower_verdict

if TYPE_CHECKING:
    from fedcast.typing import Floats

PAPER = "JFVO falls faster than SMM and SAA, converges within 6 iterations and ends at a smaller total delay."
WHY = (
    "All methods solve the same problem here, with frequencies eliminated, and end at its optimum; only the path "
    "differs. The alternation as printed cannot increase a volume."
)
# Columns with the iterations after which a search stays within a tolerance of its final value.
ITERATIONS = {NEAR: "iterations", NEARER: "iterations_nearer"}
_SHOWN = 30  # iterations
_LEAST = 1e-5  # lower end of the axis, as a fraction of the delay


def data(job: Job) -> Result:
    """Compute the expected delay at every iterate of every method, with the same parameter vectors in each world."""
    users, seeds = job.sized(smoke=50, full=100), job.seeds_or(smoke=2, full=10)
    traces, ends = [], []
    for seed in job.each(seeds):
        task = make_task(paper_scenario(users, seed))
        for method in METHODS:
            found = allocation_of(task, method)
            delays, end_s = [step.objective_s for step in found.trace], found.relaxed_objective_s
            who = {"method": method, "seed": seed}
            traces += [{**who, "iteration": iteration, "delay_s": delay} for iteration, delay in enumerate(delays)]
            iterations = {column: converged_after(delays, end_s, near) for near, column in ITERATIONS.items()}
            ends.append({**who, "delay_s": end_s, **iterations, "asr": found.average_sharing_ratio})
    end = columns_of(ends)
    return Result(
        tables={"trace": columns_of(traces), "end": end},
        scenario=paper_scenario(users, seeds[0]).model_dump(mode="json"),
        assumptions={**ASSUMPTIONS, "users": users, "seeds": list(seeds)},
        verdicts=(_converges(end), _is_fastest(end), lower_verdict(end, "delay_s")),
        notes=(
            "Iteration 0 is the start. The final iterations of JFVO on all vectors are part of its final value, not of "
            "its trace.",
            "JFVO as printed cannot leave the start: with frequencies at their energy bound, the bound on each volume "
            "is the current volume.",
        ),
    )


def _converges(end: Columns) -> Verdict:
    """Judge whether JFVO converges in as few iterations in every world: partly if only to the wider tolerance."""
    rows = where(end, method="jfvo")
    each = " and ".join(
        f"within {percent(near)} after {np.mean(rows[column]):.1f} iterations on average, {max(rows[column])} at most"
        for near, column in ITERATIONS.items()
    )
    early = [max(rows[column]) <= PAPER_ITERATIONS for column in ITERATIONS.values()]
    return Verdict(
        f"JFVO converges within {PAPER_ITERATIONS} iterations",
        "yes" if all(early) else "partly" if any(early) else "no",
        f"it stays {each}, over {pluralize(len(rows['seed']), 'world')}",
    )


def _is_fastest(end: Columns) -> Verdict:
    """Judge whether JFVO needs the fewest iterations for both tolerances."""
    means = {
        near: {method: float(np.mean(where(end, method=method)[column])) for method in ("jfvo", *RIVALS)}
        for near, column in ITERATIONS.items()
    }
    fastest = [all(mean["jfvo"] < mean[method] for method in RIVALS) for mean in means.values()]
    each = "; ".join(f"within {percent(near)} {listed(mean, '.1f')}" for near, mean in means.items())
    return Verdict(
        "JFVO converges faster than SMM and SAA",
        "yes" if all(fastest) else "partly" if any(fastest) else "no",
        f"mean iterations over worlds until a method stays near its final value: {each}",
    )


def draw(result: Result) -> Figure:
    """Draw the mean delay over worlds, and its excess over the lowest delay that any method found."""
    trace, end = result.tables["trace"], result.tables["end"]
    least = {seed: min(where(end, seed=seed)["delay_s"]) for seed in set(end["seed"])}
    delays: list[Line] = []
    excess: list[Line | Level | Text] = [Level(near, f"within {percent(near)}", at_end=True) for near in ITERATIONS]
    for method, name in METHODS.items():
        colour, dash = METHOD_COLOURS[method], METHOD_DASHES[method]
        mean_s, above = (_mean_delays(trace, method, unit)[: _SHOWN + 1] for unit in (None, least))
        delays.append(Line(range(len(mean_s)), mean_s, colour, dash=dash, label=name))
        excess.append(Line(range(len(above)), np.maximum(above - 1, _LEAST / 10), colour, dash=dash))
        if above.min() - 1 < _LEAST:
            leaves = int(np.argmax(above - 1 < _LEAST))
            excess.append(Text(leaves, _LEAST, f"{name} is below from here on", dx=4, dy=-4, colour=colour))
    ticks = [10.0**power for power in range(round(np.log10(_LEAST)), 1)]
    y = Axis(limits=(_LEAST, None), kind="log", ticks=ticks, tick_labels=[percent(tick) for tick in ticks])
    title = f"expected delay, mean of {pluralize(len(least), 'world')}, K = {result.assumptions['users']}, s"
    left = Panel(delays, Axis("iteration"), Axis(limits=(0, None)), title)
    right = Panel(excess, Axis("iteration"), y, "excess over the lowest delay found")
    return Figure([[left, right]], width=WIDE_PT)


def _mean_delays(trace: Columns, method: str, unit: dict[int, float] | None = None) -> Floats:
    """Return the mean delay over worlds at each iteration, in units of each world if given."""
    worlds = dict.fromkeys(trace["seed"])
    delays = [
        np.array(where(trace, method=method, seed=seed)["delay_s"]) / (unit or {}).get(seed, 1) for seed in worlds
    ]
    mean: Floats = np.mean(delays, axis=0)
    return mean


REPRODUCTION = Reproduction("convergence of JFVO, SMM and SAA", PAPER, WHY, data, draw)
