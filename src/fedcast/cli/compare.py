"""fedcast compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcast.cli.comparison import Log, Workers, do_runs, show_comparison, words
from fedcast.cli.options import DataDir, Overrides, Preset, ScenarioFile, read_scenario


def compare(
    path: ScenarioFile = None,
    preset: Preset = "digits",
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
    from rich.console import Console

    from fedcast.report import write_report
    from fedcast.study.compare import compare, comparison_table
    from fedcast.study.loggers import log_runs, log_targets
    from fedcast.study.sweep import grid
    from fedcast.tables import save_table

    scenario = read_scenario(path, preset, overrides)
    targets = log_targets(log or [], out)
    console = Console()
    scenarios = grid(
        scenario,
        words("--rules", rules),
        words("--allocations", allocations) if allocations else (),
        words("--algorithms", algorithms) if algorithms else (),
        range(scenario.seed, scenario.seed + seeds),
    )
    runs = do_runs(scenarios, out / "runs", Console(stderr=True), data_dir=data_dir, workers=workers, ray_address=ray)
    rows = compare(runs)
    show_comparison(console, rows, scenario.rounds.target_accuracy)
    for kind, place in targets:
        log_runs(runs, kind, place)
    for path in (save_table(comparison_table(rows), out / "comparison.csv"), write_report(runs, out / "report.html")):
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)
