"""Fig. 5: samples per class and user: IID, before sharing, after sharing."""

from __future__ import annotations

import numpy as np

from fedcast.clustering import Clustering, cluster
from fedcast.data import average_emd, class_counts, make_population, skew_of
from fedcast.plan import World, clustering_of, make_plan, make_world
from fedcast.report import Axis, Dots, Figure, Key, Panel
from fedcast.scenario import Scenario, load_scenario
from fedcast.sharing import share_samples
from fedcast.typing import Ints
from fedcast_paper.figure_parts import BLUE, WIDE_PT
from fedcast_paper.job import Job, Reproduction
from fedcast_paper.reproduction_result import Columns, Result, Verdict, columns_of
from fedcast_paper.text_tables import Row

PAPER = (
    "Users of IID data hold all classes alike; in the skewed case some lack classes; after sharing the labels closely "
    "approximate an IID distribution."
)
WHY = (
    "Even if a head sends all its samples, half of the samples of a one-class member are still of that class: its EMD "
    "is halved, not removed."
)
_PANELS = {"iid": "IID", "before": "before sharing", "after": "after sharing, volumes by JFVO"}
_LARGEST_DOT = 4.4  # radius in points


def data(job: Job) -> Result:
    """Compute the label counts of every user in three states, and the average EMD of each."""
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
            "after": f"samples as drawn; DACA, volumes by JFVO up to all samples of a head: average sharing ratio "
            f"{plan.average_sharing_ratio:.3f}",
            "after 10 %": "the same clusters, every head shares a tenth of its samples (not shown in the figure)",
        },
        verdicts=(_verdict(averages),),
    )


def _scenario(job: Job) -> Scenario:
    dataset, users = job.sized(smoke=("digits", 40), full=("mnist", 100))
    seed = job.seeds_or(smoke=1, full=1)[0]
    changes = [f"data.dataset={dataset}", f"data.num_users={users}", f"seed={seed}"]
    return load_scenario(base="paper", overrides=[*changes, "cellular.snr_db=15.0", "training.model=cnn"])


def _counts_after(world: World, clustering: Clustering) -> Ints:
    """Return the label counts of own and received samples, int64[K, Y]."""
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
        f"average EMD {before:.3f} before, {after:.3f} after, {iid:.3f} if IID: reduced by {100 * removed:.0f} % of "
        f"the difference; {averages['after 10 %']:.3f} if every head shares a tenth",
    )


def draw(result: Result) -> Figure:
    """Draw three panels of dots with the same scale."""
    counts = {state: _counts(result.tables[state]) for state in _PANELS}
    largest = max(int(table.max()) for table in counts.values())
    averages = dict(zip(*result.tables["average EMD"].values(), strict=True))
    sizes = sorted({max(1, round(largest * part)) for part in (0.1, 0.5, 1.0)})
    keys = [
        Key(f"{size:,} samples", Dots([], [], BLUE, radius=_LARGEST_DOT * (size / largest) ** 0.5)) for size in sizes
    ]
    classes = [name.removeprefix("class ") for name in result.tables["iid"] if name != "user"]
    rows = []
    for place, (state, table) in enumerate(counts.items()):
        user, label = np.nonzero(table)
        dots = Dots(user, label, BLUE, radius=_LARGEST_DOT * (table[user, label] / largest) ** 0.5, opacity=0.85)
        x = Axis("user" if place == len(counts) - 1 else "", limits=(-1, len(table)))
        y = Axis("class", (-0.6, len(classes) - 0.4), ticks=range(len(classes)), tick_labels=classes, flipped=True)
        title = f"{_PANELS[state]}: average EMD {averages[state]:.2f}"
        rows.append([Panel([dots], x, y, title, height=130.0, legend=place == 0, keys=keys if place == 0 else None)])
    return Figure(rows, width=WIDE_PT)


def _counts(table: Columns) -> Ints:
    """Return the counts of a stored table, int64[K, Y]."""
    return np.array([column for name, column in table.items() if name != "user"], dtype=np.int64).T


def summary(result: Result) -> list[Row]:
    """Return the average EMD of each state."""
    table = result.tables["average EMD"]
    return [
        {"state": state, "average EMD": f"{emd:.3f}"} for state, emd in zip(table["state"], table["emd"], strict=True)
    ]


REPRODUCTION = Reproduction(
    "samples per class and user: IID, before, after sharing", PAPER, WHY, data, draw, summary=summary
)
