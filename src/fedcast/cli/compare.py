"""fedcast compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcast.cli.comparison import Log, Workers, compare_and_report, words
from fedcast.cli.options import DataDir, Overrides, Preset, ScenarioFile, read_scenario


def compare(
    path: ScenarioFile = None,
    preset: Preset = None,
    overrides: Overrides = None,
    data_dir: DataDir = None,
    rules: Annotated[str, typer.Option(help="Clustering rules; none is FedAvg.")] = "none,scc,cec,daca,gain,blend",
    allocations: Annotated[str, typer.Option(help="Allocation methods; else the scenario's.")] = "",
    algorithms: Annotated[str, typer.Option(help="Algorithms; else the scenario's.")] = "",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each, with seeds from the scenario's on.")] = 5,
    workers: Workers = None,
    ray: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Do the runs on this Ray cluster.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for runs, table and report.")] = Path("out/compare"),
    log: Log = None,
) -> None:
    """Rules × allocations × algorithms × seeds: means, 95 % intervals, paired tests. Finished runs are reused."""
    from fedcast.runs.sweep import grid

    scenario = read_scenario(path, preset, overrides, usual="digits")
    scenarios = grid(
        scenario,
        words("--rules", rules),
        words("--allocations", allocations) if allocations else (),
        words("--algorithms", algorithms) if algorithms else (),
        range(scenario.seed, scenario.seed + seeds),
    )
    compare_and_report(scenarios, out, data_dir=data_dir, workers=workers, log=log or [], ray_address=ray)
