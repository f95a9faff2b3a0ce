"""Tables, verdicts and notes of results at several shared volumes, for the results page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedcast.formatting import pluralize
from fedcast_paper.over_seeds import LAST_ROUNDS, mean_of
from fedcast_paper.reproduction_result import Columns, Result, Verdict, where
from fedcast_paper.text_tables import ABSENT, Row, number, rows_of
from fedcast_paper.training_setting import DATASETS
from fedcast_paper.verdicts import NOT_WORSE, accuracy_verdicts, gains_over, larger_gain
from fedcast_paper.volumes import NAMES, NOISY_USERS, SKEWS, TENTH, VOLUMES, Cell, Cells, Place, shown

ACCURACY_CAPTION = (
    "Accuracy in percent after the last round, by the volume that heads share. Below it: points above FedAvg on the "
    "same seeds; average sharing ratio, largest share of its samples that a user reveals, and different samples "
    "revealed (samples of the server's set, under central, count for no user); simulated time. E: local epochs, if not "
    "1."
)
GAIN_CAPTION = (
    "Where the gain comes from. Work: points that the work control gains over FedAvg by training on as many samples a "
    "round, all its own. Skew: points that the strategy gains over the control. The last column divides the gain by "
    "the average sharing ratio in percent: what 1 % of leakage buys."
)
FIRST_STEP = "*"
_FIRST_STEP_NOTE = (
    "Trained with the learning rate of the first runs, 0.005 without momentum, and compared with FedAvg at the same."
)
# The volumes at which claims of the paper are judged, as the end of the claim.
JUDGED = {TENTH: "with 10 % shared", "all": "if heads share all", "JFVO": "with JFVO's volumes"}


def place_verdicts(cells: Cells) -> list[Verdict]:
    """Judge the paper's claims at every volume: DACA against the other strategies, and its gains across datasets."""
    found: list[Verdict] = []
    for (place, volume), cell in cells.items():
        if volume in JUDGED:
            claimed = place.dataset == "cifar10" or place.skew == NOISY_USERS
            ending = f" on {place}, {JUDGED[volume]}"
            found += accuracy_verdicts(cell.runs, "daca", ["none", "scc", "cec"], ending)
            found += accuracy_verdicts(cell.runs, "daca", ["central"] if claimed else [], ending, NOT_WORSE)
            found += accuracy_verdicts(cell.runs, "blend", ["daca"], ending)
    for skew in SKEWS:
        for volume, text in JUDGED.items():
            both = {name: cells.get((Place(name, skew), volume), Cell([])) for name in ("mnist", "cifar10")}
            found += larger_gain(
                {name: gains_over(cell.runs, "daca") for name, cell in both.items()}, f", {skew}, {text}"
            )
    return found


def volume_assumptions() -> dict[str, str]:
    """Return what is assumed about the volumes, by name."""
    return {
        "volumes": "JFVO: form paper, fit mnist-0.95, no limit of the ratio; central sends each user as many samples "
        "as a member receives under DACA with the same volumes; plan: fedcast's own plan for 95 % with its law of "
        "rounds, at most 20 % of a head's samples, beside FedAvg at its best number of local epochs, both at learning "
        "rate 0.2; only on MNIST, for which fedcast has a fit of the law",
    }


def notes_on(cells: Cells) -> list[str]:
    """Return remarks on the cells: what was not run, how flat training ends, which runs have the first step."""
    there = shown(cells)
    notes = [_flatness(there)]
    if any(cell.first_step for cell in there.values()):
        notes.append(f"\\{FIRST_STEP} {_FIRST_STEP_NOTE}")
    if missing := [key for key in cells if key not in there]:
        notes.append(f"Not run: {'; '.join(_missing_texts(list(cells), missing))}.")
    return notes


def _flatness(cells: Cells) -> str:
    """Say by how much the accuracy of FedAvg and DACA still rises between the last rounds and those before."""
    rises: dict[str, list[float]] = {}
    for (place, _), cell in cells.items():
        curves = [run.curve("accuracy") for rule in ("none", "daca") for run in cell.of(rule)]
        rises.setdefault(str(place), []).extend(100 * _late_rise(curve) for curve in curves)
    texts = [f"{name} {mean_of(values).mean:+.2f}" for name, values in rises.items() if values]
    return (
        f"Mean accuracy of the last {LAST_ROUNDS} rounds minus that of the {LAST_ROUNDS} before, FedAvg and DACA at "
        f"all volumes, points: {'; '.join(texts)}."
    )


