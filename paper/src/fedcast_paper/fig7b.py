"""Fig. 7b: convergence of JFVO at 10, 15 and 20 dB, and how much is shared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedcast.formatting import pluralize
from fedcast.report.figures.output import INK
from fedcast_paper.drawing import BLUE, GREEN, ORANGE, dress, legend, new_figure
from fedcast_paper.job import Job
from fedcast_paper.measures import NEAR, NEARER, PAPER_ITERATIONS, converged_after
from fedcast_paper.planning import ASSUMPTIONS, allocation_of, make_task, paper_scenario
from fedcast_paper.result import Columns, Result, Verdict, columns_of, where
from fedcast_paper.wording import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = (
    "JFVO converges within 6 iterations at 10, 15 and 20 dB; the average sharing ratio stays below 1 and grows with "
    "the SNR (the text explains why it should fall)."
)
SNRS_DB = (10, 15, 20)
_COLOURS = {10: ORANGE, 15: BLUE, 20: GREEN}
_SHOWN = 12  # iterations


def data(job: Job) -> Result:
    """Expected delay at every iterate of JFVO, and where it ends, in the same worlds at each SNR."""
    users, seeds = job.sized(smoke=50, full=100), job.seeds_or(smoke=2, full=10)
    traces, ends = [], []
    for seed, snr_db in job.each([(seed, snr_db) for seed in seeds for snr_db in SNRS_DB]):
        found = allocation_of(make_task(paper_scenario(users, seed, f"cellular.snr_db={snr_db}.0")), "jfvo")
        delays = [step.objective_s for step in found.trace]
        who = {"snr_db": snr_db, "seed": seed}
        traces += [{**who, "iteration": iteration, "delay_s": delay} for iteration, delay in enumerate(delays)]
        download_s, compute_s, upload_s = found.round.phases_s
        ends.append(
            {
                **who,
                "delay_s": found.relaxed_objective_s,
                "asr": found.average_sharing_ratio,
                "iterations": converged_after(delays, found.relaxed_objective_s, NEAR),
                "iterations_nearer": converged_after(delays, found.relaxed_objective_s, NEARER),
                "rounds": found.rounds,
                "download_s": download_s,
                "compute_s": compute_s,
                "upload_s": upload_s,
            }
        )
    end = columns_of(ends)
    return Result(
        tables={"trace": columns_of(traces), "end": end},
        scenario=paper_scenario(users, seeds[0]).model_dump(mode="json"),
        assumptions={
            **ASSUMPTIONS,
            "cellular SNR": "10, 15 and 20 dB for every user, down and up: the text speaks of downloading",
            "users": users,
            "seeds": list(seeds),
        },
        verdicts=(_converges(end), _shares_more(end)),
        notes=("That the average sharing ratio is below 1 says nothing: it is so by definition.",),
    )


def _converges(end: Columns) -> Verdict:
    slowest = {
        column: [max(where(end, snr_db=snr_db)[column]) for snr_db in SNRS_DB]
        for column in ("iterations", "iterations_nearer")
    }
    near, nearer = (
        ", ".join(f"{most} at {snr_db} dB" for snr_db, most in zip(SNRS_DB, each, strict=True))
        for each in slowest.values()
    )
    return Verdict(
        f"JFVO converges within {PAPER_ITERATIONS} iterations at every SNR, to {percent(NEAR)} of its end",
        "yes" if max(slowest["iterations"]) <= PAPER_ITERATIONS else "no",
        f"iterations in the slowest world, to stay within {percent(NEAR)}: {near}; within {percent(NEARER)}: {nearer}",
    )


def _shares_more(end: Columns) -> Verdict:
    ratios = [np.array(where(end, snr_db=snr_db)["asr"]) for snr_db in SNRS_DB]
    risen = ratios[-1] - ratios[0]
    each = ", ".join(f"{ratio.mean():.4f} at {snr_db} dB" for snr_db, ratio in zip(SNRS_DB, ratios, strict=True))
    return Verdict(
        "more is shared at a higher SNR",
        "yes" if (risen > 0).all() else "no" if (risen <= 0).all() else "partly",
        f"average sharing ratio {each}, mean of {pluralize(len(risen), 'world')}; from the lowest SNR to the "
        f"highest it falls in {(risen < 0).sum()} of them and rises in {(risen > 0).sum()}",
    )


def draw(result: Result) -> Figure:
    """Mean delay over worlds against iterations, and the sharing ratio at the end."""
    trace, end = result.tables["trace"], result.tables["end"]
    figure = new_figure(9.6, 3.6)
    left, right = figure.subplots(1, 2, width_ratios=[2, 1])
    for snr_db in SNRS_DB:
        rows = where(trace, snr_db=snr_db)
        mean = [np.mean(where(rows, iteration=iteration)["delay_s"]) for iteration in range(_SHOWN + 1)]
        left.plot(mean, color=_COLOURS[snr_db], marker="o", markersize=3.5, label=f"{snr_db} dB")
        ratios = np.array(where(end, snr_db=snr_db)["asr"])
        place = SNRS_DB.index(snr_db)
        right.bar(place, ratios.mean(), width=0.6, color=_COLOURS[snr_db])
        right.scatter(np.full(len(ratios), place), ratios, s=8, color=INK, alpha=0.5, zorder=3)
        right.annotate(f"{ratios.mean():.3f}", (place, 0.04), ha="center", color="white", fontsize=9)
    left.set_ylim(bottom=0)
    right.set_ylim(0, 1)
    right.set_xticks(range(len(SNRS_DB)), [f"{snr_db} dB" for snr_db in SNRS_DB])
    users, worlds = result.assumptions["users"], pluralize(len(result.assumptions["seeds"]), "world")
    dress(left, title=f"expected delay with JFVO, mean of {worlds}, K = {users}", x="iteration", y="s")
    dress(right, title="average sharing ratio (dots: worlds)", x="SNR to the base station")
    legend(left)
    return figure
