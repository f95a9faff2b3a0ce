"""Tables, verdicts and notes of results at several shared volumes, for the results page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedcast.formatting import pluralize
from fedcast_paper.over_seeds import LAST_ROUNDS, mean_of
from fedcast_paper.reproduction_result import Columns, Result, Verdict, where
from fedcast_paper.text_tables import ABSENT, Row, number, rows_of, unbroken
from fedcast_paper.trained import Failure, Trained, strategy_of
from fedcast_paper.training_setting import DATASETS, STRATEGIES
from fedcast_paper.verdicts import ABOVE, NOT_WORSE, accuracy_verdicts, gains_over, larger_gain
from fedcast_paper.volumes import (
    NAMES,
    NOISY_USERS,
    OWN_CONTROLS,
    PLAN,
    PLAN_RATE,
    SKEWS,
    TENTH,
    VOLUMES,
    Cell,
    Cells,
    Place,
    with_sharing,
)

ACCURACY_CAPTION = (
    "Accuracy in percent after the last round, and in parentheses the points above FedAvg on the same seeds, by the "
    "volume that heads share. Below the accuracy: average sharing ratio (of central: of all samples) · simulated time."
)
_NOISE_NOTE = "With noise: on test data with the users' noise."
ORDER_CAPTION = (
    "Strategies by mean accuracy after the last round, the highest first. The means of most are closer than seeds "
    "differ: two columns name those that the first is above, and those that are above FedAvg, by an interval of the "
    "difference (paired by seed, not corrected) that does not contain 0. The first is the best of these very runs, so "
    "that its lead is overstated."
)
RIVAL_CAPTION = (
    "Points of accuracy of DACA above the paper's other strategies that share, and in parentheses the paper's."
)
DETAILS = "leakage and time beside every accuracy"
GAIN_CAPTION = (
    "Where the gain comes from: accuracy in percent after the last round, and differences in points, on the seeds that "
    "all of a line have, and in parentheses the paper's. Control: the work control and, where it was trained, the "
    "epochs control below. Work control − FedAvg: by more work and DACA's weights in the average. DACA − work control: "
    "by less skew and new samples. Epochs control − FedAvg: by more work alone, with FedAvg's weights. Per 1 %: DACA − "
    "FedAvg divided by the average sharing ratio in percent, as the mean over seeds."
)
COURSE_CAPTION = (
    "What DACA gains over FedAvg, points, after a part of the rounds, in the mean of the last ten rounds, and in the "
    "simulated time in which FedAvg trains all its rounds: sharing takes time, and rounds of more samples take longer."
)
_COURSE = {
    "¼ of rounds": "gain_quarter", "½": "gain_half", "¾": "gain_three_quarters", "all": "gain",
    "last ten": "late_gain", "FedAvg's time": "equal_time_gain",
}  # fmt: skip
FIRST_RATE = "*"
_FIRST_RATE_NOTE = (
    f"\\{FIRST_RATE}: trained with the learning rate of the first runs, 0.005 without momentum, as FedAvg there."
)
# What heads share at each volume.
SHARED = {TENTH: "heads share 10 %", "all": "heads share all", "JFVO": "JFVO's volumes", PLAN: "the plan's volumes"}
# Accuracy in percent that the paper prints, by strategy.
Printed = Mapping[Place, Mapping[str, float]]
# The volumes at which claims of the paper are judged, as the end of the claim.
JUDGED = {TENTH: "with 10 % shared", "all": "if heads share all", "JFVO": "with JFVO's volumes"}


def place_verdicts(cells: Cells, printed: Printed) -> list[Verdict]:
    """Judge DACA against the other strategies and its controls at every volume, and its gains across datasets."""
    found: list[Verdict] = []
    for (place, volume), cell in cells.items():
        if volume in JUDGED:
            # The paper claims no more than this against central on CIFAR-10 and noisy data.
            against_central = NOT_WORSE if place.dataset == "cifar10" or place.skew == NOISY_USERS else ABOVE
            ending = f" on {place}, {JUDGED[volume]}"
            paper = printed.get(place, {})
            found += accuracy_verdicts(cell.runs, "daca", ["none", "scc", "cec"], ending, printed=paper)
            found += accuracy_verdicts(cell.runs, "daca", ["central"], ending, against_central, paper)
            found += accuracy_verdicts(cell.runs, "daca", OWN_CONTROLS, ending)
            found += accuracy_verdicts(cell.runs, "blend", ["daca"], ending)
    for skew in SKEWS:
        for volume, text in JUDGED.items():
            both = {name: cells.get((Place(name, skew), volume), Cell([])) for name in ("mnist", "cifar10")}
            found += larger_gain(
                {name: gains_over(cell.runs, "daca") for name, cell in both.items()}, f", {skew}, {text}"
            )
    return found


def volume_assumptions(runs: Iterable[Trained]) -> dict[str, str]:
    """Return what is assumed about the volumes, by name."""
    devices = {run.scenario.data.dataset: run.scenario.devices for run in runs}
    budgets = {DATASETS.get(name, name): some.energy_budget_j for name, some in devices.items()}
    return {
        "energy budget": ", ".join(f"{dataset} {budget:g} J" for dataset, budget in budgets.items())
        + " of a user in a round, within which JFVO and the plan choose",
        "volumes": "JFVO: as corrected by fedcast (method jfvo), form paper, fit mnist-0.95 for every dataset, no "
        "limit of the ratio; central sends each user as many samples as a member receives under DACA with the same "
        "volumes; plan: fedcast's own plan for 95 % with its law of rounds, at most 20 % of a head's samples, beside "
        f"FedAvg at the number of local epochs that the law prefers, both at learning rate {PLAN_RATE:g}; only on "
        "MNIST, for which fedcast has a fit of the law",
    }


def notes_on(cells: Cells) -> list[str]:
    """Return remarks on the cells: how flat training ends, and what was not run."""
    there = with_sharing(cells)
    notes = [_flatness(there)]
    if missing := [key for key in cells if key not in there]:
        notes.append(f"Not run: {'; '.join(_missing_texts(list(cells), missing))}.")
    single = [
        f"{place}, {volume}: {', '.join(NAMES[rule] for rule in cell.missing)}"
        for (place, volume), cell in there.items()
        if cell.missing
    ]
    if single:
        notes.append(f"Strategies not run: {'; '.join(single)}.")
    return notes + failure_notes({f"{place}, {volume}": cell.failed for (place, volume), cell in there.items()})


def failure_notes(failed: Mapping[Any, Iterable[Failure]]) -> list[str]:
    """Name the runs that failed in each setting, with their reason."""
    texts = [
        f"{setting}: {NAMES[strategy_of(run.scenario)]}, seed {run.scenario.seed}: {run.reason}"
        for setting, runs in failed.items()
        for run in runs
    ]
    return [f"Runs that failed: {'; '.join(texts)}."] if texts else []


def _flatness(cells: Cells) -> str:
    """Say by how much the accuracy of FedAvg and DACA still rises between the last rounds and those before."""
    rises = {
        f"{place}, {volume}": {
            NAMES[rule]: mean_of(100 * _late_rise(run.curve("accuracy")) for run in cell.of(rule)).mean
            for rule in ("none", "daca", "best")
            if cell.of(rule)
        }
        for (place, volume), cell in cells.items()
    }
    texts = [
        f"{name}: {', '.join(f'{rule} {rise:+.2f}' for rule, rise in some.items())}" for name, some in rises.items()
    ]
    return (
        f"Mean accuracy of the last {LAST_ROUNDS} rounds minus that of the {LAST_ROUNDS} before, points: "
        f"{'; '.join(texts)}."
    )


def _late_rise(curve: Sequence[float]) -> float:
    """Return the mean of the last rounds minus that of as many rounds before.

    Example:
        >>> _late_rise([0.0, *[0.5] * 10, *[0.75] * 10])
        0.25
    """
    rounds = max(1, min(LAST_ROUNDS, (len(curve) - 1) // 2))
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


def volume_tables(result: Result) -> dict[str, list[Row]]:
    """Return the tables of gains and of orders, and one of accuracies for each place, by caption."""
    cells = result.tables["cells"]
    tables = {
        GAIN_CAPTION: gain_table(cells, result.tables["runs"]),
        COURSE_CAPTION: course_table(cells),
        RIVAL_CAPTION: rival_table(cells, result.tables["runs"]),
        ORDER_CAPTION: order_table(cells, result.tables["runs"]),
    }
    openings = len(tables)
    has_noise = any(value is not None for value in cells["noisy_accuracy"])
    notes = [_NOISE_NOTE] * has_noise + [_FIRST_RATE_NOTE] * any(cells["first_rate"])
    head = " ".join([ACCURACY_CAPTION, *notes])
    for place in places_of(cells):
        some = where(cells, dataset=place.dataset, partition=place.skew)
        caption = f"**{place}** ({some['rounds'][0]} rounds, {pluralize(max(some['seeds']), 'seed')})"
        tables[caption if len(tables) > openings else f"{head}\n\n{caption}"] = accuracy_table(some)
    return tables


def accuracy_table(cells: Columns) -> list[Row]:
    """Return a row for each strategy in one place, with a column for each volume; the paper's numbers beside ours."""
    volumes = [volume for volume in VOLUMES if volume in cells["volume"]]
    rows: list[Row] = []
    for rule in (rule for rule in NAMES if rule in cells["rule"]):
        of_rule = {row["volume"]: row for row in rows_of(where(cells, rule=rule))}
        texts = {
            volume: _cell_text(of_rule[volume], where(cells, volume=volume)) if volume in of_rule else ABSENT
            for volume in volumes
        }
        paper = next((row["paper"] for row in of_rule.values() if row["paper"] is not None), None)
        rows.append({"strategy": NAMES[rule], "paper": number(paper, ".2f"), **texts})
    return _without_empty(rows, "paper")


