"""fedcast compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcast.cli.arguments import DataDir, Overrides, Preset, ScenarioFile, read_scenario
from fedcast.cli.compared_runs import Log, Workers, compare_and_report, words


def compare(
    path: ScenarioFile = None,
    preset: Preset = None,
    overrides: Overrides = None,
    data_dir: DataDir = None,
    rules: Annotated[str, typer.Option(help="Clustering rules; none is FedAvg.")] = "none,scc,cec,daca,gain,blend",
    methods: Annotated[str, typer.Option(help="Allocation methods. Default: the scenario's.")] = "",
    allocations: Annotated[str, typer.Option(hidden=True, help="Old name of --methods.")] = "",
    algorithms: Annotated[str, typer.Option(help="Algorithms. Default: the scenario's.")] = "",
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds, starting with the scenario's.")] = 5,
    workers: Workers = None,
    ray: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Run on this Ray cluster.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for runs, table and report.")] = Path("out/compare"),
    log: Log = None,
) -> None:
    """Compare rules × methods × algorithms over seeds, with 95 % confidence intervals and paired tests."""
    from fedcast.runs import grid

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
    )
    compare_and_report(scenarios, out, data_dir=data_dir, workers=workers, log=log or [], ray_address=ray)
