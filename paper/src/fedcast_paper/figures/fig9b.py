"""Fig. 9b: total delay and its parts against the number of users, with interference between heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fedcast.allocation import AllocationResult
from fedcast.formatting import pluralize
from fedcast.report import INK, Axis, Bars, Figure, Line, Panel, Text
from fedcast_paper.figure_parts import BLUE, GREEN, ORANGE, PURPLE
from fedcast_paper.job import Job, Reproduction
from fedcast_paper.planning_setting import ASSUMPTIONS, DEVICES, METHODS, allocation_of, make_task, paper_scenario
from fedcast_paper.reproduction_result import Answer, Columns, Result, Verdict, columns_of, where
from fedcast_paper.verdicts import Relation, lower_verdict, rank_correlation

PAPER = (
    "JFVO's total delay is below that of SMM and SAA; its sharing delay grows slightly with the number of users, as "
    "heads interfere more."
)
WHY = (
    "With interference between heads the sharing delay grows with the number of users, and by far more than slightly "
    "with the devices of Table I; with the fixed 3 dB of that table it hardly does. All methods end equal: they solve "
    "the same problem to its optimum."
)
PARTS = {"sharing_s": "sharing", "download_s": "download", "compute_s": "compute", "upload_s": "upload"}
INTERFERENCE = {"concurrent": "concurrent heads", "noise_rise": "noise rise of 3 dB"}
_COLOURS = {"sharing_s": ORANGE, "download_s": GREEN, "compute_s": BLUE, "upload_s": PURPLE}
_SHORT = {"jfvo": "JFVO", "smm": "SMM", "saa": "SAA", "jfvo_literal": "as printed"}


def data(job: Job) -> Result:
    """Compute the delay and its parts in every world: all methods with interference, JFVO also with a noise rise."""
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
            "interference": "all heads send at the same time; the sum of their powers replaces the noise rise of "
            "3 dB, with which the graph is built and JFVO runs again for comparison",
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
    """Report the fraction of computation, which hides the other parts with Table I."""
    rows = {devices: where(delays, devices=devices, method="jfvo", interference="concurrent") for devices in DEVICES}
    shares = {devices: sum(part["compute_s"]) / sum(part["total_s"]) for devices, part in rows.items()}
    return (
        "Computation takes "
        + ", ".join(f"{100 * share:.0f} % ({name})" for name, share in shares.items())
        + " of JFVO's delay."
    )


def _verdicts(delays: Columns, devices: str) -> tuple[Verdict, ...]:
    rows = where(delays, devices=devices)
    lower = lower_verdict(where(rows, interference="concurrent"), "total_s", f" ({devices})")
    growth = {kind: _growth(where(rows, method="jfvo", interference=kind)) for kind in INTERFERENCE}
    return lower, _sharing_grows(growth["concurrent"], devices), _by_interference(growth, devices)


class Growth(NamedTuple):
    """Growth of a sharing delay from the smallest to the largest number of users, as medians."""

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
        f"median from K = {growth.fewest} to {growth.most}: {growth}; in the paper it grows slightly, "
        f"here by a factor of {growth.last_s / growth.first_s:.1f}",
    )


def _by_interference(growth: Mapping[str, Growth], devices: str) -> Verdict:
    """Judge whether the delay grows with interference and does not grow without."""
    grows, also_without = (growth[kind].relation.rises for kind in INTERFERENCE)
    answer: Answer = "no" if not grows else "partly" if also_without else "yes"
    each = "; ".join(f"with {name} {growth[kind]}" for kind, name in INTERFERENCE.items())
    return Verdict(f"interference alone makes JFVO's sharing delay grow ({devices})", answer, each)


def draw(result: Result) -> Figure:
    """Draw for each kind of device: mean delay and its parts by method and number of users, and the sharing delay."""
    worlds = pluralize(len(result.assumptions["seeds"]), "world")
    columns = []
    for devices in DEVICES:
        rows = where(result.tables["delays"], devices=devices)
        sharing = [_sharing(where(rows, method="jfvo", interference=kind), kind) for kind in INTERFERENCE]
        users = sorted(set(rows["users"]))
        parts = _parts_by_method(where(rows, interference="concurrent"), users)
        top = 1.3 * max(mark.y for mark in parts if isinstance(mark, Text))
        groups = Axis("users", ticks=range(len(users)), tick_labels=[f"{count:,}" for count in users])
        columns.append(
            [
                Panel(parts, groups, Axis(limits=(0, top)), f"{devices}: total delay, s, mean of {worlds}", 260.0),
                Panel(
                    sharing, Axis("users", ticks=users), Axis(limits=(0, None)),
                    "sharing delay of JFVO, s: median and quartiles",
                ),
            ]
        )  # fmt: skip
    return Figure(list(zip(*columns, strict=True)), width=860.0)


def _parts_by_method(delays: Columns, users: list[int]) -> list[Bars | Text]:
    """Return stacked bars for each method and number of users, with the name of the method above."""
    width = 0.86 / len(METHODS)
    marks: list[Bars | Text] = []
    for place, method in enumerate(METHODS):
        middle = np.arange(len(users)) + (place - (len(METHODS) - 1) / 2) * width
        top = np.zeros(len(users))
        for part, name in PARTS.items():
            means = [np.mean(where(delays, method=method, users=count)[part]) for count in users]
            marks.append(Bars(middle, means, _COLOURS[part], top, 0.9 * width, label=name))
            top = top + means
        marks += [
            Text(x, y, _SHORT[method], dx=3, dy=-4, rotate=90, role="tick") for x, y in zip(middle, top, strict=True)
        ]
    return marks


def _sharing(rows: Columns, kind: str) -> Line:
    """Return the median sharing delay against users, with quartiles as a band."""
    users = list(dict.fromkeys(rows["users"]))
    low, middle, high = np.array(
        [np.quantile(where(rows, users=count)["sharing_s"], [0.25, 0.5, 0.75]) for count in users]
    ).T
    colour, dash = (ORANGE, "solid") if kind == "concurrent" else (INK, "dashed")
    return Line(users, middle, colour, low, high, dash, shape="circle", label=INTERFERENCE[kind])  # type: ignore[arg-type]


REPRODUCTION = Reproduction("delay and its parts against users", PAPER, WHY, data, draw)