def _without_empty(rows: list[Row], column: str) -> list[Row]:
    """Return the rows without a column that has no values."""
    return rows if any(row[column] != ABSENT for row in rows) else _without(rows, column)


def _without(rows: list[Row], column: str) -> list[Row]:
    return [{name: text for name, text in row.items() if name != column} for row in rows]


def places_of(cells: Columns) -> list[Place]:
    """Return the places of a table of cells, in order."""
    return [Place(*pair) for pair in dict.fromkeys(zip(cells["dataset"], cells["partition"], strict=True))]


def _cell_text(row: Mapping[str, Any], cell: Columns) -> str:
    """Return accuracy and gain of a strategy in one cell, and sharing ratio and time on a line of their own."""
    first = number(row["accuracy"], ".2f", row["half_width"]) + (f"\\{FIRST_RATE}" if row["first_rate"] else "")
    if row["gain"] is not None:
        first += f" ({number(row['gain'], '+z.2f', row['gain_half_width'])})"
    if row["seeds"] < max(cell["seeds"]):
        first += f", {pluralize(row['seeds'], 'seed')}"
    ratio = [short_percent(row["average_sharing_ratio"])] if row["distinct_samples"] else []
    lines = [first, " · ".join([*ratio, _seconds(row["simulated_s"])])]
    if row["noisy_accuracy"] is not None:
        noisy = number(row["noisy_accuracy"], ".2f", row["noisy_accuracy_half_width"])
        lines.insert(1, f"with noise {noisy}")
    return "<br>".join(map(unbroken, lines))


