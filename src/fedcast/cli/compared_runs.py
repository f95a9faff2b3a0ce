"""Shared by `fedcast run` and `fedcast compare`: progress of many runs, and the table of results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from fedcast.runs import Interval, Row, StoredRun
    from fedcast.scenario import Scenario

Workers = Annotated[int | None, typer.Option(min=1, help="Number of runs at the same time. Default: one per core.")]
Log = Annotated[
    list[str] | None,
    typer.Option(metavar="TRACKER[=PLACE]", help="Also log to tensorboard or mlflow. Repeatable."),
]

_COLUMNS = 4  # strategies per printed table


def words(option: str, text: str) -> list[str]:
    """Return the names in the value of an option, separated by commas, without repetitions."""
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise typer.BadParameter(f"{option}: expected names separated by commas")
    return list(dict.fromkeys(found))


def run_all(
    scenarios: Sequence[Scenario],
    store: Path,
    console: Console,
    *,
    data_dir: Path | None = None,
    workers: int | None = None,
    ray_address: str | None = None,
) -> list[StoredRun]:
    """Run all scenarios without a finished run, with a progress bar for each, and return all runs."""
    import os

    from fedcast.cli.output import progress_bars
    from fedcast.runs import is_done, load_run, run_folder, sweep

    done = sum(is_done(run_folder(store, scenario)) for scenario in scenarios)
    if done:
        console.print(f"{done} of {len(scenarios)} runs are finished and are reused")
    with progress_bars(console) as bars:
        overall = bars.add_task("runs", total=len(scenarios), completed=done, state="")
        tasks: dict[int, TaskID] = {}

        def show(position: int, number: int, accuracy: float) -> None:
            scenario = scenarios[position]
            rounds = scenario.training.rounds
            if position not in tasks:
                name = f"{scenario.clustering.rule}, seed {scenario.seed}"
                tasks[position] = bars.add_task(name, total=rounds, state="")
            bars.update(tasks[position], completed=number, state=f"accuracy {accuracy:.3f}")
            if number == rounds:
                bars.remove_task(tasks[position])
                bars.advance(overall)

        processes = workers or os.cpu_count() or 1
        folders = sweep(scenarios, store, data_dir=data_dir, workers=processes, ray_address=ray_address, progress=show)
    return [load_run(folder) for folder in folders]


def compare_and_report(
    scenarios: Sequence[Scenario],
    out: Path,
    *,
    data_dir: Path | None,
    workers: int | None,
    log: Sequence[str],
    ray_address: str | None = None,
) -> None:
    """Run all scenarios, print a comparison, and write table, report and logs."""
    from rich.console import Console

    from fedcast.cli.output import screen
    from fedcast.io import save_table
    from fedcast.report import write_report
    from fedcast.runs import compare, comparison_table, log_runs, log_targets

    trackers = log_targets(log, out)
    runs = run_all(
        scenarios, out / "runs", Console(stderr=True), data_dir=data_dir, workers=workers, ray_address=ray_address
    )
    console, rows = screen(), compare(runs)
    # Files first: printing fails if the output is a pipe that was closed.
    for kind, place in trackers:
        log_runs(runs, kind, place)
    save_table(comparison_table(rows), out / "comparison.csv")
    report = write_report(runs, out / "report.html")
    show_comparison(console, rows, scenarios[0].rounds.target_accuracy)
    console.print(f"report: {report}", soft_wrap=True)


def show_comparison(console: Console, rows: Sequence[Row], target: float) -> None:
    """Print measures as rows and strategies as columns; many strategies take several tables."""
    from fedcast.cli.output import plain_table

    for start in range(0, len(rows), _COLUMNS):
        part = rows[start : start + _COLUMNS]
        table = plain_table("", *(row.strategy.name for row in part), header_style="bold")
        for name, cells in _lines(part, target):
            table.add_row(name, *cells)
        console.print(table, "")


def _lines(rows: Sequence[Row], target: float) -> list[tuple[str, list[str]]]:
    def measure(name: str, unit: str = "") -> list[str]:
        return [_interval(row.measures[name], unit) for row in rows]

    lines = [
        ("average EMD before", measure("emd_before")),
        ("average EMD after", measure("emd_after")),
        (f"rounds to {100 * target:g} %", [_until(row, "rounds") for row in rows]),
        ("accuracy", measure("accuracy", "%")),
        ("worst tenth of users", measure("worst_accuracy", "%")),
        ("delay", [_until(row, "total_s", "s") for row in rows]),
        ("  sharing", measure("sharing_s", "s")),
        ("  download", measure("download_s", "s")),
        ("  compute", measure("compute_s", "s")),
        ("  upload", measure("upload_s", "s")),
        ("energy", measure("energy_j", "J")),
        ("sent", measure("sent_bytes", "B")),
        ("average sharing ratio", measure("average_sharing_ratio")),
        ("speed-up over FedAvg", [_interval(row.speed_up) if row.speed_up else "" for row in rows]),
    ]
    if any(test.p_value is not None for row in rows for test in row.tests.values()):
        for name, title in (("accuracy", "accuracy"), ("total_s", "delay")):
            lines.append((f"p-value of {title}, paired", [_p_value(row, name) for row in rows]))
    if any(len(row.seeds) > 1 for row in rows):
        lines.insert(0, ("seeds that reached the target", [f"{row.reached} of {len(row.seeds)}" for row in rows]))
    return lines


def _until(row: Row, name: str, unit: str = "") -> str:
    """Return a value up to the target; a seed that did not reach it is marked with >."""
    mark = "" if row.reached == len(row.seeds) else "> "
    return mark + _interval(row.measures[name], unit)


def _interval(interval: Interval, unit: str = "") -> str:
    """Format an interval as in the report."""
    from fedcast.formatting import mean_and_interval

    return " ".join(part for part in mean_and_interval(interval.mean, interval.half_width, unit) if part)


def _p_value(row: Row, name: str) -> str:
    test = row.tests.get(name)
    return "" if test is None or test.p_value is None else f"{test.p_value:.2g}"
