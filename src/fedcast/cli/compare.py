"""The commands `fedcast run`, `fedcast compare` and `fedcast report`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedcast.cli import SOME_FAILED
from fedcast.cli.arguments import DataDir, Overrides, Preset, ScenarioFile, read_scenario, words
from fedcast.cli.comparison_text import print_facets, timing_lines
from fedcast.cli.output import screen
from fedcast.cli.progress import StudyProgress
from fedcast.errors import FedcastError

if TYPE_CHECKING:
    from fedcast.runs import Study, StudyResult

# More seeds are a typing error, and would take all memory before the first run.
_MOST_SEEDS = 10_000


def _seeds_option(text: str) -> Any:
    return typer.Option(parser=_number_of_seeds, metavar="N", help=text)


def _number_of_seeds(text: object) -> int:
    number = int(str(text)) if str(text).isdecimal() else 0
    if not 1 <= number <= _MOST_SEEDS:
        raise typer.BadParameter(
            f"{text!r}: expected a number of seeds from 1 to {_MOST_SEEDS:,}, for example 5 for the scenario's seed "
            "and the four after it"
        )
    return number


Seeds = Annotated[int, _seeds_option("Number of seeds, starting with the scenario's.")]
Workers = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Number of runs at the same time. Default: one per core.")
]
Out = Annotated[Path, typer.Option(help="Folder for runs, table and report.")]
Log = Annotated[
    list[str] | None,
    typer.Option(metavar="TRACKER", help="Also log to tensorboard or mlflow, e.g. mlflow=URL. Repeatable."),
]

Targets = Annotated[str | None, typer.Option(metavar="A,…", help="More target accuracies, e.g. 0.8,0.9.")]


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

    # What a table [study] varies is for `fedcast compare`.
    scenario = read_scenario(path, preset, overrides, usual="digits")
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
    tune_on: Annotated[int | None, _seeds_option("Tune each strategy on N more seeds.")] = None,
    seeds: Annotated[int | None, _seeds_option("Number of seeds. Default: 5.")] = None,
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
    from fedcast.scenario import values_by_key

    if allocations:
        typer.echo("fedcast: --allocations is deprecated; use --methods", err=True)
        methods = methods or allocations
    if path is not None and spec is not None:
        raise typer.BadParameter(f"--spec {spec}: is a scenario file too; give one of them")
    path = path or spec
    names = {"rules": rules, "methods": methods, "algorithms": algorithms, "controls": controls}
    given: dict[str, Any] = {key: words(f"--{key}", text) for key, text in names.items() if text is not None}
    given |= {key: value for key, value in (("seeds", seeds), ("tune_on", tune_on)) if value is not None}
    given |= {"vary": values_by_key(vary, "--vary")} if vary else {}
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
    print_facets(console, study, result)
    for line in timing_lines(runs):
        console.print(line, style="dim", soft_wrap=True)
    console.print(f"report: {page}", soft_wrap=True)
    if failed:
        said = f"{len(failed)} of {progress.runs} runs failed; the reasons are in {out / 'runs.csv'}"
        typer.echo(f"fedcast: {said}", err=True)
        raise typer.Exit(SOME_FAILED)


def _write_tables(study: Study, result: StudyResult, out: Path) -> None:
    """Write the tables of a study; those that would be empty are left out."""
    from fedcast import runs
    from fedcast.io import save_table

    facets, tuned = result.facets, result.tuned
    varied = dict.fromkeys(key for facet in facets for key in (*facet.values, *tuned))
    save_table(runs.facets_table(facets, tuned), out / "comparison.csv")
    save_table(runs.runs_table(result.runs, result.failed, varied), out / "runs.csv")
    if result.trials:
        save_table(runs.trials_table(result.trials), out / "tuning.csv")
    who = runs.stacked(facets, lambda facet: runs.attendance_table(runs.attendance(facet.runs, facet.failed)))
    if any(who.values()):
        save_table(who, out / "attendance.csv")
    parts = runs.stacked(facets, lambda facet: runs.gains_table(runs.gains(facet.runs, tuned)))
    if any(parts.values()):
        save_table(parts, out / "gains.csv")
    if study.other_targets:
        every = sorted([study.scenario.rounds.target_accuracy, *study.other_targets])
        made = runs.stacked(facets, lambda facet: runs.targets_table(facet.runs, every, facet.failed, tuned))
        save_table(made, out / "targets.csv")


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