def volume_details(result: Result) -> dict[str, list[Row]]:
    """Return a table for each place with a row for each strategy at each volume, by title."""
    cells = result.tables["cells"]
    return {
        f"{place}: {DETAILS}": _details(where(cells, dataset=place.dataset, partition=place.skew))
        for place in places_of(cells)
    }


def _details(cells: Columns) -> list[Row]:
    ordered = [row for volume in VOLUMES for row in rows_of(where(cells, volume=volume))]
    # FedAvg is shown once for all volumes at which it is the same.
    fedavg = {row["accuracy"]: row for row in reversed(ordered) if row["rule"] == "none"}
    rows = [_detail(row) for row in ordered if row["rule"] != "none" or row in fedavg.values()]
    rows = rows if any(row["local epochs"] != "1" for row in rows) else _without(rows, "local epochs")
    return _without_empty(rows, "with noise, %")


def _detail(row: Mapping[str, Any]) -> Row:
    """Return accuracy, leakage and time of a strategy at a volume."""
    # Samples of the server's set count for no user.
    revealed, largest = row["distinct_samples"], row["largest_revealed_share"]
    texts = {
        "volume": row["volume"] + (f"\\{FIRST_RATE}" if row["first_rate"] else ""),
        "strategy": NAMES[row["rule"]],
        "accuracy, %": number(row["accuracy"], ".2f", row["half_width"]),
        "above FedAvg in its time": _interval(row, "equal_time_gain"),
        "with noise, %": number(row["noisy_accuracy"], ".2f", row["noisy_accuracy_half_width"]),
        "average sharing ratio": short_percent(row["average_sharing_ratio"]) if revealed else ABSENT,
        "largest share that a user reveals": short_percent(largest) if largest else ABSENT,
        "different samples shared": f"{revealed:,.0f}" if revealed else ABSENT,
        "received by a user": f"{row['received_samples'] / row['users']:,.0f}" if revealed else ABSENT,
        "simulated time": _seconds(row["simulated_s"]),
        "local epochs": f"{row['local_epochs']:.3g}",
        "seeds": str(row["seeds"]),
    }
    return {name: unbroken(text) for name, text in texts.items()}


