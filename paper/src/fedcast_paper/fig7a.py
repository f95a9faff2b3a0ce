"""Fig. 7a: convergence of JFVO, SMM and SAA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedcast.formatting import pluralize
from fedcast.report.figures.output import INK
from fedcast_paper.drawing import COLOURS, DASHES, dress, legend, new_figure
from fedcast_paper.job import Job
from fedcast_paper.measures import NEAR, NEARER, PAPER_ITERATIONS, converged_after, listed, lower_verdict
from fedcast_paper.planning import ASSUMPTIONS, METHODS, RIVALS, allocation_of, make_task, paper_scenario
from fedcast_paper.result import Columns, Result, Verdict, columns_of, where
from fedcast_paper.wording import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fedcast.typing import Floats

PAPER = "JFVO falls faster than SMM and SAA, converges within 6 iterations and ends at a smaller total delay."
# Columns with the iterations after which a search stays so near to its end.
ITERATIONS = {NEAR: "iterations", NEARER: "iterations_nearer"}
_SHOWN = 30  # iterations
_LEAST = 1e-5  # share of the delay below which nothing is shown


def data(job: Job) -> Result:
    """Expected delay at every iterate of every method, on the one set of parameter vectors of each world."""
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
            "Iteration 0 is the start. JFVO's closing steps on all vectors are in its end, not in its trace.",
            "JFVO as printed cannot leave the start: with frequencies on their energy bound, the bound on each volume "
            "is the present volume.",
        ),
    )


def _converges(end: Columns) -> Verdict:
    rows = where(end, method="jfvo")
    each = " and ".join(
        f"within {percent(near)} after {np.mean(rows[column]):.1f} iterations on average, {max(rows[column])} at most"
        for near, column in ITERATIONS.items()
    )
    return Verdict(
        f"JFVO converges within {PAPER_ITERATIONS} iterations, to {percent(NEAR)} of its end",
        "yes" if max(rows[ITERATIONS[NEAR]]) <= PAPER_ITERATIONS else "no",
        f"it stays {each}, over {pluralize(len(rows['seed']), 'world')}",
    )


def _is_fastest(end: Columns) -> Verdict:
    """Whether it is, however near is near."""
    means = {
        near: {method: float(np.mean(where(end, method=method)[column])) for method in ("jfvo", *RIVALS)}
        for near, column in ITERATIONS.items()
    }
    fastest = [all(mean["jfvo"] < mean[method] for method in RIVALS) for mean in means.values()]
    each = "; ".join(f"within {percent(near)} {listed(mean, '.1f')}" for near, mean in means.items())
    return Verdict(
        "JFVO converges faster than SMM and SAA",
        "yes" if all(fastest) else "partly" if any(fastest) else "no",
        f"iterations after which each stays near its end, mean over worlds: {each}",
    )


def draw(result: Result) -> Figure:
    """Mean delay over worlds, as in the paper, and how far it is above the least that any method found."""
    trace, end = result.tables["trace"], result.tables["end"]
    least = {seed: min(where(end, seed=seed)["delay_s"]) for seed in set(end["seed"])}
    figure = new_figure(9.6, 3.8)
    left, right = figure.subplots(1, 2)
    for method, name in METHODS.items():
        style: dict[str, Any] = {"color": COLOURS[method], "linestyle": DASHES[method], "linewidth": 1.8}
        left.plot(_mean_delays(trace, method)[: _SHOWN + 1], label=name, **style)
        above = _mean_delays(trace, method, least)[: _SHOWN + 1] - 1
        right.plot(np.maximum(above, _LEAST / 10), **style)
        if above.min() < _LEAST:
            _mark_leaving(right, name, int(np.argmax(above < _LEAST)), COLOURS[method])
    _mark_tolerances(right)
    left.set_ylim(bottom=0)
    users, worlds = result.assumptions["users"], pluralize(len(least), "world")
    dress(left, title=f"expected delay, mean of {worlds}, K = {users}", x="iteration", y="s")
    dress(right, title="above the least that any method found", x="iteration")
    legend(left, loc="lower right")
    return figure


def _mark_leaving(axes: Axes, name: str, iteration: int, shade: str) -> None:
    """Where a line goes below what is shown."""
    place: dict[str, Any] = {"xytext": (4, 4), "textcoords": "offset points"}
    axes.annotate(f"{name} is below from here on", (iteration, _LEAST), fontsize=8, color=shade, **place)


def _mark_tolerances(axes: Axes) -> None:
    """What counts as converged, on a logarithmic axis in percent."""
    for near in ITERATIONS:
        axes.axhline(near, color=INK, linewidth=0.7)
        place: dict[str, Any] = {"xytext": (0, 2), "textcoords": "offset points", "ha": "right"}
        axes.annotate(f"within {percent(near)}", (0.62 * _SHOWN, near), fontsize=8, color=INK, **place)
    axes.set_yscale("log")
    axes.set_ylim(bottom=_LEAST)
    ticks = [10.0**power for power in range(int(np.log10(_LEAST)), 1)]
    axes.set_yticks(ticks, [percent(tick) for tick in ticks])
    axes.minorticks_off()


def _mean_delays(trace: Columns, method: str, unit: dict[int, float] | None = None) -> Floats:
    """Delay at each iteration, mean over worlds, in units of each world's own."""
    worlds = dict.fromkeys(trace["seed"])
    delays = [
        np.array(where(trace, method=method, seed=seed)["delay_s"]) / (unit or {}).get(seed, 1) for seed in worlds
    ]
    mean: Floats = np.mean(delays, axis=0)
    return mean
