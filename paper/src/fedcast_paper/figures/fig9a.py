"""Fig. 9a: shared volume and SINR of each cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedcast.formatting import pluralize
from fedcast.report import INK, Axis, Bars, Dots, Figure, Panel
from fedcast.scenario import Sidelink
from fedcast.typing import Floats
from fedcast_paper.figure_parts import BLUE, METHOD_COLOURS, ORANGE, WIDE_PT
from fedcast_paper.job import Job, Reproduction
from fedcast_paper.planning_setting import (
    ASSUMPTIONS,
    DEVICES,
    INTERFERING,
    METHODS,
    RIVALS,
    PlanningTask,
    allocation_of,
    make_task,
    paper_scenario,
)
from fedcast_paper.reproduction_result import Columns, Result, Verdict, columns_of, where
from fedcast_paper.verdicts import Relation, listed, rank_correlation

PAPER = (
    "The sharing ratio of a cluster falls as its multicast SINR falls, since the slowest cluster decides the sharing "
    "delay; JFVO shares more in each cluster than SMM and SAA."
)
WHY = (
    "A one-class head shares a ninth of a member's number of samples, or nothing, independent of its link; the "
    "paper's mechanism appears among heads with several classes, and where the sharing delay matters."
)
COMPARED = ("jfvo", *RIVALS)
# Ratios that differ by no more count as equal: three of a head's 600 samples.
_SAME_RATIO = 0.005


def data(job: Job) -> Result:
    """Compute a row for each cluster, method and kind of device."""
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
            "interference": "all heads send at the same time; the sum of their powers replaces the noise rise of 3 dB",
            "SINR": "SINR of the multicast: that of its worst member",
            "faster devices": f"{', '.join(DEVICES['faster devices'])}, as in preset default",
            "users": users,
            "seeds": list(seeds),
        },
        verdicts=(
            *(_falls_with_sinr(related, devices) for devices in DEVICES),
            *(_shares_more(where(clusters, devices=devices), devices) for devices in DEVICES),
        ),
        notes=(
            "If a one-class head shares a ninth of a member's number of samples, its class has its global proportion "
            "of a tenth at the member.",
            _how_low(np.array(where(clusters, devices="Table I", method="jfvo")["sinr_db"]), scenario.sidelink),
        ),
    )


def _clusters(task: PlanningTask, method: str) -> list[dict[str, Any]]:
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
    """Correlate sharing ratio and SINR over the clusters of all worlds under JFVO."""
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
    """Judge whether JFVO shares more than each rival in most clusters."""
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
    """Explain why the SINRs are low, and what rate they allow."""
    middle_db, gigahertz = float(np.median(sinr_db)), sidelink.bandwidth_hz / 1e9
    rate_bps = sidelink.bandwidth_hz * np.log2(1 + 10 ** (middle_db / 10))
    return (
        f"SINRs are low, {middle_db:.0f} dB in the median cluster and {sinr_db.min():.0f} dB in the worst, mainly "
        f"because of noise: without antenna gain, the power that a distant member receives is small compared with the "
        f"noise in a bandwidth of {gigahertz:g} GHz. At {middle_db:.0f} dB this bandwidth still carries "
        f"{rate_bps / 1e3:,.0f} kbit/s."
    )


def draw(result: Result) -> Figure:
    """Draw for each kind of device: volumes and SINR of one world, and ratio against SINR over all worlds."""
    seeds = result.assumptions["seeds"]
    title = f"JFVO, clusters of {pluralize(len(seeds), 'world')}"
    columns = []
    for devices in DEVICES:
        rows = where(result.tables["clusters"], devices=devices)
        world = where(rows, seed=seeds[0])
        heads = where(world, method="jfvo")
        order = np.argsort(heads["sinr_db"], kind="stable")
        limits = (-0.6, len(order) - 0.4)
        names = [str(head) for head in np.array(heads["head"])[order]]
        hidden = Axis(limits=limits, ticks=[])
        labelled = Axis("cluster head, by SINR", limits, ticks=range(len(order)), tick_labels=names)
        sinr = Dots(range(len(order)), np.array(heads["sinr_db"])[order], INK, radius=2.0)
        columns.append(
            [
                Panel(_volumes(world), hidden, Axis(), f"{devices}: one world, samples shared"),
                Panel([sinr], labelled, Axis("multicast SINR, dB"), height=120.0),
                Panel(
                    _ratios(where(rows, method="jfvo")), Axis("SINR, dB"), Axis("sharing ratio", (-0.05, 1.05)), title
                ),
            ]
        )
    return Figure(list(zip(*columns, strict=True)), width=WIDE_PT)


def _volumes(world: Columns) -> list[Bars]:
    """Return the shared volume of each cluster by method, in the order of the SINR."""
    width, bars = 0.8 / len(COMPARED), []
    for place, method in enumerate(COMPARED):
        rows = where(world, method=method)
        order = np.argsort(rows["sinr_db"], kind="stable")
        at = np.arange(len(order)) + (place - (len(COMPARED) - 1) / 2) * width
        shared = np.array(rows["shared"])[order]
        bars.append(Bars(at, shared, METHOD_COLOURS[method], width=width, label=METHODS[method]))
    return bars


def _ratios(rows: Columns) -> list[Dots]:
    sinr, ratio, mixed = np.array(rows["sinr_db"]), np.array(rows["ratio"]), np.array(rows["classes"]) > 1
    return [
        Dots(sinr[mixed], ratio[mixed], BLUE, radius=2.5, opacity=0.7, label="head of several classes"),
        Dots(sinr[~mixed], ratio[~mixed], ORANGE, "square", radius=2.5, opacity=0.7, label="head of one class"),
    ]


REPRODUCTION = Reproduction("shared volume and SINR of each cluster", PAPER, WHY, data, draw)