def short_percent(fraction: float) -> str:
    """Format a fraction in percent with two digits.

    Example:
        >>> short_percent(0.528), short_percent(1.0), short_percent(0.000922)
        ('53 %', '100 %', '0.092 %')
    """
    return f"{float(f'{100 * fraction:.2g}'):g} %"


def _seconds(value: float) -> str:
    """Format seconds with up to five digits.

    Example:
        >>> _seconds(193426.54), _seconds(172.5043)
        ('193,430 s', '173 s')
    """
    return f"{round(value, min(0, 5 - len(f'{value:.0f}'))):,.0f} s"


def gain_table(cells: Columns, runs: Columns) -> list[Row]:
    """Return a row for each strategy that has a control, in each cell: FedAvg, controls, strategy, and the gaps."""
    compared = [row for row in rows_of(cells) if row["work"] is not None]
    one = len({row["rule"] for row in compared}) == 1
    rows: list[Row] = []
    for row in compared:
        rule, name = row["rule"], NAMES[row["rule"]]
        same = where(runs, **{label: row[label] for label in ("dataset", "partition", "volume")})
        fedavg, control, own = steps = _on_common_seeds(same, ["none", f"{rule} work", rule])
        epochs = [_on_common_seeds(same, pair) for pair in ([f"{rule} epochs", "none"], [rule, f"{rule} epochs"])]
        strategy = name if one else "strategy"
        rows.append(
            {
                **_labels(row),
                **({} if one else {"strategy": name}),
                f"FedAvg → work control → {strategy}": unbroken(
                    " → ".join(f"{mean_of(step).mean:.2f}" for step in steps)
                ),
                f"{strategy} − FedAvg": _gap_text(own, fedavg) + _in_the_paper(row["paper_gain"]),
                "control − FedAvg": _gap_text(control, fedavg) + _second_gap(*epochs[0]),
                f"{strategy} − control": _gap_text(own, control) + _second_gap(*epochs[1]),
                "per 1 %": _interval(row, "gain_per_leakage", "+z.3f"),
                "seeds": str(len(own)),
            }
        )
    return rows


def _in_the_paper(points: float | None) -> str:
    return "" if points is None else f"<br>({number(points, '+z.2f')})"


def _second_gap(first: Sequence[float], second: Sequence[float]) -> str:
    """Return a gap from or to the epochs control as a second line; nothing if it was not trained."""
    return f"<br>{unbroken('epochs: ')}{_gap_text(first, second)}" if first else ""


def _on_common_seeds(runs: Columns, rules: Sequence[str]) -> list[list[float]]:
    """Return the accuracies in percent of each strategy on the seeds that all of them have, in order."""
    found = [_accuracy_by_seed(runs, rule) for rule in rules]
    seeds = sorted(set.intersection(*map(set, found)))
    return [[by_seed[seed] for seed in seeds] for by_seed in found]


def _accuracy_by_seed(runs: Columns, rule: str) -> dict[int, float]:
    some = where(runs, rule=rule)
    return {seed: 100 * value for seed, value in zip(some["seed"], some["accuracy"], strict=True)}


def _gap_text(first: Sequence[float], second: Sequence[float]) -> str:
    gap = mean_of(one - other for one, other in zip(first, second, strict=True))
    return unbroken(number(gap.mean, "+z.2f", gap.half_width))


def course_table(cells: Columns) -> list[Row]:
    """Return a row for each cell with several seeds of DACA: what it gains over FedAvg in the course of training."""
    return [
        {
            **_labels(row),
            **{heading: _interval(row, name) for heading, name in _COURSE.items()},
            "seeds": str(row["seeds"]),
        }
        for row in rows_of(where(cells, rule="daca"))
        if row["gain_half_width"] is not None
    ]


