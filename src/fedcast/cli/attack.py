"""The command `fedcast attack`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcast.cli.arguments import DataDir
from fedcast.cli.output import plain_table, progress_bars, screen

if TYPE_CHECKING:
    from rich.table import Table

    from fedcast.runs import AttackResult


def attack(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")],
    model: Annotated[bool, typer.Option("--model", help="Attack the trained model instead, by shadow runs.")] = False,
    targets: Annotated[int | None, typer.Option(min=1, help="Samples that are looked for; unset: 10, or 200.")] = None,
    draws: Annotated[int, typer.Option(min=8, help="Games with each, and as many without it.")] = 100,
    shadows: Annotated[int, typer.Option(min=4, help="Shadow runs, with --model.")] = 16,
    data_dir: DataDir = None,
) -> None:
    """Test what a run reveals: its shared samples, or its model."""
    from fedcast.runs import attack_model, attack_run

    with progress_bars() as bars:
        task = bars.add_task("attacking", total=None if model else targets or 10, state="")

        def show(done: int) -> None:
            bars.update(task, completed=done, state=f"{done} runs" if model else "")

        if model:
            tests = attack_model(run, targets=targets or 200, shadows=shadows, data_dir=data_dir, progress=show)
            attacked = None
        else:
            attacked = attack_run(run, targets=targets or 10, draws=draws, data_dir=data_dir, progress=show)
            tests = attacked.tests
    console = screen()
    console.print(_tests(tests))
    console.print("TPR, FPR: rates of right and wrong guesses that a head holds a sample (by chance equal, AUC 0.5).")
    console.print("ε proven: at least so much, by the games, with 99.9 % confidence.")
    if attacked is None:
        console.print("Games with one model are not independent: intervals and ε are then estimates, not proofs.")
        return
    for one in attacked.reconstructions:
        console.print(
            f"Reconstruction, {one.kind}: the nearest received sample differs from one of the head by "
            f"{one.distance:.3f} (root mean square, values 0 to 1), and by {one.distance_without:.3f} if the head does "
            f"not hold it; {one.recovered:.0%} and {one.recovered_without:.0%} come as close as 0.05."
        )


def _tests(tests: list[AttackResult]) -> Table:
    """Return the rates of each test, and below them their intervals."""
    several = len({row.kind for row in tests}) > 1
    table = plain_table("test", "games", "TPR at 1 % FPR", "at 0.1 %", "AUC", "ε proven", "ε claimed")
    table.columns[0].no_wrap = True
    for row in tests:
        rates = (row.tpr_at_1_percent, row.tpr_at_01_percent, row.auc)
        ends = (row.tpr_at_1_percent_interval, row.tpr_at_01_percent_interval, row.auc_interval)
        claimed = "none" if row.claimed_epsilon is None else f"{row.claimed_epsilon:g}"
        table.add_row(
            f"{row.kind}: {row.test}" if several else row.test, f"{2 * row.games:,}",
            *(f"{rate:.3f}" for rate in rates), f"{row.proven_epsilon:.2f}", claimed,
        )  # fmt: skip
        table.add_row("  95 % interval", "", *(f"{low:.2f}–{high:.2f}" for low, high in ends), "", "", style="dim")
    return table
