"""fedcast run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcast.cli.comparison import Log, Workers, do_runs, show_comparison, words
from fedcast.cli.options import DataDir, Overrides, Preset, ScenarioFile, read_scenario


def run(
    path: ScenarioFile = None,
    preset: Preset = "digits",
    overrides: Overrides = None,
    data_dir: DataDir = None,
    rules: Annotated[str, typer.Option(help="Clustering rules to try; none is FedAvg.")] = "none,daca,blend",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each rule, with seeds from the scenario's on.")] = 1,
    workers: Workers = None,
    out: Annotated[Path, typer.Option(help="Folder for runs and report.")] = Path("out/run"),
    log: Log = None,
) -> None:
    """The main job: plan, share, train without and with sharing, compare, and write an HTML report."""
    from rich.console import Console

    from fedcast.report import write_report
    from fedcast.study.compare import compare
    from fedcast.study.loggers import log_runs, log_targets
    from fedcast.study.sweep import grid

    scenario = read_scenario(path, preset, overrides)
    targets = log_targets(log or [], out)
    console = Console()
    scenarios = grid(scenario, words("--rules", rules), seeds=range(scenario.seed, scenario.seed + seeds))
    runs = do_runs(scenarios, out / "runs", Console(stderr=True), data_dir=data_dir, workers=workers)
    show_comparison(console, compare(runs), scenario.rounds.target_accuracy)
    for kind, place in targets:
        log_runs(runs, kind, place)
    console.print(f"report: {write_report(runs, out / 'report.html')}", highlight=False, soft_wrap=True)
