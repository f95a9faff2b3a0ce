"""The command `fedcast attack`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcast.cli.arguments import DataDir
from fedcast.cli.output import plain_table, progress_bars, screen


def attack(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")],
    model: Annotated[bool, typer.Option("--model", help="Attack the trained model instead, by shadow runs.")] = False,
    targets: Annotated[int | None, typer.Option(min=1, help="Samples that are looked for; unset: 10, or 200.")] = None,
    draws: Annotated[int, typer.Option(min=2, help="Games with each, and as many without it.")] = 100,
    shadows: Annotated[int, typer.Option(min=4, help="Shadow runs, with --model.")] = 16,
    data_dir: DataDir = None,
) -> None:
    """Test what a run reveals: its shared samples, or its model."""
    from rich.console import Console

    from fedcast.runs import attack_model, attack_run

    with progress_bars(Console(stderr=True)) as bars:
        task = bars.add_task("attacking", total=None if model else targets or 10, state="")

        def show(done: int) -> None:
            bars.update(task, completed=done, state=f"{done} runs" if model else "")

        if model:
            found = attack_model(run, targets=targets or 200, shadows=shadows, data_dir=data_dir, progress=show)
        else:
            found = attack_run(run, targets=targets or 10, draws=draws, data_dir=data_dir, progress=show)
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
    if model:
        console.print("Games with one model are not independent: ε is then an estimate, not a proof.")
