"""The commands `fedcast run`, `fedcast compare` and `fedcast report`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedcast.cli import SOME_FAILED
from fedcast.cli.arguments import DataDir, Overrides, Preset, ScenarioFile, words
from fedcast.cli.output import plain_table, screen
from fedcast.cli.progress import StudyProgress
from fedcast.errors import FedcastError
from fedcast.formatting import difference, mean_and_interval, number, pluralize, quantity, setting_text

if TYPE_CHECKING:
    from rich.console import Console

    from fedcast.runs import AttendanceRow, Gain, Interval, Row, StoredRun, Study, StudyResult, Timing

Seeds = Annotated[int, typer.Option(min=1, metavar="N", help="Number of seeds, starting with the scenario's.")]
Workers = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Number of runs at the same time. Default: one per core.")
]
Out = Annotated[Path, typer.Option(help="Folder for runs, table and report.")]
Log = Annotated[
    list[str] | None,
    typer.Option(metavar="TRACKER", help="Also log to tensorboard or mlflow, e.g. mlflow=URL. Repeatable."),
]

Targets = Annotated[str | None, typer.Option(metavar="A,…", help="More target accuracies, e.g. 0.8,0.9.")]

_COLUMNS = 4  # strategies per printed table
# Title, measure and unit of each printed line.
_LINES = (
    ("average EMD before", "emd_before", ""),
    ("average EMD after", "emd_after", ""),
    ("local epochs", "local_epochs", ""),
    ("rounds to {target:g} %", "rounds", ""),
    ("accuracy", "accuracy", "%"),
    ("  mean of users, own labels", "user_accuracy", "%"),
    ("  worst tenth of users", "worst_accuracy", "%"),
    ("fine-tuned, mean of users", "fine_tuned_own_accuracy", "%"),
    ("  worst tenth of users", "fine_tuned_worst_accuracy", "%"),
    ("  mean of users, all labels", "fine_tuned_accuracy", "%"),
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
    from fedcast.runs import Study
    from fedcast.scenario import load_scenario

    # What a table [study] varies is for `fedcast compare`.
    scenario = load_scenario(path, base=preset or (None if path else "digits"), overrides=overrides or [])
    study = Study(scenario, rules=words("--rules", rules), seeds=seeds)
    _compare(study, data_dir, workers, None, out, log)


def compare(
    path: ScenarioFile = None,
    preset: Preset = None,
    overrides: Overrides = None,
    data_dir: DataDir = None,
    rules: Annotated[
        str | None, typer.Option(help="Clustering rules; none is FedAvg. Default: none,scc,cec,daca,gain,blend.")
    ] = None,
    methods: Annotated[str | None, typer.Option(help="Allocation methods. Default: the scenario's.")] = None,
    allocations: Annotated[str | None, typer.Option(hidden=True, help="Old name of --methods.")] = None,
    algorithms: Annotated[str | None, typer.Option(help="Algorithms. Default: the scenario's.")] = None,
    controls: Annotated[str | None, typer.Option(help="Also train as much without sharing: work, epochs.")] = None,
    vary: Annotated[list[str] | None, typer.Option(metavar="KEY=V,…", help="Vary any parameter. Repeatable.")] = None,
    tune_on: Annotated[int | None, typer.Option(min=1, metavar="N", help="Tune each strategy on N more seeds.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, metavar="N", help="Number of seeds. Default: 5.")] = None,
    targets: Targets = None,
    spec: Annotated[Path | None, typer.Option(hidden=True, help="Scenario file with a table [study].")] = None,
    workers: Workers = None,
    ray: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Run on this Ray cluster.")] = None,
    out: Out = Path("out/compare"),
    log: Log = None,
) -> None:
    r"""Compare rules × methods × algorithms over seeds, with 95 % confidence intervals and paired tests.

    SCENARIO.toml may have these options in a table \[study]. If runs fail, others go on; exit code 3.
    """
    from fedcast.runs import load_study

    if allocations:
        typer.echo("fedcast: --allocations is deprecated; use --methods", err=True)
        methods = methods or allocations
    if path is not None and spec is not None:
        raise typer.BadParameter(f"--spec {spec}: is a scenario file too; give one of them")
    path = path or spec
    names = {"rules": rules, "methods": methods, "algorithms": algorithms, "controls": controls}
    given: dict[str, Any] = {key: words(f"--{key}", text) for key, text in names.items() if text is not None}
    given |= {key: value for key, value in (("seeds", seeds), ("tune_on", tune_on)) if value is not None}
    given |= {"vary": _varied(vary)} if vary else {}
    given |= {"targets": _accuracies(targets)} if targets else {}
    start = preset or (None if path else "digits")
    _compare(load_study(path, base=start, overrides=overrides or [], **given), data_dir, workers, ray, out, log)


def _accuracies(text: str) -> list[float]:
    """Return the values of --targets."""
    from fedcast.scenario import read_values

    values = read_values(text)
    if not values or not all(isinstance(value, float) and 0 < value < 1 for value in values):
        raise typer.BadParameter(f"--targets {text}: expected accuracies between 0 and 1, for example 0.8,0.9")
    return values


def _varied(given: list[str]) -> dict[str, list[Any]]:
    """Return the values of --vary by key."""
    from fedcast.scenario import read_values

    found: dict[str, list[Any]] = {}
    for text in given:
        key, equals, values = text.partition("=")
        if not (key.strip() and equals and read_values(values)):
            raise typer.BadParameter(f"--vary {text}: expected KEY=V,…, for example training.learning_rate=0.05,0.1")
        if key.strip() in found:
            raise typer.BadParameter(
                f"--vary {text}: {key.strip()} is given twice; give all its values once, as KEY=V,…"
            )
        found[key.strip()] = read_values(values)
    return found


def _compare(
    study: Study, data_dir: Path | None, workers: int | None, ray: str | None, out: Path, log: list[str] | None
) -> None:
    """Do the runs of a study, then write and print its tables."""
    from fedcast.plan import scenario_notes
    from fedcast.report import write_report
    from fedcast.runs import log_runs, log_targets, sweep_study

    store, trackers, processes = out / "runs", log_targets(log or [], out), workers or os.cpu_count() or 1
    for note in dict.fromkeys(note for one in study.scenarios() for note in scenario_notes(one)):
        typer.echo(f"fedcast: {note}", err=True)
    with StudyProgress(store, processes, study.reported) as progress:
        result = sweep_study(
            study, store, data_dir=data_dir, workers=processes, ray_address=ray, begin=progress.begin,
            progress=progress.show, on_failure=progress.fail,
        )  # fmt: skip
    runs, failed = result.runs, result.failed
    if not runs:
        raise FedcastError("all runs failed:\n" + "\n".join(dict.fromkeys(one.reason for one in failed)))
    # Files first: printing fails if the output is a pipe that was closed.
    for kind, place in trackers:
        log_runs(runs, kind, place)
    _write_tables(study, result, out)
    page = write_report(runs, out / "report.html", failed, result.tuned, study.targets)
    console = screen()
    _print_facets(console, study, result)
    for line in _timing_lines(runs):
        console.print(line, style="dim", soft_wrap=True)
    console.print(f"report: {page}", soft_wrap=True)
    if failed:
        said = f"{len(failed)} of {progress.runs} runs failed; the reasons are in {out / 'runs.csv'}"
        typer.echo(f"fedcast: {said}", err=True)
        raise typer.Exit(SOME_FAILED)


def _write_tables(study: Study, result: StudyResult, out: Path) -> None:
    """Write the tables of a study; those that would be empty are left out."""
    from fedcast.io import save_table
    from fedcast.runs import (
        attendance,
        attendance_table,
        facets_table,
        gains,
        gains_table,
        runs_table,
        stacked,
        targets_table,
        trials_table,
    )

    facets, tuned = result.facets, result.tuned
    varied = dict.fromkeys(key for facet in facets for key in (*facet.values, *tuned))
    save_table(facets_table(facets, tuned), out / "comparison.csv")
    save_table(runs_table(result.runs, result.failed, varied), out / "runs.csv")
    if result.trials:
        save_table(trials_table(result.trials), out / "tuning.csv")
    who = stacked(facets, lambda facet: attendance_table(attendance(facet.runs, facet.failed)))
    if any(who.values()):
        save_table(who, out / "attendance.csv")
    parts = stacked(facets, lambda facet: gains_table(gains(facet.runs, tuned)))
    if any(parts.values()):
        save_table(parts, out / "gains.csv")
    if others := _other_targets(study):
        every = sorted([study.scenario.rounds.target_accuracy, *others])
        made = stacked(facets, lambda facet: targets_table(facet.runs, every, facet.failed, tuned))
        save_table(made, out / "targets.csv")


def _other_targets(study: Study) -> list[float]:
    """Return the target accuracies that are not the scenario's own."""
    return [one for one in sorted(study.targets) if one != study.scenario.rounds.target_accuracy]