def _late_rise(curve: Sequence[float]) -> float:
    """Return the mean of the last rounds minus that of as many rounds before.

    Example:
        >>> _late_rise([0.0, *[0.5] * 10, *[0.75] * 10])
        0.25
    """
    rounds = min(LAST_ROUNDS, (len(curve) - 1) // 2)
    return (sum(curve[-rounds:]) - sum(curve[-2 * rounds : -rounds])) / rounds


def _missing_texts(every: Sequence[tuple[Place, str]], missing: Sequence[tuple[Place, str]]) -> list[str]:
    """Name the cells that were not run: all of a dataset, all of a place, or single volumes."""
    texts = []
    for dataset in dict.fromkeys(place.dataset for place, _ in missing):
        of_dataset = [(place, volume) for place, volume in missing if place.dataset == dataset]
        if len(of_dataset) == sum(place.dataset == dataset for place, _ in every):
            texts.append(DATASETS[dataset])
            continue
        for place in dict.fromkeys(place for place, _ in of_dataset):
            volumes = [volume for one, volume in of_dataset if one == place]
            whole = len(volumes) == sum(one == place for one, _ in every)
            texts.append(str(place) if whole else f"{place}: {', '.join(volumes)}")
    return texts


def accuracy_table(result: Result) -> list[Row]:
    """Return a row for each strategy in each place, with a column for each volume; the paper's numbers beside ours."""
    cells = result.tables["cells"]
    volumes = [volume for volume in VOLUMES if volume in cells["volume"]]
    rows: list[Row] = []
    for place in places_of(cells):
        some = where(cells, dataset=place.dataset, partition=place.skew)
        rules = [rule for rule in NAMES if rule in some["rule"]]
        for rule in rules:
            of_rule = {row["volume"]: row for row in rows_of(where(some, rule=rule))}
            paper = next((row["paper"] for row in of_rule.values() if row["paper"] is not None), None)
            rows.append(
                {
                    "setting": _heading(place, some) if rule == rules[0] else "",
                    "strategy": NAMES[rule],
                    "paper": number(paper, ".2f"),
                    **{
                        volume: _cell_text(of_rule[volume], where(some, volume=volume)) if volume in of_rule else ABSENT
                        for volume in volumes
                    },
                }
            )
    if all(row["paper"] == ABSENT for row in rows):
        rows = [{name: text for name, text in row.items() if name != "paper"} for row in rows]
    return rows


def places_of(cells: Columns) -> list[Place]:
    """Return the places of a table of cells, in order."""
    return [Place(*pair) for pair in dict.fromkeys(zip(cells["dataset"], cells["partition"], strict=True))]


def _heading(place: Place, cells: Columns) -> str:
    return f"{place} ({cells['rounds'][0]} rounds, {pluralize(max(cells['seeds']), 'seed')})"


def _cell_text(row: Mapping[str, Any], cell: Columns) -> str:
    """Return accuracy, gain, leakage and time of a strategy in one cell, a line each."""
    few = f" ({pluralize(row['seeds'], 'seed')})" if row["seeds"] < max(cell["seeds"]) else ""
    epochs = "" if row["local_epochs"] == 1 else f", E = {row['local_epochs']:.3g}"
    mark = f"\\{FIRST_STEP}" if row["first_step"] else ""
    lines = [f"{number(row['accuracy'], '.2f', row['half_width'])}{mark}{few}"]
    if row["noisy_accuracy"] is not None:
        lines.append(f"with noise {number(row['noisy_accuracy'], '.2f', row['noisy_accuracy_half_width'])}")
    if row["gain"] is not None:
        lines.append(number(row["gain"], "+z.2f", row["gain_half_width"]))
    if row["distinct_samples"]:
        lines.append(
            f"{row['average_sharing_ratio']:.2g}, {row['largest_revealed_share']:.2g}, {row['distinct_samples']:,.0f}"
        )
    return "<br>".join([*lines, f"{row['simulated_s']:,.0f} s{epochs}"])


def gain_table(result: Result) -> list[Row]:
    """Return a row for each strategy that has a control, in each cell: FedAvg, control, strategy, work and skew."""
    cells = result.tables["cells"]
    rows: list[Row] = []
    for row in rows_of(cells):
        if row["work"] is None:
            continue
        same = where(cells, **{name: row[name] for name in ("dataset", "partition", "volume")})
        of_rule = {one["rule"]: one for one in rows_of(same)}
        fedavg, control = of_rule["none"], of_rule[f"{row['rule']} work"]
        rows.append(
            {
                "setting": str(Place(row["dataset"], row["partition"])),
                "volume": row["volume"] + (f"\\{FIRST_STEP}" if row["first_step"] else ""),
                "strategy": NAMES[row["rule"]],
                "FedAvg": number(fedavg["accuracy"], ".2f"),
                "work control": number(control["accuracy"], ".2f"),
                "with sharing": number(row["accuracy"], ".2f"),
                "work": number(row["work"], "+z.2f", row["work_half_width"]),
                "skew": number(row["skew"], "+z.2f", row["skew_half_width"]),
                "gain": number(row["gain"], "+z.2f", row["gain_half_width"]),
                "paper's gain": number(row["paper_gain"], "+z.2f"),
                "points per 1 %": number(row["gain_per_leakage"], "+z.3f"),
            }
        )
    if all(row["paper's gain"] == ABSENT for row in rows):
        rows = [{name: text for name, text in row.items() if name != "paper's gain"} for row in rows]
    return rows
