"""Fig. 9b: total delay and its parts against the number of users, heads interfering with each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedcast.allocation import AllocationResult
from fedcast.formatting import pluralize
from fedcast.report.figures.output import INK, MUTED
from fedcast_paper.drawing import BLUE, GREEN, ORANGE, PURPLE, dress, legend, new_figure
from fedcast_paper.job import Job
from fedcast_paper.measures import Relation, lower_verdict, rank_correlation
from fedcast_paper.planning import ASSUMPTIONS, DEVICES, METHODS, allocation_of, make_task, paper_scenario
from fedcast_paper.result import Answer, Columns, Result, Verdict, columns_of, where

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER = (
    "JFVO's total delay is below that of SMM and SAA; its sharing delay grows slightly with the number of users, as "
    "heads interfere more."
)
PARTS = {"sharing_s": "sharing", "download_s": "download", "compute_s": "compute", "upload_s": "upload"}
INTERFERENCE = {"concurrent": "all heads at once", "noise_rise": "noise rise of 3 dB"}
_COLOURS = {"sharing_s": ORANGE, "download_s": GREEN, "compute_s": BLUE, "upload_s": PURPLE}
_SHORT = {"jfvo": "JFVO", "smm": "SMM", "saa": "SAA", "jfvo_literal": "as printed"}


def data(job: Job) -> Result:
    """Delay and its parts in every world: all methods with interfering heads, JFVO also with a fixed noise rise."""
    users = job.sized(smoke=(50, 100), full=(50, 100, 200, 350, 500))
    seeds = job.seeds_or(smoke=1, full=20)
    rows = []
    for count, seed in job.each([(count, seed) for count in users for seed in seeds]):
        for devices, kind in [(devices, kind) for devices in DEVICES for kind in INTERFERENCE]:
            task = make_task(paper_scenario(count, seed, f"sidelink.interference={kind}", *DEVICES[devices]))
            world = {"devices": devices, "users": count, "seed": seed, "interference": kind}
            methods = METHODS if kind == "concurrent" else ("jfvo",)
            rows += [{**world, "method": method, **_parts(allocation_of(task, method))} for method in methods]
    delays = columns_of(rows)
    return Result(
        tables={"delays": delays},
        scenario=paper_scenario(users[0], seeds[0], "sidelink.interference=concurrent").model_dump(mode="json"),
        assumptions={
            **ASSUMPTIONS,
            "interference": "all heads send at once; their sum replaces the noise rise of 3 dB, with which the graph "
            "is built and JFVO runs once more for comparison",
            "faster devices": f"{', '.join(DEVICES['faster devices'])}, as in preset default",
            "users": list(users),
            "seeds": list(seeds),
        },
        verdicts=tuple(verdict for devices in DEVICES for verdict in _verdicts(delays, devices)),
        notes=(_share_of_computing(delays),),
    )


def _parts(found: AllocationResult) -> dict[str, float]:
    rounds, (download_s, compute_s, upload_s) = found.rounds, found.round.phases_s
    parts = (found.sharing_s, rounds * download_s, rounds * compute_s, rounds * upload_s)
    shared = {"rounds": rounds, "asr": found.average_sharing_ratio}
    return {**dict(zip(PARTS, parts, strict=True)), "total_s": found.objective_s, **shared}


def _share_of_computing(delays: Columns) -> str:
    """Why the other parts can hardly be seen with Table I."""
    rows = {devices: where(delays, devices=devices, method="jfvo", interference="concurrent") for devices in DEVICES}
    shares = {devices: sum(part["compute_s"]) / sum(part["total_s"]) for devices, part in rows.items()}
    return (
        "Computing is "
        + ", ".join(f"{100 * share:.0f} % ({name})" for name, share in shares.items())
        + " of JFVO's delay."
    )


def _verdicts(delays: Columns, devices: str) -> tuple[Verdict, ...]:
    rows = where(delays, devices=devices)
    lower = lower_verdict(where(rows, interference="concurrent"), "total_s", f" ({devices})")
    growth = {kind: _growth(where(rows, method="jfvo", interference=kind)) for kind in INTERFERENCE}
    return lower, _sharing_grows(growth["concurrent"], devices), _by_interference(growth, devices)


class Growth(NamedTuple):
    """Of a sharing delay with the number of users: from the median among the fewest to that among the most."""

    fewest: int
    most: int
    first_s: float
    last_s: float
    relation: Relation

    def __str__(self) -> str:
        return f"{self.first_s:.1f} s to {self.last_s:.1f} s, rank correlation {self.relation}"


def _growth(rows: Columns) -> Growth:
    ends = min(rows["users"]), max(rows["users"])
    first_s, last_s = (float(np.median(where(rows, users=users)["sharing_s"])) for users in ends)
    return Growth(*ends, first_s, last_s, rank_correlation(rows["users"], rows["sharing_s"]))


def _sharing_grows(growth: Growth, devices: str) -> Verdict:
    return Verdict(
        f"JFVO's sharing delay grows with the number of users ({devices})",
        "yes" if growth.relation.rises else "no",
        f"median from K = {growth.fewest} to {growth.most}: {growth}; the paper's grows slightly, ours "
        f"{growth.last_s / growth.first_s:.1f}-fold",
    )


def _by_interference(growth: Mapping[str, Growth], devices: str) -> Verdict:
    """Interference alone, if the delay does not grow without."""
    grows, also_without = (growth[kind].relation.rises for kind in INTERFERENCE)
    answer: Answer = "no" if not grows else "partly" if also_without else "yes"
    each = "; ".join(f"with {name} {growth[kind]}" for kind, name in INTERFERENCE.items())
    return Verdict(f"interference alone makes JFVO's sharing delay grow ({devices})", answer, each)


def draw(result: Result) -> Figure:
    """For each kind of device: mean delay in parts for each method and number of users, and sharing alone."""
    figure = new_figure(12.0, 7.4)
    panels = figure.subplots(2, len(DEVICES), height_ratios=[1.5, 1])
    worlds = pluralize(len(result.assumptions["seeds"]), "world")
    for column, devices in enumerate(DEVICES):
        rows = where(result.tables["delays"], devices=devices)
        whole, sharing = panels[:, column]
        _draw_parts(whole, where(rows, interference="concurrent"))
        for kind, name in INTERFERENCE.items():
            _draw_sharing(sharing, where(rows, method="jfvo", interference=kind), kind, name)
        sharing.set_ylim(bottom=0)
        dress(whole, title=f"{devices}: total delay, mean of {worlds}, heads interfere", x="users", y="s")
        dress(sharing, title="sharing delay of JFVO: median and middle half", x="users", y="s")
    legend(panels[0, 0], ncols=4, loc="upper right")
    legend(panels[1, 0], loc="upper left")
    return figure


def _draw_parts(axes: Axes, delays: Columns) -> None:
    users = list(dict.fromkeys(delays["users"]))
    width = 0.86 / len(METHODS)
    for place, method in enumerate(METHODS):
        middle = np.arange(len(users)) + (place - (len(METHODS) - 1) / 2) * width
        top = np.zeros(len(users))
        for part, name in PARTS.items():
            means = [np.mean(where(delays, method=method, users=count)[part]) for count in users]
            axes.bar(middle, means, 0.9 * width, top, color=_COLOURS[part], label=name if place == 0 else None)
            top += means
        for x, y in zip(middle, top, strict=True):
            above = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center", "rotation": 90}
            axes.annotate(_SHORT[method], (x, y), fontsize=7, color=MUTED, **above)  # type: ignore[arg-type]
    axes.set_xticks(range(len(users)), [f"{count:,}" for count in users])
    axes.margins(y=0.3)


def _draw_sharing(axes: Axes, rows: Columns, kind: str, name: str) -> None:
    users = list(dict.fromkeys(rows["users"]))
    quartiles = np.array([np.quantile(where(rows, users=count)["sharing_s"], [0.25, 0.5, 0.75]) for count in users]).T
    colour, dash = (ORANGE, "-") if kind == "concurrent" else (INK, "--")
    axes.plot(users, quartiles[1], color=colour, linestyle=dash, marker="o", markersize=4, label=name)
    axes.fill_between(users, quartiles[0], quartiles[2], color=colour, alpha=0.15, linewidth=0)
    axes.set_xticks(users)