def _print_facets(console: Console, study: Study, result: StudyResult) -> None:
    """Print the comparison of every facet that has runs."""
    from fedcast.runs import attendance, compare, gains

    target, tuned = study.scenario.rounds.target_accuracy, result.tuned
    for facet in (one for one in result.facets if one.runs):
        if facet.name:
            console.print(facet.name, style="bold")
        others = {one: compare(facet.runs, facet.failed, tuned, one) for one in _other_targets(study)}
        _print_comparison(console, compare(facet.runs, facet.failed, tuned), target, others)
        _print_attendance(console, attendance(facet.runs, facet.failed))
        if study.controls:
            _print_gains(console, gains(facet.runs, tuned), target)


def _timing_lines(runs: Sequence[StoredRun]) -> list[str]:
    """Return how long training of a run took here, for each engine, and how many runs needed none."""
    by_engine: dict[str, list[Timing]] = {}
    for run in runs:
        if run.timing is not None:
            by_engine.setdefault(f"{run.timing.engine} on {run.timing.device}", []).append(run.timing)
    lines = []
    for engine, found in by_engine.items():
        took, rate = (median(getattr(one, name) for one in found) for name in ("wall_s", "samples_per_s"))
        speed = f"{engine}, {number(round(rate))} samples/s"
        lines.append(
            f"training of a run took {quantity(took, 's')} ({speed}; median of {pluralize(len(found), 'run')})"
        )
    if same := sum(run.history_from is not None for run in runs):
        lines.append(f"{same} of {pluralize(len(runs), 'run')} not trained: finished runs have the same training")
    return lines


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN | PLAN.json", help="Run folders, or folders of them; or a plan."),
    ],
    out: Annotated[
        Path | None, typer.Option(help="HTML file to write.", show_default="report.html, or that of the plan")
    ] = None,
    data_dir: DataDir = None,
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
    targets: Targets = None,
    bands: Annotated[
        str, typer.Option(help="Bands of learning curves: interval (95 % of the mean) or range (lowest to highest).")
    ] = "interval",
) -> None:
    """Write finished runs, or a plan, as one HTML page that works offline; runs as tables and figures too if asked."""
    from fedcast.report import check_report_path

    plans = [path for path in runs if path.suffix.lower() == ".json"]
    if plans:
        if len(runs) > 1 or export is not None:
            raise FedcastError(f"{plans[0]}: one plan makes one page; give no other plan, run or --export with it")
        _report_plan(plans[0], out or plans[0].with_suffix(".html"), data_dir)
        return
    from fedcast.report import DEFAULT_FORMATS, check_export, export_report, write_report
    from fedcast.runs import load_failures, load_runs

    out = out or Path("report.html")
    check_report_path(out)
    for option, given in (("--format", formats), ("--width", width != "screen")):
        if given and export is None:
            raise FedcastError(f"{option}: applies to exports only; add --export FOLDER")
    if export is not None:
        check_export(export, formats or DEFAULT_FORMATS, width)
    found, failed = load_runs(runs), load_failures(runs)
    more: dict[str, Any] = {"targets": _accuracies(targets) if targets else [], "bands": bands}
    typer.echo(f"wrote {write_report(found, out, failed, **more)}")
    if export is not None:
        files = export_report(found, export, formats or DEFAULT_FORMATS, width, failed, **more)
        typer.echo(f"wrote {len(files)} files to {export}")


