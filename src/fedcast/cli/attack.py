"""The command `fedcast attack`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcast.cli.arguments import DataDir
from fedcast.cli.output import plain_table, progress_bars, screen


def attack(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")],
    targets: Annotated[int, typer.Option(min=1, help="Samples that are looked for.")] = 10,
    draws: Annotated[int, typer.Option(min=2, help="Games with each, and as many without it.")] = 100,
    data_dir: DataDir = None,
) -> None:
    """Test what the shared samples of a run reveal."""
    from rich.console import Console

    from fedcast.runs import attack_run

    with progress_bars(Console(stderr=True)) as bars:
        task = bars.add_task("attacking", total=targets, state="")

        def show(done: int) -> None:
            bars.update(task, completed=done)

        found = attack_run(run, targets=targets, draws=draws, data_dir=data_dir, progress=show)
    table = plain_table("test", "games", "TPR at 1 % FPR", "at 0.1 %", "AUC", "ε proven", "ε claimed")
    for row in found:
        claimed = "none" if row.claimed_epsilon is None else f"{row.claimed_epsilon:g}"
        table.add_row(
            row.test, f"{2 * row.games:,}", f"{row.tpr_at_1_percent:.3f}", f"{row.tpr_at_01_percent:.3f}",
            f"{row.auc:.3f}", f"{row.proven_epsilon:.2f}", claimed,
        )  # fmt: skip
    console = screen()
    console.print(table)
    console.print("TPR, FPR: rates of right and wrong guesses that a head holds a sample (by chance equal, AUC 0.5).")
