"""Fig. 5: samples per class and user, as dots: IID, before sharing, after sharing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedcast.clustering import Clustering, cluster
from fedcast.data import average_emd, class_counts, make_population, skew_of
from fedcast.plan import clustering_of, make_plan
from fedcast.plan.world import World, make_world
from fedcast.report import ClassDots, class_dots
from fedcast.report.figures.output import GRID, INK
from fedcast.scenario import Scenario, load_scenario
from fedcast.sharing import share_samples
from fedcast.typing import Ints
from fedcast_paper.drawing import BLUE, dress, legend, new_figure
from fedcast_paper.job import Job
from fedcast_paper.result import Columns, Result, Verdict, columns_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER = (
    "Users of IID data hold all classes alike; in the skewed case some lack classes; after sharing the labels closely "
    "approximate an IID distribution."
)
_PANELS = {"iid": "IID", "before": "before sharing", "after": "after sharing, volumes by JFVO"}
_LARGEST_DOT = 60.0  # points²


def data(job: Job) -> Result:
    """Counts of every user and class in the three states, and the average EMD of each."""
    scenario = _scenario(job)
    world = make_world(scenario, job.data_dir)
    plan = make_plan(scenario, world=world, with_curve=False)
    iid = scenario.data.model_copy(update={"partition": "iid"})
    counts = {
        "iid": make_population(iid, scenario.seed, job.data_dir).counts,
        "before": world.population.counts,
        "after 10 %": _counts_after(world, cluster(world.problem())),
        "after": _counts_after(world, clustering_of(world, plan)),
    }
    averages = {state: average_emd(skew_of(table)) for state, table in counts.items()}
    return Result(
        tables={
            **{state: _table(counts[state], world.population.class_names) for state in _PANELS},
            "average EMD": columns_of({"state": state, "emd": emd} for state, emd in averages.items()),
        },
        scenario=scenario.model_dump(mode="json"),
        assumptions={
            "seed": scenario.seed,
            "data": f"{scenario.data.dataset}, K = {scenario.data.num_users}, 80 % of users hold one class",
            "network": "Table I; 15 dB to the base station for all, as in Figs. 7 to 9",
            "after": f"samples as drawn; DACA, volumes by JFVO up to all that a head holds: average sharing ratio "
            f"{plan.average_sharing_ratio:.3f}",
            "after 10 %": "the same clusters, every head shares a tenth of its samples (not drawn)",
        },
        verdicts=(_verdict(averages),),
    )


def _scenario(job: Job) -> Scenario:
    dataset, users = job.sized(smoke=("digits", 40), full=("mnist", 100))
    seed = job.seeds_or(smoke=1, full=1)[0]
    changes = [f"data.dataset={dataset}", f"data.num_users={users}", f"seed={seed}"]
    return load_scenario(base="paper", overrides=[*changes, "cellular.snr_db=15.0", "training.model=cnn"])


def _counts_after(world: World, clustering: Clustering) -> Ints:
    """int64[K, Y], own samples and received ones."""
    people = world.population
    assert people.dataset is not None, "the setting has a dataset"
    held = share_samples(people, clustering, world.scenario.seed).assignment
    return class_counts(held, people.dataset.labels, people.dataset.num_classes)


def _table(counts: Ints, class_names: tuple[str, ...]) -> Columns:
    classes = {f"class {name}": counts[:, place].tolist() for place, name in enumerate(class_names)}
    return {"user": list(range(len(counts))), **classes}


def _verdict(averages: dict[str, float]) -> Verdict:
    iid, before, after = (averages[state] for state in _PANELS)
    removed = (before - after) / (before - iid)
    return Verdict(
        "after sharing, labels closely approximate an IID distribution",
        "yes" if removed >= 0.9 else "partly" if removed >= 0.5 else "no",
        f"average EMD {before:.3f} before, {after:.3f} after, {iid:.3f} if IID: {100 * removed:.0f} % of the way; "
        f"{averages['after 10 %']:.3f} when every head shares a tenth",
    )


def draw(result: Result) -> Figure:
    """Three panels with one scale of dots."""
    panels = {state: _dots(result.tables[state]) for state in _PANELS}
    largest = max(int(dots.counts.max()) for dots in panels.values())
    averages = dict(zip(*result.tables["average EMD"].values(), strict=True))
    figure = new_figure(10.0, 7.6)
    rows = figure.subplots(len(panels), 1, sharex=True)
    for axes, (state, dots) in zip(rows, panels.items(), strict=True):
        _draw_dots(axes, dots, largest)
        dress(axes, title=f"{_PANELS[state]}: average EMD {averages[state]:.2f}", y="class")
    rows[-1].set_xlabel("user", color=INK, fontsize=9)
    _draw_key(rows[0], largest)
    return figure


def _dots(table: Columns) -> ClassDots:
    names = [name for name in table if name != "user"]
    counts = np.array([table[name] for name in names]).T
    return class_dots(counts, skew_of(counts).emd, tuple(name.removeprefix("class ") for name in names))


def _draw_dots(axes: Axes, dots: ClassDots, largest: int) -> None:
    column, row = np.nonzero(dots.counts)
    areas = _LARGEST_DOT * dots.counts[column, row] / largest
    axes.scatter(column, row, s=areas, color=BLUE, alpha=0.85, linewidths=0)
    axes.set_yticks(range(len(dots.classes)), dots.classes)
    axes.set_ylim(len(dots.classes) - 0.4, -0.6)
    axes.set_xlim(-1, len(dots.users))
    axes.grid(axis="x", color=GRID, linewidth=0.4)


def _draw_key(axes: Axes, largest: int) -> None:
    marks = sorted({max(1, round(largest * part)) for part in (0.1, 0.5, 1.0)})
    keys = [axes.scatter([], [], s=_LARGEST_DOT * mark / largest, color=BLUE, linewidths=0) for mark in marks]
    place = {"loc": "lower right", "bbox_to_anchor": (1, 1.0), "ncols": len(marks)}
    legend(axes, handles=keys, labels=[f"{mark:,} samples" for mark in marks], **place)