def order_table(cells: Columns, runs: Columns) -> list[Row]:
    """Return a row for each place and volume with three strategies or more of several seeds: their order."""
    rows: list[Row] = []
    for place in places_of(cells):
        for volume in VOLUMES:
            labels = {"dataset": place.dataset, "partition": place.skew, "volume": volume}
            found = {row["rule"]: row for row in rows_of(where(cells, **labels))}
            accuracy = {rule: row["accuracy"] for rule, row in found.items() if rule in STRATEGIES and row["seeds"] > 1}
            if len(accuracy) > 2:
                paper = {rule: found[rule]["paper"] for rule in accuracy if found[rule]["paper"] is not None}
                rows.append(
                    {
                        "setting": unbroken(str(place)),
                        "volume": volume + (f"\\{FIRST_RATE}" if found["none"]["first_rate"] else ""),
                        "order": _names(_descending(accuracy)),
                        "the first is above": _names(_below(accuracy, where(runs, **labels))),
                        "above FedAvg": _names(_above_fedavg(accuracy, where(runs, **labels))),
                        "order in the paper": _names(_descending(paper)),
                        "seeds": str(max(found[rule]["seeds"] for rule in accuracy)),
                    }
                )
    return _without_empty(rows, "order in the paper")


def _names(rules: Iterable[str]) -> str:
    return ", ".join(STRATEGIES[rule] for rule in rules) or ABSENT


def _below(accuracy: Mapping[str, float], runs: Columns) -> list[str]:
    """Return the strategies that the best one is above."""
    best, *others = _descending(accuracy)
    return [rule for rule in others if _is_above(runs, best, rule)]


def _above_fedavg(accuracy: Mapping[str, float], runs: Columns) -> list[str]:
    return [rule for rule in _descending(accuracy) if rule != "none" and _is_above(runs, rule, "none")]


def _is_above(runs: Columns, better: str, worse: str) -> bool:
    """Return whether the interval of a difference is above 0."""
    points = points_above(runs, better, worse)
    if not points:
        return False
    gap = mean_of(points)
    return gap.half_width is not None and gap.mean > gap.half_width


def rival_table(cells: Columns, runs: Columns) -> list[Row]:
    """Return a row for each cell with several seeds of DACA: its lead over SCC, CEC and central."""
    rows: list[Row] = []
    for daca in rows_of(where(cells, rule="daca")):
        leads = {rule: lead_over(rule, daca, cells, runs) for rule in ("scc", "cec", "central")}
        if daca["gain_half_width"] is not None and any(lead["gap"] is not None for lead in leads.values()):
            texts = {f"DACA − {STRATEGIES[rule]}": _lead_text(lead) for rule, lead in leads.items()}
            rows.append({**_labels(daca), **texts, "seeds": str(daca["seeds"])})
    return rows


def _lead_text(lead: Mapping[str, float | None]) -> str:
    paper = "" if lead["paper_gap"] is None else f" ({lead['paper_gap']:+.2f})"
    return ABSENT if lead["gap"] is None else unbroken(number(lead["gap"], "+z.2f", lead["gap_half_width"]) + paper)


def lead_over(rule: str, daca: Mapping[str, Any], cells: Columns, runs: Columns) -> dict[str, float | None]:
    """Return the points of DACA above another strategy in a cell, with half-width, and those in the paper."""
    same = {name: daca[name] for name in ("dataset", "partition", "volume")}
    points = points_above(where(runs, **same), "daca", rule)
    gap = mean_of(points) if points else None
    printed = next((row["paper"] for row in rows_of(where(cells, rule=rule, **same))), None)
    paper = None if printed is None or daca["paper"] is None else daca["paper"] - printed
    return {"gap": gap and gap.mean, "gap_half_width": gap and gap.half_width, "paper_gap": paper}


def _labels(row: Mapping[str, Any]) -> Row:
    """Return place and volume of a row."""
    place = Place(row["dataset"], row["partition"])
    return {"setting": unbroken(str(place)), "volume": row["volume"] + (f"\\{FIRST_RATE}" if row["first_rate"] else "")}


def _descending(values: Mapping[str, float]) -> list[str]:
    return sorted(values, key=lambda rule: -values[rule])


def points_above(runs: Columns, rule: str, other: str) -> list[float]:
    """Return the points of accuracy of one strategy above another on each seed that both have."""
    return [one - two for one, two in zip(*_on_common_seeds(runs, [rule, other]), strict=True)]


def _interval(row: Mapping[str, Any], name: str, form: str = "+z.2f") -> str:
    return unbroken(number(row[name], form, row[f"{name}_half_width"]))