def _report_plan(path: Path, out: Path, data_dir: Path | None) -> None:
    from fedcast.plan import load_plan, world_of_plan
    from fedcast.report import check_report_path, write_plan_report

    check_report_path(out)
    plan = load_plan(path)
    typer.echo(f"wrote {write_plan_report(plan, world_of_plan(plan, data_dir), out)}")


def _print_comparison(
    console: Console, rows: Sequence[Row], target: float, others: Mapping[float, Sequence[Row]] = MappingProxyType({})
) -> None:
    """Print measures as rows and strategies as columns; many strategies take several tables.

    `others` has the same strategies compared to further targets.
    """
    for start in range(0, len(rows), _COLUMNS):
        part = rows[start : start + _COLUMNS]
        table = plain_table("", *(row.strategy.name for row in part), header_style="bold")
        lines = _lines(part, target)
        for other, found in others.items():
            there = found[start : start + _COLUMNS]
            for name, title, unit in (("rounds", "rounds", ""), ("total_s", "delay", "s")):
                lines.append((f"{title} to {100 * other:g} %", [_cell(row, name, unit) for row in there]))
        for title, cells in lines:
            table.add_row(title, *cells)
        console.print(table, "")
    if any(test.is_degenerate for row in rows for test in row.tests.values()):
        console.print("–: no test, since the differences to FedAvg are equal up to rounding in all seeds", style="dim")


def _print_attendance(console: Console, rows: Sequence[AttendanceRow]) -> None:
    """Print who took part, where users were lost or updates are stale: counts over all rounds, means over seeds."""
    if not rows:
        return
    from fedcast.runs import COUNTS, shown_counts

    table = plain_table("updates of all rounds", *(row.strategy.name for row in rows))
    for name in shown_counts(rows):
        found = [row.counts.get(name) for row in rows]
        table.add_row(COUNTS[name], *("" if each is None else number(each.mean) for each in found))
    console.print(table, "")


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
    tuned = dict.fromkeys(key for row in rows for key in row.settings)
    lines = [
        (f"best {key}", [setting_text(row.settings[key]) if key in row.settings else "" for row in rows])
        for key in tuned
    ]
    lines += [
        (title.format(target=100 * target), [_cell(row, name, unit) for row in rows])
        for title, name, unit in _LINES
        if all(name in row.measures for row in rows)
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
    """Format a measure; > marks sums up to a target that some seeds did not reach: lower bounds of means."""
    if row.is_bound(name):
        return f"> {mean_and_interval(row.measures[name].mean, None, unit)[0]}"
    return _interval(row.measures[name], unit)


def _interval(interval: Interval, unit: str = "") -> str:
    """Format an interval as in the report."""
    return " ".join(part for part in mean_and_interval(interval.mean, interval.half_width, unit) if part)


def _p_value(row: Row, name: str) -> str:
    test = row.tests.get(name)
    if test is None or test.p_value is None:
        return "–" if test is not None and test.is_degenerate else ""
    return f"{test.p_value:.2g}"
