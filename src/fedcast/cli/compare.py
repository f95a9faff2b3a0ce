"""The commands `fedcast run`, `fedcast compare` and `fedcast report`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcast.cli import SOME_FAILED
from fedcast.cli.arguments import DataDir, Overrides, Preset, ScenarioFile, read_scenario, words
from fedcast.cli.output import plain_table, progress_bars, screen
from fedcast.errors import FedcastError
from fedcast.formatting import difference, mean_and_interval, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from fedcast.runs import FailedRun, Gain, Interval, Row
    from fedcast.scenario import Scenario

Seeds = Annotated[int, typer.Option(min=1, metavar="N", help="Number of seeds, starting with the scenario's.")]
Workers = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Number of runs at the same time. Default: one per core.")
]
Out = Annotated[Path, typer.Option(help="Folder for runs, table and report.")]
Log = Annotated[
    list[str] | None,
    typer.Option(metavar="TRACKER", help="Also log to tensorboard or mlflow, e.g. mlflow=URL. Repeatable."),
]

_COLUMNS = 4  # strategies per printed table
# Title, measure and unit of each printed line.
_LINES = (
    ("average EMD before", "emd_before", ""),
    ("average EMD after", "emd_after", ""),
    ("local epochs", "local_epochs", ""),
    ("rounds to {target:g} %", "rounds", ""),
    ("accuracy", "accuracy", "%"),
    ("worst tenth of users", "worst_accuracy", "%"),
    ("delay", "total_s", "s"),
    ("  sharing", "sharing_s", "s"),
    ("  download", "download_s", "s"),
    ("  compute", "compute_s", "s"),
    ("  upload", "upload_s", "s"),
    ("energy", "energy_j", "J"),
    ("sent", "sent_bytes", "B"),
    ("average sharing ratio", "average_sharing_ratio", ""),
)


def run(
    path: ScenarioFile = None,
    preset: Preset = None,
    overrides: Overrides = None,
    data_dir: DataDir = None,
    rules: Annotated[str, typer.Option(help="Clustering rules; none is FedAvg.")] = "none,daca,best",
    seeds: Seeds = 1,
    workers: Workers = None,
    out: Out = Path("out/run"),
    log: Log = None,
) -> None:
    """Plan, share, train without and with sharing, compare, and write an HTML report."""
    compare(path, preset, overrides, data_dir, rules, seeds=seeds, workers=workers, out=out, log=log)


def compare(
    path: ScenarioFile = None,
    preset: Preset = None,
    overrides: Overrides = None,
    data_dir: DataDir = None,
    rules: Annotated[str, typer.Option(help="Clustering rules; none is FedAvg.")] = "none,scc,cec,daca,gain,blend",
    methods: Annotated[str, typer.Option(help="Allocation methods. Default: the scenario's.")] = "",
    allocations: Annotated[str, typer.Option(hidden=True, help="Old name of --methods.")] = "",
    algorithms: Annotated[str, typer.Option(help="Algorithms. Default: the scenario's.")] = "",
    controls: Annotated[str, typer.Option(help="Also train as much without sharing: work, epochs.")] = "",
    seeds: Seeds = 5,
    workers: Workers = None,
    ray: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Run on this Ray cluster.")] = None,
    out: Out = Path("out/compare"),
    log: Log = None,
) -> None:
    """Compare rules × methods × algorithms over seeds, with 95 % confidence intervals and paired tests.

    If some runs fail, the others go on, and the exit code is 3.
    """
    from fedcast.io import save_table
    from fedcast.plan import scenario_notes
    from fedcast.report import write_report
    from fedcast.runs import (
        compare,
        comparison_table,
        gains,
        gains_table,
        grid,
        load_run,
        log_runs,
        log_targets,
        runs_table,
        sweep,
        with_given_epochs,
    )

    if allocations:
        typer.echo("fedcast: --allocations is deprecated; use --methods", err=True)
        methods = methods or allocations
    scenario = read_scenario(path, preset, overrides, usual="digits")
    scenarios = grid(
        scenario,
        words("--rules", rules),
        words("--methods", methods) if methods else (),
        words("--algorithms", algorithms) if algorithms else (),
        range(scenario.seed, scenario.seed + seeds),
        words("--controls", controls) if controls else (),
    )
    scenarios = with_given_epochs(scenarios)
    store, trackers, processes = out / "runs", log_targets(log or [], out), workers or os.cpu_count() or 1
    failed: list[FailedRun] = []
    for note in dict.fromkeys(note for one in scenarios for note in scenario_notes(one)):
        typer.echo(f"fedcast: {note}", err=True)
    with _progress(scenarios, store) as (show, show_failure):

        def fail(one: FailedRun) -> None:
            failed.append(one)
            show_failure(one)

        folders = sweep(
            scenarios, store, data_dir=data_dir, workers=processes, ray_address=ray, progress=show, on_failure=fail
        )
    if not folders:
        raise FedcastError("all runs failed:\n" + "\n".join(dict.fromkeys(one.reason for one in failed)))
    runs = [load_run(folder) for folder in folders]
    console, rows, parts = screen(), compare(runs, failed), gains(runs)
    # Files first: printing fails if the output is a pipe that was closed.
    for kind, place in trackers:
        log_runs(runs, kind, place)
    save_table(comparison_table(rows), out / "comparison.csv")
    save_table(runs_table(runs, failed), out / "runs.csv")
    if parts:
        save_table(gains_table(parts), out / "gains.csv")
    page = write_report(runs, out / "report.html", failed)
    _print_comparison(console, rows, scenario.rounds.target_accuracy)
    if controls:
        _print_gains(console, parts, scenario.rounds.target_accuracy)
    console.print(f"report: {page}", soft_wrap=True)
    if failed:
        said = f"{len(failed)} of {len(scenarios)} runs failed; the reasons are in {out / 'runs.csv'}"
        typer.echo(f"fedcast: {said}", err=True)
        raise typer.Exit(SOME_FAILED)


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders, or folders of run folders.")],
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    export: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Also write all tables and figures.")] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            help="Format of the export: csv, parquet, xlsx, png, svg, pdf. Default: csv and png. Repeatable.",
        ),
    ] = None,
    width: Annotated[
        str, typer.Option(help="Width of exported figures: screen, column (3.5 in) or page (7.16 in).")
    ] = "screen",
) -> None:
    """Write finished runs as one HTML page that works offline, and as tables and figures if asked."""
    from fedcast.report import DEFAULT_FORMATS, check_export, check_report_path, export_report, write_report
    from fedcast.runs import load_failures, load_runs

    check_report_path(out)
    for option, given in (("--format", formats), ("--width", width != "screen")):
        if given and export is None:
            raise FedcastError(f"{option}: applies to exports only; add --export FOLDER")
    if export is not None:
        check_export(export, formats or DEFAULT_FORMATS, width)
    found, failed = load_runs(runs), load_failures(runs)
    typer.echo(f"wrote {write_report(found, out, failed)}")
    if export is not None:
        files = export_report(found, export, formats or DEFAULT_FORMATS, width, failed)
        typer.echo(f"wrote {len(files)} files to {export}")


@contextmanager
def _progress(
    scenarios: Sequence[Scenario], store: Path
) -> Iterator[tuple[Callable[[int, int, float], None], Callable[[FailedRun], None]]]:
    """Show a progress bar for each run, and yield functions that update them: after a round, and after a failure."""
    from rich.console import Console

    from fedcast.runs import is_done, run_folder, strategy_of

    console, done = Console(stderr=True), sum(is_done(run_folder(store, scenario)) for scenario in scenarios)
    if done:
        console.print(f"{done} of {len(scenarios)} runs are finished and are reused")
    with progress_bars(console) as bars:
        overall = bars.add_task("runs", total=len(scenarios), completed=done, state="")
        tasks: dict[int, TaskID] = {}

        def show(position: int, number: int, accuracy: float) -> None:
            scenario = scenarios[position]
            rounds = scenario.training.rounds
            if position not in tasks:
                kind = "" if scenario.sharing.kind == "raw" else f" {scenario.sharing.kind}"
                name = f"{scenario.clustering.rule}{kind}, seed {scenario.seed}"
                tasks[position] = bars.add_task(name, total=rounds, state="")
            bars.update(tasks[position], completed=number, state=f"accuracy {accuracy:.3f}")
            if number == rounds:
                bars.remove_task(tasks[position])
                bars.advance(overall)

        def show_failure(one: FailedRun) -> None:
            position = next(place for place, scenario in enumerate(scenarios) if scenario is one.scenario)
            if position in tasks:
                bars.remove_task(tasks.pop(position))
            bars.advance(overall)
            reason = printable(one.reason.splitlines()[0])
            name = f"{strategy_of(one.scenario).name}, seed {one.scenario.seed}"
            console.print(f"failed: {name}: {reason}", soft_wrap=True, markup=False, highlight=False)

        yield show, show_failure


def _print_comparison(console: Console, rows: Sequence[Row], target: float) -> None:
    """Print measures as rows and strategies as columns; many strategies take several tables."""
    for start in range(0, len(rows), _COLUMNS):
        part = rows[start : start + _COLUMNS]
        table = plain_table("", *(row.strategy.name for row in part), header_style="bold")
        for title, cells in _lines(part, target):
            table.add_row(title, *cells)
        console.print(table, "")
    if any(test.is_degenerate for row in rows for test in row.tests.values()):
        console.print("–: no test, since the differences to FedAvg are equal up to rounding in all seeds", style="dim")


def _print_gains(console: Console, gains: Sequence[Gain], target: float) -> None:
    """Print one table for each strategy and control: from no sharing by more work and by less skew to the strategy."""
    titles = {"rounds": f"rounds to {100 * target:g} %", "total_s": "delay", "accuracy": "accuracy"}
    units = {"rounds": "", "total_s": "s", "accuracy": "%"}
    console.print("where the gain comes from", style="bold")
    for pair in dict.fromkeys((gain.strategy, gain.control) for gain in gains):
        strategy, control = pair
        by_measure = {gain.measure: gain for gain in gains if (gain.strategy, gain.control) == pair}
        table = plain_table(control.name, *titles.values(), header_style="bold")
        found = [(by_measure.get(name), units[name]) for name in titles]
        for title, part in (
            (strategy.without_sharing.name, "without"),
            ("  more work", "work"),
            ("  less skew", "skew"),
            (strategy.name, "shared"),
        ):
            table.add_row(title, *("–" if gain is None else _gain_cell(gain, part, unit) for gain, unit in found))
        table.add_row("seeds", *("0" if gain is None else str(len(gain.seeds)) for gain, _ in found))
        console.print(table, "")
    said = (
        "±: 95 % confidence interval of the difference, paired by seed; rounds and delay: over the seeds in which all "
        "three reached the target"
    )
    console.print(said if gains else "no seed has runs of a strategy, its control and no sharing", style="dim")


def _gain_cell(gain: Gain, part: str, unit: str) -> str:
    value = getattr(gain, part)
    if part in ("without", "shared"):
        return mean_and_interval(value.mean, None, unit)[0]
    return " ".join(text for text in difference(value.difference.mean, value.difference.half_width, unit) if text)


def _lines(rows: Sequence[Row], target: float) -> list[tuple[str, list[str]]]:
    lines = [
        (title.format(target=100 * target), [_cell(row, name, unit) for row in rows]) for title, name, unit in _LINES
    ]
    lines.append(("speed-up over FedAvg", [_interval(row.speed_up) if row.speed_up else "" for row in rows]))
    if any(test.difference.count > 1 for row in rows for test in row.tests.values()):
        for name, title in (("accuracy", "accuracy"), ("total_s", "delay")):
            lines.append((f"p-value of {title}, paired", [_p_value(row, name) for row in rows]))
    if any(len(row.seeds) > 1 for row in rows):
        lines.insert(0, ("seeds that reached the target", [f"{row.reached} of {len(row.seeds)}" for row in rows]))
    if any(row.failed for row in rows):
        lines.insert(1, ("failed seeds", [str(row.failed) for row in rows]))
    return lines


def _cell(row: Row, name: str, unit: str) -> str:
    """Format a measure; > marks rounds and delay to a target that some seeds did not reach."""
    mark = "> " if name in ("rounds", "total_s") and row.reached < len(row.seeds) else ""
    return mark + _interval(row.measures[name], unit)


def _interval(interval: Interval, unit: str = "") -> str:
    """Format an interval as in the report."""
    return " ".join(part for part in mean_and_interval(interval.mean, interval.half_width, unit) if part)


def _p_value(row: Row, name: str) -> str:
    test = row.tests.get(name)
    if test is None or test.p_value is None:
        return "–" if test is not None and test.is_degenerate else ""
    return f"{test.p_value:.2g}"
