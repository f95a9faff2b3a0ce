"""fedcast run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcast.cli.arguments import DataDir, Overrides, Preset, ScenarioFile, read_scenario
from fedcast.cli.compared_runs import Log, Workers, compare_and_report, words


def run(
    path: ScenarioFile = None,
    preset: Preset = None,
    overrides: Overrides = None,
    data_dir: DataDir = None,
    rules: Annotated[str, typer.Option(help="Clustering rules; none is FedAvg.")] = "none,daca,blend",
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds, starting with the scenario's.")] = 1,
    workers: Workers = None,
    out: Annotated[Path, typer.Option(help="Folder for runs, table and report.")] = Path("out/run"),
    log: Log = None,
) -> None:
    """Plan, share, train without and with sharing, compare, and write an HTML report."""
    from fedcast.runs import grid

    scenario = read_scenario(path, preset, overrides, usual="digits")
    scenarios = grid(scenario, words("--rules", rules), seeds=range(scenario.seed, scenario.seed + seeds))
    compare_and_report(scenarios, out, data_dir=data_dir, workers=workers, log=log or [])
