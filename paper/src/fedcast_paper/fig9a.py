"""Fig. 9a: shared volume and SINR of each cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedcast.formatting import pluralize
from fedcast.report.figures.output import INK
from fedcast.scenario import Sidelink
from fedcast.typing import Floats
from fedcast_paper.drawing import BLUE, COLOURS, ORANGE, dress, legend, new_figure
from fedcast_paper.job import Job
from fedcast_paper.measures import Relation, listed, rank_correlation
from fedcast_paper.planning import (
    ASSUMPTIONS,
    DEVICES,
    INTERFERING,
    METHODS,
    RIVALS,
    Task,
    allocation_of,
    make_task,
    paper_scenario,
)
from fedcast_paper.result import Columns, Result, Verdict, columns_of, where

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER = (
    "The sharing ratio of a cluster falls as its multicast SINR falls, since the slowest cluster decides the sharing "
    "delay; JFVO shares more in each cluster than SMM and SAA."
)
COMPARED = ("jfvo", *RIVALS)
# Ratios no farther apart are called equal: three samples of a head's 600.
_SAME_RATIO = 0.005


def data(job: Job) -> Result:
    """A row for each cluster, method and kind of device."""
    users, seeds = job.sized(smoke=50, full=100), job.seeds_or(smoke=1, full=10)
    rows = []
    for seed, devices in job.each([(seed, devices) for seed in seeds for devices in DEVICES]):
        task = make_task(paper_scenario(users, seed, INTERFERING, *DEVICES[devices]))
        for method in COMPARED:
            rows += [{"devices": devices, "seed": seed, "method": method, **row} for row in _clusters(task, method)]
    clusters, scenario = columns_of(rows), paper_scenario(users, seeds[0], INTERFERING)
    related = [_relation(clusters, devices, mixed) for devices in DEVICES for mixed in (True, False)]
    return Result(
        tables={"clusters": clusters, "rank correlation": columns_of(related)},
        scenario=scenario.model_dump(mode="json"),
        assumptions={
            **ASSUMPTIONS,
            "interference": "all heads send at once; their sum replaces the noise rise of 3 dB",
            "SINR": "of the multicast, that of its worst member",
            "faster devices": f"{', '.join(DEVICES['faster devices'])}, as in preset default",
            "users": users,
            "seeds": list(seeds),
        },
        verdicts=(
            *(_falls_with_sinr(related, devices) for devices in DEVICES),
            *(_shares_more(where(clusters, devices=devices), devices) for devices in DEVICES),
        ),
        notes=(
            "With a ninth of what a member holds, the class of a head of one class has its global share of a tenth.",
            _how_low(np.array(where(clusters, devices="Table I", method="jfvo")["sinr_db"]), scenario.sidelink),
        ),
    )


def _clusters(task: Task, method: str) -> list[dict[str, Any]]:
    found, heads = allocation_of(task, method), task.clustering.heads
    sizes, rates = task.world.skew.sizes[heads], task.worst_rates_bps
    sinr_db = 10 * np.log10(np.expm1(rates / task.world.scenario.sidelink.bandwidth_hz * np.log(2)))
    classes = np.count_nonzero(task.world.population.counts[heads], axis=1)
    return [
        {"head": head, "members": members, "classes": held, "sinr_db": sinr, "shared": shared, "ratio": shared / size}
        for head, members, held, sinr, shared, size in zip(
            heads, task.clustering.cluster_sizes[heads], classes, sinr_db, found.shared[heads], sizes, strict=True
        )
    ]


def _relation(clusters: Columns, devices: str, mixed_only: bool) -> dict[str, Any]:
    """Sharing ratio against SINR over the clusters of all worlds under JFVO."""
    rows = where(clusters, devices=devices, method="jfvo")
    chosen = [not mixed_only or classes > 1 for classes in rows["classes"]]
    sinr, ratio = (np.array(rows[name])[chosen] for name in ("sinr_db", "ratio"))
    heads = "of several classes" if mixed_only else "of any kind"
    return {"devices": devices, "heads": heads, "clusters": len(sinr), **rank_correlation(sinr, ratio)._asdict()}


def _falls_with_sinr(related: list[dict[str, Any]], devices: str) -> Verdict:
    rows = [row for row in related if row["devices"] == devices]
    found = [Relation(row["correlation"], row["p_value"]) for row in rows]
    each = [
        f"{relation} over the {row['clusters']} clusters whose heads are {row['heads']}"
        for relation, row in zip(found, rows, strict=True)
    ]
    return Verdict(
        f"a cluster's sharing ratio falls as its SINR falls ({devices})",
        "yes" if all(relation.rises for relation in found) else "partly" if found[0].rises else "no",
        f"rank correlation {', '.join(each)}",
    )


def _shares_more(clusters: Columns, devices: str) -> Verdict:
    """More than a rival if it shares more in most clusters."""
    ratios = {method: np.array(where(clusters, method=method)["ratio"]) for method in COMPARED}
    count = len(ratios["jfvo"])
    above = {method: int((ratios["jfvo"] - ratios[method] > _SAME_RATIO).sum()) for method in RIVALS}
    below = {method: int((ratios[method] - ratios["jfvo"] > _SAME_RATIO).sum()) for method in RIVALS}
    more = [above[method] > count / 2 for method in RIVALS]
    means = {method: float(ratio.mean()) for method, ratio in ratios.items()}
    each = ", ".join(f"above {METHODS[method]} in {above[method]} and below in {below[method]}" for method in RIVALS)
    return Verdict(
        f"JFVO shares more in each cluster than SMM and SAA ({devices})",
        "yes" if all(more) else "partly" if any(more) else "no",
        f"mean sharing ratio of a cluster: {listed(means, '.3f')}; of {pluralize(count, 'cluster')} JFVO is {each}",
    )


def _how_low(sinr_db: Floats, sidelink: Sidelink) -> str:
    """What is received at such an SINR, and why it is what it is."""
    middle_db, gigahertz = float(np.median(sinr_db)), sidelink.bandwidth_hz / 1e9
    rate_bps = sidelink.bandwidth_hz * np.log2(1 + 10 ** (middle_db / 10))
    return (
        f"SINRs are low, {middle_db:.0f} dB in the median cluster and {sinr_db.min():.0f} dB in the worst. Most of it "
        f"is noise: without antenna gain, what a member far from its head receives is weak beside the noise of "
        f"{gigahertz:g} GHz. So wide a band carries {rate_bps / 1e3:,.0f} kbit/s at {middle_db:.0f} dB all the same."
    )


def draw(result: Result) -> Figure:
    """For each kind of device: volumes of one world by SINR, its SINR, and ratio against SINR over all worlds."""
    clusters = result.tables["clusters"]
    first = result.assumptions["seeds"][0]
    figure = new_figure(10.0, 7.8)
    panels = figure.subplots(3, len(DEVICES), height_ratios=[2, 1.2, 2], sharey="row")
    for column, devices in enumerate(DEVICES):
        rows = where(clusters, devices=devices)
        world = where(rows, seed=first)
        volumes, sinr, scatter = panels[:, column]
        _draw_volumes(volumes, world)
        _draw_sinr(sinr, world)
        _draw_scatter(scatter, where(rows, method="jfvo"))
        dress(volumes, title=f"{devices}: one world", y="samples shared" if column == 0 else "")
        dress(sinr, x="cluster head, by SINR", y="multicast SINR, dB" if column == 0 else "")
        worlds = len(result.assumptions["seeds"])
        title = f"JFVO, clusters of {pluralize(worlds, 'world')}"
        dress(scatter, title=title, x="SINR, dB", y="sharing ratio" if column == 0 else "")
    legend(panels[0, 0], loc="upper right", ncols=3, bbox_to_anchor=(1.0, 1.12))
    legend(panels[2, 0], loc="center right")
    return figure


def _by_sinr(rows: Columns) -> np.ndarray:
    return np.argsort(rows["sinr_db"], kind="stable")


def _draw_volumes(axes: Axes, world: Columns) -> None:
    width = 0.8 / len(COMPARED)
    for place, method in enumerate(COMPARED):
        rows = where(world, method=method)
        order = _by_sinr(rows)
        left = np.arange(len(order)) + (place - (len(COMPARED) - 1) / 2) * width
        axes.bar(left, np.array(rows["shared"])[order], width, color=COLOURS[method], label=METHODS[method])
    axes.set_xticks([])
    axes.set_xlim(-0.6, len(order) - 0.4)


def _draw_sinr(axes: Axes, world: Columns) -> None:
    rows = where(world, method="jfvo")
    order = _by_sinr(rows)
    axes.plot(np.array(rows["sinr_db"])[order], color=INK, marker="o", markersize=4, linestyle="none")
    axes.set_xticks(range(len(order)), np.array(rows["head"])[order])
    axes.set_xlim(-0.6, len(order) - 0.4)


def _draw_scatter(axes: Axes, rows: Columns) -> None:
    sinr, ratio, mixed = np.array(rows["sinr_db"]), np.array(rows["ratio"]), np.array(rows["classes"]) > 1
    style: dict[str, Any] = {"s": 22, "alpha": 0.7, "linewidths": 0}
    axes.scatter(sinr[mixed], ratio[mixed], color=BLUE, label="head of several classes", **style)
    axes.scatter(sinr[~mixed], ratio[~mixed], color=ORANGE, marker="s", label="head of one class", **style)
    axes.set_ylim(-0.05, 1.05)
